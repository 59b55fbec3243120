"""When things happened in a run: every attempt with its times and its process, and how long nodes took."""

import os
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from threading import Event

import pytest

from ramify import Backoff, ConfigError, Engine, Status, Tasks, current
from ramify.engine.runs import timeline
from tests.engine.conftest import Make

jobs = Tasks()
#: How often `flaky` fails, and where what takes its time waits.
failures: list[int] = []
never = Event()


@jobs.task
def numbers(count: int) -> list[int]:
    return list(range(count))


@jobs.task(retries=0)
def double(n: int) -> int:
    return 2 * n


@jobs.task(retries=2, backoff=Backoff(first=0.001, factor=1))
def flaky() -> None:
    never.wait(0.02)
    if failures:
        failures.pop()
        raise ValueError("not yet")


@jobs.task
def parent() -> None:
    current().spawn(double.of(7))


@pytest.fixture
def engine(make: Make) -> Engine:
    failures.clear()
    return make(jobs)


@pytest.mark.parametrize("size", [1, timeline.PAGE])
def test_every_attempt_of_every_task_is_told_with_its_node(
    engine: Engine, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "PAGE", size)
    dag = jobs.dag("etl")
    each = dag.map(double.of(dag.add(numbers.of(3)).each), id="each")
    dag.add(parent.of(), id="last", after=[each])
    dag.on_end(numbers.of(0))
    engine.run(double.of(1), threads=0)
    run = engine.run(dag.of(), threads=0)
    rows = list(run.timeline())
    assert [(row.node, row.kind) for row in rows] == [
        ("numbers", "numbers"),
        ("last", "parent"),
        *[("each", "double")] * 3,
        ("last", "double"),
        ("(end)", "numbers"),
    ]
    assert [row.task for row in rows] == sorted(row.task for row in rows)
    assert {(row.attempt, row.life, row.status, row.pid) for row in rows} == {(1, 1, Status.DONE, os.getpid())}
    assert len({(row.process, row.host) for row in rows}) == 1
    summary = run.summary
    assert all(summary.started <= row.start <= row.end <= datetime.now(UTC) for row in rows)


def test_attempts_are_numbered_within_a_life_and_have_their_times(engine: Engine) -> None:
    failures.extend([1, 2, 3, 4])
    run = engine.run(flaky.of(), name="f", threads=0)
    run.retry()
    engine.run(flaky.of(), name="f", threads=0)
    rows = list(run.timeline())
    assert [(row.life, row.attempt, row.status.name) for row in rows] == [
        (1, 1, "RETRYING"), (1, 2, "RETRYING"), (1, 3, "FAILED"), (2, 1, "RETRYING"), (2, 2, "DONE"),
    ]  # fmt: skip
    assert all(row.end - row.start >= timedelta(milliseconds=19) for row in rows)
    assert all(before.end <= after.start for before, after in pairwise(rows))
    assert {row.node for row in rows} == {None}


def test_what_somebody_decided_is_no_attempt(engine: Engine) -> None:
    run = engine.start(double.of(1))
    run.resolve(run.id + 1, result=3)
    assert list(run.timeline()) == []


def test_durations_are_what_a_critical_path_is_found_by(engine: Engine) -> None:
    dag = jobs.dag("etl")
    quick = dag.add(double.of(1), id="quick")
    slow = dag.add(flaky.of(), id="slow")
    dag.add(double.of(2), id="never", after=[quick, slow])
    failures.extend([1, 2, 3])
    run = engine.run(dag.of(), name="etl", threads=0)
    seconds = run.durations()
    assert set(seconds) == {"quick", "slow"}
    assert seconds["slow"] >= 0.06
    way, length = dag.critical_path(seconds)
    assert [node.id for node in way] == ["slow"]
    assert length == seconds["slow"]


def test_only_runs_of_dags_have_durations(engine: Engine) -> None:
    run = engine.run(double.of(1), name="walk", threads=0)
    with pytest.raises(ConfigError, match="walk is not a run of a DAG"):
        run.durations()


def test_a_summary_has_the_numbers_and_the_times_of_a_run(engine: Engine) -> None:
    failures.extend([1, 2, 3])
    dag = jobs.dag("etl")
    bad = dag.add(flaky.of())
    dag.add(double.of(1), after=[bad])
    dag.add(double.of(2))
    run = engine.start(dag.of(), name="etl")
    found = run.summary
    # Three nodes, and the task that closes the run.
    assert (found.total, found.done, found.failed, found.skipped, found.finished) == (4, 0, 0, 0, None)
    assert found.duration >= timedelta(0)
    engine.run(dag.of(), name="etl", threads=0)
    found = run.summary
    assert (found.total, found.done, found.failed, found.skipped) == (4, 2, 1, 1)
    assert found.finished is not None
    assert found.finished - found.started == found.duration
