"""Random DAGs against an executor of a few lines: the same ends, the same results, nothing before what it waits for.

And whatever people decide about them at random moments, in the end nothing tells them from runs nobody disturbed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramify import Engine
from tests.shapes.drawn import Drawing, build, carried_out, draw, tasks
from tests.shapes.drawn_judge import complaints
from tests.shapes.plot import dag_plot
from tests.shapes.story import tell, tell_among_threads

drawings = st.randoms(use_true_random=False).map(draw)


def run(engine: Engine, drawing: Drawing, threads: int) -> list[str]:
    dag = engine.dag("drawn")
    build(dag, drawing)
    done = engine.run(dag.of(), threads=threads)
    return complaints(engine._runtime.store, done.id, drawing)


@settings(max_examples=40)
@given(drawing=drawings, threads=st.sampled_from([0, 2]))
def test_a_random_dag_ends_as_the_executor_says(drawing: Drawing, threads: int) -> None:
    engine = Engine("memory:", include=[tasks])
    assert run(engine, drawing, threads) == []
    engine.close()


def test_a_random_dag_ends_as_the_executor_says_in_a_file(tmp_path: Path, seed: random.Random) -> None:
    engine = Engine(tmp_path / "x.db", include=[tasks], durability="process")
    for _ in range(15):
        assert run(engine, draw(seed), 2) == []
    engine.close()


@pytest.mark.full
@pytest.mark.parametrize("batch", range(10))
def test_many_random_dags_end_as_the_executor_says_in_a_file(batch: int, tmp_path: Path, seed: random.Random) -> None:
    engine = Engine(tmp_path / "x.db", include=[tasks], durability="process")
    for _ in range(25):
        assert run(engine, draw(seed, most=40), 2) == []
    engine.close()


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_whatever_people_decide_leaves_what_the_executor_says(
    store: str, tmp_path: Path, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    told = [tell("dag", store, seed.getrandbits(32), tmp_path) for _ in range(11)]
    record_property("stories", len(told))
    record_property("decisions", sum(people.decided for people in told))


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_whatever_people_decide_while_threads_work_leaves_what_the_executor_says(
    store: str, tmp_path: Path, seed: random.Random
) -> None:
    for _ in range(2):
        tell_among_threads("dag", dag_plot, store, seed.getrandbits(32), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("batch", range(10))
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_whatever_people_decide_many_times_leaves_what_the_executor_says(
    store: str, batch: int, tmp_path: Path, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    told = [tell("dag", store, seed.getrandbits(32), tmp_path) for _ in range(50)]
    record_property("stories", len(told))
    record_property("decisions", sum(people.decided for people in told))
    for _ in range(5):
        tell_among_threads("dag", dag_plot, store, seed.getrandbits(32), tmp_path)


def test_drawings_have_something_of_everything() -> None:
    chance = random.Random(1)
    several = [draw(chance) for _ in range(200)]
    found = {how for drawing in several for how in carried_out(drawing)[0]}
    assert found == {"done", "failed", "skipped"}
    nodes = [each for drawing in several for each in drawing]
    assert {each.sort for each in nodes} == {"step", "list", "map", "sum"}
    assert {each.when for each in nodes} == {"done", "none-failed", "any-done", "failed", "always"}
    over_maps = [
        drawing for drawing in several for each in drawing
        if each.sort == "map" and each.over is not None and drawing[each.over].sort == "map"
    ]  # fmt: skip
    assert over_maps
