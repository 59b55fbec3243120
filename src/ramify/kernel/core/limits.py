"""Limits of a kind within one process: how many at a time, how many starts in a while; per lane where there is one.

Some are asked for, others are found: of a kind and lane that mostly defers itself, fewer run at a time for a while.
Others are not touched by that, nor is the number of workers, and a few tasks that defer themselves change nothing. When
such a task is tried again is its own decision.

Times are arguments. A limit only ever delays a lease; it never fails a task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from ramify.kernel.core.adapt import Change
from ramify.kernel.core.handler import Handler, Policy
from ramify.kernel.tuning import FEWEST, LIMITS_KEPT, SLICE, SLICES, STALE, THROTTLE_WINDOW, THROTTLED
from ramify.model.policy import Rate

Where = tuple[str, str | None]
NO_LIMIT = Policy()
WHY_FEWER, WHY_MORE = "tasks defer themselves", "tasks get through again"


class Forgettable(Protocol):
    """A value that need not be kept for ever."""

    def is_as_new(self, now: float) -> bool:
        """Return whether a new one would say the same."""


T = TypeVar("T", bound=Forgettable)


class Kept(Generic[T]):
    """The known values of each kind and lane, as long as they matter."""

    def __init__(self) -> None:
        self.known: dict[Where, T] = {}
        self._clear_at = LIMITS_KEPT

    def at(self, where: Where, make: Callable[[], T], now: float) -> T:
        """Return what is known, or a new one."""
        found = self.known.get(where)
        if found is None:
            if len(self.known) >= self._clear_at:
                self.known = {each: known for each, known in self.known.items() if not known.is_as_new(now)}
                self._clear_at = 2 * len(self.known) + LIMITS_KEPT
            found = self.known[where] = make()
        return found


class Bucket:
    """Starts that are allowed, coming back at an even pace: at most `count + burst` in any stretch of `seconds`.

    Who looks for them looks late, and a task begins a moment after it was handed out. So up to a slice of time may be
    caught up on, and the pace leaves room for two of them: one to catch up, one for tasks that begin late.
    """

    __slots__ = ("_most", "_pace", "_seen", "_slice", "_tokens")

    def __init__(self, rate: Rate, now: float) -> None:
        self._slice = min(SLICE, rate.seconds / SLICES)
        missed = self._slice * rate.count / rate.seconds
        self._most = self._tokens = 1 + rate.burst + missed
        self._pace = (rate.count - 2 * missed) / rate.seconds
        self._seen = now

    def ready(self, now: float) -> int:
        """How many starts are allowed now."""
        self._tokens = min(self._most, self._tokens + max(0.0, now - self._seen) * self._pace)
        self._seen = now
        # A hair of tolerance: pace times the exact wait must come to a whole token.
        return int(self._tokens + 1e-9)

    def take(self, many: int) -> None:
        """Use up some starts."""
        self._tokens -= many

    def is_as_new(self, now: float) -> bool:
        """Return whether it is full."""
        self.ready(now)
        return self._tokens >= self._most

    def wait(self) -> float:
        """Seconds until it is worth looking for the next start: not for each one, where there are very many."""
        return max(self._slice / 2, (1.0 - self._tokens) / self._pace)


class Throttle:
    """The recent deferrals of one kind and lane. `most` may run at a time; None while nothing is held back.

    Whoever serves these tasks asks for less, so they are halved again and again, down to one at a time, and doubled
    again as soon as most of them get through.
    """

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


class OwnLimits:
    """The limits that decide who may start now."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._policies: dict[str, Policy] = {
            kind: handler.policy
            for kind, handler in handlers.items()
            if handler.policy.concurrency is not None or handler.policy.rate is not None
        }
        self._running: Counter[Where] = Counter()
        self._buckets = Kept[Bucket]()
        self._throttles = Kept[Throttle]()

    @property
    def is_any(self) -> bool:
        """True if any kind has a limit now."""
        return bool(self._policies) or self.is_throttling

    @property
    def is_throttling(self) -> bool:
        """True if fewer of any kind may run at a time for a while."""
        return bool(self._throttles.known)

    def may_limit(self, kind: str) -> bool:
        """Return whether tasks of a kind may be held back now, in any lane."""
        return kind in self._policies or self.is_throttling

    def at_a_time(self, kind: str, lane: str | None) -> int | None:
        """How many may run at a time; None for any number."""
        most = self._policies.get(kind, NO_LIMIT).concurrency
        if (throttle := self._throttles.known.get((kind, lane))) is None or throttle.most is None:
            return most
        return throttle.most if most is None else min(most, throttle.most)

    def allowed(self, kind: str, lane: str | None, wanted: int, now: float) -> int:
        """How many of `wanted` tasks may start now."""
        if not self.is_any:
            return wanted
        where = (kind, lane)
        if (most := self.at_a_time(kind, lane)) is not None:
            wanted = min(wanted, most - self._running[where])
        if wanted > 0 and (rate := self._policies.get(kind, NO_LIMIT).rate) is not None:
            wanted = min(wanted, self._bucket(where, rate, now).ready(now))
        return max(0, wanted)

    def admits(self, kind: str, lane: str | None, now: float) -> bool:
        """Return whether one more may start now; if so, that is noted."""
        if not self.allowed(kind, lane, 1, now):
            return False
        self.start(kind, lane, 1, now)
        return True

    def start(self, kind: str, lane: str | None, many: int, now: float) -> None:
        """Note that tasks start."""
        where = (kind, lane)
        self._running[where] += many
        if (rate := self._policies.get(kind, NO_LIMIT).rate) is not None:
            self._bucket(where, rate, now).take(many)

    def stop(self, kind: str, lane: str | None, many: int) -> None:
        """Note that tasks are over."""
        where = (kind, lane)
        self._running[where] -= many
        if not self._running[where]:
            del self._running[where]

    def ran(self, kind: str, lane: str | None, tasks: int, deferred: int, now: float) -> Change | None:
        """Some tasks are over, so many of them deferred themselves; how many may run at a time, if that changed."""
        where = (kind, lane)
        if not deferred and where not in self._throttles.known:
            return None
        throttle = self._throttles.at(where, lambda: Throttle(now), now)
        change = throttle.ran(tasks, deferred, self._running[where] + tasks, now)
        if throttle.is_as_new(now):
            del self._throttles.known[where]
        return change

    def most_held(self, kind: str, lane: str | None) -> int | None:
        """How many tasks of this kind and lane are worth holding in memory; None without a limit."""
        rate = self._policies.get(kind, NO_LIMIT).rate
        by_rate = max(1, int(rate.count / rate.seconds)) + rate.burst if rate is not None else None
        return min((each for each in (self.at_a_time(kind, lane), by_rate) if each is not None), default=None)

    def opens_in(self, kind: str, lane: str | None, now: float) -> float | None:
        """Seconds until a rate allows the next start; None when it is not a rate that holds it back."""
        bucket = self._buckets.known.get((kind, lane))
        return None if bucket is None or bucket.ready(now) else bucket.wait()

    def _bucket(self, where: Where, rate: Rate, now: float) -> Bucket:
        return self._buckets.at(where, lambda: Bucket(rate, now), now)
