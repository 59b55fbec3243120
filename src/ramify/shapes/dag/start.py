"""How a DAG becomes a run: its nodes as tasks, level by level, what they wait for as joins, and a task that closes it.

Promises: everything that a run of it needs is in its rows, so that the program may change while it runs. Nodes of one
level and kind lie next to each other, so that what becomes ready together is claimed together. Two starts are the same
when nodes, what they wait for, and all arguments are.

A task has the id of its node as its key.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from types import CodeType, MappingProxyType
from typing import Any, TypeVar

import msgspec

from ramify.errors import ConfigError
from ramify.kernel.attempts.attempt_env import Definition
from ramify.kernel.outgoing.offspring import Brood, new_tasks, rows_of
from ramify.model.call import Call, Group, label_of
from ramify.model.codec.escape import filled
from ramify.model.codec.wire import tree_in
from ramify.model.digest import digest_of
from ramify.model.join import NewJoins, NewWaiters, Rule
from ramify.model.key import key_bytes, key_text
from ramify.model.reference import Reference
from ramify.model.run import Order, RunState
from ramify.model.task import NewTasks, Row, is_own
from ramify.shapes.dag.adjacency import Adjacency
from ramify.shapes.dag.node import Node, NodeCall
from ramify.shapes.dag.own import CLOSE, MAPS, AtEnd, own_call, renamed
from ramify.shapes.dag.part import Given, chosen, given_call
from ramify.shapes.dag.words import named, nearest
from ramify.shapes.plan import Beginning

T = TypeVar("T")

#: The id of the task that closes a run.
CLOSING = "(end)"


@dataclass(frozen=True, slots=True)
class DagPlan:
    """A run of a DAG to be started. Node i is `nodes[i]` with id `ids[i]`, and runs by `rules[i]`."""

    name: str
    ids: Sequence[str]
    nodes: Sequence[Call[Any]]
    graph: Adjacency
    rules: Sequence[Rule]
    at_end: Sequence[tuple[AtEnd, Call[Any]]]
    params: Mapping[str, bytes]
    #: Of the maps: the calls that they make.
    maps: Mapping[int, Call[Any]]
    #: Calls that are inside of others: generators that maps call, steps of branches.
    inside: Sequence[Call[Any]] = ()
    #: What it is a run of; None for a part.
    definition: Definition | None = field(default=None, compare=False, repr=False)
    #: Params that are known only in a run of another DAG, which triggers this one.
    open: Mapping[str, Reference] = field(default_factory=dict)

    def part(
        self,
        *,
        only: Iterable[Node[Any] | str] = (),
        upto: Node[Any] | str | None = None,
        given: Given = MappingProxyType({}),
    ) -> DagPlan:
        """Run a subset of it: `only` these nodes, or all nodes needed for `upto`.

        Results of needed nodes that do not run come from `given`: values by node id, or an earlier run. A node with a
        value does not run, nor do nodes needed only by it; an exception stands for a failure.
        """
        if isinstance(only, str | Node):
            raise ConfigError(f"{self.name}: part(only={only!r}): expected a list of nodes. Write only=[…].")
        numbers = {id: number for number, id in enumerate(self.ids)}

        def number_of(node: Node[Any] | str) -> int:
            id = node.id if isinstance(node, Node) else node
            if id not in numbers:
                raise ConfigError(f"{self.name}: unknown node {id!r}. {nearest(id, numbers)}")
            return numbers[id]

        named = [number_of(id) for id in given] if isinstance(given, Mapping) else []
        last = [] if upto is None else [number_of(upto)]
        runs, needed = chosen(self.graph, self.ids, [*map(number_of, only)], last, named)
        instead = {n: given_call(self.ids[n], self.nodes[n], self.maps.get(n), given) for n in needed}
        return replace(self._reduced(sorted([*runs, *needed]), instead), definition=None)

    def without(self, nodes: Collection[int]) -> DagPlan:
        """Leave out these nodes, which nothing waits for."""
        rest = self._reduced([n for n in range(len(self.nodes)) if n not in nodes], {})
        return replace(rest, inside=[self.nodes[n] for n in nodes])

    def _reduced(self, kept: Sequence[int], instead: Mapping[int, Call[Any]]) -> DagPlan:
        """These nodes, some of them made by another call, which waits for nothing."""
        place = {number: at for at, number in enumerate(kept)}
        needs = [() if n in instead else tuple(place[m] for m in self.graph.needs[n] if m in place) for n in kept]
        return replace(
            self,
            ids=[self.ids[n] for n in kept],
            nodes=[instead.get(n, self.nodes[n]) for n in kept],
            graph=Adjacency(needs),
            rules=[Rule.ALL_DONE if n in instead else self.rules[n] for n in kept],
            maps={place[n]: call for n, call in self.maps.items() if n in place and n not in instead},
        )

    @property
    def calls(self) -> Sequence[Call[Any]]:
        """The calls of users."""
        every = [*self.nodes, *self.maps.values(), *self.inside, *(call for _, call in self.at_end)]
        own = {kind for kind in _kinds(every) if is_own(kind)}
        return [call for call in every if call.group.kind not in own]

    @property
    def size(self) -> int:
        """One id for each node, and one for the task that closes the run."""
        return len(self.nodes) + 1

    @property
    def order(self) -> Order:
        """Any order: a node waits only for its dependencies."""
        return Order.ANY

    @property
    def fails_as(self) -> RunState:
        """Failed."""
        return RunState.FAILED

    @property
    def launches(self) -> bool:
        """By its triggers."""
        return True

    @property
    def given(self) -> dict[str, Any] | None:
        """Its params."""
        return {name: tree_in(value) for name, value in self.params.items()} or None

    def identities(self, older: Mapping[str, Sequence[str]]) -> Iterator[bytes]:
        """Ids, kinds, arguments and edges; with older names of kinds, those of all kinds together."""
        names = {kind: (kind, *older.get(kind, ())) for kind in _kinds([*self.nodes, *self.calls])}
        bodies = [self._identity(call) for call in self.nodes]
        params = msgspec.json.encode(sorted((name, value.decode()) for name, value in self.params.items()))
        for age in range(max(map(len, names.values()))):
            kinds = {kind: its[min(age, len(its) - 1)] for kind, its in names.items()}
            for number in self.maps:
                if self.nodes[number].kind in MAPS:
                    bodies[number] = renamed(self.nodes[number].body, kinds)
            rest = [*(_of_kind(at_end, kinds[call.kind]) for at_end, call in self.at_end), params]
            named = [kinds[call.group.kind] for call in self.nodes]
            # Column by column: each as one text is made much quicker than one text for each node.
            columns = (list(self.ids), named, bytes(self.rules), list(self.graph.needs), [*map(len, (*bodies, *rest))])
            digest = digest_of(b"%a%b" % (columns, b"".join(chain(bodies, rest))))
            yield b"%b\0%b" % (self.name.encode(), digest)

    def difference(self, rows: Iterable[Row]) -> str:
        """Name the nodes that are new, gone or changed."""
        before = {key_text(row.key): (row.kind, row.body) for row in rows if row.kind != CLOSE}
        now = {id: (call.kind, self._body(call)) for id, call in zip(self.ids, self.nodes, strict=True)}
        found: dict[str, list[str | None]] = {
            "new": [id for id in now if id not in before],
            "gone": [id for id in before if id not in now],
            "changed": [id for id in now if id in before and now[id] != before[id]],
        }
        told = [f"{what}: {named(ids)}" for what, ids in found.items() if ids]
        return f" ({'; '.join(told) or 'its nodes wait for others than before'})"

    def beginning(self, first: int, now: int) -> Beginning:
        """Make the nodes level by level with ids from `first` on, then the task that joins all ends."""
        graph, closing = self.graph, first + len(self.nodes)
        numbers = [0] * len(self.nodes)
        tasks: list[NewTasks] = []
        joins: list[NewJoins] = []
        # Equal groups by one number: to hash one is dear, and most calls share theirs.
        equal: dict[Group, int] = {}
        groups = {id(call.group): call.group for call in self.nodes}
        kinds = {key: equal.setdefault(group, len(equal)) for key, group in groups.items()}
        for level in graph.levels:
            alike: dict[tuple[int, Rule, bool], list[int]] = {}
            for node in level:
                call = self.nodes[node]
                brings = isinstance(call, NodeCall) and bool(graph.needs[node])
                alike.setdefault((kinds[id(call.group)], self.rules[node], brings), []).append(node)
            for (_, rule, brings), nodes in alike.items():
                brood, group = self._brood(nodes), self.nodes[nodes[0]].group
                waits = bool(graph.needs[nodes[0]])
                for positions in rows_of(group, brood):
                    ids = range(first, first + len(positions))
                    chosen = [nodes[at] for at in positions]
                    row = new_tasks(group, first, brood.chosen(positions), now, waits=waits, awaited=True)
                    tasks.append(msgspec.structs.replace(row, parents=None))
                    if waits:
                        joins.append(NewJoins(ids, [len(graph.needs[node]) for node in chosen], rule, brings=brings))
                    for node, task in zip(chosen, ids, strict=True):
                        numbers[node] = task
                    first += len(positions)
        tasks.append(self._closing(closing))
        joins.append(NewJoins.one(closing, len(graph.ends), rule=Rule.ALWAYS))
        return Beginning(tasks, joins, self._waiters(numbers, closing))

    def _brood(self, nodes: Sequence[int]) -> Brood:
        brood = Brood()
        calls = [self.nodes[node] for node in nodes]
        brood.parents += nodes
        brood.bodies += map(self._body, calls)
        brood.labels = [key_bytes(self.ids[node]) for node in nodes]
        brood.extras = _filled(call.extra for call in calls)
        brood.lanes = _filled(call.in_lane for call in calls)
        return brood

    def _body(self, call: Call[Any]) -> bytes:
        """The arguments of a call with the params of this run in them."""
        if not isinstance(call, NodeCall) or not call.params:
            return call.body
        return filled(call.body, {place: self.params[name] for place, name in call.params})

    def _identity(self, call: Call[Any]) -> bytes:
        # Where results go is written in one way only.
        return call.body if isinstance(call, NodeCall) else call.group.signature.identity(call.body)

    def _closing(self, id: int) -> NewTasks:
        at_end = [
            msgspec.structs.replace(each, call=msgspec.structs.replace(each.call, body=self._body(call).decode()))
            for each, call in self.at_end
        ]
        # Whoever serves the last of its nodes serves the end as well.
        call = own_call(CLOSE, at_end).queue(self.nodes[self.graph.ends[-1]].group.queue)
        brood = Brood()
        brood.add(0, msgspec.structs.replace(call, label=label_of(CLOSE, CLOSING)))
        return msgspec.structs.replace(new_tasks(call.group, id, brood, 0, waits=True), parents=None)

    def _waiters(self, numbers: Sequence[int], closing: int) -> list[NewWaiters]:
        graph = self.graph
        sizes = [len(needs) for needs in graph.needs]
        tasks = [numbers[each] for each in chain.from_iterable(graph.needs)]
        joins = [*chain.from_iterable(map(repeat, numbers, sizes))]
        slots = [*chain.from_iterable(map(range, sizes))]
        tasks += (numbers[node] for node in graph.ends)
        joins += [closing] * len(graph.ends)
        slots += range(len(graph.ends))
        return [NewWaiters(tasks, joins, slots)]

    def __str__(self) -> str:
        given = ", ".join(f"{name}={tree_in(value)!r}" for name, value in self.params.items())
        return f"{self.name}({given}), {len(self.nodes):,} nodes"


def _kinds(calls: Iterable[Call[Any]]) -> set[str]:
    return {call.group.kind for call in calls}


def _filled(column: Iterable[T | None]) -> list[T | None] | None:
    """A column, if there is anything in it."""
    found = list(column)
    return None if found.count(None) == len(found) else found


def _of_kind(at_end: AtEnd, kind: str) -> bytes:
    replace = msgspec.structs.replace
    return msgspec.json.encode(replace(at_end, call=replace(at_end.call, kind=kind)))


def plan_of(root: object, functions: Container[CodeType]) -> DagPlan | None:
    """A run of a DAG is its own plan."""
    if not isinstance(root, DagPlan):
        return None
    for name, reference in root.open.items():
        raise ConfigError(f"{root.name}: {name}: expected a value, got the {reference!r}. Only trigger() takes it.")
    return root
