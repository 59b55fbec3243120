"""Lanes from end to end, on real stores: those with few tasks share rows, and every task runs once in its own lane."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from ramify import Call, Engine, Tasks, current
from tests.engine.conftest import Make

jobs = Tasks()
seen: Counter[tuple[str | None, int]] = Counter()
lock = threading.Lock()


def _see(number: int) -> None:
    with lock:
        seen[current().lane, number] += 1


@jobs.task
def free(number: int) -> None:
    _see(number)


@jobs.task(concurrency=2)
def limited(number: int) -> None:
    _see(number)


@jobs.task(concurrency=2)
async def woven(number: int) -> None:
    _see(number)


@jobs.task
def scatter(kind: str, lanes: int, times: int) -> Iterator[Call[None]]:
    task = {"free": free, "limited": limited, "woven": woven}[kind]
    for number in range(times):
        for lane in range(lanes):
            yield task.of(number).lane(str(lane))


@pytest.fixture
def engine(make: Make) -> Engine:
    seen.clear()
    return make(jobs)


def test_lanes_of_one_task_each_share_a_row(engine: Engine) -> None:
    run = engine.start([free.of(number).lane(f"lane {number}") for number in range(500)])
    assert len(engine._runtime.store.reads.segments(run=run.id).rows) == 1
    with engine.working(threads=2):
        run.wait()
    assert seen == {(f"lane {number}", number): 1 for number in range(500)}


@pytest.mark.parametrize("kind", ["free", "limited", "woven"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_every_task_of_lanes_that_share_a_row_runs_once(engine: Engine, kind: str, times: int) -> None:
    run = engine.run(scatter.of(kind, 100, times), threads=4)
    assert run.counts.done == 100 * times + 1
    assert seen == {(str(lane), number): 1 for lane in range(100) for number in range(times)}
