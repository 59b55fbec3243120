"""Clocks: the two times a store looks at, as an argument, so that tests own them.

`now` is wall time and decides what is due. `monotonic` decides who is alive; it is never compared across machines or
restarts.
"""

from __future__ import annotations

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
