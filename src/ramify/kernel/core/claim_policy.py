"""The claim policy: when to claim again, and what. Part of the core: no threads, no clock.

A claim that left nothing makes the process *dry*: it asks again after a pause that grows, or at once when something
stirred, or when the next row is due that the claim told of. One that brought several new runs and left nothing is not
followed by the next at once: runs are being started one after the other, and each claim and commit is to serve many of
them. A process that holds a suspect takes nothing else, and one that saw suspects wait for too long stops taking other
work until it is empty, because only an empty process is given them. Of kinds under limits of the store it takes few in
advance (`grants.py`).

Threads and the event loop are fed apart: a side that has enough is left out of the claim, and one that holds nothing is
asked for now and then. A process whose tasks become much longer than they were puts back what it would take too long
for.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping

from ramify.kernel.core.grants import Grants
from ramify.kernel.core.handler import Handler
from ramify.kernel.core.holding import Holding
from ramify.kernel.core.leases import Leases
from ramify.kernel.core.limits import Where
from ramify.kernel.core.queues import Turns
from ramify.kernel.core.suspects import are_held
from ramify.kernel.settings import Settings
from ramify.kernel.tuning import HOLD_OFF, RUNS_SEEN, SUSPECT_WAIT, WATCHED
from ramify.model.claim import Claimed, Want


class ClaimPolicy:
    """The claims that a process would like to make."""

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
        self._side_of = {kind: handler.calling.is_async for kind, handler in handlers.items()}
        self._sides = frozenset(self._side_of.values())
        self.grants = Grants(leases, self._side_of)
        #: The side that was fed last.
        self._fed: frozenset[bool] = frozenset()
        self._turns = self._asked = Turns(settings.queues)
        #: The same where only some sides are asked for: that these find nothing says nothing of the others.
        self._turns_of = {frozenset({side}): Turns(settings.queues) for side in (True, False)}
        self._turns_of[self._sides] = self._turns
        self._suspects_since: float | None = None
        #: When tasks that were put off are due.
        self._dues: list[float] = []
        #: Where suspects were put back because of a limit; nothing is taken there until it lets somebody start.
        self.parked: set[Where] = set()
        #: Whether nothing more is taken, for good.
        self.is_over = False
        #: How many tasks this process is through with: ended, or put off. One that is tried again here is not.
        self.through = 0
        self.scarce = False
        # Who serves given runs gets no new ones, and who works until there is nothing to do must not rest before.
        self._may_hold_off = settings.runs is None and not settings.until_idle
        #: Before this nothing is claimed.
        self.holds_off_until = -math.inf
        #: Until then one of those that returned may still end this process. No suspect must be here when it does.
        self._watched_until = -math.inf
        #: Runs of which there was something before: what goes on step by step is no new run.
        self._seen: set[int] = set()

    def learn(self, kinds: Iterable[str]) -> None:
        """Ask for tasks of these kinds as well, which are plain functions, from now on."""
        self._side_of.update(dict.fromkeys(kinds, False))
        self.stirred()

    def fed(self, answer: Claimed, now: float) -> None:
        """A claim was answered."""
        if answer.claims:
            self._fed = frozenset(self._side_of[claim.kind] for claim in answer.claims)
        self.grants.claimed(answer, now)
        self._asked.fed(answer, now)
        if self._may_hold_off and self._new_runs(answer) > 1 and self.is_dry:
            self.holds_off_until = now + HOLD_OFF
        tasks = sum(len(claim.tasks) for claim in answer.claims)
        self._leases.sizes.claimed(tasks, self._asked.ready)
        if not self._turns.suspects:
            self._suspects_since = None
        elif self._suspects_since is None:
            self._suspects_since = now

    def stirred(self) -> None:
        """Something may be there that was not there a moment ago. One side alone asks again after its pause."""
        self._turns.stirred()
        self._leases.sizes.untold()

    def put_off(self, until: float) -> None:
        """Tasks left memory until then: an idle process wakes up for them."""
        heapq.heappush(self._dues, until)

    @property
    def is_dry(self) -> bool:
        """True if nothing is left that this process could take, as far as it knows."""
        return self._turns.is_dry

    @property
    def asks_again(self) -> float:
        """When it asks again although nothing has stirred, while something is held."""
        turns = self._turns_of[self._lack()[1]]
        return turns.dry_until if turns.is_dry else -math.inf

    @property
    def next_due(self) -> float | None:
        """When the first row is due that this process put off, or that its last claim told of."""
        first = min(self._turns.next_due, self._dues[0] if self._dues else math.inf)
        return first if first < math.inf else None

    @property
    def is_hungry(self) -> bool:
        """True if less is held than should be, and nothing says that there is no more."""
        lack, sides = self._lack()
        return lack > 0 and not self._turns_of[sides].is_dry

    def want(self, now: float) -> Want | None:
        """Return what to claim now; None for nothing."""
        while self._dues and self._dues[0] <= now:
            heapq.heappop(self._dues)
            self.stirred()
        if self._turns.ripen(now):
            self._leases.sizes.untold()
        room = self._room()
        if self.is_over or room == 0 or self.is_shut(now) or now < self.holds_off_until:
            return None
        if not self._holdings and self._suspects_since is not None and now < self._watched_until:
            self.holds_off_until = self._watched_until
            return None
        limit, sides = self._lack()
        choice = self._turns_of[sides].next(now, asks_again=bool(self._holdings)) if limit else None
        if choice is None:
            return None
        self._asked = self._turns_of[sides]
        held_back, lanes = self._held_back(now)
        kinds = frozenset(kind for kind, is_async in self._side_of.items() if is_async in sides) - held_back
        few = self.grants.few(kinds, self.through, now)
        kinds -= self.grants.enough(few)
        if self.scarce:
            limit = max(1, limit // 4)
        limit = limit if room is None else min(limit, room)
        runs = None if self._settings.runs is None else self._settings.runs | self._settings.launched.runs
        return Want(kinds, limit, choice.queues, runs, lanes, few) if kinds else None

    def returned(self, holding: Holding, now: float) -> None:
        """Tasks of a holding have come to an end."""
        if not holding.is_suspect:
            self._watched_until = now + WATCHED

    def is_too_soon(self, now: float) -> bool:
        """Return whether suspects are held while others, which have returned, are watched."""
        return now < self._watched_until and are_held(self._holdings)

    def surplus(self, now: float) -> Iterator[Holding]:
        """Yield what goes back: suspects that came too soon, unused places, and what is far too much by now, the latest
        first.
        """
        if self.is_too_soon(now):
            self.holds_off_until = self._watched_until
            yield from [holding for holding in self._holdings.values() if holding.available]
            return
        for holding in self.grants.unused(self._holdings, now):
            if not self._leases.limits.allowed(*holding.where, 1, now):
                self.parked.add(holding.where)
            yield holding
        sizes, held = self._leases.sizes, self._held()
        over = {side: sizes.surplus(self._target(side), of_side) for side, of_side in held.items()}
        for holding in reversed(list(self._holdings.values())) if any(over.values()) else ():
            side = holding.handler.calling.is_async
            if over.get(side, 0) > 0 and holding.available:
                over[side] -= holding.available
                yield holding

    def _room(self) -> int | None:
        """How many more tasks may be taken before this process has had its share; None for any number."""
        most = self._settings.most_tasks
        held = sum(holding.left for holding in self._holdings.values()) if most is not None else 0
        return None if most is None else max(0, most - self.through - held)

    def _lack(self) -> tuple[int, frozenset[bool]]:
        """How many tasks to ask for, and of which sides. Where nothing is held, of the side that was fed last."""
        held, limit = self._held(), self._leases.sizes.limit
        used = held.keys() or self._fed or self._sides
        lacks = {side: limit(self._target(side), held.get(side, {})) for side in used}
        idle = self._sides - used
        asked = frozenset(side for side, lack in lacks.items() if lack) | idle
        if asked == idle:
            lacks = {side: self._target(side) for side in idle}
        return min(filter(None, lacks.values()), default=0), asked or self._sides

    def _held(self) -> Mapping[bool, Mapping[str, int]]:
        """Return what is held that workers could do, by side."""
        if len(self._sides) == 1:
            return dict.fromkeys(self._sides, self._startable())
        found: dict[bool, dict[str, int]] = {}
        for kind, many in self._startable().items():
            if many > 0:
                found.setdefault(self._side_of[kind], {})[kind] = many
        return found

    def _target(self, is_async: bool) -> int:
        """How many tasks of a side could run at a time."""
        return self._leases.adapters[is_async].target

    def _new_runs(self, answer: Claimed) -> int:
        """How many runs of a claim begin."""
        new = {claim.run for claim in answer.claims if not claim.round} - self._seen
        if len(self._seen) > RUNS_SEEN:
            self._seen.clear()
        self._seen |= new
        return len(new)

    def is_shut(self, now: float) -> bool:
        """Return whether nothing may be added to what is held."""
        for holding in self._holdings.values():
            # A suspect is only ever held alone or with other suspects, so the first one tells.
            return holding.is_suspect or (
                self._suspects_since is not None and now - self._suspects_since > SUSPECT_WAIT
            )
        return False

    def _startable(self) -> Mapping[str, int]:
        """Return what is held, without what a limit holds back: workers could do something else meanwhile."""
        leases = self._leases
        return leases.kinds - leases.stuck if leases.stuck else leases.kinds

    def _held_back(self, now: float) -> tuple[frozenset[str], frozenset[str]]:
        """Kinds and lanes of which enough waits already."""
        limits = self._leases.limits
        if not limits.is_any:
            return frozenset(), frozenset()
        full: list[Where] = []
        if any(many and limits.may_limit(kind) for kind, many in self._leases.unleased.items()):
            # There may be thousands of lanes, and each step asks this.
            full += (
                (kind, lane)
                for (kind, lane), many in self._leases.waiting.items()
                if (most := limits.most_held(kind, lane)) is not None and many >= 2 * most
            )
        self.parked = {where for where in self.parked if not limits.allowed(*where, 1, now)}
        full += self.parked
        kinds = frozenset(kind for kind, lane in full if lane is None)
        return kinds, frozenset(lane for _, lane in full if lane is not None)
