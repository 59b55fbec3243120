"""The tasks of the DAG figures, the engine they belong to, and how graphs of them are defined.

The store is `bench.db` in the folder the process was started in; all settings are the defaults.
"""

from __future__ import annotations

from bench.graph import Graph, join
from ramify import Dag, Engine, Node, Stream

engine = Engine("bench.db")


@engine.task
def node(number: int, a: int = 0, b: int = 0, c: int = 0) -> int:
    """A node of a graph, which takes up to three results."""
    return join(a, b, c)


@engine.task
def digits(count: int) -> list[int]:
    """Items to map over, as short as can be: a result is at most 1 MiB."""
    return [number % 10 for number in range(count)]


@engine.task
def same(item: int) -> int:
    """One item of a map."""
    return item


@engine.task
def total(left: Stream[int], right: Stream[int]) -> int:
    """The sum of two maps, item by item."""
    return sum(left) + sum(right)


def define(graph: Graph) -> Dag:
    """One node for each, with what it waits for as its arguments."""
    dag = engine.dag("graph")
    nodes: list[Node[int]] = []
    for number, its in enumerate(graph):
        nodes.append(dag.add(node.of(number, *(nodes[each].out for each in its))))
    return dag


def fan_in(count: int) -> Dag:
    """Two maps over half of the items each, and their sum."""
    dag = engine.dag("fan-in")
    maps = [dag.map(same.of(dag.add(digits.of(count // 2)).each)) for _ in range(2)]
    dag.add(total.of(maps[0].out, maps[1].out), id="sum")
    return dag
