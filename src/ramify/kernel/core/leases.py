"""Leases: which tasks are in whose hands, and which may be handed out next. Part of the core: no threads, no clock.

Holdings stand in two lines (threads, event loop) and give up tasks from the front; those that a limit holds back
step aside. Short waits are kept here too, and the deadlines of what was handed out.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import count

from ramify.kernel.core.adapt import Adapter, Change
from ramify.kernel.core.handler import Handler
from ramify.kernel.core.holding import Holding, where_of
from ramify.kernel.core.limits import OwnLimits, Where
from ramify.kernel.core.line import Line
from ramify.kernel.core.sizes import Sizes
from ramify.kernel.core.work import Chunk, Ran
from ramify.kernel.settings import Settings
from ramify.kernel.tuning import (
    BACK_AT_ONCE,
    CHOSEN_COROUTINES,
    CHOSEN_THREADS,
    DEADLINES_KEPT,
    FIRST_COROUTINES,
    FIRST_THREADS,
)


class Leases:
    """The hand-out of tasks. `ready`, `leased`, `chunks`: False is for threads, True for the event loop.

    `extra_time(chunk, now)` is for how many seconds a coroutine that is out of time is still waited for.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        settings: Settings,
        extra_time: Callable[[Chunk, float], float] = lambda chunk, now: 0.0,
    ) -> None:
        self._extra_time = extra_time
        self.limits = OwnLimits(handlers)
        self.sizes = Sizes(settings.claim_at_most)
        threads, coroutines = settings.threads, settings.coroutines
        first = FIRST_THREADS if threads is None else max(1, threads)
        self.adapters = {
            False: Adapter("threads", first, CHOSEN_THREADS, fixed=threads is not None),
            True: Adapter(
                "coroutines", coroutines or FIRST_COROUTINES, CHOSEN_COROUTINES, fixed=coroutines is not None
            ),
        }
        self.ready = {False: 0, True: 0}
        self.leased = {False: 0, True: 0}
        self.chunks = {False: 0, True: 0}
        #: Tasks that wait for a worker or are in the hands of one, by kind.
        self.kinds: Counter[str] = Counter()
        #: Of those, by kind, the ones that stand aside; and all that wait, by kind and lane.
        self.stuck: Counter[str] = Counter()
        self.waiting: Counter[Where] = Counter()
        #: All that wait, by kind.
        self.unleased: Counter[str] = Counter()
        self._line = {False: Line(), True: Line()}
        self._timed = tuple(kind for kind, handler in handlers.items() if handler.policy.timeout is not None)
        self._retries: list[tuple[float, int, Holding, int]] = []
        self._deadlines: list[tuple[float, int, Chunk]] = []
        self._out: set[Chunk] = set()
        self._changes: list[tuple[str, Change]] = []
        #: Claims to be put back as soon as nothing of them runs or is unsent, by token.
        self.put_back: deque[bytes] = deque()
        self._tie = count()

    @property
    def running(self) -> int:
        """How many tasks are in the hands of workers."""
        return self.leased[False] + self.leased[True]

    @property
    def waiting_tasks(self) -> int:
        """How many tasks could be handed out."""
        return self.ready[False] + self.ready[True]

    # into the line and out of it

    def offer(self, holding: Holding, many: int) -> None:
        """`many` more tasks of a holding may be handed out."""
        if holding.closing or not many:
            return
        self._wait(holding, many)
        self.kinds[holding.claim.kind] += many
        self._line[holding.handler.calling.is_async].add(holding)

    def send_back(self, holding: Holding) -> None:
        """Put its claim back as soon as that can be done."""
        self.close(holding)
        self.put_back.append(holding.claim.token)

    def next_put_back(self, holdings: Mapping[bytes, Holding]) -> tuple[bytes, ...]:
        """The tokens of claims that are to go back, of which nothing runs and nothing is unsent."""
        found: list[bytes] = []
        while self.put_back and len(found) < BACK_AT_ONCE:
            token = self.put_back.popleft()
            holding = holdings.get(token)
            if holding is not None and holding.closing and not holding.leased and not holding.unsent:
                found.append(token)
        return tuple(dict.fromkeys(found))

    def close(self, holding: Holding) -> None:
        """Hand out nothing more of it; tasks in a short wait are not waited for."""
        if many := holding.available:
            self.kinds[holding.claim.kind] -= many
            self._wait(holding, -many)
        holding.closing = True

    def _wait(self, holding: Holding, more: int) -> None:
        """So many more tasks of a holding wait for a worker."""
        is_async, where = holding.handler.calling.is_async, holding.where
        self.ready[is_async] += more
        self.waiting[where] += more
        self.unleased[where[0]] += more
        if not self.waiting[where]:
            del self.waiting[where]
        if self._line[is_async].is_aside(where):
            self.stuck[where[0]] += more

    def give_back(self, holding: Holding, position: int, *, closing: bool = False) -> None:
        """A task was interrupted and may be handed out again; not here if its holding is to close."""
        holding.give_back(position)
        self.offer(holding, 1)
        if closing:
            self.close(holding)

    def retry(self, holding: Holding, position: int, at: float) -> None:
        """Hand a task out again, not before `at`; its last outcome is committed."""
        holding.waiting += 1
        heapq.heappush(self._retries, (at, next(self._tie), holding, position))

    def ripen(self, now: float) -> None:
        """Put tasks whose wait is over back in line, and whole lanes whose rate allows the next start."""
        for line in self._line.values():
            while (where := line.opened(now)) is not None:
                self.stuck[where[0]] -= self.waiting[where]
        while self._retries and self._retries[0][0] <= now:
            _, _, holding, position = heapq.heappop(self._retries)
            holding.waiting -= 1
            self.give_back(holding, position)

    # handing out

    def has_room(self, is_async: bool) -> bool:
        """Return whether one more worker of this side may be given something."""
        return (self.leased if is_async else self.chunks)[is_async] < self.adapters[is_async].target

    @property
    def is_calm(self) -> bool:
        """True if a single thread is enough, and what waits for it is so quick that handing it over costs more."""
        if self.adapters[False].target != 1 or not self.ready[False] or not self.sizes.are_quick(self.kinds):
            return False
        # Who has a time limit may hang for ever, and then the thread it hangs in is given up: not the loop's own.
        return not any(self.kinds[kind] for kind in self._timed) and not self._line[False].special

    def lease(self, is_async: bool, now: float) -> Chunk | None:
        """Tasks for one worker, or None when there is nothing it may do."""
        if not self.has_room(is_async):
            return None
        self.ripen(now)
        line = self._line[is_async]
        while (holding := line.front()) is not None:
            chunk = self._chunk(holding, is_async, now)
            if chunk is not None:
                return chunk
            if holding.claim.lanes is not None:
                # What came first in it was set aside; the lanes of the others may be free.
                continue
            where = holding.where
            wait = self.limits.opens_in(*where, now)
            line.step_aside(None if wait is None else now + wait)
            self.stuck[where[0]] += self.waiting[where]
        if any(self.stuck.values()) or not self.sizes.is_more:
            # Not where the next claim brings more: more workers would have claimed more in time.
            self.adapters[is_async].starved()
        return None

    def _chunk(self, holding: Holding, is_async: bool, now: float) -> Chunk | None:
        claim = holding.claim
        many = min(holding.available, self._most(holding, is_async))
        by_lane = claim.lanes is not None and self.limits.may_limit(claim.kind)
        if not by_lane:
            many = self.limits.allowed(*holding.where, many, now)
        if not many:
            return None
        # It may give fewer: what came back goes first, and alone.
        positions = holding.take(many)
        self._wait(holding, -len(positions))
        if by_lane:
            positions = self._admitted(holding, positions, now)
        else:
            self.limits.start(*holding.where, len(positions), now)
        if holding.aside and not holding.available and not holding.waiting:
            self.send_back(holding)
        if not positions:
            return None
        holding.used = now
        self.leased[is_async] += len(positions)
        self.chunks[is_async] += 1
        attempts = {p: holding.attempts[p] for p in positions if p in holding.attempts} if holding.attempts else {}
        chunk = Chunk(claim, holding.handler, positions, attempts, timeout_of(holding, positions[0]))
        if (extra := holding.extras.get(positions[0])) is not None and extra.polls:
            chunk.polls = extra
        if by_lane:
            chunk.lanes = {claim.tasks[position]: claim.lane_of(position) for position in positions}
        if chunk.limit is not None:
            chunk.deadline = now + chunk.limit
            if len(self._deadlines) > DEADLINES_KEPT + 4 * sum(self.chunks.values()):
                # Most of them came back long before their time was up; their claims must not be kept for that long.
                self._deadlines = [entry for entry in self._deadlines if not (entry[2].lost or entry[2].is_back)]
                heapq.heapify(self._deadlines)
            self._watch(chunk, chunk.deadline)
        self._out.add(chunk)
        return chunk

    def _admitted(self, holding: Holding, positions: Sequence[int], now: float) -> Sequence[int]:
        """Return those of several lanes that may start. The others are set aside, and in the end their holding goes
        back.
        """
        claim = holding.claim
        chosen = [position for position in positions if self.limits.admits(claim.kind, claim.lane_of(position), now)]
        if refused := len(positions) - len(chosen):
            holding.set_aside(refused)
            self.kinds[claim.kind] -= refused
        return chosen

    def _watch(self, chunk: Chunk, until: float) -> None:
        heapq.heappush(self._deadlines, (until, next(self._tie), chunk))

    def _most(self, holding: Holding, is_async: bool) -> int:
        target = self.adapters[is_async].target
        claim = holding.claim
        # What is out of time is taken away by itself.
        if holding.handler.policy.timeout is not None or holding.is_special:
            return 1
        if is_async:
            return target - self.leased[is_async]
        # Tasks of one chunk run one after the other, the last long after it was counted: a limit leaves a worker one,
        # or one of each lane.
        limit = self.limits.most_held(*holding.where) if claim.lanes is None else holding.handler.policy.rate
        if limit is not None:
            return 1
        return self.sizes.chunk(claim.kind, self.ready[is_async], target)

    # coming back

    def take_back(self, ran: Ran, holding: Holding | None) -> None:
        """Some tasks of a chunk are out of the worker's hands."""
        chunk, kind, many = ran.chunk, ran.chunk.claim.kind, ran.count
        self.leased[chunk.handler.calling.is_async] -= many
        self.kinds[kind] -= many
        if chunk.lanes is not None:
            for task in ran.tasks:
                self._over(chunk, (kind, chunk.lanes[task]), 1)
        else:
            self._over(chunk, where_of(chunk.claim), many)
        if holding is not None:
            holding.leased -= many

    def _over(self, chunk: Chunk, where: Where, many: int) -> None:
        self.limits.stop(*where, many)
        if self._line[chunk.handler.calling.is_async].over(where):
            self.stuck[where[0]] -= self.waiting[where]

    def free(self, chunk: Chunk) -> None:
        """The worker of a chunk is free again, or no longer counted."""
        self.chunks[chunk.handler.calling.is_async] -= 1
        self._out.discard(chunk)

    def learn(self, ran: Ran, holding: Holding, deferred: Sequence[int], now: float, cpu: float) -> None:
        """Learn from tasks that came back, some of them deferred. `cpu` is what this process has used so far."""
        claim, tried = ran.chunk.claim, ran.tried
        if not tried:
            return
        adapter = self.adapters[ran.chunk.handler.calling.is_async]
        for many, seconds in ran.stretches(len(tried)):
            self.sizes.ran(claim.kind, many, seconds, adapter.target)
        adapter.ran(len(tried), ran.seconds, ran.busy, now, cpu)
        if not deferred and not self.limits.is_throttling:
            return
        if claim.lanes is None:
            self._judge(claim.kind, claim.lane, len(tried), len(deferred), now)
            return
        back = Counter(claim.lanes[holding.position_of(task)] for task in deferred)
        for lane, many in Counter(claim.lanes[holding.position_of(task)] for task in tried).items():
            self._judge(claim.kind, lane, many, back[lane], now)

    def _judge(self, kind: str, lane: str | None, tasks: int, deferred: int, now: float) -> None:
        if (change := self.limits.ran(kind, lane, tasks, deferred, now)) is not None:
            self._changes.append((kind if lane is None else f"{kind} in lane {lane}", change))

    def judge(self, now: float, scarce: bool, cpu: float) -> Sequence[tuple[str, Change]]:
        """Return what changed in how many run at a time; `scarce` when memory is."""
        for adapter in self.adapters.values():
            if (change := adapter.judge(now, scarce, cpu)) is not None:
                self._changes.append((adapter.of, change))
        changes, self._changes = self._changes, []
        return changes

    def overdue(self, now: float) -> Iterator[Chunk]:
        """Chunks whose time is up and that are waited for no more."""
        while self._deadlines and self._deadlines[0][0] <= now:
            _, _, chunk = heapq.heappop(self._deadlines)
            if chunk.lost or chunk.is_back:
                continue
            chunk.is_waited_for = False
            if chunk.handler.calling.is_async and (wait := self._extra_time(chunk, now)) > 0:
                self._watch(chunk, now + wait)
            elif not chunk.lost:
                yield chunk

    def wait_until(self, until: float, unwanted: Container[int]) -> None:
        """Threads that run one of these tasks are waited for until then; coroutines are cancelled anyway."""
        for chunk in self._out:
            if chunk.is_waited_for or chunk.handler.calling.is_async or not any(t in unwanted for t in chunk.tasks):
                continue
            chunk.is_waited_for = True
            self._watch(chunk, until)

    def next_moment(self, now: float, parked: Iterable[Where] = ()) -> float | None:
        """Seconds until a wait is over, a limit opens for what is held or `parked`, or a deadline passes."""
        while self._deadlines and (self._deadlines[0][2].lost or self._deadlines[0][2].is_back):
            # Nobody is waited for any more, so its time is no moment to wake up for.
            heapq.heappop(self._deadlines)
        moments = [line[0][0] for line in (self._retries, self._deadlines) if line]
        moments += [at for line in self._line.values() if (at := line.opens_at) is not None]
        moments += [now + wait for where in parked if (wait := self.limits.opens_in(*where, now)) is not None]
        return max(0.0, min(moments) - now) if moments else None


def timeout_of(holding: Holding, position: int) -> float | None:
    """The time limit of one attempt: the call's own, or its kind's."""
    extra = holding.extras.get(position)
    return extra.timeout if extra is not None and extra.timeout is not None else holding.handler.policy.timeout
