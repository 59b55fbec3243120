"""Throttles: fewer tasks of one kind and lane at a time, while most of what runs there defers itself.

Pure arithmetic; the caller brings time and numbers. Whoever serves these tasks asks for less, so they are halved again
and again, down to one at a time, and doubled again as soon as most of them get through. A few that defer themselves are
no sign of that and change nothing.

Only looks at one kind and lane: others are not touched, nor is the number of workers. When a task that deferred itself
is tried again is its own decision; waiting for that takes no worker and has no part in this.
"""

from __future__ import annotations

from ramify.kernel.core.adapt import Change
from ramify.kernel.tuning import FEWEST, STALE, THROTTLE_WINDOW, THROTTLED

WHY_FEWER, WHY_MORE = "tasks defer themselves", "tasks get through again"


class Throttle:
    """The recent deferrals of one kind and lane. `most` may run at a time; None while nothing is held back."""

    __slots__ = ("_before", "_began", "_deferred", "_tasks", "most")

    def __init__(self, now: float) -> None:
        self.most: int | None = None
        self._before = 0
        self._anew(now)

    def ran(self, tasks: int, deferred: int, running: int, now: float) -> Change | None:
        """Some tasks came back, so many of them deferred; `running` were at work at a time until then."""
        if now - self._began > STALE and self.most is None:
            self._anew(now)
        self._tasks += tasks
        self._deferred += deferred
        if now - self._began < THROTTLE_WINDOW or self._tasks < (FEWEST if self.most is None else self.most):
            return None
        is_throttled = self._deferred > THROTTLED * self._tasks
        self._anew(now)
        return self._fewer(running) if is_throttled else self._more()

    def is_as_new(self, now: float) -> bool:
        """Return whether it holds nothing back, and what it saw is too old to matter."""
        return self.most is None and (not self._tasks or now - self._began > STALE)

    def _fewer(self, running: int) -> Change | None:
        if self.most is None:
            self._before = running
        before = running if self.most is None else self.most
        self.most = max(1, before // 2)
        return Change(before, self.most, WHY_FEWER) if self.most != before else None

    def _more(self) -> Change | None:
        if self.most is None:
            return None
        before, now = self.most, min(self._before, 2 * self.most)
        self.most = now if now < self._before else None
        return Change(before, now, WHY_MORE)

    def _anew(self, now: float) -> None:
        self._began, self._tasks, self._deferred = now, 0, 0
