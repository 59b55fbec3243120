"""The tree: work that grows while it runs, drawn in full beforehand from one seed.

What a node does depends on its name alone, so any process can run any node at any time, however often, and the whole
set that must be in the log in the end is known before the first task starts. A node may fan out plainly, under a join
(a *gather* task then waits for its children), or as a stream of staged rows; some children are keyed and offered by
several parents; some nodes are set back a few times before they end, and some fail.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

from ramify.model.event import Status

ROOTS = 3
KEYS = 8
#: The most children of a node, by depth.
FAN_OUT = (20, 12, 5, 0)


class Way(Enum):
    """How a node adds its children."""

    PLAIN = "plain"
    JOIN = "join"
    STAGE = "stage"


@dataclass(frozen=True)
class Node:
    """One node: its children, how it adds them, and the events it has in the end."""

    name: str
    way: Way
    children: tuple[str, ...]
    events: tuple[Status, ...]

    @property
    def gather(self) -> str | None:
        """The name of the task that waits for the children."""
        return f"{self.name}+" if self.way is Way.JOIN and self.children else None

    @property
    def offered(self) -> tuple[str, ...]:
        """Everything this node adds to the log, unless a key is taken."""
        return self.children if self.gather is None else (*self.children, self.gather)


def is_keyed(name: str) -> bool:
    """Whether the name is a key, which several parents may offer and one task gets."""
    return name.startswith("k") and "." not in name and not name.endswith("+")


def parent_of(name: str) -> str | None:
    """The only node that adds this one; None for roots and for keyed nodes."""
    if name.endswith("+"):
        return name[:-1]
    return name.rpartition(".")[0] or None


def kind_of(name: str) -> str:
    """The kind of a node's task."""
    return "keyed" if is_keyed(name) else "gather" if name.endswith("+") else "node"


KINDS = frozenset({"node", "keyed", "gather"})


class Tree:
    """All nodes that follow from a seed. It is drawn again until it has at least `fewest` and at most `most` nodes."""

    def __init__(self, seed: int, fewest: int = 40, most: int = 0) -> None:
        luck = random.Random(seed)
        most = most or luck.randint(80, 400)
        self.seed = seed
        self.roots = tuple(f"r{i}" for i in range(ROOTS))
        self._failures = luck.choice((0.0, 0.03))
        for draw in range(10_000):
            self._draw = draw
            self.nodes = self._grow(most)
            if len(self.nodes) >= fewest:
                return
        raise AssertionError(f"no tree of {fewest} to {most} nodes from seed {seed}")

    @property
    def fails(self) -> bool:
        """Whether some node fails, and so the run."""
        return any(node.events[-1] is Status.FAILED for node in self.nodes.values())

    def offerers(self, name: str) -> frozenset[str]:
        """The nodes that may have added this one."""
        return frozenset(node.name for node in self.nodes.values() if name in node.offered)

    def _grow(self, most: int) -> dict[str, Node]:
        """Every node; none at all when there would be more than `most`."""
        grown: dict[str, Node] = {}
        waiting = list(self.roots)
        while waiting:
            node = self._node(waiting.pop())
            grown[node.name] = node
            waiting += (name for name in node.offered if name not in grown and name not in waiting)
            if len(grown) + len(waiting) > most:
                return {}
        return grown

    def _node(self, name: str) -> Node:
        luck = random.Random(f"{self.seed}/{self._draw}/{name}")
        setbacks = luck.choices((0, 1, 2), (10, 2, 1))[0]
        events = tuple(luck.choice((Status.RETRYING, Status.DEFERRED)) for _ in range(setbacks))
        if luck.random() < self._failures and name not in self.roots:
            return Node(name, Way.PLAIN, (), (*events, Status.FAILED))
        way = luck.choice(tuple(Way))
        count = luck.randint(0, FAN_OUT[min(_depth(name), len(FAN_OUT) - 1)])
        if name not in self.roots and luck.random() < 0.4:
            count = 0
        children = [f"{name}.{i}" for i in range(count)]
        if count and _depth(name) < 2:
            children += (f"k{k}" for k in luck.sample(range(KEYS), luck.randint(0, 3)))
        return Node(name, way, tuple(children), (*events, Status.DONE))


def _depth(name: str) -> int:
    return name.count(".") + name.count("+") + 2 * name.startswith("k")
