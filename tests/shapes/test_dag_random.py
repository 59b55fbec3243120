"""Random DAGs against an executor of a few lines: the same ends, the same results, nothing before what it waits for."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramify import Engine
from tests.shapes.drawn import Drawing, build, carried_out, draw, tasks
from tests.shapes.drawn_judge import complaints

drawings = st.randoms(use_true_random=False).map(draw)


def run(engine: Engine, drawing: Drawing, threads: int) -> list[str]:
    dag = engine.dag("drawn")
    build(dag, drawing)
    done = engine.run(dag.of(), threads=threads)
    return complaints(engine._inside.store, done.id, drawing)


@settings(max_examples=40)
@given(drawing=drawings, threads=st.sampled_from([0, 2]))
def test_a_random_dag_ends_as_the_executor_says(drawing: Drawing, threads: int) -> None:
    engine = Engine("memory:", include=[tasks])
    assert run(engine, drawing, threads) == []
    engine.close()


def test_a_random_dag_ends_as_the_executor_says_in_a_file(tmp_path: Path, seed: random.Random) -> None:
    engine = Engine(tmp_path / "x.db", include=[tasks])
    for _ in range(15):
        assert run(engine, draw(seed), 2) == []
    engine.close()


@pytest.mark.full
@pytest.mark.parametrize("batch", range(10))
def test_many_random_dags_end_as_the_executor_says_in_a_file(batch: int, tmp_path: Path, seed: random.Random) -> None:
    engine = Engine(tmp_path / "x.db", include=[tasks])
    for _ in range(25):
        assert run(engine, draw(seed, most=40), 2) == []
    engine.close()


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
