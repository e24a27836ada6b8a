#!/usr/bin/env python3
"""bench/async_tp.py: merging into results, and a run on a PyTorch that is not there (a stand-in that multiplies nothing). Prints
TAP."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "bench" / "async_tp.py"

# Enough of PyTorch for one rank: every tensor is a number, events are 20 runs of 50 us apart.
TORCH = '''
import os, sys, types
multicast = [os.environ.get(name) for name in
             ("TORCH_SYMM_MEM_DISABLE_MULTICAST", "NCCL_NVLS_ENABLE", "NVSHMEM_DISABLE_NVLS")]
assert multicast == ["1", "0", "1"], multicast
__version__, bfloat16, float64 = "2.11.0", "bfloat16", "float64"
class Tensor:
    def __init__(self, shape, value=1.0): self.shape, self.value = shape, value
    def item(self): return self.value
    def t(self): return Tensor(self.shape[::-1])
    def float(self): return self
    def norm(self): return self
    def __mul__(self, _): return self
    def __sub__(self, other): return self if isinstance(other, int) else Tensor(self.shape, self.value - other.value)
    def __truediv__(self, other): return Tensor(self.shape, self.value / other.value)
    def __matmul__(self, other): return Tensor((self.shape[0], other.shape[1]))
    def __getitem__(self, rows): return Tensor((rows.stop - rows.start, self.shape[1]))
def device(kind, index): return (kind, index)
def manual_seed(_): pass
def rand(shape, dtype, device): return Tensor(shape)
def tensor(values, dtype, device): return Tensor((1,), values[0])
class Event:
    def __init__(self, enable_timing): pass
    def record(self): pass
    def elapsed_time(self, _): return 1.0
cuda = types.SimpleNamespace(Event=Event, synchronize=lambda: None, set_device=lambda _: None,
                             get_device_name=lambda _: "NVIDIA H200")
version = types.SimpleNamespace(cuda="13.0")
def fused(a, b, reduce_op, scatter_dim, group_name):
    assert (reduce_op, scatter_dim, group_name) == ("sum", 0, "0") and a.shape[1] == b.shape[0]
    if b.shape[1] == 24: raise RuntimeError("no such N\\nwith more")
    return Tensor((a.shape[0] // 2, b.shape[1]), float(os.environ.get("STANDIN_RESULT", "1")))
ops = types.SimpleNamespace(symm_mem=types.SimpleNamespace(fused_matmul_reduce_scatter=fused))
distributed = types.ModuleType("torch.distributed")
distributed.init_process_group = lambda backend, device_id: None
distributed.destroy_process_group = lambda: None
distributed.barrier = lambda: None
distributed.all_reduce = lambda tensor, op=None: None
distributed.ReduceOp = types.SimpleNamespace(MAX="max")
distributed.group = types.SimpleNamespace(WORLD=types.SimpleNamespace(group_name="0"))
memory = types.ModuleType("torch.distributed._symmetric_memory")
memory.enable_symm_mem_for_group = lambda name: None
distributed._symmetric_memory = memory
sys.modules["torch.distributed"], sys.modules["torch.distributed._symmetric_memory"] = distributed, memory
'''

RESULTS = {"kind": "bench", "gpu": "NVIDIA H200", "driver": None, "cuda": "13.0", "date": "2026-11-30T10:00:00Z", "commit": "a",
           "dirty": False,
           "rows": [{"m": m, "n": 4096, "k": 2048, "tp": 2, "ranks_per_gpu": per_gpu, "ours_us": 1.5, "async_tp_us": None,
                     "mode": mode} for m, per_gpu, mode in [(64, 1, "back_to_back"), (64, 1, "isolated"), (64, 2, "isolated"),
                                                            (128, 1, "back_to_back")]]}


def run(directory, *arguments, **environment):
    (directory / "torch.py").write_text(TORCH)
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False, cwd=directory,
                          env={**os.environ, "PYTHONPATH": str(directory), "PYTHONDONTWRITEBYTECODE": "1", **environment})


def measures_and_merges(directory):
    result = run(directory, "--out", "times.json", "64,4096,2048", "63,4096,2048", RANK="0", WORLD_SIZE="2", LOCAL_RANK="0")
    assert result.returncode == 0, result.stderr
    times = json.loads((directory / "times.json").read_text())
    assert times["kind"] == "async_tp" and times["gpu"] == "NVIDIA H200" and times["cuda"] == "13.0"
    assert [(row["m"], row["mode"], row["async_tp_us"]) for row in times["rows"]] == [
        (64, "back_to_back", 50.0), (64, "isolated", 1000.0), (63, "back_to_back", None), (63, "isolated", None)]
    assert times["rows"][2]["why"] == "M 63 is no multiple of 2 ranks"
    (directory / "results.json").write_text(json.dumps(RESULTS))
    result = run(directory, "--merge", "times.json", "results.json")
    assert result.returncode == 0 and result.stdout == "results.json: 2 of 4 rows have async_tp_us\n", result
    merged = json.loads((directory / "results.json").read_text())
    assert [row["async_tp_us"] for row in merged["rows"]] == [50.0, 1000.0, None, None]
    assert {**merged, "rows": None} == {**RESULTS, "rows": None} and list(merged["rows"][0]) == list(RESULTS["rows"][0])


def wrong_results_are_not_timed(directory):
    result = run(directory, "--out", "times.json", "64,8,8", RANK="0", WORLD_SIZE="2", STANDIN_RESULT="1.5")
    assert result.returncode == 0, result.stderr
    for row in json.loads((directory / "times.json").read_text())["rows"]:
        assert row["async_tp_us"] is None and row["why"] == "its result is wrong" and row["rel_err"] == 0.5, row


def refused_shapes_say_why(directory):
    result = run(directory, "--out", "times.json", "64,24,8", "64,8,8", RANK="0", WORLD_SIZE="2")
    assert result.returncode == 0, result.stderr
    rows = json.loads((directory / "times.json").read_text())["rows"]
    assert [row["why"] for row in rows] == ["no such N", "no such N", None, None] and rows[2]["async_tp_us"] == 50.0, rows


def other_ranks_write_nothing(directory):
    result = run(directory, "--out", "times.json", "64,8,8", RANK="1", WORLD_SIZE="2")
    assert result.returncode == 0 and not result.stdout and not (directory / "times.json").exists(), result


def mistakes(directory):
    (directory / "other.json").write_text(json.dumps(dict(RESULTS, gpu="NVIDIA H100")))
    (directory / "times.json").write_text(json.dumps({"kind": "async_tp", "gpu": "NVIDIA H200", "rows": []}))
    for arguments, code, text in [
            (("--out", "t.json", "64,8"), 1, "'64,8' is not M,N,K"),
            (("--out", "t.json", "64,8,8"), 1, "start it with torchrun"),
            (("--merge", "times.json", "nowhere.json"), 1, "nowhere.json"),
            (("--merge", "other.json", "times.json"), 1, "other.json is of kind 'bench', not 'async_tp'"),
            (("--merge", "times.json", "other.json"), 1, "other.json was measured on NVIDIA H100, times.json on NVIDIA H200"),
            ((), 2, "torchrun --standalone")]:
        result = run(directory, *arguments)
        assert result.returncode == code and text in result.stderr, (arguments, result)


def main():
    tests = [measures_and_merges, wrong_results_are_not_timed, refused_shapes_say_why, other_ranks_write_nothing, mistakes]
    failed = 0
    for number, test in enumerate(tests, 1):
        try:
            with tempfile.TemporaryDirectory() as directory:
                test(pathlib.Path(directory))
            print(f"ok {number} - {test.__name__}")
        except AssertionError as error:
            failed += 1
            print(f"not ok {number} - {test.__name__}\n# {str(error)[:2000]}")
    print(f"1..{len(tests)}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
