"""`make mutants`: planted bugs, each of which a named test must catch.

The registry is `tools/mutants/*.toml`, one table per mutant: the file, the exact text to take out, the text to put in
and the tests that must fail. Each mutant is planted in a fresh copy of the tree in a temporary folder; the working tree
is never touched. The same tests must first pass on an unchanged copy, so a test that always fails catches nothing.

A mutant is caught when each test fails that is named by itself; of tests named by their file, one is enough. A test
that hangs fails at its own limit. A mutant is missed when a test passes that should fail. It is broken, which is as
bad, when the tests cannot be collected, none is found, or they take over a minute.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.tree import Finding, files, name_of

REGISTRY = "tools/mutants"
LIMIT = 60.0

# Without a bug, all tests of a file that mutants name by themselves run together.
LIMIT_TOGETHER = 600.0

# A planted hang must fail as a test well before the whole selection runs out of time.
TEST_LIMIT = 30

# Any number will do; it is fixed so that a mutant is caught today and tomorrow by the same draws.
SEED = 1

_FIELDS = {"name", "file", "old", "new", "tests", "why"}


@dataclass(frozen=True)
class Mutant:
    """One planted bug: `old` becomes `new` in `file`, and `tests` must notice."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    why: str
    source: str


@dataclass(frozen=True)
class Verdict:
    """What became of one selection of tests: which failed and which passed, or why nothing can be said."""

    failed: tuple[str, ...]
    passed: tuple[str, ...]
    trouble: str | None
    seconds: float


def load(root: Path) -> list[Mutant]:
    """Every registered mutant, by file and then in the order written."""
    found: list[Mutant] = []
    for page in sorted((root / REGISTRY).glob("*.toml")):
        tables = tomllib.loads(page.read_text(encoding="utf-8")).get("mutant", [])
        for table in tables:
            if set(table) != _FIELDS:
                odd = ", ".join(sorted(set(table) ^ _FIELDS))
                raise ValueError(f"{name_of(root, page)}: {table.get('name', '?')}: missing or unknown: {odd}")
            found.append(Mutant(**{**table, "tests": tuple(table["tests"])}, source=name_of(root, page)))
    return found


def registry_matches(root: Path) -> Iterator[Finding]:
    """Every mutant still fits the code: its text is there exactly once and its tests exist."""
    names: set[str] = set()
    for mutant in load(root):
        for text in _misfits(root, mutant, names):
            yield Finding(mutant.source, 1, f"{mutant.name}: {text}")
        names.add(mutant.name)


def _misfits(root: Path, mutant: Mutant, names: set[str]) -> Iterator[str]:
    if mutant.name in names:
        yield "the name is taken"
    if mutant.old == mutant.new:
        yield "old and new are the same"
    target = root / mutant.file
    count = target.read_text(encoding="utf-8").count(mutant.old) if target.is_file() else 0
    if count != 1:
        yield f"its old text is in {mutant.file} {count} times, not once"
    if not mutant.tests:
        yield "it names no tests"
    for selection in mutant.tests:
        if not (root / _file_of(selection)).exists():
            yield f"{selection} does not exist"


def copy_tree(root: Path, to: Path) -> None:
    """The project's own files, and nothing that a build or a test left behind."""
    for path in files(root):
        target = to / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)


def plant(tree: Path, mutant: Mutant) -> None:
    """Put the bug into a copy of the tree."""
    target = tree / mutant.file
    text = target.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: its old text is not in {mutant.file} exactly once")
    target.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")


def run_tests(tree: Path, tests: Sequence[str], limit: float = LIMIT) -> Verdict:
    """Run a selection in a copy of the tree, with that copy's own `src`, and say which tests failed."""
    reports = tree / "reports"
    command = [sys.executable, "-m", "pytest", "-q", f"--seed={SEED}", f"--timeout={TEST_LIMIT}"]
    command += ["--reports", str(reports), *tests] if _are_single(tests) else ["--reports", str(reports), "-x", *tests]
    # Without PYTHONPATH the editable install would bring in the working tree's `src`.
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}", "PYTHONDONTWRITEBYTECODE": "1"}
    printed = tree / "reports.txt"
    begun = time.monotonic()
    with printed.open("w") as output:
        # A file, not a pipe: a process that a planted bug left behind would hold a pipe open for ever.
        process = subprocess.Popen(
            command, cwd=tree, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        code = process.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        return Verdict((), (), f"the tests took over {limit:.0f} s", time.monotonic() - begun)
    finally:
        _end_group(process)
    return _read_verdict(reports, code, printed.read_text(errors="replace"), time.monotonic() - begun)


def _are_single(tests: Sequence[str]) -> bool:
    return all("::" in test for test in tests)


def _passing(tests: Sequence[str], failed: Sequence[str]) -> Sequence[str]:
    """The selections that did not notice: each of them by itself, or all if some are files and nothing failed."""
    if not _are_single(tests):
        return () if failed else tests
    return [test for test in tests if not _is_among(test, failed)]


def _is_among(test: str, names: Sequence[str]) -> bool:
    return any(name == test or name.startswith(f"{test}[") for name in names)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End whatever the tests started and left behind as well; they have a group of their own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read_verdict(reports: Path, code: int, printed: str, seconds: float) -> Verdict:
    lines = [line for page in reports.glob("*.json") for line in json.loads(page.read_text(encoding="utf-8"))["tests"]]
    failed = tuple(line["name"] for line in lines if line["outcome"] == "failed")
    passed = tuple(line["name"] for line in lines if line["outcome"] == "passed")
    trouble = None
    if not failed and (code != 0 or not passed):
        last = [text for text in printed.splitlines() if text.strip()][-1:]
        trouble = f"no test ran to its end (pytest answered {code}: {''.join(last)})"
    return Verdict(failed, passed, trouble, seconds)


def judge(root: Path, mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, bool, str, float]]:
    """Try each mutant in a copy of its own and say whether it was caught, by what, and how long it took."""
    sound = _Sound(root, mutants)
    for mutant in mutants:
        reason = sound.why_not(mutant.tests)
        if reason is not None:
            yield mutant, False, f"BROKEN: without the bug, {reason}", 0.0
            continue
        with tempfile.TemporaryDirectory(prefix="ramify-mutants-") as folder:
            tree = Path(folder) / "planted"
            copy_tree(root, tree)
            plant(tree, mutant)
            verdict = run_tests(tree, mutant.tests)
        if verdict.trouble is not None:
            yield mutant, False, f"BROKEN: {verdict.trouble}", verdict.seconds
        elif passing := _passing(mutant.tests, verdict.failed):
            yield mutant, False, f"MISSED by {' '.join(passing)}", verdict.seconds
        else:
            yield mutant, True, f"caught by {verdict.failed[0].rpartition('::')[2]}", verdict.seconds


class _Sound:
    """What tests come to without a bug. Those named by themselves run once, with all others of their file; when that
    does not show that they pass, they run alone.
    """

    def __init__(self, root: Path, mutants: Sequence[Mutant]) -> None:
        self._root = root
        self._known: dict[tuple[str, ...], Verdict] = {}
        self._alike: dict[str, list[str]] = {}
        for test in sorted({test for mutant in mutants for test in mutant.tests if "::" in test}):
            self._alike.setdefault(_file_of(test), []).append(test)

    def why_not(self, tests: tuple[str, ...]) -> str | None:
        """Return why nothing can be said with these tests; None when they pass."""
        if _are_single(tests) and all(map(self._passes_with_others, tests)):
            return None
        verdict = self._run(tests, LIMIT)
        return verdict.trouble or (f"{verdict.failed[0]} fails" if verdict.failed else None)

    def _passes_with_others(self, test: str) -> bool:
        verdict = self._run(tuple(self._alike[_file_of(test)]), LIMIT_TOGETHER)
        return _is_among(test, verdict.passed) and not _is_among(test, verdict.failed)

    def _run(self, tests: tuple[str, ...], limit: float) -> Verdict:
        if tests not in self._known:
            with tempfile.TemporaryDirectory(prefix="ramify-sound-") as folder:
                copy_tree(self._root, Path(folder))
                self._known[tests] = run_tests(Path(folder), tests, limit)
        return self._known[tests]


def _file_of(test: str) -> str:
    return test.split("::")[0]


def main(root: Path, arguments: Sequence[str]) -> int:
    """Judge the mutants asked for (all, unless named) and print one line each."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description="Plant bugs; tests must catch them.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these mutants")
    parser.add_argument("--list", action="store_true", help="say which there are, and plant none")
    asked = parser.parse_args(arguments)
    every = load(root)
    unknown = set(asked.names) - {mutant.name for mutant in every}
    findings = [f"no mutant is called {name}" for name in sorted(unknown)]
    findings += [str(finding) for finding in registry_matches(root)]
    if findings or not every:
        print("\n".join(findings) or f"{REGISTRY} holds no mutants")
        return 1
    chosen = [mutant for mutant in every if not asked.names or mutant.name in asked.names]
    width = max(len(mutant.name) for mutant in chosen)
    if asked.list:
        for mutant in chosen:
            print(f"{mutant.name:<{width}}  {mutant.why}")
        return 0
    escaped = 0
    for mutant, caught, text, seconds in judge(root, chosen):
        escaped += not caught
        print(f"{mutant.name:<{width}}  {seconds:5.1f} s  {text}", flush=True)
    print(f"{len(chosen) - escaped} of {len(chosen)} caught")
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main(Path.cwd(), sys.argv[1:]))
