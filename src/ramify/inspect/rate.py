"""How fast a run grows and how fast it is done, over the last half minute, and when it will be through.

A pace is fed with counters at moments of a clock that never jumps. It keeps no more than the window, and says nothing
it cannot know: there is no rate from one moment, and no end in sight while tasks are added nearly as fast as they end.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

#: Seconds over which rates are taken.
WINDOW = 30.0
#: Less than this many seconds of watching is too little to foretell an end.
LEAST = 3.0
#: Tasks added for each one that ends, above which the end cannot be foretold: a small change of either moves it far.
MOST_ADDED = 0.5


@dataclass(frozen=True, slots=True)
class Moment:
    """How many tasks had been added and had ended at a time, in seconds."""

    at: float
    added: int
    ended: int


class ObservedPace:
    """Rates over a sliding window."""

    def __init__(self, window: float = WINDOW) -> None:
        self._window = window
        self._moments: deque[Moment] = deque()

    def note(self, moment: Moment) -> None:
        """Take one more look. The oldest look that still covers the window is kept."""
        self._moments.append(moment)
        while len(self._moments) > 2 and self._moments[1].at <= moment.at - self._window:
            self._moments.popleft()

    @property
    def seconds(self) -> float:
        """How long the looks reach back."""
        return self._moments[-1].at - self._moments[0].at if self._moments else 0.0

    @property
    def added(self) -> float | None:
        """Tasks added in a second; None before there are two looks."""
        return self._per_second(self._moments[-1].added - self._moments[0].added) if self._moments else None

    @property
    def ended(self) -> float | None:
        """Tasks ended in a second; None before there are two looks. A retry can make it negative: that is no rate."""
        return self._per_second(self._moments[-1].ended - self._moments[0].ended) if self._moments else None

    def eta(self, pending: int) -> float | None:
        """Seconds until nothing is pending, at the pace of the window; None when that pace leads to no end."""
        if self.added is None or not self.ended or self.seconds < LEAST or self.added > MOST_ADDED * self.ended:
            return None
        return pending / (self.ended - self.added)

    def _per_second(self, count: int) -> float | None:
        return max(0, count) / self.seconds if self.seconds > 0 else None
