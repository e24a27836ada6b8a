#!/usr/bin/env python3
"""Makes the tables of README and docs from results files, so that no figure is copied by hand.

    bench/tables.py [--check] FILE...

In a Markdown file, what stands between these two lines is replaced by a table:

    <!-- table: bench/results/h200-gemm.json columns=m,n,k,ours_us,cublas_us,ratio where=mode:back_to_back,l2:warm -->
    <!-- /table -->

The path counts from the root of the repository. `columns` are keys of the file's rows (with dots where a value has keys of its
own: waits.math.stage_full), or one of those below that follow from them; without it tables of kinds "bench" and "ablation" get
their usual ones. `where` keeps the rows whose values are these. `pivot=m value=us` makes a column of `value` for each value of m
beside `columns`. `caption=no` leaves out the line below the table that says where the figures come from. With `pending=SET` a
file that is not there yet is no mistake: the table is then a line that says how to make it. A null is shown as a dash.
With `as=sentences` a file of kind "ablation" gives a sentence a variant instead: how it compares with the variant that differs
from it in one policy, and which wait explains it. `where` must leave rows that differ in nothing but variant and M.

--check changes nothing and exits 1 where a file would change.
"""

import json
import math
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MARKER = re.compile(r"^<!-- table: (?P<what>.*?) -->\n(?P<old>.*?)^<!-- /table -->$", re.MULTILINE | re.DOTALL)
USUAL_COLUMNS = {
    "bench": "m,n,k,tp,ours_us,tflops,cublas_us,cublas_nccl_us,limit_us,ratio,speedup",
    "ablation": "title,us,ratio,speedup_over_older,waits.math.stage_full,waits.math.tile_ready,waits.prefetcher.upstream,"
                "waits.prefetcher.tile_free",
}


def quotient(a, b):
    return None if a is None or not b else a / b


def best_of(row):
    """The fastest of the ways that do the whole work with libraries."""
    times = [row.get(key) for key in ("cublas_nccl_us", "cublas_nccl_registered_us", "async_tp_us")]
    return min((time for time in times if time is not None), default=None)


def limit_by_default(row):
    """The limit with the products as cuBLAS makes them by itself: never below limit_us, whose algorithm is the fastest."""
    times = (row["limit_us"], row.get("cublas_default_us"))
    return None if None in times else max(times)


# Columns that follow from a row of kind "bench".
DERIVED = {
    "ratio": lambda row: quotient(row["ours_us"], row["limit_us"]),
    "ratio_default": lambda row: quotient(row["ours_us"], limit_by_default(row)),
    "speedup": lambda row: quotient(row["cublas_nccl_us"], row["ours_us"]),
    "speedup_over_best": lambda row: quotient(best_of(row), row["ours_us"]),
    "tflops": lambda row: quotient(2e-6 * row["m"] * row["n"] * row["k"] * row["ranks_per_gpu"], row["ours_us"]),
}
TITLES = {
    "m": "M", "n": "N", "k": "K", "ours_us": "ours, µs", "cublas_us": "cuBLAS, µs", "cublas_nccl_us": "cuBLAS + NCCL, µs",
    "async_tp_us": "async-TP, µs", "limit_us": "limit, µs", "tflops": "TFLOP/s", "ratio": "ours / limit",
    "cublas_default_us": "cuBLAS by itself, µs", "ratio_default": "ours / limit by it",
    "speedup": "cuBLAS + NCCL / ours", "link_gbps": "link, GB/s", "pace_gbps": "pace, GB/s", "l2": "L2",
    "ranks_per_gpu": "ranks a GPU", "sms": "SMs", "rel_err": "relative error",
    "cublas_nccl_registered_us": "the same, registered, µs", "link_peak_gbps": "link measured, GB/s",
    "speedup_over_best": "best baseline / ours", "title": "", "us": "µs", "speedup_over_older": "older / this",
    "skew.begin_us.median": "begins apart, µs", "skew.begin_us.p99": "99 of 100", "skew.begin_us.max": "at most",
    "skew.end_us.median": "ends apart, µs", "skew.end_us.p99": "99 of 100", "skew.end_us.max": "at most",
    "skew.gap_us.median": "between launches, µs", "skew.gap_us.p99": "99 of 100", "skew.gap_us.max": "at most",
    "skew.clocks_us": "clocks known to, µs",
    "waits.math.stage_full": "math waits for A, B", "waits.math.tile_ready": "math waits for the tile buffer",
    "waits.prefetcher.upstream": "prefetcher waits for upstream", "waits.prefetcher.tile_free": "prefetcher waits for the buffer",
}
# What a variant of an ablation is compared with: the one that it differs from in one step.
AGAINST = {
    "flags": "older", "ring": "older", "drain": "older", "lanes": "older", "all": "older", "less_flags": "all",
    "less_ring": "all", "less_drain": "all", "all_lanes": "all", "order": "all", "default": "order",
}
# The waits that tell policies apart, as a share of the run goes into their words.
EXPLAINING = {
    "waits.math.stage_full": "the math warps wait {} for A and B",
    "waits.math.tile_ready": "the math warps wait {} for the tile buffer",
    "waits.prefetcher.upstream": "the prefetcher waits {} for upstream's partial",
    "waits.prefetcher.tile_free": "the prefetcher waits {} for the tile buffer to be stored",
}
# Titles that lean on the row above them.
BASELINES = {"cublas_nccl_registered": "cuBLAS, then ncclReduceScatter between registered buffers"}
LEAST_DIFFERENCE = 0.005 # what a table with two decimals does not show
SUMMARISED = ("ratio", "ratio_default", "speedup", "speedup_over_best", "speedup_over_older")


def value_of(row, column):
    if column in row:
        return row[column]
    if column in DERIVED:
        return DERIVED[column](row)
    if column.startswith("skew.") and "skew" in row:
        at = row["skew"]
        for key in column.split(".")[1:]:
            at = at[key] if at else None
        return at
    if column.startswith("waits.") and "waits" in row: # a wait that never happened has no key
        _, role, wait = column.split(".")
        return row["waits"]["roles"].get(role, {}).get(wait, 0.0) if row["waits"] else None
    raise ValueError(f"the rows have no '{column}'; they have {', '.join(row)} and {', '.join(DERIVED)}")


def shown(column, value):
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if column in ("rel_err", "metric"):
            return f"{value:.1e}"
        if column.startswith("waits."):
            return f"{value * 100:.0f} %"
        if column in SUMMARISED or column.startswith("skew."):
            return f"{value:.2f}"
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}"
    return str(value)


def parse_marker(text):
    path, *words = text.split()
    known = {"columns": None, "where": "", "caption": "yes", "pivot": None, "value": None, "pending": None, "as": "table"}
    for word in words:
        name, equals, value = word.partition("=")
        if name not in known or not equals:
            raise ValueError(f"'{word}' is none of {', '.join(key + '=' for key in known)}")
        known[name] = value
    if (known["pivot"] is None) != (known["value"] is None):
        raise ValueError("pivot= and value= come together")
    if known["as"] not in ("table", "sentences"):
        raise ValueError(f"as={known['as']}: table or sentences")
    known["where"] = dict(pair.split(":", 1) for pair in known["where"].split(",") if pair)
    return path, known


def caption_of(data, rows, columns):
    if "title" in columns: # rows that are compared with one another have no mean
        columns = []
    parts = []
    for column in columns:
        values = [value_of(row, column) for row in rows if column in SUMMARISED]
        values = [value for value in values if value is not None]
        if values:
            mean = math.exp(sum(map(math.log, values)) / len(values))
            worst = max(values) if column == "ratio" else min(values)
            parts.append(f"{TITLES[column]}: geometric mean {mean:.3f}, worst {worst:.3f}.")
    origin = [data["gpu"], data["driver"] and f"driver {data['driver']}", data["cuda"] and f"CUDA {data['cuda']}",
              data["date"][:10], data["commit"] and f"commit {data['commit']}{' with changes' if data['dirty'] else ''}"]
    parts.append(f"*{', '.join(part for part in origin if part)}*")
    return " ".join(parts)


def line_of(cells):
    return "| " + " | ".join(cells) + " |"


def pivoted(rows, columns, pivot, value):
    """A line for each combination of the columns, in the order in which they come, a cell for each value of the pivot."""
    places = sorted({value_of(row, pivot) for row in rows})
    cells = {}
    for row in rows:
        line = cells.setdefault(tuple(shown(column, value_of(row, column)) for column in columns), {})
        if value_of(row, pivot) in line:
            raise ValueError(f"several rows have {pivot} {value_of(row, pivot)} and the same {', '.join(columns)}")
        line[value_of(row, pivot)] = shown(value, value_of(row, value))
    head = [TITLES.get(column, column) for column in columns] + [f"{TITLES.get(pivot, pivot)} {place}" for place in places]
    return [line_of(head), "| --- " * len(head) + "|"] + [
        line_of([*key, *(line.get(place, "–") for place in places)]) for key, line in cells.items()]


def range_of(values):
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


def explanation(row, base, where):
    """The wait that differs most between two rows, as a clause; empty where it is the same."""
    shares = {key: (value_of(base, key), value_of(row, key)) for key in EXPLAINING}
    shares = {key: pair for key, pair in shares.items() if None not in pair}
    if not shares:
        return ""
    key = max(shares, key=lambda each: abs(shares[each][0] - shares[each][1]))
    before, now = shares[key]
    if abs(before - now) < 0.01:
        return ""
    return f"; {where} {EXPLAINING[key].format(f'{now * 100:.0f} % of the run')}, with `{base['variant']}` {before * 100:.0f} %"


def sentence(variant, rows, bases):
    """How the rows of a variant, by M, compare with those of the one that it is held against."""
    base = AGAINST[variant]
    refused = [row["refused"] for row in rows.values() if row["refused"]]
    if refused:
        return f"refused: {refused[0]}"
    pairs = {m: bases[m]["us"] / row["us"] for m, row in rows.items() if row["us"] and m in bases and bases[m]["us"]}
    if not pairs:
        return f"not measured beside `{base}`"
    noise = {m: max(rows[m]["spread"] or 0, bases[m]["spread"] or 0, LEAST_DIFFERENCE) for m in pairs}
    most = max(pairs, key=lambda m: abs(math.log(pairs[m])))
    least, best = min(pairs, key=pairs.get), max(pairs, key=pairs.get)
    times, there = range_of(pairs.values()), f"at M {most}"
    if all(abs(pairs[m] - 1) <= noise[m] for m in pairs):
        return (f"worth nothing here: {times} times as fast as `{base}`, and the times of one kernel differ by up to "
                f"{max(noise.values()) * 100:.1f} %")
    if pairs[least] >= 1 or pairs[best] <= 1:
        text = f"{times} times as fast as `{base}`"
        if len(pairs) > 1:
            text += f", {'most' if pairs[best] > 1 else 'least'} at M {most}"
            there = "there"
    else:
        text = f"{pairs[least]:.2f} (M {least}) to {pairs[best]:.2f} (M {best}) times as fast as `{base}`"
    return text + explanation(rows[most], bases[most], there)


def against_baselines(rows):
    """Our default beside the best library of each M."""
    ours = {row["m"]: row for row in rows if row["variant"] == "default"}
    best = {row["m"]: row for row in rows if row["best_baseline"]}
    titles = sorted({BASELINES.get(row["variant"], row["title"]) for row in best.values()})
    pairs = [best[m]["us"] / ours[m]["us"] for m in ours if m in best and ours[m]["us"] and best[m]["us"]]
    return f"- `default` is {range_of(pairs)} times as fast as the best baseline ({'; or '.join(titles)})." if pairs else None


def sentences(data, rows):
    fixed = {tuple(row[key] for key in ("n", "k", "tp", "ranks_per_gpu", "pace_gbps")) for row in rows}
    if data["kind"] != "ablation" or len(fixed) != 1:
        raise ValueError("sentences are made of an ablation's rows that differ in nothing but variant and M")
    by_variant = {}
    for row in rows:
        if not row["baseline"]:
            by_variant.setdefault(row["variant"], {})[row["m"]] = row
    lines = [f"- `{variant}`: {sentence(variant, by_m, by_variant.get(AGAINST[variant], {}))}."
             for variant, by_m in by_variant.items() if variant in AGAINST]
    lines.append(against_baselines(rows))
    differing = sorted({row["variant"] for row in rows if row["bitwise_equal"] is False})
    lines.append(f"- D differs from our default's: {', '.join(differing)}." if differing
                 else "- Every D was bit for bit our default's.")
    return [line for line in lines if line]


def table(marker):
    path, options = parse_marker(marker)
    if options["pending"] and not os.path.exists(os.path.join(ROOT, path)):
        what = "this table" if options["as"] == "table" else "these sentences"
        return f"*Not measured yet: `bench/run.sh {options['pending']}` makes {what}.*\n"
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        data = json.load(file)
    rows = [row for row in data["rows"] if all(str(value_of(row, key)) == value for key, value in options["where"].items())]
    if not rows:
        raise ValueError(f"{path} has no row like that")
    if options["as"] == "sentences":
        lines = sentences(data, rows)
        if options["caption"] != "no":
            lines += ["", caption_of(data, rows, [])]
        return "\n".join(lines) + "\n"
    if options["columns"] is None and data["kind"] not in USUAL_COLUMNS:
        raise ValueError(f"{path} is of kind '{data['kind']}': say which columns=")
    columns = (options["columns"] or USUAL_COLUMNS[data["kind"]]).split(",")
    if options["pivot"]:
        lines = pivoted(rows, columns, options["pivot"], options["value"])
    else:
        lines = [line_of(TITLES.get(column, column) for column in columns), "| --- " * len(columns) + "|"]
        lines += [line_of(shown(column, value_of(row, column)) for column in columns) for row in rows]
    if options["caption"] != "no":
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
