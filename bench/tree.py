"""The work that every contender does: a tree whose tasks are made by running tasks, and a bundle of chains.

A task is `(path, depth)`: who it is, and how many levels are still to grow below it. `node` yields the arguments of its
children, as a handler would. The paths of a tree are those of a heap, so no two tasks are equal.

All contenders use the same two calls to cross into bytes and back, `encode` and `decode`. There is no real work in a
task on purpose: what is measured is everything around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import msgspec

FAN_OUT = 10
DEPTH = 6

Args = tuple[int, int]

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Args).decode


class Work(Protocol):
    """Something that grows from one root."""

    @property
    def count(self) -> int:
        """How many tasks it has in the end."""

    @property
    def root(self) -> Args:
        """The arguments of the first one."""

    def node(self, path: int, depth: int) -> Iterator[Args]:
        """Run one task: its children's arguments."""


@dataclass(frozen=True)
class Tree:
    """Every task has ten children down to `depth` levels below the root; those of the last level are `last` each."""

    depth: int = DEPTH
    last: int = FAN_OUT

    @property
    def count(self) -> int:
        """1,111,111 tasks at full size."""
        count, width = 0, 1
        for _ in range(self.depth):
            count += width
            width *= FAN_OUT
        return count + width // FAN_OUT * self.last

    @property
    def root(self) -> Args:
        """The arguments of the first task."""
        return 0, self.depth

    def node(self, path: int, depth: int) -> Iterator[Args]:
        """Run one task: its children's arguments."""
        if depth == 0:
            return
        width = FAN_OUT if depth > 1 else self.last
        depth -= 1
        first = path * FAN_OUT + 1
        for child in range(first, first + width):
            yield child, depth


@dataclass(frozen=True)
class Chains:
    """`width` chains of `length` tasks: each task has one child, so that early and late tasks cost the same."""

    width: int
    length: int

    @property
    def count(self) -> int:
        """The root, and the chains."""
        return 1 + self.width * self.length

    @property
    def root(self) -> Args:
        """The arguments of the first task, which starts the chains."""
        return 0, self.length

    def node(self, path: int, depth: int) -> Iterator[Args]:
        """Run one task: its child's arguments."""
        if path:
            if depth:
                yield path, depth - 1
        else:
            for child in range(1, self.width + 1):
                yield child, depth - 1


def tree(scale: float) -> Tree:
    """The tree nearest in size to `scale` times the full one: levels are cut, then the fan-out of the last."""
    wanted = max(1.0, scale * Tree().count)
    sizes = [Tree(depth, last) for depth in range(1, 10) for last in range(1, FAN_OUT + 1)]
    return min(sizes, key=lambda size: abs(size.count - wanted))
