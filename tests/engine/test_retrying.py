"""Trying again: what a retry takes with it, and how the run ends then."""

from collections.abc import Iterator

import pytest

from ramify import Engine, RunCancelled, RunState
from tests.engine import jobs as known
from tests.engine.conftest import Make
from tests.engine.jobs import fragile, jobs
from tests.kernel.shop import wait_until


@pytest.fixture
def engine(make: Make) -> Iterator[Engine]:
    known.broken.clear()
    yield make(jobs)
    known.broken.clear()


def test_a_cancelled_run_does_not_end_as_done_because_one_of_its_tasks_was_retried(engine: Engine) -> None:
    known.broken |= {"x"}
    run = engine.start(fragile.of("x"), name="r", order="any")
    run.add(fragile.of("y").delay(1_000))
    with engine.working(threads=1):
        wait_until(lambda: run.counts.failed == 1)
    run.cancel("enough")
    assert run.state is RunState.CANCELLED
    known.broken.clear()
    assert run.retry().tasks == 1
    with engine.working(threads=1):
        assert run.wait(20)
    assert (run.state, run.stored.reason, run.counts.done, run.counts.cancelled) == (
        RunState.CANCELLED, "enough", 1, 1
    )  # fmt: skip


def test_results_of_a_cancelled_run_raise_unless_a_part_will_do(engine: Engine) -> None:
    run = engine.start([fragile.of("x"), fragile.of("y")])
    run.cancel("enough")
    with pytest.raises(RunCancelled, match=r"was cancelled \(enough\): 2 of 2 tasks were cancelled"):
        run.results()
    assert list(run.results(partial=True)) == []


def test_a_cancelled_run_also_says_what_had_failed(engine: Engine) -> None:
    known.broken |= {"x"}
    run = engine.start([fragile.of("x"), fragile.of("y").delay(1_000)], order="any")
    with engine.working(threads=1):
        wait_until(lambda: run.counts.failed == 1)
    run.cancel()
    with pytest.raises(RunCancelled, match=r"1 of 2 tasks were cancelled, 1 of 2 tasks failed: 1 x fragile") as raised:
        run.results()
    assert [group.text for group in raised.value.groups] == ["x is broken"]
