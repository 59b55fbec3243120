"""Busy: the runs that this process works on, by store, so that a second start knows they are not left behind.

Promises: of two threads that begin the same unnamed run at the same moment, each gets a run of its own, if both hold
`beginning` from their look at what is busy until they have added what they begin.

Does not tell other processes: they see from the owner of a run that this one is there.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

from ramify.store import forks


class Busy:
    """Counts how often a run is worked on: several threads may wait for the same one."""

    def __init__(self) -> None:
        self.orphan()
        forks.register(self)

    def orphan(self) -> None:
        """In a forked child, and at first: it works on nothing yet."""
        self._lock = threading.Lock()
        self._counts: Counter[tuple[object, int]] = Counter()
        self._beginning: dict[object, threading.Lock] = {}

    def beginning(self, store: object) -> threading.Lock:
        """To be held by who begins a run of a store; a store that is away holds up nobody on another."""
        return self._beginning.setdefault(store, threading.Lock())

    def runs(self, store: object) -> set[int]:
        """The runs of a store that are worked on."""
        with self._lock:
            return {run for place, run in self._counts if place == store}

    def add(self, store: object, runs: Iterable[int]) -> None:
        """They are worked on from now on."""
        with self._lock:
            self._counts.update((store, run) for run in runs)

    def remove(self, store: object, runs: Iterable[int]) -> None:
        """Undo one `add`."""
        with self._lock:
            self._counts.subtract((store, run) for run in runs)
            self._counts = +self._counts
