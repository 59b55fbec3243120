"""Bounds of a run, as users give them: how many of its tasks run at a time, and until when it may go on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ramify import ConfigError, Engine, RunFailed, RunState, Spawns, Tasks, current
from ramify.cli.main import main
from ramify.shapes.start import How
from tests.engine.conftest import Make
from tests.kernel.shop import wait_until

jobs = Tasks()
#: How many are inside at this moment, and how many were at most.
inside = most = 0
book = threading.Lock()
#: Lets `patient` end.
enough = threading.Event()


@jobs.task
def counted(n: int) -> None:
    global inside, most
    with book:
        inside += 1
        most = max(most, inside)
    threading.Event().wait(0.005)
    with book:
        inside -= 1


@jobs.task
def spread(many: int) -> Spawns[None]:
    yield from map(counted.of, range(many))


@jobs.task
def patient() -> str:
    while not enough.wait(0.01):
        if current().cancelled:
            raise RuntimeError("told to stop")
    return "patient"


@pytest.fixture(autouse=True)
def nothing_yet() -> Iterator[None]:
    global inside, most
    inside = most = 0
    enough.clear()
    yield
    enough.set()


def test_no_more_tasks_of_a_run_run_at_a_time_than_it_may_have(make: Make) -> None:
    engine = make(jobs)
    run = engine.run(spread.of(40), max_running=3, threads=8)
    assert (run.state, run.counts.done) == (RunState.DONE, 41)
    assert most <= 3


def test_the_bound_holds_over_all_workers_of_the_store(make: Make) -> None:
    engine = make(jobs)
    with engine.working(threads=4), engine.working(threads=4):
        run = engine.start(spread.of(40), max_running=2)
        assert run.wait(20)
    assert run.counts.done == 41
    assert most <= 2


@pytest.mark.parametrize(
    "deadline", [timedelta(seconds=0.3), lambda: datetime.now(UTC) + timedelta(seconds=0.3)], ids=["span", "moment"]
)
def test_a_run_fails_at_its_deadline_although_a_task_goes_on(make: Make, deadline: Any) -> None:
    engine = make(jobs)
    run = engine.run([patient.of(), patient.of().delay(3600)], deadline=deadline() if callable(deadline) else deadline)
    assert run.state is RunState.FAILED
    assert "deadline passed" in str(run.reason)
    with pytest.raises(RunFailed, match="deadline passed"):
        list(run.results())


def test_a_run_that_only_waits_fails_at_its_deadline(make: Make) -> None:
    engine = make(jobs)
    run = engine.run(patient.of().delay(3600), deadline=timedelta(seconds=0.2))
    assert (run.state, run.counts.cancelled) == (RunState.FAILED, 1)
    assert (run._stored.ended or 0) - (run._stored.deadline or 0) < 1_000_000


def test_a_run_that_was_out_of_time_may_be_tried_again(make: Make) -> None:
    engine = make(jobs)
    engine.run(patient.of().delay(0.3), name="late", deadline=timedelta(seconds=0.1))
    enough.set()
    run = engine.find("late")
    assert run is not None
    run.retry(cancelled=True)
    again = engine.run(patient.of().delay(0.3), name="late", deadline=timedelta(seconds=0.1))
    assert (again.begun, again.state, list(again.results())) == (How.CONTINUED, RunState.DONE, ["patient"])


def test_going_on_does_not_move_a_deadline(make: Make) -> None:
    engine = make(jobs)
    moment = datetime.now(UTC) + timedelta(hours=1)
    first = engine.start(patient.of(), name="x", deadline=moment, max_running=2)
    again = engine.start(patient.of(), name="x", deadline=moment)
    assert again._stored.deadline == first._stored.deadline == round(moment.timestamp() * 1_000_000)
    said: list[str] = []
    engine._runtime.say = said.append
    engine.start(patient.of(), name="x", deadline=timedelta(hours=2))
    assert " continues, with 3,6" in said[0] or "with 3,5" in said[0]
    with pytest.raises(ConfigError, match=r"exists with deadline='20.*got deadline='20"):
        engine.start(patient.of(), name="x", deadline=moment + timedelta(seconds=1))
    with pytest.raises(ConfigError, match="exists with max_running=2"):
        engine.start(patient.of(), name="x", max_running=3)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"max_running": 0}, "max_running=0: expected a whole number, 1 or more"),
        ({"max_running": True}, "whole number"),
        ({"max_running": 2.5}, "whole number"),
        ({"deadline": timedelta(0)}, "more than 0 seconds from the start"),
        ({"deadline": "5"}, "expected seconds, a timedelta, or a datetime with a time zone"),
        ({"deadline": datetime(2031, 1, 1)}, "with a time zone"),
        ({"deadline": datetime(2021, 1, 1, tzinfo=UTC)}, "that moment has passed"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(given: dict[str, Any], says: str) -> None:
    engine = Engine("memory:", include=[jobs])
    with pytest.raises(ConfigError, match=says):
        engine.start(patient.of(), **given)
    assert list(engine.runs()) == []


def test_the_same_line_gives_a_run_that_ended_also_after_its_deadline(make: Make) -> None:
    engine = make(jobs)
    enough.set()
    moment = datetime.now(UTC) + timedelta(seconds=0.3)
    engine.run(patient.of(), name="x", deadline=moment)
    wait_until(lambda: datetime.now(UTC) > moment)
    assert engine.run(patient.of(), name="x", deadline=moment).begun is How.FINISHED


def test_status_shows_the_bounds_of_a_run(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "x.db", include=[jobs])
    engine.start(patient.of(), max_running=4, max_tasks=1_000, deadline=datetime(2099, 1, 1, tzinfo=UTC))
    engine.close()
    shown = CliRunner().invoke(main, ["status", "-s", str(tmp_path / "x.db")]).output
    assert "bounds: at most 4 tasks at a time, at most 1,000 tasks in all, until 20" in shown
    shown = CliRunner().invoke(main, ["status", "--json", "-s", str(tmp_path / "x.db")]).output
    assert '"deadline":"2099-01-01T00:00:00Z"' in shown.replace(" ", "")
