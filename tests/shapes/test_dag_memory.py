"""What a definition of a DAG costs in memory: it goes when nobody holds it any more."""

from __future__ import annotations

import gc
import weakref

from ramify import Engine

engine = Engine("memory:")


@engine.task
def number(n: int, before: int = 0) -> int:
    return n + before


def test_a_dag_that_nobody_holds_is_gone() -> None:
    dag = engine.dag("gone")
    first = dag.add(number.of(1))
    dag.add(number.of(2, first.out))
    kept = weakref.ref(dag)
    del dag, first
    gc.collect()
    assert kept() is None


def test_a_node_has_one_reference_to_its_result() -> None:
    node = engine.dag("one").add(number.of(1))
    assert node.out is node.out
