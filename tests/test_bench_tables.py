#!/usr/bin/env python3
"""bench/tables.py: tables from results, and that those in the tree are what the results say. Prints TAP."""

import json
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "bench" / "tables.py"

ROW = {"m": 8192, "n": 4096, "k": 2048, "tp": 2, "ranks_per_gpu": 1, "sms": 132, "pace_gbps": None, "config": "k",
       "ours_us": 200.0, "cublas_us": 160.0, "cublas_nccl_us": 300.0, "async_tp_us": None, "link_gbps": 167.8,
       "limit_us": 160.0, "metric": 4e-6, "rel_err": 0.002, "iters": 20, "mode": "back_to_back", "l2": "warm",
       "cublas_nccl_registered_us": 280.0, "link_peak_gbps": 371.0, "waits": None, "skew": None, "cublas_default_us": 170.0}
KEYS_BEFORE = (19, 22, 23)  # files that were written before more columns came stay as they are
VARIANT = {"m": 512, "n": 4096, "k": 2048, "tp": 2, "ranks_per_gpu": 2, "sms": 66, "pace_gbps": None, "iters": 20,
           "variant": "older", "title": "older", "baseline": False, "best_baseline": False, "config": "k", "tile": "128x128x64",
           "stages": 5, "granularity": "segment", "ring": "shared 2", "drain": "per_tile", "order": "segment", "us": 50.0,
           "spread": 0.01, "limit_us": 40.0, "ratio": 1.25, "speedup_over_older": 1.0, "bitwise_equal": True, "refused": None,
           "waits": {"run_cycles": 1000.0, "roles": {"math": {"run": 1.0, "tile_ready": 0.421}}}}
DATA = {"kind": "bench", "gpu": "NVIDIA H200", "driver": None, "cuda": "13.0", "date": "2026-11-30T10:00:00Z",
        "commit": "abc", "dirty": True, "rows": [ROW, dict(ROW, m=512, ours_us=25.04, limit_us=None, cublas_nccl_us=None),
                                                 dict(ROW, mode="isolated")]}


class Case:
    """A results file and a document in a temporary directory, named by their absolute paths."""

    def __init__(self, data=None):
        self.data = data or DATA

    def __enter__(self):
        self.directory = tempfile.TemporaryDirectory()
        base = pathlib.Path(self.directory.name)
        self.results, self.document = base / "r.json", base / "d.md"
        self.results.write_text(json.dumps(self.data))
        return self

    def __exit__(self, *unused):
        self.directory.cleanup()

    def write(self, options="", body="old\n", end="<!-- /table -->\n"):
        self.document.write_text(f"before\n<!-- table: {self.results}{options} -->\n{body}{end}after\n")

    def run(self, *arguments):
        return subprocess.run([sys.executable, SCRIPT, *arguments, self.document], capture_output=True, text=True, check=False)


def usual_columns():
    with Case() as case:
        case.write(" where=mode:back_to_back")
        assert case.run("--check").returncode == 1
        assert "old" in case.document.read_text()
        assert case.run().returncode == 0
        lines = case.document.read_text().split("\n")
        assert lines[0] == "before" and lines[-2] == "after", lines
        assert lines[2] == ("| M | N | K | tp | ours, µs | TFLOP/s | cuBLAS, µs | cuBLAS + NCCL, µs | limit, µs | "
                            "ours / limit | cuBLAS + NCCL / ours |")
        assert lines[4] == "| 8192 | 4096 | 2048 | 2 | 200 | 687 | 160 | 300 | 160 | 1.25 | 1.50 |", lines[4]
        assert lines[5] == "| 512 | 4096 | 2048 | 2 | 25.0 | 343 | 160 | – | – | – | – |", lines[5]
        assert lines[7] == ("ours / limit: geometric mean 1.250, worst 1.250. cuBLAS + NCCL / ours: geometric mean 1.500, "
                            "worst 1.500. *NVIDIA H200, CUDA 13.0, 2026-11-30, commit abc with changes*"), lines[7]
        assert case.run("--check").returncode == 0


def chosen_columns():
    with Case() as case:
        case.write(" columns=m,mode,rel_err where=m:8192 caption=no")
        assert case.run().returncode == 0
        assert case.document.read_text() == (
            f"before\n<!-- table: {case.results} columns=m,mode,rel_err where=m:8192 caption=no -->\n"
            "| M | mode | relative error |\n| --- | --- | --- |\n| 8192 | back_to_back | 2.0e-03 |\n"
            "| 8192 | isolated | 2.0e-03 |\n<!-- /table -->\nafter\n")


def bench_against_everything():
    with Case(dict(DATA, rows=[dict(ROW, async_tp_us=290.0), dict(ROW, m=64, cublas_nccl_registered_us=None)])) as case:
        case.write(" columns=m,cublas_nccl_registered_us,async_tp_us,speedup_over_best,link_peak_gbps")
        assert case.run().returncode == 0
        lines = case.document.read_text().split("\n")
        assert lines[4] == "| 8192 | 280 | 290 | 1.40 | 371 |", lines[4]
        assert lines[5] == "| 64 | – | – | 1.50 | 371 |", lines[5]
        assert lines[7].startswith("best baseline / ours: geometric mean 1.449, worst 1.400. *NVIDIA H200"), lines[7]


def limits_by_two_algorithms():
    old = {key: value for key, value in ROW.items() if key != "cublas_default_us"}
    rows = [ROW, dict(ROW, m=4096, limit_us=250.0), dict(ROW, m=64, cublas_default_us=None), dict(old, m=8)]
    with Case(dict(DATA, rows=rows)) as case:
        case.write(" columns=m,ratio,ratio_default")
        assert case.run().returncode == 0
        lines = case.document.read_text().split("\n")
        assert lines[4:8] == ["| 8192 | 1.25 | 1.18 |", "| 4096 | 0.80 | 0.80 |", "| 64 | 1.25 | – |", "| 8 | 1.25 | – |"], lines


def skews():
    figures = {"median": 0.5, "p99": 1.256, "max": 130.0}
    skew = {"launches": 500, "begin_us": figures, "end_us": dict(figures, max=2.0), "gap_us": figures, "clocks_us": 1.2, "step_us": 0.032}
    with Case(dict(DATA, rows=[dict(ROW, skew=skew), dict(ROW, m=64)])) as case:
        case.write(" columns=m,skew.begin_us.median,skew.begin_us.p99,skew.begin_us.max,skew.end_us.max,skew.clocks_us caption=no")
        assert case.run().returncode == 0
        assert case.document.read_text().split("\n")[2:6] == [
            "| M | begins apart, µs | 99 of 100 | at most | at most | clocks known to, µs |", "| --- | --- | --- | --- | --- | --- |",
            "| 8192 | 0.50 | 1.26 | 130.00 | 2.00 | 1.20 |", "| 64 | – | – | – | – | – |"]


def ablation_tables():
    rows = [VARIANT, dict(VARIANT, title="ours", us=45.0, waits=None), dict(VARIANT, m=8192, us=600.0),
            dict(VARIANT, m=8192, title="cuBLAS", us=400.0, waits=None)]
    with Case(dict(DATA, kind="ablation", rows=rows)) as case:
        case.write(" where=m:512")
        assert case.run().returncode == 0
        lines = case.document.read_text().split("\n")
        assert lines[2].startswith("|  | µs | ours / limit | older / this | math waits for A, B | math waits for the tile buffer |")
        assert lines[4] == "| older | 50.0 | 1.25 | 1.00 | 0 % | 42 % | 0 % | 0 % |", lines[4]
        assert lines[5] == "| ours | 45.0 | 1.25 | 1.00 | – | – | – | – |", lines[5]
        assert lines[7].startswith("*NVIDIA H200"), lines[7]
        case.write(" columns=title pivot=m value=us caption=no")
        assert case.run().returncode == 0
        assert case.document.read_text().split("\n")[2:-2] == [
            "|  | M 512 | M 8192 |", "| --- | --- | --- |", "| older | 50.0 | 600 |", "| ours | 45.0 | – |",
            "| cuBLAS | – | 400 |", "<!-- /table -->", "after"][:-1]


def ablation_sentences():
    def row(variant, m, us, spread=0.01, **others):
        waits = {"run_cycles": 1.0, "roles": {"math": {"run": 1.0, "tile_ready": others.pop("ready", 0.0)}}}
        return dict(VARIANT, variant=variant, m=m, us=us, spread=spread, waits=waits, **others)

    library = {"baseline": True, "best_baseline": True, "bitwise_equal": None, "title": "cuBLAS, then ncclReduceScatter"}
    rows = [row("older", 512, 50.0, ready=0.30), row("older", 8192, 600.0, ready=0.20),
            row("flags", 512, 40.0, ready=0.08), row("flags", 8192, 590.0),        # a gain
            row("ring", 512, 50.2), row("ring", 8192, 598.0),                      # none
            row("drain", 512, 60.0), row("drain", 8192, 500.0, ready=0.20),        # one way and the other
            row("lanes", 512, None, refused="no room"), row("lanes", 8192, None, refused="no room"),
            row("all", 512, 40.0), row("all", 8192, 400.0),
            row("less_ring", 512, 44.0), row("less_ring", 8192, 600.0, ready=0.25),  # a loss
            row("order", 512, 40.0), row("default", 512, 25.0, bitwise_equal=False), row("default", 8192, None),
            row("nccl", 512, 50.0, **library)]
    with Case(dict(DATA, kind="ablation", rows=rows)) as case:
        case.write(" as=sentences")
        assert case.run().returncode == 0
        assert case.document.read_text().split("\n")[2:-4] == [
            "- `flags`: 1.02 to 1.25 times as fast as `older`, most at M 512; there the math warps wait 8 % of the run "
            "for the tile buffer, with `older` 30 %.",
            "- `ring`: worth nothing here: 1.00 times as fast as `older`, and the times of one kernel differ by up to 1.0 %.",
            "- `drain`: 0.83 (M 512) to 1.20 (M 8192) times as fast as `older`; at M 512 the math warps wait 0 % of the run "
            "for the tile buffer, with `older` 30 %.",
            "- `lanes`: refused: no room.",
            "- `all`: 1.25 to 1.50 times as fast as `older`, most at M 8192; there the math warps wait 0 % of the run for "
            "the tile buffer, with `older` 20 %.",
            "- `less_ring`: 0.67 to 0.91 times as fast as `all`, least at M 8192; there the math warps wait 25 % of the run "
            "for the tile buffer, with `all` 0 %.",
            "- `order`: worth nothing here: 1.00 times as fast as `all`, and the times of one kernel differ by up to 1.0 %.",
            "- `default`: 1.60 times as fast as `order`.",
            "- `default` is 2.00 times as fast as the best baseline (cuBLAS, then ncclReduceScatter).",
            "- D differs from our default's: default.", ""], case.document.read_text()
        case.results.write_text(json.dumps(dict(DATA, kind="ablation", rows=[rows[0], dict(rows[1], tp=4)])))
        result = case.run()
        assert result.returncode == 2 and "differ in nothing but variant and M" in result.stderr, result.stderr
        case.results.unlink()
        case.write(" as=sentences pending=ablation")
        assert case.run().returncode == 0
        assert "\n*Not measured yet: `bench/run.sh ablation` makes these sentences.*\n" in case.document.read_text()


def pending_results():
    with Case() as case:
        case.results.unlink()
        case.write(" pending=ablation where=mode:back_to_back columns=n pivot=m value=ours_us")
        assert case.run().returncode == 0
        assert "\n*Not measured yet: `bench/run.sh ablation` makes this table.*\n" in case.document.read_text()
        case.results.write_text(json.dumps(DATA))
        assert case.run("--check").returncode == 1  # now it is there


def mistakes_are_named():
    for options, body, end, expected in [
            (" columns=m,nope", "", "<!-- /table -->\n", "the rows have no 'nope'; they have m, n, k,"),
            (" where=m:7", "", "<!-- /table -->\n", "has no row like that"),
            (" colums=m", "", "<!-- /table -->\n", "'colums=m' is none of columns=, where=, caption="),
            ("", "", "", "has no '<!-- /table -->'"),
            (" pivot=m", "", "<!-- /table -->\n", "pivot= and value= come together"),
            (" as=prose", "", "<!-- /table -->\n", "as=prose: table or sentences"),
            (" as=sentences", "", "<!-- /table -->\n", "sentences are made of an ablation's rows"),
            (" columns=n pivot=m value=ours_us", "", "<!-- /table -->\n", "several rows have m 8192 and the same n"),
            ("x", "", "<!-- /table -->\n", "No such file")]:
        with Case() as case:
            case.write(options, body, end)
            before, result = case.document.read_text(), case.run()
            assert result.returncode == 2 and expected in result.stderr, (options, result.stderr)
            assert case.document.read_text() == before


def no_arguments():
    result = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    assert result.returncode == 2 and "bench/tables.py [--check] FILE" in result.stderr


def tree_is_current():
    documents = [path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("bench/*.md")]
                 if "<!-- table:" in path.read_text(encoding="utf-8")]
    if documents:
        result = subprocess.run([sys.executable, SCRIPT, "--check", *documents], capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr


def results_have_their_shape():
    keys = ["kind", "gpu", "driver", "cuda", "date", "commit", "dirty", "rows"]
    sweep = ["yaml", "m", "n", "k", "tp", "ranks_per_gpu", "config", "ours_us", "cublas_us", "cublas_nccl_us", "rel_err", "mode"]
    for path in sorted((ROOT / "bench" / "results").glob("*.json")):
        data = json.loads(path.read_text())
        assert [key for key in data if key != "note" or data["kind"] != "sweep"] == keys, (path, list(data))
        for row in data["rows"]:
            wanted = {"bench": list(ROW), "ablation": list(VARIANT), "sweep": sweep}[data["kind"]]
            before = [wanted[:count] for count in KEYS_BEFORE] if data["kind"] == "bench" else []
            assert list(row) in [wanted, *before], (path, list(row))


def main():
    tests = [usual_columns, chosen_columns, bench_against_everything, limits_by_two_algorithms, skews, ablation_tables,
             ablation_sentences, pending_results, mistakes_are_named, no_arguments, tree_is_current, results_have_their_shape]
    failed = 0
    for number, test in enumerate(tests, 1):
        try:
            test()
            print(f"ok {number} - {test.__name__}")
        except AssertionError as error:
            failed += 1
            print(f"not ok {number} - {test.__name__}\n# {str(error)[:2000]}")
    print(f"1..{len(tests)}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
