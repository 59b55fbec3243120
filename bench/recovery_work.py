"""What the programs of the recovery figures do, as values, and how such a program is started, watched and killed.

A program is a process of its own, started as a turn of the frontier figures is, in a folder that outlives it. How far
it is, is read from its store by the benchmark's own process, every few milliseconds, as `ramify status` would. That
process has closed the store again before it kills: whoever comes next finds what a kill leaves, and nobody who holds
the file open for it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.frontier_turn import PATIENCE, environment
from bench.tree import Tree
from ramify.errors import StoreError
from ramify.inspect.audit import audit
from ramify.model.event import Status
from ramify.model.run import RunState
from ramify.store.open import open_store
from ramify.store.reads import Reads

NAME = "recovery"
STORE = "bench.db"
#: Seconds between two looks at how far a program is.
LOOK = 0.005


class Work(msgspec.Struct, frozen=True, tag=True):
    """Something to do, that survives being killed."""

    @property
    def count(self) -> int:
        """How many tasks it has in the end."""
        raise NotImplementedError

    @property
    def longest(self) -> float:
        """Seconds of its longest task."""
        return 0.0


class Grow(Work, frozen=True):
    """No-op trees of this depth."""

    trees: int
    depth: int

    @property
    def count(self) -> int:
        """Every node."""
        return self.trees * Tree(self.depth).count


class Compute(Work, frozen=True):
    """Tasks of one millisecond of processor time."""

    tasks: int

    @property
    def count(self) -> int:
        """With the root."""
        return self.tasks + 1

    @property
    def longest(self) -> float:
        """A millisecond."""
        return 0.001


class Waves(Work, frozen=True):
    """Chains of coroutines that wait: `width` of them at a time want to, round by round."""

    width: int
    length: int
    ms: int

    @property
    def count(self) -> int:
        """With the root."""
        return self.width * self.length + 1

    @property
    def longest(self) -> float:
        """One wait."""
        return self.ms / 1e3


class Nap(Work, frozen=True):
    """Tasks that wait in threads."""

    tasks: int
    ms: int
    threads: int

    @property
    def count(self) -> int:
        """With the root."""
        return self.tasks + 1

    @property
    def longest(self) -> float:
        """One wait."""
        return self.ms / 1e3


class Lanes(Work, frozen=True):
    """So many lanes with so many tasks each, which may start at a rate of the lane."""

    lanes: int
    each: int

    @property
    def count(self) -> int:
        """All are roots."""
        return self.lanes * self.each


class Beside(Work, frozen=True):
    """Tasks that do nothing much, and one, number `killer`, that ends its process as `end` says."""

    tasks: int
    killer: int
    end: str
    threads: int = 8
    processes: int = 0

    @property
    def count(self) -> int:
        """All are roots."""
        return self.tasks


Works = Grow | Compute | Waves | Nap | Lanes | Beside


class Program:
    """One start of a program."""

    def __init__(self, work: Works, folder: Path) -> None:
        self._work = work
        command = [sys.executable, "-m", "bench.recovery_program", msgspec.json.encode(work).decode()]
        # A session of its own, so that a kill can reach all of it.
        self._process = subprocess.Popen(command, cwd=folder, env=environment(), start_new_session=True)
        self._store = folder / STORE

    def wait(self) -> int:
        """Wait for its end; its exit code."""
        return self._process.wait(PATIENCE)

    def kill(self) -> None:
        """`kill -9` to all of it."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def wait_for(self, done: int) -> int:
        """Wait until so many tasks are done; how many are."""
        end = time.monotonic() + PATIENCE
        while (reached := self._watch(done, end)) is None:
            self._check(end)
        return reached

    def _watch(self, done: int, end: float) -> int | None:
        """None when there is no store to look at yet."""
        try:
            store = open_store(self._store, reading=True)
        except StoreError:
            return None
        try:
            while (reached := done_in(store.reads)) < done:
                self._check(end)
            return reached
        finally:
            store.close()

    def _check(self, end: float) -> None:
        code = self._process.poll()
        if code is not None or time.monotonic() > end:
            raise RuntimeError(f"{self._work} {'did not get on' if code is None else f'ended with exit code {code}'}")
        time.sleep(LOOK)


def done_in(reads: Reads) -> int:
    """How many tasks of the run are done."""
    run = reads.find_run(NAME)
    return 0 if run is None else sum(kind.get(Status.DONE, 0) for kind in reads.counts(run.id).values())


def play(work: Works, folder: Path, stops: Sequence[float], *, killing: bool) -> list[float]:
    """Run a program to its end; seconds to the end from its start and from each stop, a share of its tasks done.

    When killing, it is killed and started again at each stop. One that is started again has done something before the
    next kill.
    """
    seen = [time.monotonic()]
    reached = 0
    program = Program(work, folder)
    try:
        for stop in stops:
            reached = program.wait_for(max(round(stop * work.count), reached + 1))
            seen.append(time.monotonic())
            if killing:
                program.kill()
                program = Program(work, folder)
        code = program.wait()
    finally:
        program.kill()
    ended = time.monotonic()
    if code:
        raise RuntimeError(f"{work} ended with exit code {code}")
    check_done(work, folder)
    return [ended - moment for moment in seen]


def check_done(work: Works, folder: Path) -> None:
    """Every task has ended once, and is done; otherwise it is an error and not a figure."""
    store = open_store(folder / STORE, reading=True)
    try:
        run = store.reads.find_run(NAME)
        if run is None:
            raise AssertionError(f"{work}: there is no run")
        found = audit(store.reads, run.id)
        done = done_in(store.reads)
        if run.state is not RunState.DONE or not found.clean or not work.count == found.ended == done:
            raise AssertionError(f"{work}: the run is {run.state} with {found}; {work.count} tasks were to be done")
    finally:
        store.close()
