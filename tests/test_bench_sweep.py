#!/usr/bin/env python3
"""bench/merge_sweep.py: results of several configs become one file, and nothing is mixed that does not belong together. Prints TAP."""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "bench" / "merge_sweep.py"
CONFIGS = {"00": "", "01": "tile: {n: 64}\norder: segment"}


def result(us, **head):
    row = {"m": 512, "n": 4096, "k": 2048, "tp": 2, "ranks_per_gpu": 1, "sms": 132, "config": "key", "cublas_us": 5.0,
           "cublas_nccl_us": None, "rel_err": 2e-3}
    rows = [{**row, "ours_us": us + i, "mode": mode} for i, mode in enumerate(("back_to_back", "isolated"))]
    return {"kind": "bench", "gpu": "G", "driver": "1", "cuda": "13.0", "date": f"day {us}", "commit": "abc",
            "dirty": False, **head, "rows": rows}


def merge(folder, **second):
    for name, yaml in CONFIGS.items():
        (folder / f"{name}.yaml").write_text(f"version: 1\n{yaml}\n", encoding="utf-8")
        one = result(10.0 * int(name), **(second if name == "01" else {}))
        (folder / f"{name}.json").write_text(json.dumps(one), encoding="utf-8")
    return run(folder)


def run(folder):
    return subprocess.run([SCRIPT, folder / "out", folder], capture_output=True, text=True, check=False)


def rows_back_to_back_with_their_configs(folder):
    done = merge(folder)
    assert done.returncode == 0, done
    merged = json.loads((folder / "out").read_text(encoding="utf-8"))
    assert merged["kind"] == "sweep" and merged["commit"] == "abc" and merged["dirty"] is False
    assert all("sms" not in row and row["cublas_nccl_us"] is None for row in merged["rows"])
    assert [(row["yaml"], row["ours_us"]) for row in merged["rows"]] == [("", 0.0), (CONFIGS["01"], 10.0)]


def refused(folder):
    for second, text in (({"commit": "def"}, "commit is 'def', and 'abc' in the others"), ({"kind": "jit"}, "kind is 'jit'")):
        done = merge(folder, **second)
        assert done.returncode != 0 and text in done.stderr and not (folder / "out").exists(), done
    (folder / "01.yaml").write_text("tile: {n: 64}\n", encoding="utf-8")
    (folder / "01.json").write_text(json.dumps(result(1.0)), encoding="utf-8")
    assert "01.yaml: the first line is not 'version: 1'" in run(folder).stderr
    for path in folder.iterdir():
        path.unlink()
    assert "no results" in run(folder).stderr


def main():
    failed = 0
    for number, test in enumerate((rows_back_to_back_with_their_configs, refused), 1):
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(pathlib.Path(folder))
                print(f"ok {number} - {test.__name__}")
            except AssertionError as error:
                failed = 1
                print(f"not ok {number} - {test.__name__}\n# {error}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
