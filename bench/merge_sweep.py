#!/usr/bin/env python3
"""One file of results of kind "sweep" from several of kind "bench": one a config.

    bench/merge_sweep.py OUT FOLDER

FOLDER holds pairs NAME.yaml and NAME.json: a config, and what `grsrun --bench --config NAME.yaml --save NAME.json` left.
The rows back to back go to OUT, in the order of names, each with its config's lines after `version: 1` as `yaml`, and less of
what does not depend on the config. The results must be of the same GPU, driver and commit.
"""

import json
import pathlib
import sys

HEAD = ("gpu", "driver", "cuda", "date", "commit", "dirty")
ROW = ("m", "n", "k", "tp", "ranks_per_gpu", "config", "ours_us", "cublas_us", "cublas_nccl_us", "rel_err", "mode")
FIRST_LINE = "version: 1\n"


def config_lines(path):
    text = path.read_text(encoding="utf-8")
    if not text.startswith(FIRST_LINE):
        raise ValueError(f"{path}: the first line is not 'version: 1'")
    return text[len(FIRST_LINE) :].strip()


def merge(folder):
    out = None
    for path in sorted(folder.glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        if result.get("kind") != "bench":
            raise ValueError(f"{path}: kind is {result.get('kind')!r}, not 'bench'")
        if out is None:
            out = {"kind": "sweep", **{key: result[key] for key in HEAD}, "rows": []}
        for key in HEAD:
            if key != "date" and out[key] != result[key]:
                raise ValueError(f"{path}: {key} is {result[key]!r}, and {out[key]!r} in the others")
        yaml = config_lines(path.with_suffix(".yaml"))
        out["rows"] += [{"yaml": yaml, **{key: row[key] for key in ROW}} for row in result["rows"] if row["mode"] == "back_to_back"]
    if out is None:
        raise ValueError(f"{folder}: no results")
    return out


def main():
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    try:
        merged = merge(pathlib.Path(sys.argv[2]))
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"merge_sweep.py: {error}")
    pathlib.Path(sys.argv[1]).write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
