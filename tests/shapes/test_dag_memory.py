"""What a definition of a DAG costs in memory: it goes when nobody holds it any more."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

from ramify import Engine

engine = Engine("memory:")


@engine.task
def number(n: int, before: int = 0) -> int:
    return n + before


@engine.task
def numbers(n: int) -> Iterator[int]:
    yield from range(n)


@engine.task
def pick(n: int) -> str:
    return str(n)


def test_a_dag_that_nobody_holds_is_gone() -> None:
    dag = engine.dag("gone")
    first = dag.add(number.of(1))
    dag.add(number.of(2, first.out))
    dag.map(number.of(dag.add(numbers.of(first.out)).each, first.out))
    dag.add(number.of(dag.param("n", int)), after=[dag.add(pick.of(first.out)).case("x")])
    around = engine.dag("around")
    around.include(dag)
    kept, about = weakref.ref(dag), weakref.ref(around)
    del dag, first, around
    gc.collect()
    assert kept() is about() is None


def test_however_many_nodes_a_dag_has_garbage_collection_has_no_more_to_look_at() -> None:
    dag = engine.dag("many")
    before = dag.add(number.of(0))
    gc.collect()
    tracked = len(gc.get_objects())
    for n in range(1_000):
        before = dag.add(number.of(n, before.out))
    gc.collect()
    assert len(gc.get_objects()) - tracked < 100


def test_a_node_has_one_reference_to_its_result() -> None:
    node = engine.dag("one").add(number.of(1))
    assert node.out is node.out
