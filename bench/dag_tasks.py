"""The tasks of the DAG figures, the engine they belong to, and how graphs of them are defined.

The store is `bench.db` in the folder the process was started in; all settings are the defaults.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.graph import Graph, join
from ramify import Dag, Engine, Node, Stream

engine = Engine("bench.db")


@engine.task
def node(number: int, a: int = 0, b: int = 0, c: int = 0) -> int:
    """A node of a graph, which takes up to three results."""
    return join(a, b, c)


@engine.task
def numbers(count: int) -> Iterator[int]:
    """Items to map over; they become tasks while they are yielded."""
    yield from range(count)


@engine.task
def same(item: int) -> int:
    """One item of a map."""
    return item


@engine.task
def total(items: Stream[int]) -> int:
    """The sum of a map, item by item."""
    return sum(items)


def define(graph: Graph) -> Dag:
    """One node for each, with what it waits for as its arguments."""
    dag = engine.dag("graph")
    nodes: list[Node[int]] = []
    for number, its in enumerate(graph):
        nodes.append(dag.add(node.of(number, *(nodes[each].out for each in its))))
    return dag


def fan_in(count: int) -> Dag:
    """A map over so many items, and their sum."""
    dag = engine.dag("fan-in")
    items = dag.map(same.of(dag.add(numbers.of(count)).each))
    dag.add(total.of(items.out))
    return dag
