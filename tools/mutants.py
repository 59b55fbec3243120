"""`make mutants`: planted bugs, each of which a named test must catch.

The registry is `tools/mutants/*.toml`, one table per mutant: the file, the exact text to take out, the text to put in
and the tests that must fail. Each mutant is planted in a fresh copy of the tree in a temporary folder; the working tree
is never touched. The same tests must first pass on an unchanged copy, so a test that always fails catches nothing.
Several are judged at a time (`--jobs`), and tests marked `alone` wait until no other test runs.

A mutant is caught when each test fails that is named by itself; of tests named by their file, one is enough. A test
that hangs fails at its own limit. A mutant is missed when a test passes that should fail. It is broken, which is as
bad, when the tests cannot be collected, none is found, or they take over a minute.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.tree import Finding, files, name_of

REGISTRY = "tools/mutants"

# Limits are for one selection at a time: of several, each may get as small a part of the machine.
LIMIT = 60.0

# Without a bug, all tests of a file that mutants name by themselves run together.
LIMIT_TOGETHER = 600.0

# A planted hang must fail as a test well before the whole selection runs out of time.
TEST_LIMIT = 30

# Any number will do; it is fixed so that a mutant is caught today and tomorrow by the same draws.
SEED = 1

# A folder in memory, which most systems have. Nothing here outlives a power cut, and waiting for a disk takes longest.
MEMORY = Path("/dev/shm")

# What pytest prints, in the copy it runs in.
PRINTED = "printed.txt"

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


#: A mutant, whether it was caught, by what or why not, and the seconds that took.
Judged = tuple[Mutant, bool, str, float]
Tell = Callable[[Judged], None]


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
    # Python knows a changed file by its second and its size, and a bug may have both of what it replaces.
    for compiled in target.parent.glob(f"__pycache__/{target.stem}.*"):
        compiled.unlink()


class Bench:
    """A folder in which so many selections of tests run at a time, each in a copy of the tree of its own."""

    def __init__(self, folder: Path, jobs: int = 1) -> None:
        self._folder, self._jobs = folder, jobs
        self._model = folder / "model"
        self._places = asyncio.Semaphore(jobs)

    async def prepare(self, root: Path, tests: Iterable[str]) -> None:
        """Make the tree that is copied. It is compiled here, or each process of each test would do that."""
        copy_tree(root, self._model)
        await self._python(self._model, ["compileall", "-q", "."], LIMIT, "")
        # pytest compiles in a way of its own. What cannot be collected is told of when it is to run.
        collect = ["pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
        await self._python(self._model, [*collect, *sorted(set(map(_file_of, tests)))], LIMIT_TOGETHER, "")

    async def run(self, tests: Sequence[str], limit: float = LIMIT, mutant: Mutant | None = None) -> Verdict:
        """Run a selection in a copy of the tree, with that copy's own `src`, and say which tests failed."""
        async with self._places:
            with tempfile.TemporaryDirectory(dir=self._folder) as folder:
                tree = Path(folder) / "tree"
                shutil.copytree(self._model, tree, copy_function=_copied)
                if mutant is not None:
                    plant(tree, mutant)
                return await self._run(tree, tests, limit)

    async def _run(self, tree: Path, tests: Sequence[str], limit: float) -> Verdict:
        options = [f"--seed={SEED}", f"--timeout={TEST_LIMIT * self._jobs}", f"--beside={self._folder}"]
        options += ["--reports=reports", *([] if _are_single(tests) else ["-x"])]
        begun = time.monotonic()
        code = await self._python(tree, ["pytest", "-q", *options, *tests], limit * self._jobs, "1")
        seconds = time.monotonic() - begun
        if code is None:
            return Verdict((), (), f"the tests took over {limit * self._jobs:.0f} s", seconds)
        return _read_verdict(tree, code, seconds)

    async def _python(self, tree: Path, command: Sequence[str], limit: float, no_bytecode: str) -> int | None:
        """Run a module in a tree, end all that it started, and return what it answered; None if it took too long."""
        # Without PYTHONPATH the editable install would bring in the working tree's `src`.
        imports = {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}", "PYTHONDONTWRITEBYTECODE": no_bytecode}
        # What tests write goes with the copy they ran in.
        places = {"TMPDIR": str(tree.parent)}
        with (tree / PRINTED).open("w") as output:
            # A file, not a pipe: a process that a planted bug left behind would hold a pipe open for ever.
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", *command),
                cwd=tree, env={**os.environ, **imports, **places}, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        try:
            return await asyncio.wait_for(process.wait(), limit)
        except TimeoutError:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def _copied(path: str, to: str) -> None:
    """What Python compiled is replaced and never written to, so it needs no copy."""
    (os.link if path.endswith(".pyc") else shutil.copy2)(path, to)


def _place() -> Path | None:
    """Where to work unless TMPDIR says so: in memory, if programs may be started there."""
    usable = os.access(MEMORY, os.W_OK) and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    return MEMORY if usable and "TMPDIR" not in os.environ else None


def _are_single(tests: Sequence[str]) -> bool:
    return all("::" in test for test in tests)


def _passing(tests: Sequence[str], failed: Sequence[str]) -> Sequence[str]:
    """The selections that did not notice: each of them by itself, or all if some are files and nothing failed."""
    if not _are_single(tests):
        return () if failed else tests
    return [test for test in tests if not _is_among(test, failed)]


def _is_among(test: str, names: Sequence[str]) -> bool:
    return any(name == test or name.startswith(f"{test}[") for name in names)


def _read_verdict(tree: Path, code: int, seconds: float) -> Verdict:
    pages = [json.loads(page.read_text(encoding="utf-8")) for page in (tree / "reports").glob("*.json")]
    lines = [line for page in pages for line in page["tests"]]
    failed = tuple(line["name"] for line in lines if line["outcome"] == "failed")
    passed = tuple(line["name"] for line in lines if line["outcome"] == "passed")
    trouble = None
    if not failed and (code != 0 or not passed):
        printed = (tree / PRINTED).read_text(errors="replace")
        last = [text for text in printed.splitlines() if text.strip()][-1:]
        trouble = f"no test ran to its end (pytest answered {code}: {''.join(last)})"
    return Verdict(failed, passed, trouble, seconds)


async def judge(root: Path, mutants: Sequence[Mutant], jobs: int = 1, tell: Tell = lambda judged: None) -> list[Judged]:
    """Try each mutant and say whether it was caught, by what, and how long it took. `tell` hears of each at once.

    When it is cancelled, as by Ctrl-C or SIGTERM, all processes end that it started.
    """
    this = asyncio.current_task()
    assert this is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    with tempfile.TemporaryDirectory(prefix="ramify-mutants-", dir=_place()) as folder:
        bench = Bench(Path(folder), jobs)
        await bench.prepare(root, {test for mutant in mutants for test in mutant.tests})
        sound = _Sound(bench, mutants)

        async def try_one(mutant: Mutant) -> Judged:
            judged = await _judge(bench, sound, mutant)
            tell(judged)
            return judged

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(try_one(mutant)) for mutant in mutants]
    return [task.result() for task in tasks]


async def _judge(bench: Bench, sound: "_Sound", mutant: Mutant) -> Judged:
    reason = await sound.why_not(mutant.tests)
    if reason is not None:
        return mutant, False, f"BROKEN: without the bug, {reason}", 0.0
    verdict = await bench.run(mutant.tests, mutant=mutant)
    if verdict.trouble is not None:
        return mutant, False, f"BROKEN: {verdict.trouble}", verdict.seconds
    if passing := _passing(mutant.tests, verdict.failed):
        return mutant, False, f"MISSED by {' '.join(passing)}", verdict.seconds
    return mutant, True, f"caught by {verdict.failed[0].rpartition('::')[2]}", verdict.seconds


class _Sound:
    """What tests come to without a bug. Those named by themselves run once, with all others of their file; when that
    does not show that they pass, they run alone.
    """

    def __init__(self, bench: Bench, mutants: Sequence[Mutant]) -> None:
        self._bench = bench
        self._runs: dict[tuple[str, ...], asyncio.Task[Verdict]] = {}
        self._alike: dict[str, list[str]] = {}
        for test in sorted({test for mutant in mutants for test in mutant.tests if "::" in test}):
            self._alike.setdefault(_file_of(test), []).append(test)

    async def why_not(self, tests: tuple[str, ...]) -> str | None:
        """Return why nothing can be said with these tests; None when they pass."""
        if _are_single(tests) and all([await self._passes_with_others(test) for test in tests]):
            return None
        verdict = await self._run(tests, LIMIT)
        return verdict.trouble or (f"{verdict.failed[0]} fails" if verdict.failed else None)

    async def _passes_with_others(self, test: str) -> bool:
        verdict = await self._run(tuple(self._alike[_file_of(test)]), LIMIT_TOGETHER)
        return _is_among(test, verdict.passed) and not _is_among(test, verdict.failed)

    def _run(self, tests: tuple[str, ...], limit: float) -> asyncio.Task[Verdict]:
        """One run for all who ask."""
        if tests not in self._runs:
            self._runs[tests] = asyncio.create_task(self._bench.run(tests, limit))
        return self._runs[tests]


def _file_of(test: str) -> str:
    return test.split("::")[0]


def main(root: Path, arguments: Sequence[str]) -> int:
    """Judge the mutants asked for (all, unless named) and print one line each."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description="Plant bugs; tests must catch them.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these mutants")
    parser.add_argument("--list", action="store_true", help="say which there are, and plant none")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="so many at a time")
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

    def tell(judged: Judged) -> None:
        mutant, _, text, seconds = judged
        print(f"{mutant.name:<{width}}  {seconds:5.1f} s  {text}", flush=True)

    try:
        judged = asyncio.run(judge(root, chosen, asked.jobs, tell))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("stopped")
        return 1
    caught = sum(caught for _, caught, _, _ in judged)
    print(f"{caught} of {len(chosen)} caught")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main(Path.cwd(), sys.argv[1:]))
