"""How a DAG becomes a run: its nodes as tasks, level by level, what they wait for as joins, and a task that closes it.

Promises: everything that a run of it needs is in its rows, so that the program may change while it runs. Nodes of one
level and kind lie next to each other, so that what becomes ready together is claimed together. Two starts are the same
when nodes, what they wait for, and all arguments are.

A task has the id of its node as its key.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from types import CodeType
from typing import Any

import msgspec

from ramify.kernel.offspring import Brood, new_tasks, rows_of
from ramify.model.call import Call, Group, ReferringCall, label_of
from ramify.model.codec.escape import filled
from ramify.model.codec.wire import tree_in
from ramify.model.join import NewJoins, NewWaiters, Rule
from ramify.model.run import Order
from ramify.model.task import NewTasks, is_own
from ramify.shapes.dag.adjacency import Adjacency
from ramify.shapes.dag.node import Param
from ramify.shapes.dag.own import CLOSE, AtEnd, own_call
from ramify.shapes.plan import Beginning

#: The id of the task that closes a run.
CLOSING = "(end)"


@dataclass(frozen=True, slots=True)
class DagPlan:
    """A run of a DAG to be. Node i has `ids[i]`, is `nodes[i]`, and runs when what it waits for ended as `rules[i]`."""

    name: str
    ids: Sequence[str]
    nodes: Sequence[Call[Any]]
    graph: Adjacency
    rules: Sequence[Rule]
    at_end: Sequence[tuple[AtEnd, Call[Any]]]
    params: Mapping[str, bytes]

    @property
    def calls(self) -> Sequence[Call[Any]]:
        """Those of users."""
        return [call for call in chain(self.nodes, (call for _, call in self.at_end)) if not is_own(call.kind)]

    @property
    def size(self) -> int:
        """Each node is a task, and there is one that closes the run."""
        return len(self.nodes) + 1

    @property
    def order(self) -> Order:
        """Nothing waits but for what it is told to."""
        return Order.ANY

    def identities(self, older: Mapping[str, Sequence[str]]) -> Iterator[bytes]:
        """Ids, kinds, arguments and edges; older names of kinds one after the other, those of all kinds together."""
        names = {kind: (kind, *older.get(kind, ())) for kind in {call.kind for call in self.nodes}}
        bodies = [self._identity(call) for call in self.nodes]
        end = [msgspec.json.encode(each) for each, _ in self.at_end]
        for age in range(max(map(len, names.values()), default=1)):
            kinds = {kind: its[min(age, len(its) - 1)] for kind, its in names.items()}
            digest = blake2b(digest_size=16)
            for id, call, body, needs, rule in zip(
                self.ids, self.nodes, bodies, self.graph.needs, self.rules, strict=True
            ):
                digest.update(b"%a\0%a\0%d\0%a\0%d " % (id, kinds[call.kind], rule, needs, len(body)))
                digest.update(body)
            for each in (
                *end,
                msgspec.json.encode(sorted((name, value.decode()) for name, value in self.params.items())),
            ):
                digest.update(b"%d " % len(each))
                digest.update(each)
            yield b"%b\0%b" % (self.name.encode(), digest.digest())

    def beginning(self, first: int, now: int) -> Beginning:
        """Nodes level by level with ids from `first` on; then the task that joins all ends."""
        graph, closing = self.graph, first + len(self.nodes)
        numbers = [0] * len(self.nodes)
        tasks: list[NewTasks] = []
        joins: list[NewJoins] = []
        for level in graph.levels:
            alike: dict[tuple[Group, Rule, bool], list[int]] = {}
            for node in level:
                call = self.nodes[node]
                brings = isinstance(call, ReferringCall) and bool(graph.needs[node])
                alike.setdefault((call.group, self.rules[node], brings), []).append(node)
            for (group, rule, brings), nodes in alike.items():
                brood = self._brood(nodes)
                waits = bool(graph.needs[nodes[0]])
                for positions in rows_of(group, brood):
                    ids = range(first, first + len(positions))
                    chosen = [nodes[at] for at in positions]
                    row = new_tasks(group, first, brood.chosen(positions), now, waits=waits, awaited=True)
                    tasks.append(msgspec.structs.replace(row, parents=None))
                    if waits:
                        joins.append(NewJoins(ids, [len(graph.needs[node]) for node in chosen], rule, brings=brings))
                    for node, id in zip(chosen, ids, strict=True):
                        numbers[node] = id
                    first += len(positions)
        tasks.append(self._closing(closing))
        joins.append(NewJoins.one(closing, len(graph.ends), rule=Rule.ALWAYS))
        return Beginning(tasks, joins, self._waiters(numbers, closing))

    def _brood(self, nodes: Sequence[int]) -> Brood:
        brood = Brood()
        for node in nodes:
            call = self.nodes[node]
            brood.add(
                node, msgspec.structs.replace(call, body=self._body(call), label=label_of(call.kind, self.ids[node]))
            )
        return brood

    def _body(self, call: Call[Any]) -> bytes:
        """The arguments of a call with the params of this run in them."""
        if not self.params:
            return call.body
        blanks = {place: blank.source for blank, place in call.blanks()} if isinstance(call, ReferringCall) else {}
        values = {place: self.params[each.name] for place, each in blanks.items() if isinstance(each, Param)}
        return filled(call.body, values) if values else call.body

    def _identity(self, call: Call[Any]) -> bytes:
        # Where results go is written in one way only.
        return call.body if isinstance(call, ReferringCall) else call.group.signature.identity(call.body)

    def _closing(self, id: int) -> NewTasks:
        at_end = [
            msgspec.structs.replace(each, call=msgspec.structs.replace(each.call, body=self._body(call).decode()))
            for each, call in self.at_end
        ]
        call = own_call(CLOSE, at_end)
        brood = Brood()
        brood.add(0, msgspec.structs.replace(call, label=label_of(CLOSE, CLOSING)))
        return msgspec.structs.replace(new_tasks(call.group, id, brood, 0, waits=True), parents=None)

    def _waiters(self, numbers: Sequence[int], closing: int) -> list[NewWaiters]:
        graph = self.graph
        tasks = [numbers[each] for needs in graph.needs for each in needs]
        joins = [numbers[node] for node, needs in enumerate(graph.needs) for _ in needs]
        slots = [slot for needs in graph.needs for slot in range(len(needs))]
        tasks += (numbers[node] for node in graph.ends)
        joins += [closing] * len(graph.ends)
        slots += range(len(graph.ends))
        return [NewWaiters(tasks, joins, slots)]

    def __str__(self) -> str:
        given = ", ".join(f"{name}={tree_in(value)!r}" for name, value in self.params.items())
        return f"{self.name}({given}), {len(self.nodes):,} nodes"


def plan_of(root: object, functions: Container[CodeType]) -> DagPlan | None:
    """A run of a DAG is its own plan."""
    return root if isinstance(root, DagPlan) else None
