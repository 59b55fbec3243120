"""The scenario: one small tree with everything in it, played on a disk that fails.

It opens a new store, works on the tree until its run has ended, empties the log in between, vacuums, leaves and closes:
every verb that a worker sends, a join inside a join, a staged fan-out, a key offered three times, setbacks that stay
and setbacks that come back later. It is short, because it is played once for each change it makes to a file.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import apsw

from ramify.errors import StoreUnavailable
from ramify.model.event import Status
from ramify.store.contract import Store
from ramify.store.open import Durability
from ramify.store.sqlite import SqliteStore
from ramify.testing.clock import FakeClock
from tests.crash import judge
from tests.crash.clients import STORE, WITNESS
from tests.crash.tree import Node, Tree, Way
from tests.crash.witness import Line, Witness
from tests.crash.worker import Worker

_AGAIN = (Status.RETRYING, Status.DONE)
TREE = Tree(
    ("r0", "r1", "r2"),
    [
        Node("r0", Way.JOIN, ("r0.0", "k0")),
        Node("r0.0", Way.JOIN, ("r0.0.0",)),
        Node("r0.0.0"),
        Node("r0.0+", events=_AGAIN),
        Node("r0+", Way.PLAIN, ("r0+.0",)),
        Node("r0+.0"),
        Node("r1", Way.STAGE, ("r1.0", "r1.1", "r1.2", "r1.3", "r1.4")),
        Node("r1.0", Way.PLAIN, ("k0",), (Status.DEFERRED, Status.DONE)),
        *(Node(f"r1.{i}") for i in range(1, 5)),
        # Its stream follows on that of r1, and is its own.
        Node("r2", Way.STAGE, ("r2.0", "k0")),
        Node("r2.0"),
        Node("k0"),
    ],
)


class Died(Exception):
    """The worker was told to die where it stands."""


#: Hears of each verb that was not answered, the opening included, and may repair the disk or close the store.
Trouble = Callable[[StoreUnavailable], None]
LARGEST_CLAIM = 8


def unexpected(error: StoreUnavailable) -> None:
    """There is no reason for trouble."""
    raise error


class Player:
    """Plays the scenario in a folder of its own."""

    def __init__(self, folder: Path, durability: Durability = "power") -> None:
        self.folder = folder
        self.clock = FakeClock()
        self.witness = Witness(folder / WITNESS)
        self.store: Store | None = None
        self._durability = durability

    def open(self) -> Store:
        """The store of the folder."""
        self.store = SqliteStore(self.folder / STORE, durability=self._durability, clock=self.clock)
        return self.store

    def play(self, trouble: Trouble = unexpected) -> None:
        """Open, work to the end, and close. `trouble` hears of each verb that was not answered."""
        # With this luck claims are committed in pieces, and r1 and r2 stream before either is committed.
        worker = self._worker(trouble, chance=25)
        worker.work()
        worker.send(lambda store: store.vacuum())
        worker.leave()
        self.close()

    def finish(self, trouble: Trouble = unexpected) -> None:
        """Let a successor bury the one who played and do the rest. The store stays open."""
        self._worker(trouble, chance=1).work()

    def _worker(self, trouble: Trouble, chance: int) -> Worker:
        def recover(error: StoreUnavailable, store: Store) -> Store:
            trouble(error)
            return self.store or self._open_patiently(trouble)

        store = self._open_patiently(trouble)
        return Worker(
            store,
            self.witness,
            TREE,
            random.Random(chance),
            recover=recover,
            idle=self._idle,
            largest_claim=LARGEST_CLAIM,
        )

    def _open_patiently(self, trouble: Trouble) -> Store:
        while True:
            try:
                return self.open()
            except StoreUnavailable as error:
                trouble(error)

    def _idle(self, store: Store) -> None:
        self.clock.advance(1)
        # Another program may do this at any time; if the disk fails under it, that is not the store's trouble.
        with suppress(apsw.Error):
            connection = apsw.Connection(str(self.folder / STORE), flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            finally:
                connection.close()

    def close(self) -> None:
        """Close the store, if it is open."""
        if self.store is not None:
            self.store.close()
            self.store = None

    def verdict(self, *, heard: bool = True) -> list[str]:
        """What is wrong at the end, by what the witness heard if it heard everything. Closes the store."""
        store = self.store or self.open()
        complaints = judge.at_the_end(store, TREE, self.lines() if heard else (), kills=1)
        self.close()
        return complaints

    def lines(self) -> Sequence[Line]:
        """What the witness heard."""
        return self.witness.lines()
