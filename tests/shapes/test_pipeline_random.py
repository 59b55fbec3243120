"""Random pipelines against an interpreter of a few lines: each step ends once, as it must, and with what it must.

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
from tests.shapes.drawn_pipeline import (
    Drawing,
    build,
    carried_out,
    complaints,
    draw,
    tasks,
)
from tests.shapes.plot import quick_pipeline_plot
from tests.shapes.story import tell, tell_among_threads

drawings = st.randoms(use_true_random=False).map(draw)


def run(engine: Engine, drawing: Drawing, value: int, threads: int = 2) -> list[str]:
    done = engine.run(engine.pipeline("drawn", build(drawing)).of(value), threads=threads)
    return complaints(engine._runtime.store, done.id, drawing, value)


@settings(max_examples=40)
@given(drawing=drawings, value=st.integers(0, 100), threads=st.sampled_from([0, 2]))
def test_a_random_pipeline_ends_as_the_interpreter_says(drawing: Drawing, value: int, threads: int) -> None:
    engine = Engine("memory:", include=[tasks])
    assert run(engine, drawing, value, threads) == []
    engine.close()


def test_a_random_pipeline_ends_as_the_interpreter_says_in_a_file(tmp_path: Path, seed: random.Random) -> None:
    engine = Engine(tmp_path / "x.db", include=[tasks], durability="process")
    for _ in range(10):
        assert run(engine, draw(seed), seed.randrange(100)) == []
    engine.close()


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_whatever_people_decide_leaves_what_the_interpreter_says(
    store: str, tmp_path: Path, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    told = [tell("pipeline", store, seed.getrandbits(32), tmp_path) for _ in range(11)]
    record_property("stories", len(told))
    record_property("decisions", sum(people.decided for people in told))


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_whatever_people_decide_while_threads_work_leaves_what_the_interpreter_says(
    store: str, tmp_path: Path, seed: random.Random
) -> None:
    for _ in range(2):
        tell_among_threads("pipeline", quick_pipeline_plot, store, seed.getrandbits(32), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("batch", range(10))
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_whatever_people_decide_many_times_leaves_what_the_interpreter_says(
    store: str, batch: int, tmp_path: Path, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    told = [tell("pipeline", store, seed.getrandbits(32), tmp_path) for _ in range(50)]
    record_property("stories", len(told))
    record_property("decisions", sum(people.decided for people in told))
    for _ in range(5):
        tell_among_threads("pipeline", quick_pipeline_plot, store, seed.getrandbits(32), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("batch", range(10))
def test_many_random_pipelines_end_as_the_interpreter_says(batch: int, tmp_path: Path, seed: random.Random) -> None:
    engine = Engine(tmp_path / "x.db", include=[tasks], durability="process")
    for _ in range(15):
        assert run(engine, draw(seed, most=5), seed.randrange(1_000)) == []
    engine.close()


def test_drawings_have_something_of_everything() -> None:
    chance = random.Random(1)
    several = [(draw(chance), chance.randrange(100)) for _ in range(300)]
    expected = [carried_out(*each) for each in several]
    assert any(each.failed for each in expected)
    assert any(not each.failed for each in expected)
    # Three levels of expansions, and elements of each.
    assert any(key.count("[") == 3 for each in expected for key in each.results)
    verbs = [verb for drawing, _ in several for verb in drawing]
    assert {verb.sort for verb in verbs} == {"step", "divide", "expand", "divert"}
    assert {verb.sort for verb in verbs if verb.open} == {"divide", "expand", "divert"}
