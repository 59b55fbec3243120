"""A toy shape: steps one after the other, and a last one that runs whatever became of them.

All that a shape needs is here. Nothing else knows of it but its line in the table.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import msgspec

from ramify import Call
from ramify.model.join import NewJoins, Rule
from ramify.model.run import Order, RunState
from ramify.model.task import Row
from ramify.shapes.plan import Beginning, laid_out

replace = msgspec.structs.replace


@dataclass(frozen=True)
class Chain:
    """Each step waits for the one before."""

    steps: tuple[Call[Any], ...]
    at_the_end: Call[Any]

    @property
    def calls(self) -> Sequence[Call[Any]]:
        return (*self.steps, self.at_the_end)

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
        last = first + self.size - 1
        groups = [laid_out([call], first + at, now).tasks[0] for at, call in enumerate(self.calls)]
        # Each but the first is a join's task, and each but the last a member of the next one's join.
        groups = [
            replace(group, waits=group.first > first, join=group.first + 1 if group.first < last else None)
            for group in groups
        ]
        # A step runs if the one before it ended well, and what comes at the end whatever happened.
        joins = [NewJoins(range(first + 1, last), [1] * (last - first - 1)), NewJoins.one(last, 1, rule=Rule.ALWAYS)]
        return Beginning(groups, joins, order=range(self.size))

    def __str__(self) -> str:
        return " -> ".join(call.kind for call in self.calls)


def plan_of(root: object, functions: Container[CodeType]) -> Chain | None:
    return root if isinstance(root, Chain) else None
