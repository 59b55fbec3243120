"""Dependencies in a DAG, by number: orders, levels, and what lies before or behind a node.

Promises: each answer costs what it says, not the size of the graph: both directions are listed once.
Nodes come in the order in which they were added wherever nothing else decides.

Does not know calls, names or runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from itertools import chain


class Adjacency:
    """A graph of nodes 0 to n-1; `needs[i]` are those that node i waits for."""

    def __init__(self, needs: Sequence[Sequence[int]]) -> None:
        self.needs = needs

    @cached_property
    def followers(self) -> Sequence[Sequence[int]]:
        """For each node those that wait for it. To start a graph nobody has to know them."""
        found: list[list[int]] = [[] for _ in self.needs]
        for node, its in enumerate(self.needs):
            for other in its:
                found[other].append(node)
        return found

    @cached_property
    def order(self) -> Sequence[int]:
        """All nodes, each behind those it waits for. Those on a cycle, and behind one, are missing."""
        if all(not its or max(its) < node for node, its in enumerate(self.needs)):
            return range(len(self.needs))
        left = [len(its) for its in self.needs]
        ready = deque(node for node, count in enumerate(left) if not count)
        order: list[int] = []
        while ready:
            node = ready.popleft()
            order.append(node)
            for follower in self.followers[node]:
                left[follower] -= 1
                if not left[follower]:
                    ready.append(follower)
        return order

    @cached_property
    def levels(self) -> Sequence[Sequence[int]]:
        """Nodes by the longest way to them: the first wait for nothing, others for one of the level before."""
        level = [0] * len(self.needs)
        found: list[list[int]] = []
        for node in self.order:
            its = self.needs[node]
            at = level[node] = 1 + max(map(level.__getitem__, its)) if its else 0
            if at == len(found):
                found.append([])
            found[at].append(node)
        return found

    @cached_property
    def ends(self) -> Sequence[int]:
        """The nodes for which nobody waits."""
        awaited = set(chain.from_iterable(self.needs))
        return [node for node in range(len(self.needs)) if node not in awaited]

    def cycle(self) -> list[int] | None:
        """Nodes of which each waits for the next, the last being the first again; None when there is no such way."""
        stuck = set(range(len(self.needs))).difference(self.order)
        if not stuck:
            return None
        # Each of these waits for another of these, so that going on from any of them leads round in the end.
        way = [min(stuck)]
        seen = {way[0]: 0}
        while True:
            node = next(other for other in self.needs[way[-1]] if other in stuck)
            if node in seen:
                return [*way[seen[node] :], node]
            seen[node] = len(way)
            way.append(node)

    def before(self, nodes: Iterable[int]) -> set[int]:
        """All that these wait for, directly or not."""
        return _reached(nodes, self.needs)

    def behind(self, nodes: Iterable[int]) -> set[int]:
        """All that wait for these, directly or not."""
        return _reached(nodes, self.followers)

    def ready(self, done: Collection[int]) -> list[int]:
        """Return those that can start when these are done: not done themselves, and waiting for nothing else."""
        ended = frozenset(done)
        first = self.levels[0] if self.levels else ()
        near = {follower for node in ended for follower in self.followers[node]}
        waiting = sorted({*first, *near} - ended)
        return [node for node in waiting if ended.issuperset(self.needs[node])]

    def longest(self, weight: Callable[[int], float]) -> tuple[list[int], float]:
        """The way through the graph that takes longest, and how long, when each node takes its weight."""
        until: dict[int, float] = {}
        by_way_of: dict[int, int] = {}
        for node in self.order:
            last = max(self.needs[node], key=until.__getitem__, default=None)
            if last is not None:
                by_way_of[node] = last
            until[node] = weight(node) + (0.0 if last is None else until[last])
        if not until:
            return [], 0.0
        end = max(until, key=until.__getitem__)
        way = [end]
        while way[-1] in by_way_of:
            way.append(by_way_of[way[-1]])
        return way[::-1], until[end]


def _reached(nodes: Iterable[int], ways: Sequence[Sequence[int]]) -> set[int]:
    found: set[int] = set()
    waiting = [other for node in nodes for other in ways[node]]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += ways[node]
    return found
