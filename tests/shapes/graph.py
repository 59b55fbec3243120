"""A second toy shape: calls that take the results of other calls as arguments.

To a type checker a node is what comes of it: `total.of(left.out, right.out)` is checked as if the results were there.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Generic, TypeVar, cast

import msgspec

from ramify import Call, Stream
from ramify.model.call import ReferringCall
from ramify.model.join import NewJoins, NewWaiters, Rule
from ramify.model.reference import Reference
from ramify.model.run import Order, RunState
from ramify.model.task import Row
from ramify.shapes.plan import Beginning, laid_out

R = TypeVar("R")


@dataclass(frozen=True)
class Node(Generic[R]):
    """A call of a graph; `out` stands for its result."""

    number: int

    @property
    def out(self) -> R:
        return cast("R", Reference(self.number))


@dataclass(frozen=True)
class Nodes(Generic[R]):
    """Several calls of a graph; `out` stands for a stream of their results."""

    numbers: range

    @property
    def out(self) -> Stream[R]:
        return cast("Stream[R]", Reference(self.numbers, stream=True, size=len(self.numbers)))


@dataclass
class Graph:
    """Calls in the order in which they were added, each after those it refers to."""

    calls: list[Call[Any]] = field(default_factory=list)
    rule: Rule = Rule.ALL_DONE
    brings: bool = True

    def add(self, call: Call[R]) -> Node[R]:
        self.calls.append(call)
        return Node(len(self.calls) - 1)

    def add_many(self, calls: Sequence[Call[R]]) -> Nodes[R]:
        self.calls += calls
        return Nodes(range(len(self.calls) - len(calls), len(self.calls)))

    @property
    def name(self) -> None:
        """None: it is written down nowhere."""

    @property
    def order(self) -> Order:
        return Order.ROUNDS

    @property
    def fails_as(self) -> RunState:
        """Failed."""
        return RunState.FAILED

    @property
    def size(self) -> int:
        return len(self.calls)

    @property
    def launches(self) -> bool:
        """No: its tasks yield tasks of the same run."""
        return False

    @property
    def given(self) -> None:
        """Nothing."""

    def identities(self, older: Mapping[str, Sequence[str]]) -> Iterator[bytes]:
        yield b"\0".join(call.kind.encode() + b" " + call.group.signature.identity(call.body) for call in self.calls)

    def difference(self, rows: Iterable[Row]) -> str:
        return ""

    def beginning(self, first: int, now: int) -> Beginning:
        groups, joins, waiters = [], [], []
        for task, call in enumerate(self.calls, first):
            needed = list(_members(call, first))
            group = laid_out([call], task, now).tasks[0]
            groups.append(msgspec.structs.replace(group, waits=bool(needed), awaited=True))
            if needed:
                joins.append(NewJoins((task,), (len(needed),), self.rule, brings=self.brings))
                waiters.append(NewWaiters(needed, [task] * len(needed), range(len(needed))))
        return Beginning(groups, joins, waiters, order=range(self.size))

    def __str__(self) -> str:
        return f"a graph of {self.size}"


def _members(call: Call[Any], first: int) -> Iterator[int]:
    """The task in each slot."""
    for reference, _ in call.slots() if isinstance(call, ReferringCall) else ():
        numbers = reference.source if isinstance(reference.source, range) else (reference.source,)
        yield from (first + cast("int", number) for number in numbers)


def plan_of(root: object, functions: Container[CodeType]) -> Graph | None:
    """A graph is its own plan."""
    return root if isinstance(root, Graph) else None
