#!/usr/bin/env python3
"""What racecheck reported, by the lines of the templates that the accesses come from.

    tests/gpu/races.py REPORT CACHE [KERNEL...]   fails unless each pair of accesses is listed in suppress_racecheck.txt
    tests/gpu/races.py --find                     prints where nvdisasm is; fails where it is not installed

REPORT: compute-sanitizer's output (--tool racecheck --print-limit 100000). CACHE: the cache that the kernels came from,
compiled with GRS_LINE_INFO; no two of them have the same name, for racecheck says at most that of a kernel.
KERNEL: those of planted.cu that the same tool reports although they are right: what is listed for others counts as not
listed. $BUILD has grsgen.
"""

import collections
import glob
import json
import os
import pathlib
import re
import shutil
import site
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIST = ROOT / "tests/gpu/suppress_racecheck.txt"
INSTALL = "pip install nvidia-cuda-nvdisasm, or the package cuda-nvdisasm-13-0 of NVIDIA's repositories"


def find_nvdisasm():
    toolkits = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), *sorted(glob.glob("/usr/local/cuda*"))]
    packages = [*sys.path, site.getusersitepackages()]
    places = [f"{toolkit}/bin" for toolkit in toolkits if toolkit]
    places += [place for path in packages for place in glob.glob(f"{path}/nvidia/*/bin")]
    return shutil.which("nvdisasm") or shutil.which("nvdisasm", path=os.pathsep.join(places))


class Lines:
    """The text of a line of a template: it survives changes elsewhere in the file, which a number does not."""

    def __init__(self):
        self.files = {path.name: path.read_text().splitlines() for path in (ROOT / "templates").glob("*.cuh")}

    def text(self, file, number):
        lines = self.files.get(file, [])
        return f"{file}: {lines[number - 1].strip()}" if 0 < number <= len(lines) else f"{file}:{number}"

    def has(self, frame):
        file, text = frame.split(": ", 1)
        return text in (line.strip() for line in self.files.get(file, []))


def disassemble(cubin):
    """Offset → (instruction, [(file, line), …]), the innermost first."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run(
            [find_nvdisasm(), "-gi", "-c", file.name], stdout=subprocess.PIPE, text=True, check=True
        ).stdout
    result, frames, complete = {}, [], True
    for line in text.splitlines():
        if place := re.match(r'\s*//## File "([^"]*)", line (\d+)', line):
            if complete:
                frames, complete = [], False
            frames.append((os.path.basename(place[1]), int(place[2])))
        elif code := re.match(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", line):
            result[int(code[1], 16)] = (code[2], frames)
            complete = True
    return result


def kernels(cache):
    """Name → instructions, of every kernel in a cache."""
    grsgen = ROOT / os.environ.get("BUILD", "build") / "grsgen"
    environment = dict(os.environ, GRS_CACHE_DIR=str(cache))

    def run(*words):
        return subprocess.run([grsgen, "cache", *words], env=environment, stdout=subprocess.PIPE, check=True).stdout

    result = {}
    for entry in json.loads(run("list", "--json"))["entries"]:
        if entry["kernel"] in result:
            raise SystemExit(f"{cache}: two kernels are named {entry['kernel']}")
        result[entry["kernel"]] = disassemble(run("show", entry["key"], "--part", "cubin"))
    return result


def read_list(lines):
    """[(kernel of planted.cu, earlier access, [later access, …]), …]"""
    groups = []
    for number, line in enumerate(LIST.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        if shows := re.fullmatch(r"\[(\w+)\]", line):
            groups.append((shows[1], []))
            continue
        access = re.fullmatch(r"(Read|Write) (\w+\.cuh: .*)", line)
        if not access or not groups or not lines.has(access[2]):
            raise SystemExit(f"{LIST}:{number}: no such line in the templates: {line}")
        groups[-1][1].append(line)
    return [(shows, accesses[0], accesses[1:]) for shows, accesses in groups]


ACCESS = r"(?P<kind>Read|Write) access at (?P<place>.+)\+(?P<offset>0x[0-9a-f]+)( in (?P<file>\S+):(?P<line>\d+))?"
REMARK = r"=+ *(COMPUTE-SANITIZER|(Saved host backtrace|Host Frame|Device Frame).*)?"


class Access:
    """What a report says of one: its kind, its offset in a kernel, and that kernel's name, or, where there is line
    information, the function of the innermost inlined frame in the kernel's place."""

    def __init__(self, found):
        self.kind, self.place = found["kind"], found["place"]
        self.offset = int(found["offset"], 16)
        self.line = found["file"] and (found["file"], int(found["line"]))

    def __str__(self):
        line = " in {}:{}".format(*self.line) if self.line else ""
        return f"{self.kind} {self.place}+{self.offset:#x}{line}"

    def may_be(self, kernel, code):
        """Whether this kernel has that instruction there, as far as the report tells."""
        if self.offset not in code:
            return False
        instruction, frames = code[self.offset]
        if not re.search(INSTRUCTIONS[self.kind], instruction) or (self.line and frames[:1] != [self.line]):
            return False
        return self.place == kernel or (self.line is not None and re.fullmatch(r"grs::.+\(.*\)( const)?", self.place))


# The instructions that read or write shared memory, behind a predicate that they may have.
INSTRUCTIONS = {"Read": r"^(@\S+ )?LDSM?\b", "Write": r"^(@\S+ )?(STSM?|UBLKCP)\b"}


def read_report(text):
    """[(earlier access, [(later access, times), …]), …], one for each race. Fails at anything else."""
    races, summary = [], None
    for line in text.splitlines():
        if not line.startswith("=="):
            continue  # what the program printed
        if found := re.fullmatch(rf"=+ +\w+: Race reported between {ACCESS}", line):
            races.append((Access(found), []))
        elif found := races and re.fullmatch(rf"=+ +and {ACCESS} \[(?P<times>\d+) hazards?\]", line):
            races[-1][1].append((Access(found), int(found["times"])))
        elif found := re.match(r"=+ RACECHECK SUMMARY: (\d+) hazards? displayed", line):
            summary = int(found[1])
        elif not re.fullmatch(REMARK, line.strip()):
            raise SystemExit(f"racecheck also says: {line}")
    if summary != len(races):
        raise SystemExit(f"{len(races)} races are in the report, and its summary counts {summary}")
    for earlier, later in races:
        if not later:
            raise SystemExit(f"a race with nothing: {earlier}")
    return races


def main(report, cache, *shown):
    lines, known = Lines(), kernels(cache)
    listed = {(first, then): shows for shows, first, later in read_list(lines) if shows in shown for then in later}
    counts, unlisted = collections.Counter(), {}

    def called(access, kernel):
        """Who calls the function of ptx.cuh that the access is, and from where."""
        instruction, frames = known[kernel][access.offset]
        callers = [lines.text(*frame) for frame in frames if frame[0] != "ptx.cuh"]
        return f"{access.kind} {callers[0] if callers else f'{kernel}+{access.offset:#x}'}", [instruction, *callers]

    for first, later in read_report(pathlib.Path(report).read_text()):
        accesses = [first, *(then for then, _ in later)]
        # All are of one kernel. Where several may be it, the pairs of each must be listed.
        candidates = [name for name, code in known.items() if all(access.may_be(name, code) for access in accesses)]
        for then, times in later:
            pairs = {}
            for kernel in candidates:
                (one, frames), (other, more) = called(first, kernel), called(then, kernel)
                pairs[one, other] = [frames, more]
            for pair, frames in (pairs or {(str(first), str(then)): [["unknown instruction"]]}).items():
                counts[pair] += times
                if pair not in listed:
                    unlisted[pair] = frames
    for (first, then), times in sorted(counts.items()):
        print(f"{listed.get((first, then), 'NOT LISTED')}, {times} times\n  {first}\n  {then}")
        for frames in unlisted.get((first, then), []):
            print("    " + "\n      in ".join(frames))
    return 1 if unlisted else 0


if __name__ == "__main__":
    if not find_nvdisasm():
        raise SystemExit(f"nvdisasm is not installed: {INSTALL}")
    if sys.argv[1:] == ["--find"]:
        print(find_nvdisasm())
    elif len(sys.argv) < 3:
        raise SystemExit(__doc__)
    else:
        sys.exit(main(*sys.argv[1:]))
