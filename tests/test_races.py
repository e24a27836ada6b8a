#!/usr/bin/env python3
"""tests/gpu/races.py against a kernel that is compiled here and reports that are made up for it. Prints TAP."""

import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = (ROOT / os.environ.get("BUILD", "build")).resolve()
os.environ["BUILD"] = str(BUILD)
sys.path.insert(0, str(ROOT / "tests/gpu"))
import races  # noqa: E402

SHOWN = ("racecheck_word", "racecheck_copy", "racecheck_flag")
NAME = "grs_gemm_rs_n136_k136_tp2_64x64x64_s2"
COPY = "ptx::bulk_load(tile_buffer"
LOAD = "ptx::matrix_load_x4(packed"
WORD = "uint32_t action = ptx::load_shared"
WORD_SET = "ptx::store_shared(action, add"
LEAVE_SET = "ptx::store_shared(leave, 1)"
count = failed = 0


def check(right, name, why=""):
    global count, failed
    count += 1
    failed += not right
    print(f"{'ok' if right else 'not ok'} {count} - {name}")
    if not right:
        print("# " + str(why).replace("\n", "\n# "))


def make_kernel(folder):
    config = pathlib.Path(folder) / "config.yaml"
    config.write_text(
        "version: 1\nstages: {load: 2}\ntile: {m: 64, n: 64}\n"
        "ring: {place: global, depth: 2, chunk: {bytes: 2048, count: 2}}\n"
    )
    environment = dict(os.environ, GRS_CACHE_DIR=folder, GRS_LINE_INFO="1", GRS_ARCH="sm_90a")
    made = subprocess.run(
        [BUILD / "grsgen", "--config", config, "--shape", "200,136,136,2"], env=environment, capture_output=True, text=True
    )
    return made.returncode == 0, made.stderr


def main():
    lines = races.Lines()
    listed = races.read_list(lines)
    check({shows for shows, *_ in listed} == set(SHOWN), "the list names its kernels", listed)
    planted = (ROOT / "tests/gpu/planted.cu").read_text()
    check(all(re.search(rf"__global__ void {name}\(", planted) for name in SHOWN), "the kernels are there")
    if not races.find_nvdisasm():
        print(f"ok {count + 1} - reports # SKIP nvdisasm is not installed: {races.INSTALL}\n1..{count + 1}")
        return failed
    with tempfile.TemporaryDirectory() as folder:
        made, why = make_kernel(folder)
        if not made:
            print(f"ok {count + 1} - reports # SKIP no kernel: {why.splitlines()[-1] if why else ''}\n1..{count + 1}")
            return failed
        known = races.kernels(folder)
        races.kernels = lambda cache: known  # disassembled once
        code = known[NAME]

        def offset(text, start):
            """Of an instruction that begins so and comes from such a line."""
            for at, (instruction, frames) in code.items():
                callers = [lines.text(*frame) for frame in frames if frame[0] != "ptx.cuh"]
                if re.search(rf"(^|\s){start}", instruction) and callers and text in callers[0]:
                    return at
            raise SystemExit(f"no {start} of {text}")

        copy, load = ("Write", offset(COPY, "UBLKCP")), ("Read", offset(LOAD, "LDSM"))
        word, word_set = ("Read", offset(WORD, "LDS")), ("Write", offset(WORD_SET, "STS"))
        leave_set = ("Write", offset(LEAVE_SET, "STS"))

        def verdict(*pairs, shown=SHOWN, name=NAME, told=None, beside=""):
            text = "========= COMPUTE-SANITIZER\nok 1 - of the program\n" + beside
            for (kind, at), (other, then) in pairs:
                text += f"========= Error: Race reported between {kind} access at {name}+{at:#x} in ptx.cuh:1\n"
                text += f"=========     and {other} access at {name}+{then:#x} in ptx.cuh:2 [40 hazards]\n========= \n"
            told = len(pairs) if told is None else told
            text += f"========= RACECHECK SUMMARY: {told} hazards displayed ({told} errors, 0 warnings)\n"
            report = pathlib.Path(folder) / "report"
            report.write_text(text)
            with contextlib.redirect_stdout(io.StringIO()) as said:
                try:
                    return races.main(report, folder, *shown) == 0, said.getvalue()
                except SystemExit as end:
                    return False, str(end)

        def accepted(what, *pairs, **more):
            right, said = verdict(*pairs, **more)
            check(right, what + ": accepted", said)

        def refused(what, text, *pairs, **more):
            right, said = verdict(*pairs, **more)
            check(not right and text in said, what + ": refused", said)

        accepted("nothing reported")
        accepted("the word, and the copy", (word, word_set), (copy, load))
        refused("the copy after a read", "NOT LISTED", (load, copy))
        refused("the word, read after it is written", "NOT LISTED", (word_set, word))
        refused("the copy against the word's reader", COPY, (copy, word))
        refused("the flag against the word's reader", LEAVE_SET, (word, leave_set))
        refused("a read in the place of the write", "NOT LISTED", (word, ("Read", word_set[1])))
        refused("what the tool does not report of the planted kernels", "NOT LISTED", (copy, load), shown=SHOWN[:1])
        refused("an instruction of no kernel", "unknown instruction", (word, word_set), name="other")
        refused("an offset beyond the kernel", "unknown instruction", (word, ("Write", 1 << 24)))
        refused("a report that is cut off", "summary counts 9", (copy, load), told=9)
        refused("another remark", "Internal", beside="========= Internal Sanitizer Error: it broke\n")
    print(f"1..{count}")
    return failed


sys.exit(1 if main() else 0)
