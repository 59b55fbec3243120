"""The store as one process sees it: every verb takes time to get there and back, and may be lost either way.

Numbered verbs are remembered, so that the world can deliver one again, or late. What is promised is the contract of the
memory store behind it; what happens on the way is the weather's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from ramify.errors import StoreUnavailable
from ramify.model.claim import Claimed, Want
from ramify.model.commit import Committed, Part
from ramify.model.log import LogLine
from ramify.model.process import NewProcess, Reap, Stamp
from ramify.model.run import Advanced
from ramify.store.contract import Beat
from ramify.store.memory import MemoryStore
from tests.simulation.strand import Strand, here
from tests.simulation.weather import Fault

if TYPE_CHECKING:
    from tests.simulation.process import Process

T = TypeVar("T")


class Client:
    """What a kernel calls its store: the verbs of work."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self._store = MemoryStore(self._world.tables, self._world.clock)
        self.reads = self._store.reads
        self.records = None
        self._calls = 1
        self._waiting: list[Strand] = []

    # verbs that have a number

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        """Take work."""
        return self._numbered(stamp, lambda again: self._store.claim(again, want))

    def commit(self, stamp: Stamp, parts: Sequence[Part], want: Want | None = None) -> Committed:
        """Hand back outcomes."""
        return self._numbered(stamp, lambda again: self._store.commit(again, parts, want))

    def release(self, stamp: Stamp, tokens: Sequence[bytes]) -> None:
        """Put claims back."""
        self._numbered(stamp, lambda again: self._store.release(again, tokens))

    # others

    def now(self) -> int:
        """The store's clock."""
        return self._world.apply(self._store.now)

    def reserve(self, many: int) -> int:
        """Ids."""
        return self._call(lambda: self._store.reserve(many))

    def movable(self, limit: int) -> tuple[tuple[int, int], ...]:
        """Find runs that can move on."""
        return self._call(lambda: self._store.movable(limit))

    def advance(self, asked: Sequence[tuple[int, int]]) -> tuple[Advanced, ...]:
        """Ask runs to move on."""
        return self._call(lambda: self._store.advance(asked))

    def enter(self, process: NewProcess) -> Beat:
        """Open a session. It does not beat before this is answered, so a very late answer would find it buried."""
        return self._call(lambda: self._store.enter(process), self._process.settings.dead_after / 3)

    def leave(self, process: int) -> None:
        """End it."""
        self._call(lambda: self._store.leave(process))

    def beat(self, process: int) -> Beat:
        """Say "alive"."""
        world = self._world
        late = Fault.LATE in world.faults and world.chance.random() < 0.1
        return world.call(lambda: self._store.beat(process), 1.2 * self._process.settings.dead_after if late else 0.0)

    def reap(self, process: int, dead_after: float) -> Reap:
        """Look for the dead; what they ran is in their records."""

        def look() -> Reap:
            for each in self._world.processes:
                each.keep_record()
            return self._store.reap(process, dead_after)

        found = self._world.call(look)
        self._world.watch.buried(found.processes, process)
        return found

    def note(self, process: int, lines: Sequence[LogLine]) -> None:
        """Keep log lines."""
        self._call(lambda: self._store.note(process, lines))

    # waiting

    def wait(self, seconds: float, seen: int) -> int:
        """Sleep until something may have changed."""
        world = self._world
        if world.now < world.away_until:
            raise StoreUnavailable("the store is away")
        if seen == world.tables.version + self._calls:
            self._waiting.append(me := here())
            me.park(self._process.in_world(seconds))
            if me in self._waiting:
                self._waiting.remove(me)
        return world.tables.version + self._calls

    def wake(self) -> None:
        """End the waits."""
        self._calls += 1
        self.stir()

    def stir(self) -> None:
        """Something has changed."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.stir()

    def _numbered(self, stamp: Stamp, verb: Callable[[Stamp], T]) -> T:
        self._process.sending = (stamp, verb)
        answer = self._call(lambda: verb(stamp))
        self._process.sending = None
        self._world.echo(stamp, verb)
        return answer

    def _call(self, verb: Callable[[], T], slowest: float = 3.0) -> T:
        world = self._world
        slow = world.chance.choice((0.0, 0.0, slowest)) if Fault.SLOW in world.faults else 0.0
        return world.call(verb, slow)
