"""Continuations: the forks of one claim as rows for a commit. Pure but for the ids that it takes.

Forks of a claim share rows: the continuations of all of them lie next to each other, and so do their members, each of
which is linked to its join and slot by a waiter. A fork with very many members has a row of its own for them instead,
which knows the slots of all; one with so many that they are staged brings its continuation alone. Subgraphs share rows
too, call by call: those of one claim are mostly alike. The continuation of a task arrives wherever that task is waited
for, so that whoever waits for it gets the final result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ramify.kernel.core.handler import Handler
from ramify.kernel.outgoing.offspring import Brood, Fork, Subgraph, in_order, new_tasks, rows_of
from ramify.model.call import Call, Extra, Group
from ramify.model.claim import Claim
from ramify.model.event import UNTRIED
from ramify.model.join import SMALL, NewJoins, NewWaiters, Rule
from ramify.model.task import MAX_ID, NewTasks

Reserve = Callable[[int], int]


def floor(claim: Claim, parents: Iterable[int]) -> int:
    """Return what ids of continuations must be above: of all that arrive for a task, the one with the largest id
    counts.

    Those of an earlier life may have been made by others, with any ids: then above all that were ever reserved.
    """
    parents = list(parents)
    if any(claim.history.get(task, UNTRIED).life > 1 for task in parents):
        return MAX_ID
    return max(parents, default=0)


class Continuations:
    """The rows that forks become: `children`, `joins`, `waiters`, and for each task that forked its heir."""

    def __init__(self, forks: Iterable[Fork | Subgraph], reserve: Reserve, now: int) -> None:
        self._reserve = reserve
        self._now = now
        self.children: list[NewTasks] = []
        self.joins: list[NewJoins] = []
        self.waiters: list[NewWaiters] = []
        self.heirs: dict[int, int] = {}
        alike: dict[tuple[Group, Rule], list[Fork]] = {}
        subgraphs: list[Subgraph] = []
        for fork in forks:
            if isinstance(fork, Subgraph):
                subgraphs.append(fork)
                continue
            if fork.join is not None:
                self._end_staged(fork, fork.join)
                continue
            alike.setdefault((fork.then.group, _rule_of(fork.then)), []).append(fork)
        joined = [pair for (group, rule), some in alike.items() for pair in self._continue(group, rule, some)]
        self._gather([pair for pair in joined if len(pair[1].members) <= SMALL])
        for join, fork in joined:
            if len(fork.members) > SMALL:
                self._spread(join, fork)
        if subgraphs:
            self._grow(subgraphs)

    def _end_staged(self, fork: Fork, join: int) -> None:
        """The continuation of members that are staged, each of which knows its join and slot."""
        brood = Brood()
        brood.add(fork.parent, fork.then)
        self.children.append(new_tasks(fork.then.group, join, brood, self._now, waits=True))
        self.joins.append(NewJoins((join,), (fork.staged,), _rule_of(fork.then)))
        self.heirs[fork.parent] = join

    def _continue(self, group: Group, rule: Rule, forks: Sequence[Fork]) -> Iterator[tuple[int, Fork]]:
        """The continuations of forks that are alike, each under a join of its own."""
        brood = Brood()
        for fork in forks:
            brood.add(fork.parent, fork.then)
        for positions in rows_of(group, brood):
            first = self._reserve(len(positions))
            ids, chosen = range(first, first + len(positions)), [forks[i] for i in positions]
            self.children.append(new_tasks(group, first, brood.chosen(positions), self._now, waits=True))
            self.joins.append(NewJoins(ids, [len(fork.members) for fork in chosen], rule, brings=reads_results(group)))
            for join, fork in zip(ids, chosen, strict=True):
                self.heirs[fork.parent] = join
                yield join, fork

    def _gather(self, joined: Sequence[tuple[int, Fork]]) -> None:
        """The members of small forks, all together, and their slots."""
        broods: dict[Group, Brood] = {}
        waited_at: dict[Group, list[tuple[int, int]]] = {}
        for join, fork in joined:
            for slot, call in enumerate(fork.members):
                if (brood := broods.get(call.group)) is None:
                    brood = broods[call.group] = Brood()
                    waited_at[call.group] = []
                brood.add(fork.parent, call)
                waited_at[call.group].append((join, slot))
        for group, brood in broods.items():
            for positions in rows_of(group, brood):
                first = self._reserve(len(positions))
                self.children.append(new_tasks(group, first, brood.chosen(positions), self._now, awaited=True))
                joins, slots = zip(*(waited_at[group][i] for i in positions), strict=True)
                self.waiters.append(NewWaiters(range(first, first + len(positions)), joins, slots))

    def _spread(self, join: int, fork: Fork) -> None:
        """The members of a large fork, in call order."""
        slot = 0
        for group, brood in in_order(fork.parent, fork.members):
            first = self._reserve(len(brood.bodies))
            self.children.append(new_tasks(group, first, brood, self._now, join=join, slot=slot))
            slot += len(brood.bodies)

    def _grow(self, subgraphs: Sequence[Subgraph]) -> None:
        """The calls of subgraphs, those in the same place of each next to each other, and what they wait for."""
        numbers = [[0] * len(graph.calls) for graph in subgraphs]
        alike: dict[tuple[int, Group, Rule, bool, bool], list[int]] = {}
        for at, graph in enumerate(subgraphs):
            for place, (call, needs, rule, brings) in enumerate(graph.calls):
                alike.setdefault((place, call.group, rule, brings, bool(needs)), []).append(at)
        for (place, group, rule, brings, waits), graphs in alike.items():
            brood = Brood()
            for at in graphs:
                brood.add(subgraphs[at].parent, subgraphs[at].calls[place].call)
            for positions in rows_of(group, brood):
                first = self._reserve(len(positions))
                chosen = [graphs[i] for i in positions]
                row = new_tasks(group, first, brood.chosen(positions), self._now, waits=waits, awaited=True)
                self.children.append(row)
                if waits:
                    counts = [len(subgraphs[at].calls[place].needs) for at in chosen]
                    self.joins.append(NewJoins(row.ids, counts, rule, brings=brings))
                for at, id in zip(chosen, row.ids, strict=True):
                    numbers[at][place] = id
        edges = [
            (ids[need], ids[place], slot)
            for graph, ids in zip(subgraphs, numbers, strict=True)
            for place, each in enumerate(graph.calls)
            for slot, need in enumerate(each.needs)
        ]
        if edges:
            self.waiters.append(NewWaiters.of(edges))
        self.heirs.update((graph.parent, ids[-1]) for graph, ids in zip(subgraphs, numbers, strict=True))


def reads_results(group: Group) -> bool:
    """Return whether tasks of a group take the results of those they waited for. Of one nobody here knows: perhaps."""
    return not isinstance(group.handler, Handler) or group.handler.stream is not None


def _rule_of(then: Call[Any]) -> Rule:
    return Extra.decode(then.extra).rule
