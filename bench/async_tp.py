#!/usr/bin/env python3
"""PyTorch's fused matrix product and reduce-scatter (async-TP), for the column async_tp_us of results files.

    torchrun --standalone --nproc-per-node=R bench/async_tp.py --out FILE M,N,K...
    bench/async_tp.py --merge FILE RESULTS...

The first measures on R GPUs, K per rank, back to back (20 launches between two events) and isolated (one launch, nothing else
on the GPU), and writes the medians of the slowest rank to FILE. What the operator cannot do is null, with the reason. The
second puts them into rows of the same shape, tp and mode, one rank a GPU, in results files of kind "bench".

NVLink multicast is turned off, in PyTorch and in NCCL: a program that uses it can put GPUs that others share out of service.
"""

import datetime
import json
import os
import statistics
import sys

ITERS = 20
SAMPLES = {"back_to_back": 6, "isolated": 20}
NO_MULTICAST = {"TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NCCL_NVLS_ENABLE": "0", "NVSHMEM_DISABLE_NVLS": "1"}
REL_ERR_MAX = 1e-2


def parse_shape(text):
    parts = text.split(",")
    if len(parts) != 3 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise ValueError(f"'{text}' is not M,N,K")
    return tuple(map(int, parts))


class Bench:
    """One rank. Everything that is called on it is collective."""

    def __init__(self):
        os.environ.update(NO_MULTICAST)
        import torch
        import torch.distributed as dist
        from torch.distributed import _symmetric_memory as symm_mem
        self.torch, self.dist = torch, dist
        self.rank, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", self.rank)))
        torch.cuda.set_device(self.device)
        dist.init_process_group("nccl", device_id=self.device)
        self.group = dist.group.WORLD
        enable = getattr(symm_mem, "enable_symm_mem_for_group", None)  # newer versions need it no more
        if enable:
            enable(self.group.group_name)

    def close(self):
        self.dist.destroy_process_group()

    def fused(self, a, b):
        return self.torch.ops.symm_mem.fused_matmul_reduce_scatter(a, b, "sum", scatter_dim=0,
                                                                   group_name=self.group.group_name)

    def rel_err(self, a, b, got):
        """Of this rank's rows against products and a sum in FP32; the largest of all ranks."""
        torch = self.torch
        product = a.float() @ b.float()
        self.dist.all_reduce(product)
        rows = a.shape[0] // self.ranks
        want = product[self.rank * rows:(self.rank + 1) * rows]
        return self.slowest(((got.float() - want).norm() / want.norm()).item())

    def slowest(self, value):
        worst = self.torch.tensor([value], dtype=self.torch.float64, device=self.device)
        self.dist.all_reduce(worst, op=self.dist.ReduceOp.MAX)
        return worst.item()

    def sample(self, work, runs):
        """Microseconds of one run, of the slowest rank."""
        cuda = self.torch.cuda
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        cuda.synchronize()
        self.dist.barrier()
        start.record()
        for _ in range(runs):
            work()
        end.record()
        cuda.synchronize()
        return self.slowest(start.elapsed_time(end) * 1e3 / runs)

    def shape(self, m, n, k):
        """{mode: (microseconds or None, relative error or None, reason or None)}"""
        torch = self.torch
        if m % self.ranks:
            return {mode: (None, None, f"M {m} is no multiple of {self.ranks} ranks") for mode in SAMPLES}
        torch.manual_seed(1 + self.rank)
        a = torch.rand((m, k), dtype=torch.bfloat16, device=self.device) * 2 - 1
        b = (torch.rand((n, k), dtype=torch.bfloat16, device=self.device) * 2 - 1).t()
        try:
            rel_err = self.rel_err(a, b, self.fused(a, b))
        except RuntimeError as error:  # what it cannot do it refuses on every rank alike
            return {mode: (None, None, str(error).split("\n", 1)[0]) for mode in SAMPLES}
        if not rel_err < REL_ERR_MAX:
            return {mode: (None, rel_err, "its result is wrong") for mode in SAMPLES}
        times = {}
        for mode, samples in SAMPLES.items():
            runs = ITERS if mode == "back_to_back" else 1
            self.sample(lambda: self.fused(a, b), runs)
            taken = [self.sample(lambda: self.fused(a, b), runs) for _ in range(samples)]
            times[mode] = (statistics.median(taken), rel_err, None)
        return times


def measure(path, shapes):
    bench = Bench()
    rows = []
    for m, n, k in shapes:
        for mode, (us, rel_err, why) in bench.shape(m, n, k).items():
            rows.append({"m": m, "n": n, "k": k, "tp": bench.ranks, "mode": mode,
                         "iters": ITERS if mode == "back_to_back" else 1, "async_tp_us": us, "rel_err": rel_err, "why": why,
                         "torch": bench.torch.__version__})
        if bench.rank == 0:
            print(f"# {m},{n},{k} tp {bench.ranks}: async-TP "
                  + ", ".join(f"{row['mode']} {row['async_tp_us'] or row['why']}" for row in rows[-len(SAMPLES):]), flush=True)
    if bench.rank == 0:
        write(path, {"kind": "async_tp", "gpu": bench.torch.cuda.get_device_name(bench.device), "driver": None,
                     "cuda": bench.torch.version.cuda,
                     "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "commit": None,
                     "dirty": None, "rows": rows})
    bench.close()


def write(path, data):
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(data, file, indent=1, ensure_ascii=False)
        file.write("\n")
    os.replace(f"{path}.new", path)


def read(path, kind):
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    if data["kind"] != kind:
        raise ValueError(f"{path} is of kind '{data['kind']}', not '{kind}'")
    return data


def merge(path, results):
    def key(row):
        return tuple(row[name] for name in ("m", "n", "k", "tp", "mode"))

    source = read(path, "async_tp")
    times = {key(row): row["async_tp_us"] for row in source["rows"]}
    for name in results:
        data = read(name, "bench")
        if data["gpu"] != source["gpu"]:
            raise ValueError(f"{name} was measured on {data['gpu']}, {path} on {source['gpu']}")
        rows = [row for row in data["rows"] if row["ranks_per_gpu"] == 1 and key(row) in times]
        for row in rows:
            row["async_tp_us"] = times[key(row)]
        write(name, data)
        print(f"{name}: {len(rows)} of {len(data['rows'])} rows have async_tp_us")


def main(arguments):
    try:
        if len(arguments) >= 3 and arguments[0] == "--out":
            shapes = [parse_shape(text) for text in arguments[2:]]
            if "RANK" not in os.environ:
                raise ValueError("start it with torchrun, one process a GPU")
            measure(arguments[1], shapes)
        elif len(arguments) >= 3 and arguments[0] == "--merge":
            merge(arguments[1], arguments[2:])
        else:
            print(__doc__, file=sys.stderr)
            return 2
    except (OSError, ValueError, KeyError, ImportError) as error:
        print(f"async_tp.py: {error!r}" if isinstance(error, KeyError) else f"async_tp.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
