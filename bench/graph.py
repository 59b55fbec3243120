"""The graphs of the DAG and join figures: for each node the numbers of those it waits for, all of them before it.

Nothing but the standard library is imported here: rivals run the same graphs.
"""

from __future__ import annotations

import random

Graph = list[list[int]]

#: Nodes that depend on nobody, and the width of each level.
WIDTH = 2_000
EDGES = 3
DIAMOND = 4


def layers(nodes: int) -> Graph:
    """Levels of which each node waits for three of the level before, whichever."""
    chance = random.Random(7)
    width = min(WIDTH, max(EDGES, nodes // 10))
    found: Graph = [[] for _ in range(width)]
    while len(found) < nodes:
        begin = len(found) - width
        found += (chance.sample(range(begin, begin + width), EDGES) for _ in range(min(width, nodes - len(found))))
    return found


def chain(nodes: int) -> Graph:
    """One after the other."""
    return [[node - 1] if node else [] for node in range(nodes)]


def diamonds(nodes: int) -> Graph:
    """Fours that know nothing of each other: one, two that wait for it, and one that waits for these."""
    found: Graph = []
    while len(found) < nodes:
        top = len(found)
        found += [[], [top], [top], [top + 1, top + 2]]
    return found


SHAPES = {"layers": layers, "chain": chain, "diamonds": diamonds}


def values(graph: Graph) -> list[int]:
    """What each node gives: one more than the nodes it waits for give together, in 31 bits."""
    found: list[int] = []
    for its in graph:
        found.append(join(*(found[each] for each in its)))
    return found


def join(*parts: int) -> int:
    """What a node does."""
    return (1 + sum(parts)) & 0x7FFFFFFF
