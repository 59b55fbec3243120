"""Clocks: the two times a store looks at, as an argument, so that tests own them; and the store's own time.

`now` is wall time, which people and networks set. `monotonic` decides who is alive; it is never compared across
machines or restarts. What is due is decided by `StoreTime`, made of both: it never goes back and goes on at the pace of
the monotonic clock, so that a wall clock that is set back holds up no delay and no back-off. A wall clock that is ahead
is believed, because monotonic time stands still while a machine sleeps.

Does not repair a wall clock that was wrong: one that was once a day ahead leaves the store's time a day ahead, at the
right pace, until the wall clock has caught up. Delays are kept meanwhile; only moments by the calendar come early.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Both times in microseconds."""

    def now(self) -> int:
        """Wall time since the epoch."""

    def monotonic(self) -> int:
        """Time that never jumps while the machine is up."""


class SystemClock:
    """The machine's clocks."""

    def now(self) -> int:
        """Wall time since the epoch."""
        return time.time_ns() // 1000

    def monotonic(self) -> int:
        """Time that never jumps while the machine is up, and stands still while it sleeps."""
        return time.monotonic_ns() // 1000


class StoreTime:
    """The time of one store. `floor` is the latest time that the store itself has written down."""

    def __init__(self, clock: Clock, floor: int = 0) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._time = max(floor, clock.now())
        self._read_at = clock.monotonic()

    def now(self) -> int:
        """Microseconds since the epoch, never fewer than before."""
        with self._lock:
            read_at = self._clock.monotonic()
            self._time = max(self._time + max(0, read_at - self._read_at), self._clock.now())
            self._read_at = read_at
            return self._time
