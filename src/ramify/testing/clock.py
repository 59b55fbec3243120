"""A clock that stands still until a test moves it.

Both times move together, as they do on a machine that is awake, unless a test sets the wall clock. It does not sleep
and knows nothing of real time; a store that waits on it instead of on the operating system waits for ever.
"""

from __future__ import annotations

SECOND = 1_000_000
#: Midnight of 1 January 2024, UTC: late enough for any due time in the past, round enough to read in a failure.
NEW_YEAR = 1_704_067_200 * SECOND


class FakeClock:
    """A `Clock` that a test moves."""

    def __init__(self, now: int = NEW_YEAR) -> None:
        self._now = now
        # A machine that has been up for a while: monotonic time is not wall time, and a store must not mix them.
        self._monotonic = 1_000 * SECOND

    def now(self) -> int:
        """Return the wall time in microseconds since the epoch."""
        return self._now

    def monotonic(self) -> int:
        """Return microseconds that only grow."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Move time forward."""
        if seconds < 0:
            raise ValueError(f"advance({seconds}): this clock goes forward only")
        self._now += round(seconds * SECOND)
        self._monotonic += round(seconds * SECOND)

    def set_wall(self, seconds: float) -> None:
        """Set the wall clock forward or, with a negative number, back, as people and networks do."""
        self._now += round(seconds * SECOND)
