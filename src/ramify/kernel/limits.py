"""Limits of a kind within one process: how many at a time, how many starts in a while; per lane where there is one.

Times are arguments. A limit only ever delays a lease; it never fails a task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ramify.kernel.handler import Handler, Policy, Rate

Where = tuple[str, str | None]
#: Buckets beyond which those that are full again are cleared away: of lanes there may be millions.
BUCKETS_KEPT = 1_024


class Bucket:
    """Tokens that come back at an even pace, at most `rate.count` of them at once."""

    __slots__ = ("_rate", "_seen", "_tokens")

    def __init__(self, rate: Rate, now: float) -> None:
        self._rate = rate
        self._tokens = float(rate.count)
        self._seen = now

    def ready(self, now: float) -> int:
        """How many starts are allowed now."""
        pace = self._rate.count / self._rate.seconds
        self._tokens = min(float(self._rate.count), self._tokens + max(0.0, now - self._seen) * pace)
        self._seen = now
        # A hair of tolerance: pace times the exact wait must come to a whole token.
        return int(self._tokens + 1e-9)

    def take(self, many: int) -> None:
        """Use up some starts."""
        self._tokens -= many

    def is_full(self, now: float) -> bool:
        """Whether it is as good as new."""
        return self.ready(now) >= self._rate.count

    def wait(self) -> float:
        """Seconds until the next start."""
        return max(0.0, (1.0 - self._tokens) * self._rate.seconds / self._rate.count)


class Limits:
    """Who may start now."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._policies: dict[str, Policy] = {
            kind: handler.policy
            for kind, handler in handlers.items()
            if handler.policy.concurrency is not None or handler.policy.rate is not None
        }
        self._running: Counter[Where] = Counter()
        self._buckets: dict[Where, Bucket] = {}
        self._clear_at = BUCKETS_KEPT

    @property
    def is_any(self) -> bool:
        """Whether any kind has a limit."""
        return bool(self._policies)

    def allowed(self, kind: str, lane: str | None, wanted: int, now: float) -> int:
        """How many of `wanted` tasks may start now."""
        policy = self._policies.get(kind)
        if policy is None:
            return wanted
        where = (kind, lane)
        if policy.concurrency is not None:
            wanted = min(wanted, policy.concurrency - self._running[where])
        if policy.rate is not None and wanted > 0:
            wanted = min(wanted, self._bucket(where, policy.rate, now).ready(now))
        return max(0, wanted)

    def start(self, kind: str, lane: str | None, many: int, now: float) -> None:
        """Note that tasks start."""
        policy = self._policies.get(kind)
        if policy is None:
            return
        self._running[kind, lane] += many
        if policy.rate is not None:
            self._bucket((kind, lane), policy.rate, now).take(many)

    def stop(self, kind: str, lane: str | None, many: int) -> None:
        """Note that tasks are over."""
        if kind in self._policies:
            self._running[kind, lane] -= many
            if not self._running[kind, lane]:
                del self._running[kind, lane]

    def most_held(self, kind: str) -> int | None:
        """How many tasks of this kind (and lane) are worth holding in memory; None without a limit."""
        policy = self._policies.get(kind)
        if policy is None:
            return None
        by_rate = max(1, int(policy.rate.count / policy.rate.seconds)) if policy.rate is not None else None
        return min(each for each in (policy.concurrency, by_rate) if each is not None)

    def next_start(self, held: Iterable[Where], now: float) -> float | None:
        """Seconds until a rate allows one of these again; None when no rate holds them back."""
        waits = [
            bucket.wait()
            for where in set(held)
            if (bucket := self._buckets.get(where)) is not None and not bucket.ready(now)
        ]
        return min(waits, default=None)

    def _bucket(self, where: Where, rate: Rate, now: float) -> Bucket:
        bucket = self._buckets.get(where)
        if bucket is None:
            if len(self._buckets) >= self._clear_at:
                self._buckets = {each: known for each, known in self._buckets.items() if not known.is_full(now)}
                self._clear_at = 2 * len(self._buckets) + BUCKETS_KEPT
            bucket = self._buckets[where] = Bucket(rate, now)
        return bucket
