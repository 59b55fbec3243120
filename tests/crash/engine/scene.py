"""A scene: a folder with a store in which programs play, and what can be seen of it from outside."""

from __future__ import annotations

import threading
from pathlib import Path

from ramify.inspect.audit import audit
from ramify.model.run import RunState
from ramify.store.contract import Store
from ramify.store.sqlite import SqliteStore
from tests.crash.clients import STORE, WITNESS, Client, Clients, wait_until
from tests.crash.witness import Line, Said, Witness
from tests.crash.worker import RUN_NAME


def children_of(pid: int) -> list[int]:
    """The worker processes of a program."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def is_alive(pid: int) -> bool:
    """Whether a process that is not ours is there and does more than wait to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def let_pass(seconds: float) -> None:
    """Let time pass; there is no fact to wait for but time itself."""
    threading.Event().wait(seconds)


class Scene:
    """A folder in which tasks wait for a file called `go`."""

    def __init__(self, folder: Path, clients: Clients) -> None:
        self.folder = folder
        self._clients = clients
        self._witness = Witness(folder / WITNESS)
        self._store: Store | None = None

    def play(self, work: str, tasks: int, *options: str, started: int = 0) -> Client:
        """Let a program begin, and wait until so many tasks have started."""
        before = len(self.said(Said.START))
        client = self._clients.next()
        client.begin(work, self.folder, tasks, *options)
        wait_until(lambda: len(self.said(Said.START)) >= before + started, f"{started} tasks to start")
        return client

    def said(self, said: Said) -> list[Line]:
        """Lines of one sort."""
        return [line for line in self._witness.lines() if line.said is said]

    def go(self) -> None:
        """Let the tasks end."""
        (self.folder / "go").touch()

    @property
    def store(self) -> Store:
        """A client of the store for looking at it."""
        if self._store is None:
            self._store = SqliteStore(self.folder / STORE)
        return self._store

    def crashes(self) -> int:
        """How many deaths tasks are suspected of."""
        return sum(row.deaths.count for row in self.store.reads.segments().rows)

    def check_done(self, tasks: int) -> None:
        """Everything is done, once."""
        run = self.store.reads.find_run(RUN_NAME)
        assert run is not None
        assert run.state is RunState.DONE
        found = audit(self.store.reads, run.id)
        assert (found.tasks, found.ended, found.lost, found.recorded_twice) == (tasks, tasks, 0, 0)

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()
