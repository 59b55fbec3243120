"""Appetite: when to claim again, and what. Part of the core: no threads, no clock.

A claim that left nothing makes the process *dry*: it asks again after a pause that grows, or at once when something
stirred. One that brought several new runs and left nothing is not followed by the next at once: runs are being started
one after the other, and each claim and commit is to serve many of them. A process that holds a suspect takes nothing
else, and one that saw suspects wait for too long stops taking other work until it is empty, because only an empty
process is given them. One whose tasks become much longer than they were puts back what it would take too long for.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping

from ramify.kernel.handler import Handler
from ramify.kernel.holding import Holding
from ramify.kernel.leases import Leases
from ramify.kernel.limits import Where
from ramify.kernel.queues import Turns
from ramify.kernel.settings import Settings
from ramify.kernel.tuning import HOLD_OFF, RUNS_SEEN, SUSPECT_WAIT
from ramify.model.claim import Claimed, Want


class Appetite:
    """What a process would like to have."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        settings: Settings,
        leases: Leases,
        holdings: Mapping[bytes, Holding],
    ) -> None:
        self._settings = settings
        self._leases = leases
        self._holdings = holdings
        self._kinds = frozenset(handlers)
        self._async_or_not = sorted({handler.calling.is_async for handler in handlers.values()})
        self._turns = Turns(settings.queues)
        self._suspects_since: float | None = None
        #: When tasks that were put off are due.
        self._dues: list[float] = []
        #: Where suspects were put back because of a limit; nothing is taken there until it lets somebody start.
        self.parked: set[Where] = set()
        #: Whether nothing more is taken, for good.
        self.is_over = False
        self.scarce = False
        # Who serves given runs gets no new ones, and who works until there is nothing to do must not rest before.
        self._may_hold_off = settings.runs is None and not settings.until_idle
        #: Before this nothing is claimed.
        self.holds_off_until = -math.inf
        #: Runs of which there was something before: what goes on step by step is no new run.
        self._seen: set[int] = set()

    def fed(self, answer: Claimed, now: float) -> None:
        """A claim was answered."""
        self._turns.fed(answer, now)
        if self._may_hold_off and self._new_runs(answer) > 1 and self.is_dry:
            self.holds_off_until = now + HOLD_OFF
        tasks = sum(len(claim.tasks) for claim in answer.claims)
        self._leases.sizes.claimed(tasks, self._turns.ready)
        if not self._turns.suspects:
            self._suspects_since = None
        elif self._suspects_since is None:
            self._suspects_since = now

    def stirred(self) -> None:
        """Something may be there that was not there a moment ago."""
        self._turns.stirred()
        self._leases.sizes.untold()

    def put_off(self, until: float) -> None:
        """Tasks left memory until then: an idle process wakes up for them."""
        heapq.heappush(self._dues, until)

    @property
    def is_dry(self) -> bool:
        """Whether nothing is left that this process could take, as far as it knows."""
        return self._turns.is_dry

    @property
    def dry_until(self) -> float:
        """Until when that is believed while something is held."""
        return self._turns.dry_until

    @property
    def next_due(self) -> float | None:
        """When the first of those that were put off are due."""
        return self._dues[0] if self._dues else None

    @property
    def room(self) -> int:
        """How many tasks could run at a time."""
        return sum(self._leases.adapters[is_async].target for is_async in self._async_or_not)

    @property
    def is_hungry(self) -> bool:
        """Whether less is held than should be, and nothing says that there is no more."""
        return not self.is_dry and self._leases.sizes.limit(self.room, self._startable()) > 0

    def want(self, now: float) -> Want | None:
        """What to claim now; None for nothing."""
        while self._dues and self._dues[0] <= now:
            heapq.heappop(self._dues)
            self.stirred()
        choice = self._turns.next(now, asks_again=bool(self._holdings))
        if choice is None:
            return None
        if self.is_over or self.is_shut(now) or now < self.holds_off_until:
            return None
        limit = self._leases.sizes.limit(self.room, self._startable())
        if not limit:
            return None
        kinds, lanes = self._held_back(now)
        kinds = self._kinds - kinds if kinds else self._kinds
        if self.scarce:
            limit = max(1, limit // 4)
        runs = None if self._settings.runs is None else self._settings.runs | self._settings.launched.runs
        return Want(kinds, limit, choice.queues, runs, lanes) if kinds else None

    def surplus(self) -> Iterator[Holding]:
        """What goes back because it is far too much by now, the latest first."""
        over = self._leases.sizes.surplus(self.room, self._startable())
        for holding in reversed(list(self._holdings.values())) if over else ():
            if over > 0 and holding.available:
                over -= holding.available
                yield holding

    def _new_runs(self, answer: Claimed) -> int:
        """How many runs of a claim begin."""
        new = {claim.run for claim in answer.claims if not claim.round} - self._seen
        if len(self._seen) > RUNS_SEEN:
            self._seen.clear()
        self._seen |= new
        return len(new)

    def is_shut(self, now: float) -> bool:
        """Whether nothing may be added to what is held."""
        for holding in self._holdings.values():
            # A suspect is only ever held alone or with other suspects, so the first one tells.
            return holding.is_suspect or (
                self._suspects_since is not None and now - self._suspects_since > SUSPECT_WAIT
            )
        return False

    def _startable(self) -> Mapping[str, int]:
        """What is held, without what a limit holds back: workers could do something else meanwhile."""
        leases = self._leases
        return leases.kinds - leases.stuck if leases.stuck else leases.kinds

    def _held_back(self, now: float) -> tuple[frozenset[str], frozenset[str]]:
        """Kinds and lanes of which enough waits already."""
        limits = self._leases.limits
        if not limits.is_any:
            return frozenset(), frozenset()
        full = [
            (kind, lane)
            for (kind, lane), many in self._leases.waiting.items()
            if (most := limits.most_held(kind, lane)) is not None and many >= 2 * most
        ]
        self.parked = {where for where in self.parked if not limits.allowed(*where, 1, now)}
        full += self.parked
        kinds = frozenset(kind for kind, lane in full if lane is None)
        return kinds, frozenset(lane for _, lane in full if lane is not None)
