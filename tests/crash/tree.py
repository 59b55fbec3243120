"""The tree: work that grows while it runs, drawn in full beforehand from one seed.

What a node does depends on its name alone, so any process can run any node at any time, however often, and the whole
set that must be in the log in the end is known before the first task starts. A node may fan out plainly, under a join
(a *gather* task then waits for its children), or as a stream of staged rows; some children are keyed and offered by
several parents; some nodes are set back a few times before they end, and some fail.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from ramify.model.event import Status

ROOTS = 3
KEYS = 8
MOST = 400
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
    way: Way = Way.PLAIN
    children: tuple[str, ...] = ()
    events: tuple[Status, ...] = (Status.DONE,)

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
    """A set of nodes that is complete: whatever a node offers is in it."""

    def __init__(self, roots: Sequence[str], nodes: Iterable[Node]) -> None:
        self.roots = tuple(roots)
        self.nodes = {node.name: node for node in nodes}

    @property
    def fails(self) -> bool:
        """Whether some node fails, and so the run."""
        return any(node.events[-1] is Status.FAILED for node in self.nodes.values())

    def offerers(self, name: str) -> frozenset[str]:
        """The nodes that may have added this one."""
        return frozenset(node.name for node in self.nodes.values() if name in node.offered)


def grow(seed: int) -> Tree:
    """The tree of a seed; an empty one when there would be more than `MOST` nodes."""
    roots = [f"r{i}" for i in range(ROOTS)]
    failures = random.Random(seed).choice((0.0, 0.03))
    grown: dict[str, Node] = {}
    waiting = list(roots)
    while waiting:
        node = _node(waiting.pop(), seed, failures)
        grown[node.name] = node
        waiting += (name for name in node.offered if name not in grown and name not in waiting)
        if len(grown) + len(waiting) > MOST:
            return Tree((), ())
    return Tree(roots, grown.values())


def draw_seed(chance: random.Random, fewest: int = 40, most: int = MOST) -> int:
    """A seed whose tree has a certain size, so that others can grow it without a search."""
    while True:
        seed = chance.randrange(2**31)
        if fewest <= len(grow(seed).nodes) <= most:
            return seed


def _node(name: str, seed: int, failures: float) -> Node:
    chance = random.Random(f"{seed}/{name}")
    is_root = _depth(name) == 0
    setbacks = chance.choices((0, 1, 2), (10, 2, 1))[0]
    events = tuple(chance.choice((Status.RETRYING, Status.DEFERRED)) for _ in range(setbacks))
    if chance.random() < failures and not is_root:
        return Node(name, Way.PLAIN, (), (*events, Status.FAILED))
    way = chance.choice(tuple(Way))
    count = chance.randint(0, FAN_OUT[min(_depth(name), len(FAN_OUT) - 1)])
    if chance.random() < 0.4 and not is_root:
        count = 0
    children = [f"{name}.{i}" for i in range(count)]
    if count and _depth(name) < 2:
        children += (f"k{k}" for k in chance.sample(range(KEYS), chance.randint(0, 3)))
    return Node(name, way, tuple(children), (*events, Status.DONE))


def _depth(name: str) -> int:
    return name.count(".") + name.count("+") + 2 * name.startswith("k")
