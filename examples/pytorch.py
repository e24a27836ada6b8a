#!/usr/bin/env python3
"""A row-parallel linear layer on PyTorch's tensors and streams, through ctypes: there is nothing to build.

    python3 pytorch.py [RANKS [M N K]]

All ranks are in this process, dealt over the GPUs that there are; where there is one, they share it. libgrs.so.0 is found
like any shared library (LD_LIBRARY_PATH, ldconfig); GRS_LIBRARY may name the file.
"""

import ctypes
import os
import sys

import torch


class Error(ctypes.Structure):  # grs_error
    _fields_ = [("status", ctypes.c_int), ("line", ctypes.c_int), ("column", ctypes.c_int), ("text", ctypes.c_char * 8192)]


class Operands(ctypes.Structure):  # grs_operands
    _fields_ = [("A", ctypes.c_void_p), ("lda", ctypes.c_int64), ("B", ctypes.c_void_p), ("ldb", ctypes.c_int64),
                ("D", ctypes.c_void_p), ("ldd", ctypes.c_int64), ("M", ctypes.c_int64)]


def load():
    """The library, with the calls that are used here declared: ctypes passes integers as 32 bits where it is not told."""
    pointer, int64, c_int = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    library = ctypes.CDLL(os.environ.get("GRS_LIBRARY", "libgrs.so.0"))
    for name, result, arguments in [
            ("grs_jit_get", pointer, [int64, int64, int64, c_int]),
            ("grs_last_error", ctypes.POINTER(Error), []),
            ("grs_default_ctx", pointer, []),
            ("grs_comm_create_local", c_int, [pointer, c_int, pointer, pointer, pointer, pointer]),
            ("grs_comm_prepare", c_int, [pointer, pointer, int64, pointer]),
            ("grs_comm_device", c_int, [pointer]),
            ("grs_comm_check", c_int, [pointer, pointer]),
            ("grs_comm_destroy", None, [pointer]),
            ("grs_launch_local", c_int, [pointer, pointer, pointer, pointer, pointer]),
            ("grs_rows", None, [int64, c_int, c_int, pointer, pointer])]:
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


grs = load()


def call(function, *arguments):
    """Calls what returns a grs_status; its error becomes an exception."""
    error = Error()
    if function(*arguments, ctypes.byref(error)) != 0:
        raise RuntimeError(error.text.decode())


def rows_of(m, ranks, rank):
    """The first row of the result that a rank keeps, and how many."""
    first, count = ctypes.c_int64(), ctypes.c_int64()
    grs.grs_rows(m, ranks, rank, ctypes.byref(first), ctypes.byref(count))
    return first.value, count.value


class RowParallelLinear:
    """The sum over ranks of x @ weight.T, of which each rank keeps its rows. `weights[r]`: [N, K], BF16, on devices[r]."""

    def __init__(self, ranks, n, k, largest_m):
        self.ranks, self.n, self.k, self.largest_m = ranks, n, k, largest_m
        self.kernels = set()  # those that are prepared
        self.comms = (ctypes.c_void_p * ranks)()
        context = grs.grs_default_ctx()
        if not context:
            raise RuntimeError(grs.grs_last_error().contents.text.decode())
        call(grs.grs_comm_create_local, context, ranks, None, None, self.comms)
        self.devices = [grs.grs_comm_device(comm) for comm in self.comms]
        self.weights = [torch.randn(n, k, dtype=torch.bfloat16, device=f"cuda:{device}") for device in self.devices]
        self.kernel(largest_m)

    def kernel(self, m):
        """The kernel for M = m: a look-up, but for the first time that a size class is asked for."""
        kernel = grs.grs_jit_get(m, self.n, self.k, self.ranks)
        if not kernel:
            raise RuntimeError(grs.grs_last_error().contents.text.decode())
        if kernel not in self.kernels:
            call(grs.grs_comm_prepare, self.comms[0], kernel, self.largest_m)
            self.kernels.add(kernel)
        return kernel

    def __call__(self, inputs):
        """`inputs[r]`: [M, K] on devices[r]. Asynchronous, on each device's current stream, like PyTorch's own operations."""
        m = inputs[0].shape[0]
        kernel = self.kernel(m)
        outputs, operands, streams = [], (Operands * self.ranks)(), (ctypes.c_void_p * self.ranks)()
        for rank, (device, x, weight) in enumerate(zip(self.devices, inputs, self.weights)):
            out = torch.empty(rows_of(m, self.ranks, rank)[1], self.n, dtype=torch.bfloat16, device=f"cuda:{device}")
            operands[rank] = Operands(x.data_ptr(), x.stride(0), weight.data_ptr(), weight.stride(0), out.data_ptr(), self.n, m)
            streams[rank] = torch.cuda.current_stream(device).cuda_stream
            outputs.append(out)
        call(grs.grs_launch_local, self.comms, kernel, operands, streams)
        return outputs

    def close(self):
        for comm in self.comms:
            call(grs.grs_comm_check, comm)  # a wait that ran out of time would be told here
        for comm in self.comms:
            grs.grs_comm_destroy(comm)


def main():
    ranks, largest_m, n, k = [int(text) for text in sys.argv[1:]] + [2, 1000, 4096, 2048][len(sys.argv) - 1:]
    layer = RowParallelLinear(ranks, n, k, largest_m)
    worst = 0.0
    for m in (largest_m, max(1, largest_m // 3), 1):
        inputs = [torch.randn(m, k, dtype=torch.bfloat16, device=f"cuda:{device}") for device in layer.devices]
        outputs = layer(inputs)
        wanted = sum((x.float() @ weight.float().T).cpu() for x, weight in zip(inputs, layer.weights))
        got = torch.cat([out.float().cpu() for out in outputs])
        error = ((got - wanted).norm() / wanted.norm()).item()
        print(f"M {m}: ranks on GPUs {layer.devices} keep {[out.shape[0] for out in outputs]} rows, relative error {error:.1e}")
        worst = max(worst, error)
    layer.close()
    return 0 if worst < 0.01 else 1  # BF16 keeps 8 bits, and the sum is rounded once for each rank


if __name__ == "__main__":
    sys.exit(main())
