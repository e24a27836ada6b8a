"""The part of PyTorch that examples/pytorch.py uses, over host memory: with the driver of tests/shim_hostgpu.c as the GPU the
example runs where there is neither. Matrices are BF16 in memory that C may read and write, or lists of floats."""

import ctypes
import math
import os
import random
import struct

bfloat16 = "bfloat16"


def _rounded(value):
    """The BF16 nearest to a float, as its 16 bits."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def _value(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


class Tensor:
    """rows: floats; memory: BF16 instead, which may change behind our back."""

    def __init__(self, shape, rows=None, memory=None):
        self.shape, self.rows, self.memory = shape, rows, memory

    def data_ptr(self):
        return ctypes.addressof(self.memory) if self.memory is not None and self.shape[0] else 0

    def stride(self, _):
        return self.shape[1]

    def float(self):
        columns = self.shape[1]
        return Tensor(self.shape, [[_value(self.memory[row * columns + column]) for column in range(columns)]
                                   for row in range(self.shape[0])])

    def cpu(self):
        return self

    def item(self):
        return self.rows

    @property
    def T(self):
        return Tensor(self.shape[::-1], [list(column) for column in zip(*self.rows)])

    def __matmul__(self, other):
        columns = list(zip(*other.rows))
        return Tensor((self.shape[0], other.shape[1]),
                      [[sum(a * b for a, b in zip(row, column)) for column in columns] for row in self.rows])

    def _with(self, other, operation):
        return Tensor(self.shape, [[operation(a, b) for a, b in zip(*pair)] for pair in zip(self.rows, other.rows)])

    def __radd__(self, zero):  # the start of sum()
        assert zero == 0
        return self

    def __add__(self, other):
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other):
        return self._with(other, lambda a, b: a - b)

    def __truediv__(self, other):
        return Tensor((), self.rows / other.rows)

    def norm(self):
        return Tensor((), math.sqrt(sum(a * a for row in self.rows for a in row)))


def empty(rows, columns, dtype, device):
    assert dtype == bfloat16 and device.startswith("cuda:")
    return Tensor((rows, columns), memory=(ctypes.c_uint16 * max(1, rows * columns))(*[0x7FC1] * (rows * columns)))


def randn(rows, columns, dtype, device):
    made = empty(rows, columns, dtype, device)
    for i in range(rows * columns):
        made.memory[i] = _rounded(random.gauss(0, 1))
    return made


def cat(tensors):
    rows = [row for tensor in tensors for row in tensor.rows]
    return Tensor((len(rows), tensors[0].shape[1]), rows)


class _Stream:
    def __init__(self):
        handle = ctypes.c_void_p()
        assert ctypes.CDLL(os.environ["GRS_LIBCUDA"]).cuStreamCreate(ctypes.byref(handle), 0) == 0
        self.cuda_stream = handle.value


class cuda:
    _current = {}

    @classmethod
    def current_stream(cls, device):
        if device not in cls._current:
            cls._current[device] = _Stream()
        return cls._current[device]
