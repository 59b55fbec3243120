"""DAGs to look at, of tasks that do what the test lets them."""

from __future__ import annotations

from threading import Event

from ramify import Call, Dag, Stream, Tasks, current
from ramify.inspect.graph import Graph, GraphNode
from ramify.model.run import StoredRun
from ramify.shapes.start import StartRequest, begin
from ramify.store.contract import Store

jobs = Tasks()
#: What `held` waits for, and what it sets when it begins.
gate, begun = Event(), Event()


@jobs.task(retries=0)
def walk(n: int = 0, before: int = 0) -> int:
    if n < 0:
        raise ValueError(f"{n} is below zero")
    return n


@jobs.task
def name(n: int) -> str:
    return str(n)


@jobs.task
def numbers(count: int) -> list[int]:
    return list(range(count))


@jobs.task(retries=0)
def held(n: int) -> int:
    if n:
        begun.set()
        assert gate.wait(30)
    return n


@jobs.task(retries=0)
def odd(n: int) -> int:
    if n % 2:
        raise ValueError("odd")
    return n


@jobs.task
def add(rows: Stream[int] = Stream()) -> int:
    return sum(rows)


@jobs.task
def fork(count: int) -> None:
    then: Call[int] = add.of()
    current().spawn([held.of(n) for n in range(count)], then=then)


def diamond() -> Dag:
    """a, then b and c, then d."""
    dag = jobs.dag("diamond")
    a = dag.add(walk.of(1), id="a")
    b, c = dag.add(walk.of(2, a.out), id="b"), dag.add(walk.of(3, a.out), id="c")
    dag.add(walk.of(b.out, c.out), id="d")
    return dag


def started(store: Store, dag: Dag) -> StoredRun:
    """A run of a DAG on which nobody works yet."""
    return begin(store, StartRequest("dag", dag.of(), order=dag.of().order)).run


def node(graph: Graph | None, id: str) -> GraphNode:
    """One node of a graph."""
    assert graph is not None
    return next(each for each in graph.nodes if each.id == id)


def states(graph: Graph | None) -> dict[str, str | None]:
    """How the nodes stand."""
    assert graph is not None
    return {each.id: each.state for each in graph.nodes}


def waits(graph: Graph | None, id: str) -> list[str]:
    """What a node still waits for."""
    assert graph is not None
    return [graph.nodes[place].id for place in node(graph, id).waits_for]
