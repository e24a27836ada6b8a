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
FUNCTIONS = {
    "UBLKCP.S.G": "grs::ptx::bulk_load(void *, const void *, unsigned int, grs::ptx::Barrier *)",
    "LDSM.16.M88.4": "grs::ptx::matrix_load_x4(unsigned int (&)[4], const void *)",
    "LDS": "grs::ptx::load_shared(const unsigned int *)",
    "STS": "grs::ptx::store_shared(unsigned int *, unsigned int)",
}
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
    command = [BUILD / "grsgen", "--config", config, "--shape", "200,136,136,2"]
    made = subprocess.run(command, env=environment, capture_output=True, text=True)
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

        def said_of(access, name, with_lines):
            """As the tools print an access: 2025.3 and 2026.4, of kernels without line information and with it."""
            kind, at, *other = access
            where, line = other or (name, "")
            if with_lines and not other:
                where, line = FUNCTIONS[re.sub(r"^@\S+ ", "", code[at][0]).split()[0]], "{}:{}".format(*code[at][1][0])
            return f"{kind} access at {where}+{at:#x}" + (f" in {line}" if line else "")

        def verdict(*pairs, shown=SHOWN, name=NAME, told=None, beside="", with_lines=False):
            text = "========= COMPUTE-SANITIZER\nok 1 - of the program\n" + beside
            for first, *later in pairs:
                text += f"========= Error: Race reported between {said_of(first, name, with_lines)}\n"
                for then in later:
                    text += f"=========     and {said_of(then, name, with_lines)} [40 hazards]\n"
                text += "========= \n"
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
        refused("a race with nothing", "a race with nothing", (copy,))
        refused("a reader that is no read", "unknown instruction", (("Read", copy[1]), load))

        where = FUNCTIONS["LDS"]
        line = "{}:{}".format(*code[word[1]][1][0])
        accepted("with lines: the word, and the copy", (word, word_set), (copy, load, load), with_lines=True)
        accepted("a kernel's name beside a line", ((*word, NAME, line), word_set))
        refused("with lines: the copy after a read", "NOT LISTED", (load, copy), with_lines=True)
        both = (word, word_set, leave_set)
        refused("with lines: one that is listed and one that is not", "NOT LISTED", both, with_lines=True)
        refused("another line", "unknown instruction", ((*word, where, "ptx.cuh:1"), word_set))
        refused("another line of the kernel", "unknown instruction", ((*word, NAME, "ptx.cuh:1"), word_set))
        refused("another file", "unknown instruction", ((*word, where, "planted.cu" + line[7:]), word_set))
        refused("another offset", "unknown instruction", (("Read", word[1] + 16, where, line), word_set))
        refused("a function without a line", "unknown instruction", ((*word, where, ""), word_set))
        refused("a function of others", "unknown instruction", ((*word, "load(const unsigned int *)", line), word_set))
        refused("an access cut off", "racecheck also says", ((*word, where, "ptx.cuh"), word_set))

        # Which kernel it is, a report with lines does not say.
        def beside(other):
            known["other"] = other

        beside({at: code[at] for at in (word[1], copy[1])})
        accepted("another kernel with one of the accesses", (word, word_set), (copy, load), with_lines=True)
        beside(code)
        accepted("another kernel with the same code", (word, word_set), (copy, load), with_lines=True)
        beside({**code, word_set[1]: code[leave_set[1]]})
        refused("another kernel that may be it, with a pair not listed", LEAVE_SET, (word, word_set), with_lines=True)
        accepted("the same, where the kernel is named", (word, word_set))
        beside({word_set[1]: code[word_set[1]]})
        known[NAME] = {word[1]: code[word[1]]}
        refused("accesses of two kernels", "unknown instruction", (word, word_set), with_lines=True)
    print(f"1..{count}")
    return failed


sys.exit(1 if main() else 0)
