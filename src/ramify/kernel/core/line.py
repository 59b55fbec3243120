"""The line: holdings in the order in which they came, from which tasks are handed out. No threads, no clock.

Whoever came first goes first. A kind and lane that a limit holds back steps aside with all that it has, so that whoever
looks for work never walks past it: of lanes, and of holdings in one lane, there may be many thousands.

Does not know why somebody steps aside, nor what a limit is.
"""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count

from ramify.kernel.core.holding import Holding
from ramify.kernel.core.limits import Where


class Line:
    """Holdings of one side. Each kind and lane in it is in the heap by its first holding, or aside."""

    def __init__(self) -> None:
        self._queues: dict[Where, deque[Holding]] = {}
        self._heap: list[tuple[int, Where]] = []
        #: Who steps back in line when: None for when one of its tasks is over.
        self._aside: dict[Where, float | None] = {}
        self._openings: list[tuple[float, int, Where]] = []
        self._number = count()
        #: How many of them have tasks that are alone in their chunks.
        self.special = 0

    def add(self, holding: Holding) -> None:
        """Let a holding stand in line; it may be there already."""
        if holding.place is not None:
            return
        holding.place = number = next(self._number)
        self.special += holding.is_special
        where = holding.where
        queue = self._queues.get(where)
        if queue is None:
            queue = self._queues[where] = deque()
            heapq.heappush(self._heap, (number, where))
        queue.append(holding)

    def front(self) -> Holding | None:
        """The first one that has something to hand out."""
        while self._heap:
            _, where = self._heap[0]
            queue = self._queues[where]
            holding = queue[0]
            if holding.available:
                return holding
            queue.popleft()
            holding.place = None
            self.special -= holding.is_special
            if queue:
                heapq.heapreplace(self._heap, (_place_of(queue[0]), where))
            else:
                heapq.heappop(self._heap)
                del self._queues[where]
        return None

    def step_aside(self, until: float | None) -> None:
        """The kind and lane in front waits until then, or until one of its tasks is over."""
        number, where = heapq.heappop(self._heap)
        self._aside[where] = until
        if until is not None:
            heapq.heappush(self._openings, (until, number, where))

    def is_aside(self, where: Where) -> bool:
        """Return whether it waits for something."""
        return where in self._aside

    def over(self, where: Where) -> bool:
        """A task of this kind and lane is over; whether it steps back in line for that."""
        if self._aside.get(where, 0.0) is not None:
            return False
        self._step_back(where)
        return True

    def opened(self, now: float) -> Where | None:
        """A kind and lane that steps back in line because its time has come; None when there is no other."""
        if not self._openings or self._openings[0][0] > now:
            return None
        _, _, where = heapq.heappop(self._openings)
        self._step_back(where)
        return where

    @property
    def opens_at(self) -> float | None:
        """When the next of those that wait for a time steps back in line."""
        return self._openings[0][0] if self._openings else None

    def _step_back(self, where: Where) -> None:
        del self._aside[where]
        heapq.heappush(self._heap, (_place_of(self._queues[where][0]), where))


def _place_of(holding: Holding) -> int:
    assert holding.place is not None
    return holding.place
