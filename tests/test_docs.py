#!/usr/bin/env python3
"""The documents' commands are run and their outputs compared, their C compiled, their configs checked, their links followed.
Prints TAP.

    tests/test_docs.py             against $BUILD (build)
    tests/test_docs.py --gpu       the blocks that need a GPU, and only those
    tests/test_docs.py --update    writes what the commands print now into the documents

A fenced block says what it is by the words behind its backticks:

    sh          a script that must succeed
    console     commands behind "$ ", each with what it prints, errors included; a line "…" stands for any lines
    c           must compile, where it includes anything
    yaml        must pass grsgen --check, where it begins with "version:"
    … gpu       only where there is a GPU
    … fails     its last command fails
    … single    one command: what follows is its output, also where a line begins with "$ "
    … elsewhere not run here, for it takes long, or other hardware, or is make's: the targets, programs and options that it
                names must be there

The blocks of one document run in one new folder, which has the repository's folders in it. In outputs, numbers, digests,
the folders of paths and the widths of columns may be others than those shown: they change with machine and version.
"""

import ctypes
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = (ROOT / os.environ.get("BUILD", "build")).resolve()
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")),
             *sorted((ROOT / "bench").glob("*.md"))]
BLOCK = re.compile(r"^```(?P<words>[a-z ]+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
WORDS = {"gpu", "fails", "single", "elsewhere"}
STANDS_FOR = {"make demo": "GRS_CACHE_DIR=$PWD/demo/cache tools/demo.sh"}  # the rest of it installs packages and builds
ELIDED = "…"
COMPILER_IS_MISSING = "NVRTC was not found"


class Skip(Exception):
    pass


class Block:
    def __init__(self, path, match):
        self.path, (self.kind, *self.words) = path, match["words"].split()
        self.body, self.start, self.end = match["body"], match.start("body"), match.end("body")
        self.line = match.string.count("\n", 0, match.start()) + 1

    def __str__(self):
        first = self.body.split("\n", 1)[0]
        return f"{self.path.relative_to(ROOT)}:{self.line}: {first[:70]}"

    def steps(self):
        """Of a console: (command, lines shown) pairs. A command goes on after a backslash at the end of a line, and up to the
        END of <<'END'."""
        steps, goes_on = [], False
        for line in self.body.splitlines():
            if goes_on:
                steps[-1][0] += "\n" + line
            elif line.startswith("$ ") and not (steps and "single" in self.words):
                steps.append([line[2:], []])
            else:
                assert steps, f"{self}: a console begins with a command"
                steps[-1][1].append(line)
                continue
            here = "<<'END'" in steps[-1][0]
            goes_on = line != "END" if here else line.endswith("\\")
        return steps


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


class Folder:
    """Where the blocks of one document run."""

    def __init__(self, gpu):
        self.base = pathlib.Path(tempfile.mkdtemp())
        self.home, self.work = self.base / "home", self.base / "work"
        self.home.mkdir()
        self.work.mkdir()
        for entry in ROOT.iterdir():
            if entry.name not in (".git", "build"):
                (self.work / entry.name).symlink_to(entry)
        (self.work / "build").symlink_to(BUILD)
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("GRS_", "XDG_")) or name == "GRS_NVRTC"}
        self.environment.update(HOME=str(self.home), BUILD="build", LC_ALL="C.UTF-8")
        if not gpu and has_driver():  # the same everywhere, also where there is one
            self.environment["GRS_LIBCUDA"] = "/nonexistent/libcuda.so.1"

    def close(self):
        shutil.rmtree(self.base)

    def run(self, script):
        done = subprocess.run(["timeout", "--kill-after=5", "400", "bash", "-c", script], cwd=self.work, env=self.environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        output = done.stdout.replace(str(self.home), "~").replace(str(self.work) + "/", "")
        if COMPILER_IS_MISSING in output:
            raise Skip(COMPILER_IS_MISSING)
        return done.returncode, output


def masked(line):
    line = re.sub(r"commit \w+(, dirty)?", "commit h", line)
    line = re.sub(r"[~\w.+-]*(/[\w.+-]+)+", lambda path: path[0].rsplit("/", 1)[1], line)
    line = re.sub(r"\b[0-9a-f]{7,}\b", "h", line)
    line = re.sub(r"\d+(\.\d+)?(e[+-]\d+)?", "0", line)
    return " ".join(line.split())


def agrees(shown, got):
    """Whether the lines shown are those got, but for what may differ."""
    parts, got = [[]], [masked(line) for line in got]
    for line in shown:
        if line.strip() == ELIDED:
            parts.append([])
        else:
            parts[-1].append(masked(line))
    if len(parts) == 1:
        return parts[0] == got
    first, *middle, last = parts
    if got[:len(first)] != first or (last and got[-len(last):] != last) or len(first) + len(last) > len(got):
        return False
    place = len(first)
    for part in middle:
        found = next((i for i in range(place, len(got) - len(last) - len(part) + 1) if got[i:i + len(part)] == part), None)
        if found is None:
            return False
        place = found + len(part)
    return True


def updated(shown, got):
    """What to show instead: everything, or as many lines before and after the one elision as there were."""
    places = [i for i, line in enumerate(shown) if line.strip() == ELIDED]
    if not places:
        return got
    if len(places) > 1:
        raise AssertionError("several elisions: to be changed by hand")
    after = len(shown) - places[0] - 1
    return got[:places[0]] + [shown[places[0]]] + (got[-after:] if after else [])


def run_console(block, folder):
    """The block's text as it should be."""
    steps, text = block.steps(), []
    for number, (command, shown) in enumerate(steps):
        code, output = folder.run(STANDS_FOR.get(command, command))
        got = output.rstrip("\n").split("\n") if output.strip() else []
        should_fail = "fails" in block.words and number == len(steps) - 1
        assert (code != 0) == should_fail, f"exit code {code} of: {command}\n{output}"
        ok = agrees(shown, got)
        if not ok and "--update" not in sys.argv:
            raise AssertionError(f"{command}\nprints\n" + "\n".join(got) +
                                 "\n(tests/test_docs.py --update writes it into the document)")
        text += ["$ " + command] + (shown if ok else updated(shown, got))
    return "\n".join(text) + "\n"


def run_script(block, folder):
    code, output = folder.run(f"set -e\n{block.body}")
    assert (code != 0) == ("fails" in block.words), f"exit code {code}\n{output}"


def check_c(block, folder):
    if "#include" not in block.body:
        return
    source = folder.work / "block.c"
    source.write_text(block.body)
    code, output = folder.run(f"gcc -std=c11 -Wall -Wextra -Werror -fsyntax-only -Iinclude {source}")
    assert code == 0, output


def check_yaml(block, folder):
    if not block.body.startswith("version:"):
        return
    (folder.work / "block.yaml").write_text(block.body)
    code, output = folder.run("build/grsgen --config block.yaml --check")
    assert code == 0, output


def make_knows(word):
    targets = set(re.findall(r"^([a-z][a-z-]*):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    return word in targets or "=" in word or any((ROOT / word.removeprefix("build/")).with_suffix(end).exists()
                                                 for end in (".c", ".cc"))


def unknown_names(words, folder):
    """What a command names that is not there."""
    while words and (re.match(r"\w+=", words[0]) or words[0] in ("sudo", "torchrun", "mpirun", "srun") or
                     (words[0] not in ("build/grsrun",) and "build/grsrun" in words)):
        words = words[1:]
    if not words:
        return []
    program, *rest = words
    if program == "make":
        return [word for word in rest if not make_knows(word)]
    if program in ("build/grsrun", "build/grsgen"):
        command = [program, *rest[:1]] if rest[:1] in (["cache"], ["doctor"]) else [program]
        _, text = folder.run(shlex.join([*command, "--help"]))
        options = {word.split("=")[0] for word in rest if word.startswith("--")}
        return [option for option in options if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text)]
    if program.startswith("build/"):
        return [] if make_knows(program) else [program]
    return [] if (ROOT / program).exists() else [program]


def check_names(block, folder):
    for line in block.body.splitlines():
        if block.kind == "console" and not line.startswith("$ "):
            continue
        for part in re.split(r"&&|\|", line.removeprefix("$ ").split(" #")[0]):
            unknown = unknown_names(shlex.split(part), folder)
            assert not unknown, f"{line}: there is no {', '.join(unknown)}"


COMMAND = re.compile(r"^ *(\$ |(\w+=\S+ )*(build/|bench/\w+\.sh|make |sudo |grsgen |grsrun |torchrun |mpirun |git |cc |gcc |pip ))")


def commands_are_in_blocks(text):
    """A command that is shown as code stands in a block that this program looks at: not indented, not behind bare backticks."""
    rest = BLOCK.sub(lambda block: "" if block["words"].split()[0] in RUN else block[0], text)
    shown, fenced = [], False
    for line in rest.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif (fenced or line.startswith("    ")) and COMMAND.match(line):
            shown.append(line.strip())
    assert not shown, "not in a block of commands:\n" + "\n".join(shown)


RUN = {"sh": run_script, "console": run_console, "c": check_c, "yaml": check_yaml}


def run_block(block, folder):
    unknown = set(block.words) - WORDS
    assert not unknown, f"unknown words behind the language: {' '.join(unknown)}; allowed: {', '.join(sorted(WORDS))}"
    return (check_names if "elsewhere" in block.words else RUN[block.kind])(block, folder)


class Results:
    count = failed = 0

    def report(self, name, function, *arguments):
        self.count += 1
        try:
            value = function(*arguments)
            print(f"ok {self.count} - {name}", flush=True)
            return value
        except Skip as why:
            print(f"ok {self.count} - {name} # SKIP {why}", flush=True)
        except AssertionError as error:
            self.failed += 1
            print(f"not ok {self.count} - {name}", flush=True)
            print("\n".join("# " + line for line in str(error)[:6000].splitlines()), flush=True)
        return None


def links_lead_somewhere(path, text):
    text = BLOCK.sub("", text)
    missing = [target for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
               if not re.match(r"[a-z]+:", target) and not (path.parent / target).exists()]
    assert not missing, f"no such file: {', '.join(missing)}"


def names_exist(text):
    """Of docs/kernel.md: what stands in backticks and looks like a name of the code is one."""
    code = "\n".join(path.read_text() for folder in ("templates", "generator", "runtime") for path in (ROOT / folder).iterdir())
    code += "\n".join(path.read_text() for path in (ROOT / "docs").glob("config.md"))
    names = {name for span in re.findall(r"`([^`\n]+)`", BLOCK.sub("", text)) for name in re.findall(r"[A-Za-z_][\w.]*", span)
             if "_" in name or name.endswith((".cuh", ".c"))}
    files = {path.name for folder in ("templates", "generator", "runtime") for path in (ROOT / folder).iterdir()}
    missing = sorted(name for name in names if name not in files and not re.search(rf"\b{re.escape(name)}\b", code))
    assert len(names) > 20, f"only {len(names)} names were found: this test looks in the wrong place"
    assert not missing, f"the code has no {', '.join(missing)}"


def names_that_are_not_there_are_found(folder):
    for words, missing in [("make check bench", ""), ("make chek", "chek"), ("FULL=1 build/grsrun --tp 2 --pt 3", "--pt"),
                           ("build/tests/test_emit", ""), ("make build/tests/test_none", "build/tests/test_none"),
                           ("torchrun --nproc-per-node 4 build/grsrun --procs --proc", "--proc"), ("bench/ran.sh", "bench/ran.sh"),
                           ("build/grsgen cache pack x --emit", "--emit"), ("build/grsgen --emit ptx", "")]:
        assert " ".join(unknown_names(shlex.split(words), folder)) == missing, words
    for text, ok in [("    build/grsrun --tp 2\n", False), ("```\nmake check\n```\n", False), ("```sh\nmake check\n```\n", True),
                     ("    rank 1: late\n", True), ("as `make check` says\n", True)]:
        try:
            commands_are_in_blocks(text)
            assert ok, text
        except AssertionError:
            assert not ok, text


def comparison_tells_outputs_apart():
    same = [("a 1", "a 22"), ("4.3 s,  12 registers", "0.9 s, 7   registers"), ("key 01ab23cd", "key ffff0000"),
            ("in /tmp/x/cache", "in ~/.cache/cache"), ("(commit 12ab, dirty)", "(commit unknown)")]
    other = [("a 1", "b 1"), ("ok", ""), ("3 passed", "3 failed"), ("in /tmp/cache", "in /tmp/disk")]
    assert all(agrees([a], [b]) for a, b in same) and not any(agrees([a], [b]) for a, b in other)
    for shown, got, wanted in [("a|…|z", "a|b|c|z", True), ("a|…", "a", True), ("a|…|a", "a", False), ("…|m|…", "k|m|q", True),
                               ("…|n|…", "k|m|q", False), ("a", "a|b", False), ("a|b", "a", False), ("…|b|c", "a|c|b", False)]:
        assert agrees(shown.split("|"), got.split("|")) == wanted, (shown, got)
    assert updated(["a", "…", "z"], ["b", "c", "d", "y"]) == ["b", "…", "y"]


def main():
    gpu, results = "--gpu" in sys.argv, Results()
    if not gpu:
        results.report("the comparison tells outputs apart", comparison_tells_outputs_apart)
        folder = Folder(gpu)
        results.report("names that are not there are found", names_that_are_not_there_are_found, folder)
        folder.close()
    for path in DOCUMENTS:
        text, folder = path.read_text(encoding="utf-8"), Folder(gpu)
        blocks = [Block(path, match) for match in BLOCK.finditer(text)]
        changed = text
        for block in blocks:
            if ("gpu" in block.words) != gpu or block.kind not in RUN:
                continue
            new = results.report(str(block), run_block, block, folder)
            if new is not None and new != block.body:
                changed = changed.replace(block.body, new)
        folder.close()
        if not gpu:
            results.report(f"{path.relative_to(ROOT)}: links", links_lead_somewhere, path, text)
            results.report(f"{path.relative_to(ROOT)}: commands", commands_are_in_blocks, text)
            if path.name == "kernel.md":
                results.report("docs/kernel.md: names", names_exist, text)
        if changed != text:
            path.write_text(changed, encoding="utf-8")
            print(f"# {path.relative_to(ROOT)}: rewritten", flush=True)
    print(f"1..{results.count}")
    return results.failed > 0


if __name__ == "__main__":
    sys.exit(main())
