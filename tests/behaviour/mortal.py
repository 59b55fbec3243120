"""Programs that die at a verb of the store, in the process of a test: what they held is found by others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

from ramify.store.contract import Store
from ramify.store.sqlite import SqliteStore
from ramify.testing.clock import SECOND, FakeClock
from ramify.testing.conformance.house import Worker
from ramify.testing.using import Workbench
from tests.behaviour.station import NOON, Station

#: Verbs that change nothing, or only tell that somebody is there.
_QUIET = frozenset({"now", "wake", "beat", "wait", "close", "describe", "reads", "notes"})
#: Whether a program dies at a point, by its name.
Reach = Callable[[str], bool]


class Killed(BaseException):
    """The program is no more."""


class Mortal:
    """A client of a store that comes past a point before and after each verb, and answers nothing once it is dead."""

    def __init__(self, store: Store, reach: Reach) -> None:
        self._store = store
        self._reach = reach
        self.is_dead = False

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if name in _QUIET or not callable(verb):
            return verb

        def sent(*args: Any, **kwargs: Any) -> Any:
            self._pass(f"before-{name}")
            answer = verb(*args, **kwargs)
            self._pass(f"after-{name}")
            return answer

        return sent

    def _pass(self, point: str) -> None:
        self.is_dead = self.is_dead or self._reach(point)
        if self.is_dead:
            raise Killed


class Depot:
    """A file on which programs work in turn, and the clock of all of them."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.clock = FakeClock(round(NOON.timestamp() * SECOND))
        self._file = folder / "depot.db"
        self._clients: list[Store] = []

    @property
    def now(self) -> datetime:
        """The time."""
        return NOON + timedelta(microseconds=self.clock.now() - round(NOON.timestamp() * SECOND))

    def open(self) -> Store:
        """Another client of the store."""
        self._clients.append(SqliteStore(self._file, durability="process", clock=self.clock))
        return self._clients[-1]

    def program(self, since: int, reach: Reach = lambda point: False, **options: Any) -> Program:
        """A program that was started at a time, with one schedule unless there are no options."""
        return Program(self, since, reach, options)

    def pass_time(self, length: timedelta, step: timedelta, *programs: Program) -> None:
        """Let time pass in steps; at each of them one of the programs works, in turn."""
        for number in range(length // step):
            self.clock.advance(step.total_seconds())
            programs[number % len(programs)].work()

    def bury(self) -> None:
        """Find whoever is dead, as the heart of any worker does."""
        worker = Worker(self.open())
        worker.store.reap(worker.process, 60)
        worker.store.close()

    def close(self) -> None:
        """Close all clients."""
        for store in self._clients:
            store.close()


class Program(Station):
    """A station that shares its store with others."""

    def __init__(self, depot: Depot, since: int, reach: Reach, options: dict[str, Any]) -> None:
        super().__init__()
        if options:
            self.schedule(**options)
        self._depot = depot
        self._client = depot.open()
        self.engine._runtime.since = since
        self.engine._runtime.use(cast(Store, Mortal(self._client, reach)))

    def work(self) -> bool:
        """Do all that can be done now, as a worker that starts for it; False when it dies of that."""
        try:
            Workbench(self.engine, self._depot.clock).drain(raising=False)
        except Killed:
            self.die()
            return False
        return True

    def die(self) -> None:
        """Go without a word."""
        self._client.close()
