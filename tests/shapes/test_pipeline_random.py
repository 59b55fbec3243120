"""Random pipelines against an interpreter of a few lines: each step ends once, as it must, and with what it must."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramify import Engine, Run
from ramify.model.event import Status
from ramify.model.key import key_text
from ramify.model.task import is_own
from ramify.testing.paging import every
from tests.shapes.drawn_pipeline import (
    Drawing,
    build,
    carried_out,
    complaints,
    draw,
    tasks,
)

drawings = st.randoms(use_true_random=False).map(draw)


def run(engine: Engine, drawing: Drawing, value: int, threads: int = 2) -> list[str]:
    done = engine.run(engine.pipeline("drawn", build(drawing)).of(value), threads=threads)
    return complaints(engine._inside.store, done.id, drawing, value)


@settings(max_examples=40)
@given(drawing=drawings, value=st.integers(0, 100), threads=st.sampled_from([0, 2]))
def test_a_random_pipeline_ends_as_the_interpreter_says(drawing: Drawing, value: int, threads: int) -> None:
    engine = Engine("memory:", include=[tasks])
    assert run(engine, drawing, value, threads) == []
    engine.close()


def test_a_random_pipeline_ends_as_the_interpreter_says_in_a_file(tmp_path: Path, seed: random.Random) -> None:
    engine = Engine(tmp_path / "x.db", include=[tasks])
    for _ in range(10):
        assert run(engine, draw(seed), seed.randrange(100)) == []
    engine.close()


def keys_of(run: Run[Any]) -> list[str]:
    reads = run._inside.store.reads
    rows = [row for row in every(lambda after: reads.tasks(run.id, after=after)) if not is_own(row.kind)]
    return [key for row in rows if reads.history(row.id).ended is not Status.REPLACED and (key := key_text(row.key))]


def retry_some(engine: Engine, chance: random.Random, times: int) -> None:
    drawing, value = draw(chance), chance.randrange(100)
    pipeline = engine.pipeline("drawn", build(drawing)).of(value)
    done = engine.run(pipeline, name="r", again=True)
    for _ in range(times):
        key = chance.choice(keys_of(done))
        done.retry(key)
        done = engine.run(pipeline, name="r")
        assert complaints(done._inside.store, done.id, drawing, value) == [], key


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_step_that_is_tried_again_leaves_what_the_interpreter_says(
    store: str, tmp_path: Path, seed: random.Random
) -> None:
    engine = Engine("memory:" if store == "memory" else tmp_path / "x.db", include=[tasks])
    for _ in range(12):
        retry_some(engine, seed, 3)
    engine.close()


@pytest.mark.full
@pytest.mark.parametrize("batch", range(10))
def test_steps_that_are_tried_again_and_again_leave_what_the_interpreter_says(
    batch: int, tmp_path: Path, seed: random.Random
) -> None:
    engine = Engine(tmp_path / "x.db", include=[tasks])
    for _ in range(30):
        retry_some(engine, seed, 5)
    engine.close()


@pytest.mark.full
@pytest.mark.parametrize("batch", range(10))
def test_many_random_pipelines_end_as_the_interpreter_says(batch: int, tmp_path: Path, seed: random.Random) -> None:
    engine = Engine(tmp_path / "x.db", include=[tasks])
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
