"""`ramify demo`: grow a million tasks, kill the program twice with `kill -9`, and audit what is left.

Nothing is staged: the program is a process group of its own, the kills are real, and the audit reads the log and the
witness file afterwards. Everything happens in a temporary folder that is removed at the end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from ramify.cli.demo_tree import FAN_OUT, WITNESS_BYTES
from ramify.cli.main import FAILED
from ramify.cli.out import Out
from ramify.inspect.audit import Witness, audit, in_words
from ramify.inspect.status import status_of
from ramify.inspect.words import duration, number, plural
from ramify.model.run import StoredRun
from ramify.store.contract import Store
from ramify.store.open import open_store

#: Shares of the tasks at which the program is killed.
KILLS = (0.25, 0.6)
LOOK_EVERY = 0.05
NAME = "demo"
PROGRAM = "ramify.cli.demo_tree"


@click.command()
@click.option(
    "--depth",
    type=click.IntRange(1, 6),
    default=6,
    show_default=True,
    help="Depth of the tree; 6 makes 1,111,111 tasks.",
)
@click.option(
    "--processes", type=click.IntRange(1, 64), default=2, show_default=True, help="Number of worker processes."
)
@click.option("--keep", type=click.Path(path_type=Path), help="Keep the store in this new folder.")
def demo(depth: int, processes: int, keep: Path | None) -> None:
    """Grow a million tasks, kill the program twice with kill -9, and audit the result."""
    if keep is not None:
        if os.path.lexists(keep):
            raise click.UsageError(f"--keep {keep}: it exists. Give a new folder")
        keep.mkdir(parents=True)
        clean = Demo(keep, depth, processes).play()
    else:
        with tempfile.TemporaryDirectory(prefix="ramify-demo-") as folder:
            clean = Demo(Path(folder), depth, processes).play()
    if not clean:
        raise click.exceptions.Exit(FAILED)


class Demo:
    """One showing."""

    def __init__(self, folder: Path, depth: int, processes: int) -> None:
        self._folder = folder
        self._depth = depth
        self._processes = processes
        self._tasks = sum(FAN_OUT**level for level in range(depth + 1))
        self._out = Out()
        self._began = time.monotonic()
        self._program: subprocess.Popen[bytes] | None = None

    def play(self) -> bool:
        """Start, kill, start again, and audit; whether the promises held."""
        witness = self._folder / "witness"
        with witness.open("wb") as file:
            file.truncate(WITNESS_BYTES)
        crew = plural(self._processes, "worker process", "worker processes")
        self._say(f"{number(self._tasks)} tasks that make each other, in {crew}")
        store = open_store(self._folder / "demo.db")
        try:
            for share in KILLS:
                self._start()
                if self._reached(store, int(share * self._tasks)):
                    self._kill(store)
            self._start()
            self._finish(store)
            run = _run(store)
            assert run is not None
            self._out.say("auditing every task of the log against the witness file …")
            found = audit(store.reads, run.id, Witness.of_counts(witness.read_bytes()))
        finally:
            self._end()
            store.close()
        whole = found.tasks == self._tasks and found.ended == self._tasks
        if not whole:
            self._out.say(
                ("bad", f"{number(found.tasks)} tasks, {number(found.ended)} ended, of {number(self._tasks)}")
            )
        self._out.say(("good" if found.clean and whole else "bad", in_words(found)))
        return found.clean and whole

    def _say(self, text: str) -> None:
        self._out.say(("dim", f"{time.monotonic() - self._began:5.1f} s  "), text)

    def _start(self) -> None:
        self._say('started: engine.run(grow.of(...), name="demo")' if self._program is None else "the same line again")
        self._program = subprocess.Popen(
            [sys.executable, "-m", PROGRAM, str(self._folder), str(self._depth), str(self._processes)],
            start_new_session=True,
        )

    def _reached(self, store: Store, done: int) -> bool:
        """Wait until so many tasks are done; False when the program ended before."""
        assert self._program is not None
        seen = 0
        while self._program.poll() is None:
            if _done(store) >= done:
                return True
            seen = store.wait(LOOK_EVERY, seen)
        return False

    def _kill(self, store: Store) -> None:
        assert self._program is not None
        os.killpg(self._program.pid, signal.SIGKILL)
        self._program.wait()
        self._say(f"kill -9 to all of it, with {number(_done(store))} tasks done")

    def _finish(self, store: Store) -> None:
        assert self._program is not None
        code = self._program.wait()
        run = _run(store)
        if code or run is None or not run.state.is_end:
            raise click.ClickException(f"the program ended with code {code} before the run did")
        status = status_of(store, run.id)
        self._say(
            f"{run.state.value}: {number(status.total.done)} tasks done in {duration(time.monotonic() - self._began)}"
        )

    def _end(self) -> None:
        if self._program is not None and self._program.poll() is None:
            os.killpg(self._program.pid, signal.SIGKILL)
            self._program.wait()


def _run(store: Store) -> StoredRun | None:
    return store.reads.find_run(NAME)


def _done(store: Store) -> int:
    run = _run(store)
    return 0 if run is None else status_of(store, run.id).total.done
