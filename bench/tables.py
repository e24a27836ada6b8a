#!/usr/bin/env python3
"""Makes the tables of README and docs from results files, so that no figure is copied by hand.

    bench/tables.py [--check] FILE...

In a Markdown file, what stands between these two lines is replaced by a table:

    <!-- table: bench/results/h200-gemm.json columns=m,n,k,ours_us,cublas_us,ratio where=mode:back_to_back,l2:warm -->
    <!-- /table -->

The path counts from the root of the repository. `columns` are keys of the file's rows, or one of those below that follow
from them; without it a table of kind "bench" gets its usual ones. `where` keeps the rows whose values are these. `caption=no`
leaves out the line below the table that says where the figures come from. A null is shown as a dash.

--check changes nothing and exits 1 where a file would change.
"""

import json
import math
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MARKER = re.compile(r"^<!-- table: (?P<what>.*?) -->\n(?P<old>.*?)^<!-- /table -->$", re.MULTILINE | re.DOTALL)
BENCH_COLUMNS = "m,n,k,tp,ours_us,tflops,cublas_us,cublas_nccl_us,limit_us,ratio,speedup"


def quotient(a, b):
    return None if a is None or not b else a / b


# Columns that follow from a row of kind "bench".
DERIVED = {
    "ratio": lambda row: quotient(row["ours_us"], row["limit_us"]),
    "speedup": lambda row: quotient(row["cublas_nccl_us"], row["ours_us"]),
    "tflops": lambda row: quotient(2e-6 * row["m"] * row["n"] * row["k"] * row["ranks_per_gpu"], row["ours_us"]),
}
TITLES = {
    "m": "M", "n": "N", "k": "K", "ours_us": "ours, µs", "cublas_us": "cuBLAS, µs", "cublas_nccl_us": "cuBLAS + NCCL, µs",
    "async_tp_us": "async-TP, µs", "limit_us": "limit, µs", "tflops": "TFLOP/s", "ratio": "ours / limit",
    "speedup": "cuBLAS + NCCL / ours", "link_gbps": "link, GB/s", "pace_gbps": "pace, GB/s", "l2": "L2",
    "ranks_per_gpu": "ranks a GPU", "sms": "SMs", "rel_err": "relative error",
}
SUMMARISED = ("ratio", "speedup")


def value_of(row, column):
    if column in DERIVED:
        return DERIVED[column](row)
    if column not in row:
        raise ValueError(f"the rows have no '{column}'; they have {', '.join(row)} and {', '.join(DERIVED)}")
    return row[column]


def shown(column, value):
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if column in ("rel_err", "metric"):
            return f"{value:.1e}"
        if column in SUMMARISED:
            return f"{value:.2f}"
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}"
    return str(value)


def parse_marker(text):
    path, *words = text.split()
    known = {"columns": None, "where": "", "caption": "yes"}
    for word in words:
        name, equals, value = word.partition("=")
        if name not in known or not equals:
            raise ValueError(f"'{word}' is none of columns=, where=, caption=")
        known[name] = value
    where = dict(pair.split(":", 1) for pair in known["where"].split(",") if pair)
    return path, known["columns"], where, known["caption"] != "no"


def caption_of(data, rows, columns):
    parts = []
    for column in columns:
        values = [value_of(row, column) for row in rows if column in SUMMARISED]
        values = [value for value in values if value is not None]
        if values:
            mean = math.exp(sum(map(math.log, values)) / len(values))
            worst = min(values) if column == "speedup" else max(values)
            parts.append(f"{TITLES[column]}: geometric mean {mean:.3f}, worst {worst:.3f}.")
    origin = [data["gpu"], data["driver"] and f"driver {data['driver']}", data["cuda"] and f"CUDA {data['cuda']}",
              data["date"][:10], data["commit"] and f"commit {data['commit']}{' with changes' if data['dirty'] else ''}"]
    parts.append(f"*{', '.join(part for part in origin if part)}*")
    return " ".join(parts)


def table(marker):
    path, wanted, where, with_caption = parse_marker(marker)
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        data = json.load(file)
    rows = [row for row in data["rows"] if all(str(value_of(row, key)) == value for key, value in where.items())]
    if not rows:
        raise ValueError(f"{path} has no row like that")
    if wanted is None and data["kind"] != "bench":
        raise ValueError(f"{path} is of kind '{data['kind']}': say which columns=")
    columns = (wanted or BENCH_COLUMNS).split(",")
    lines = ["| " + " | ".join(TITLES.get(column, column) for column in columns) + " |", "| --- " * len(columns) + "|"]
    for row in rows:
        lines.append("| " + " | ".join(shown(column, value_of(row, column)) for column in columns) + " |")
    if with_caption:
        lines += ["", caption_of(data, rows, columns)]
    return "\n".join(lines) + "\n"


def rewrite(name, check):
    """True when the file has (with check: would have) changed."""
    with open(name, encoding="utf-8") as file:
        text = file.read()
    if len(re.findall(r"^<!-- table:", text, re.MULTILINE)) != len(MARKER.findall(text)):
        raise ValueError("a '<!-- table: … -->' has no '<!-- /table -->' on a line of its own below it")
    new = MARKER.sub(lambda found: f"<!-- table: {found['what']} -->\n{table(found['what'])}<!-- /table -->", text)
    if new == text:
        return False
    if not check:
        with open(f"{name}.new", "w", encoding="utf-8") as file:
            file.write(new)
        os.replace(f"{name}.new", name)
    return True


def main(arguments):
    check = "--check" in arguments
    names = [argument for argument in arguments if argument != "--check"]
    if not names or any(name.startswith("-") for name in names):
        print(__doc__, file=sys.stderr)
        return 2
    stale = False
    for name in names:
        try:
            changed = rewrite(name, check)
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 2
        if changed:
            print(f"{name}: {'not what the results say' if check else 'rewritten'}")
        stale |= changed
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
