"""How a command reaches its store: chosen, said on standard error, opened, and closed when the command is over.

Commands that only look never enter as a process. Those that need a stamp enter as a short-lived process that says it
knows no kinds, do their verb, and leave. A crash in between leaves a session that the next worker reaps; it holds
nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, NamedTuple

import click

from ramify.cli import config
from ramify.cli.out import Out, tell
from ramify.errors import ConfigError, UnknownRun, UnknownTask
from ramify.inspect.find import find_run, id_in, newest_run, open_runs, title, typed
from ramify.inspect.history import task_row
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import StoredRun
from ramify.model.task import Row
from ramify.store import here
from ramify.store.contract import Store
from ramify.store.reads import Reads

#: Seconds without a beat after which a process that still has its lock counts as dead.
DEAD_AFTER = 60.0


class Wrong(click.ClickException):
    """An argument that names nothing in this store, or something this command cannot take."""

    exit_code = 2

    def show(self, file: object = None) -> None:
        """One line on standard error."""
        tell(f"ramify: {self.message}")


#: From a run and a key to the tasks that a command means by it; UnknownTask when there are none.
Meaning = Callable[[Reads, int, str], list[int]]


class Named(NamedTuple):
    """A run, and the task of it, if one was named."""

    run: StoredRun
    task: int | None = None


@dataclass(frozen=True, slots=True)
class Visit:
    """An open store, and where the answer goes."""

    store: Store
    out: Out

    def run(self, wanted: str | None) -> StoredRun:
        """The run that an argument means, or without one the present run; `Wrong` names what there is."""
        run, task = self.named(wanted)
        if task is not None:
            raise Wrong(f"{wanted}: expected a run, got a task of {title(run)}")
        return run

    def named(self, wanted: str | None, node: str | None = None, meaning: Meaning | None = None) -> Named:
        """The run that arguments name, and the task: RUN, RUN NODE, RUN TASK, or the id of a task without its run.

        Runs and tasks never share an id. `meaning` is that of `tasks`.
        """
        if wanted is None and node is not None and (row := self._row(node)) is not None:
            return Named(self.store.reads.run(row.run), row.id)
        try:
            run = self._present() if wanted is None else find_run(self.store.reads, wanted)
        except UnknownRun as error:
            row = self._row(wanted or "")
            if row is None:
                no_task = f"no task {wanted} and " if id_in(wanted or "") else ""
                raise Wrong(f"{no_task}{error}") from error
            run = self.store.reads.run(row.run)
            if node is not None:
                raise Wrong(
                    f"{wanted} is a task of {title(run)}. Give the run before {node!a}: {typed(run)}"
                ) from error
            return Named(run, row.id)
        return Named(run, None if node is None else self.tasks(run, node, meaning)[0])

    def one(self, verb: str, wanted: str, node: str | None, meaning: Meaning | None = None) -> int:
        """The task that arguments name, for a command that is about one."""
        run, task = self.named(wanted, node, meaning)
        if task is None:
            raise Wrong(f"{title(run)}: expected a task, got a run. Write `ramify {verb} {typed(run)} NODE`, or its id")
        return task

    def tasks(self, run: StoredRun, node: str, meaning: Meaning | None = None) -> list[int]:
        """The tasks of a run that an argument means: by their key, which a node of a DAG has as its id, or by an id.

        A key wins over an id that looks the same. Without a `meaning` it is the one task that has the key.
        """
        from ramify.engine.runs.keyed import task_with

        reads = self.store.reads
        try:
            return [task_with(reads, run.id, node)] if meaning is None else meaning(reads, run.id, node)
        except ConfigError as several:
            raise Wrong(str(several)) from several
        except UnknownTask as error:
            if not node.isascii() or not node.isdigit():
                raise Wrong(str(error)) from error
        if (task := id_in(node)) is None or self.task(task).run != run.id:
            raise Wrong(f"task {node} is not a task of {title(run)}")
        return [task]

    def _row(self, wanted: str) -> Row | None:
        id = id_in(wanted)
        return None if id is None else self.store.reads.task(id)

    def _present(self) -> StoredRun:
        """The run that is open, or the newest one if none is; it is said which."""
        going = open_runs(self.store.reads)
        if len(going) > 1:
            names = ", ".join(title(each) for each in going[-10:])
            raise Wrong(f"{len(going)} runs are open: {names}. Name one")
        found = going[0] if going else newest_run(self.store.reads)
        if found is None:
            raise Wrong("this store has no runs yet")
        tell(f"run: {title(found)} ({'the only open one' if going else 'the newest'})")
        return found

    def task(self, task: int) -> Row:
        """The task that an argument means."""
        try:
            return task_row(self.store.reads, task)
        except UnknownTask as error:
            raise Wrong(str(error)) from error


class BriefProcess:
    """A process of a few moments, for verbs that carry a number."""

    def __init__(self, store: Store) -> None:
        self.process = new_process_id()
        self._n = 0
        store.enter(NewProcess(self.process, os.getpid(), here.host(), kinds=(), boot=here.boot(), pids=here.pids()))

    def stamp(self) -> Stamp:
        """The next number."""
        self._n += 1
        return Stamp(self.process, self._n)


@contextmanager
def entered(store: Store) -> Iterator[BriefProcess]:
    """Be a process for the length of a block. First it buries those that are known to be dead, as any worker would."""
    session = BriefProcess(store)
    try:
        store.reap(session.process, DEAD_AFTER)
        yield session
    finally:
        store.leave(session.process)


def who_and_why(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command by which somebody decides something the options `--reason` and `--by`."""
    command = click.option("--by", help="The person who decides; by default user@host.")(command)
    return click.option("--reason", default="", help="The reason, stored with the decision.")(command)


def on_store(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that looks the options `-s` and `--json`, and its store as the argument `visit`."""
    return _visiting(command, reading=True)


def on_store_to_change(command: Callable[..., None]) -> Callable[..., None]:
    """The same for a command that changes something."""
    return _visiting(command, reading=False)


def _visiting(command: Callable[..., None], *, reading: bool) -> Callable[..., None]:
    @click.option("-s", "--store", "url", metavar="URL|FILE", help="The store to use; see `ramify --help`.")
    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
    @click.pass_context
    def visiting(context: click.Context, /, url: str | None, as_json: bool, **given: Any) -> None:
        with opened(url or context.obj, reading=reading) as store:
            command(Visit(store, Out(as_json=as_json)), **given)

    return update_wrapper(visiting, command)


@contextmanager
def opened(url: str | None, *, reading: bool) -> Iterator[Store]:
    """The store that is meant, open for the length of a block; it must exist."""
    chosen = config.choose(url)
    if not url:
        tell(f"store: {chosen.shown} ({chosen.because})")
    from ramify.store.open import open_store

    store = open_store(chosen.url, reading=reading)
    try:
        if not store.describe().shared:
            raise ConfigError(
                f"{chosen.shown} lives inside one program, and cannot be read from here. Give a file with -s FILE."
            )
        yield store
    finally:
        store.close()
