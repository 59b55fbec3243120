"""Grants: claimed tasks under limits of the store, each of which takes a place from its claim on, running or not.

So few are taken in advance: as many of a kind as can run at once, or as run within a moment if those are more, and the
process lately got through half as many in such a time: of small claims each costs more than its task. A grant that
stays unused goes back, and is not taken again while a limit of this process keeps it from starting. Part of the core:
no threads, no clock.

Does not know the limits: the store counts places, and says of each claim whether it takes any. What may be taken of a
kind is said of every kind, because another program may have limited it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping

from ramify.kernel.core.holding import Holding
from ramify.kernel.core.leases import Leases
from ramify.kernel.tuning import GRANT_SECONDS, UNUSED
from ramify.model.claim import Claimed


class Grants:
    """The claims of one process that take places. `side_of` says whether tasks of a kind run on the event loop."""

    def __init__(self, leases: Leases, side_of: Mapping[str, bool]) -> None:
        self._leases = leases
        self._side_of = side_of
        #: Kinds of which the last claim took places, and those that were seen in lanes.
        self._limited: set[str] = set()
        self._in_lanes: set[str] = set()
        #: When claims are looked at for unused tasks; each that is still held then is looked at again.
        self._looks: deque[tuple[float, list[bytes]]] = deque()
        #: How many tasks this process got through in a moment lately; when the present one began, and after how many.
        self._pace = self._before = 0
        self._since = 0.0

    def claimed(self, answer: Claimed, now: float) -> None:
        """A claim was answered."""
        taken = []
        for claim in answer.claims:
            if claim.limited:
                taken.append(claim.token)
                self._limited.add(claim.kind)
                if claim.lane is not None or claim.lanes is not None:
                    self._in_lanes.add(claim.kind)
            elif self._limited:
                self._limited.discard(claim.kind)
        if taken:
            self._looks.append((now + UNUSED, taken))

    def few(self, kinds: Collection[str], through: int, now: float) -> dict[str, int]:
        """How many tasks of each kind may be taken if a limit covers it, by who is `through` with so many tasks."""
        if (elapsed := now - self._since) >= GRANT_SECONDS:
            self._pace = int((through - self._before) * GRANT_SECONDS / elapsed)
            self._before, self._since = through, now
        pace = max(self._pace, through - self._before)
        workers = {side: adapter.target for side, adapter in self._leases.adapters.items()}
        found = {kind: workers[self._side_of[kind]] for kind in kinds}
        held = self._leases.kinds
        for kind in found:
            if (window := self._leases.sizes.within(kind, GRANT_SECONDS, found[kind])) is not None:
                found[kind] = max(found[kind], min(window, 2 * pace))
            if kind not in self._in_lanes and (most := self._leases.limits.most_held(kind, None)) is not None:
                found[kind] = min(found[kind], most)
            if (inside := held[kind]) > 0:
                enough = 2 * inside > found[kind] and inside >= min(workers[self._side_of[kind]], found[kind])
                found[kind] = 0 if enough else max(0, found[kind] - inside)
        return found

    def enough(self, few: Mapping[str, int]) -> frozenset[str]:
        """The kinds under limits of which nothing more is to be taken."""
        return frozenset(kind for kind in self._limited if not few.get(kind, 1))

    def unused(self, holdings: Mapping[bytes, Holding], now: float) -> Iterator[Holding]:
        """Yield claims of which nothing was begun for a while, although something is left to begin."""
        while self._looks and self._looks[0][0] <= now:
            _, tokens = self._looks.popleft()
            held = [token for token in tokens if token in holdings and not holdings[token].closing]
            idle = {token for token in held if holdings[token].available and holdings[token].used + UNUSED <= now}
            yield from (holdings[token] for token in idle)
            if kept := [token for token in held if token not in idle]:
                self._looks.append((now + UNUSED, kept))

    @property
    def next_look(self) -> float | None:
        """When claims are looked at next."""
        return self._looks[0][0] if self._looks else None
