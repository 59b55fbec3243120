"""Pipelines under `kill -9`: at each crash point in the middle of fan-outs, at gates and sleeps, and at any moment.

What must come of a pipeline is known beforehand (`tests/shapes/drawn_pipeline.py`); each begun step is a line of a file
that outlives its process. Nothing is lost, nothing is recorded twice, and nothing begins again that was recorded.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest

from ramify.model.event import Status
from ramify.model.key import key_text
from ramify.model.run import RunState
from ramify.store.sqlite import SqliteStore
from ramify.testing import oracle
from ramify.testing.paging import every
from tests.crash.clients import STORE, WITNESS, Clients
from tests.crash.engine.hunting import Hunt
from tests.crash.engine.pipeline_program import ASKED, LATE, NAME, drawing_of
from tests.shapes.drawn_pipeline import carried_out, complaints

PROGRAM = "tests.crash.engine.pipeline_program"
#: Points that a run of the scene comes past, by how often at least.
POINTS = {
    "entered": 1, "before-claim": 4, "after-claim": 4, "leased": 9, "before-attempt": 9, "after-attempt": 9,
    "before-commit": 7, "after-commit": 7, "before-advance": 1, "after-advance": 1, "before-reserve": 1,
    "after-reserve": 1, "before-leave": 1, "after-leave": 1,
}  # fmt: skip
#: Those of the pipeline with a gate: in the middle of its step, its sleeps and its gate.
GATE_POINTS = {"before-claim": 2, "leased": 3, "before-attempt": 3, "before-commit": 3, "after-commit": 3}


def verdict(folder: Path, seed: int, kills: int) -> list[str]:
    """What is wrong with a run that has ended after so many kills."""
    store = SqliteStore(folder / STORE)
    run = store.reads.find_run(NAME)
    assert run is not None
    drawing, value = drawing_of(seed)
    found = complaints(store, run.id, drawing, value)
    store.close()
    expected = carried_out(drawing, value)
    begun = Counter((folder / WITNESS).read_text().split("\n")[:-1])
    found += [f"{name} was begun {times} times" for name, times in begun.items() if times > 1 + kills]
    found += [f"{name} never began" for name in (*expected.results, *expected.failed) if not begun[name]]
    return found


@pytest.fixture
def hunt(clients: Clients) -> Hunt:
    return Hunt(clients, "drawn", verdict)


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_in_the_middle_of_a_pipeline_loses_nothing(point: str, tmp_path: Path, hunt: Hunt) -> None:
    hunt.kill_at(tmp_path / "store", point, (POINTS[point] + 1) // 2)


@pytest.mark.full
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_of_a_pipeline_at_any_time_loses_nothing(point: str, tmp_path: Path, hunt: Hunt) -> None:
    hunt.kill_at_each(tmp_path, point, POINTS[point])


def gate_verdict(answer: str, folder: Path, seed: int, kills: int) -> list[str]:
    """The same for a run with a gate, whose answer is known."""
    store = SqliteStore(folder / STORE)
    run = store.reads.find_run(NAME)
    assert run is not None
    assert run.state is RunState.DONE
    found = oracle.check(store)
    ends = {}
    for row in every(lambda after: store.reads.tasks(run.id, after=after)):
        events = store.reads.events(row.id, row.id)
        assert [event.status for event in events if event.status.is_end] == [Status.DONE], row
        ends[key_text(row.key)] = msgspec.json.decode(events[-1].value or b"null")
    store.close()
    assert (ends["ok"], ends["told"], ends["end"]) == (answer, f"7 {answer}", f"7 {answer}")
    begun = Counter((folder / WITNESS).read_text().split())
    assert set(begun) == {"ask", "told", "end"}
    assert max(begun.values()) <= 1 + kills
    return found


@pytest.mark.parametrize("answer", ["before", "after", pytest.param("never", marks=pytest.mark.full)])
@pytest.mark.parametrize("point", GATE_POINTS)
def test_a_kill_around_gates_and_sleeps_loses_no_answer_and_no_time(
    point: str, answer: str, tmp_path: Path, clients: Clients
) -> None:
    hunt = Hunt(clients, "gate", partial(gate_verdict, LATE if answer == "never" else ASKED))
    hunt.kill_at(tmp_path, point, 1 if answer == "before" else GATE_POINTS[point], f"answer={answer}")


def test_random_pipelines_end_as_they_must_however_often_they_are_killed(
    tmp_path: Path, hunt: Hunt, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    record_property("kills", hunt.kill_often(tmp_path, seed, 2))


@pytest.mark.full
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("batch", range(10))
def test_many_random_pipelines_end_as_they_must_however_often_they_are_killed(
    batch: int, tmp_path: Path, hunt: Hunt, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    record_property("kills", hunt.kill_often(tmp_path, seed, 20))
