"""RunFailed says what failed, and when that is not all of it; a run that did not end well is told without asking."""

import logging

import pytest

from ramify import ConfigError, RunCancelled, RunFailed, RunForgotten, steps
from ramify.engine.runs.lacking import not_whole
from ramify.inspect.status import Counts
from ramify.model.run import RunState, StoredRun
from ramify.store.error_groups import ErrorGroup, ErrorSummary
from tests.engine.conftest import Make
from tests.engine.sample_jobs import broken, fragile, jobs

GROUP = ErrorGroup("walk", "OSError", "gone", 2, (1, 2), "gone")


def stored(state: RunState) -> StoredRun:
    """A run that ended so."""
    return StoredRun(7, "walk", state=state, round=0, reason=None, created=0, ended=1, since=0)


@pytest.mark.parametrize("state", [RunState.FAILED, RunState.CANCELLED])
def test_failures_of_which_only_the_newest_were_looked_at_are_told_as_such(state: RunState) -> None:
    part = not_whole(stored(state), Counts(added=9, failed=5), ErrorSummary([GROUP], complete=False, others=1))
    assert "5 of 9 tasks failed, among the newest 3: 2 x walk: OSError: gone" in str(part)
    assert (part.groups, part.complete) == ((GROUP,), False)
    whole = not_whole(stored(state), Counts(added=9, failed=2), ErrorSummary([GROUP], complete=True))
    assert "2 of 9 tasks failed: 2 x walk: OSError: gone" in str(whole)
    assert whole.complete


@pytest.fixture(autouse=True)
def whole() -> None:
    broken.clear()


def test_a_run_that_failed_raises_if_it_is_checked_and_is_told_if_not(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    engine = make(jobs)
    assert engine.run(fragile.of("x"), name="good", check=True).check().name == "good"
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    broken.add("x")
    with pytest.raises(
        RunFailed, match=r"run bad: 1 of 1 tasks failed: 1 x fragile: ValueError: x is broken"
    ) as failed:
        engine.run(fragile.of("x"), name="bad", check=True)
    assert failed.value.groups[0].count == 1
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    # The same line later says so again, although nothing runs any more.
    for _ in range(2):
        run = engine.run(fragile.of("x"), name="bad")
        (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
        assert line == str(failed.value)
        caplog.clear()
    with pytest.raises(RunFailed, match=r"run bad: 1 of 1"):
        run.check()
    with pytest.raises(RunFailed, match=r"run bad: 1 of 1"):
        engine.run(fragile.of("x"), name="bad", check=True)


def test_a_run_that_was_cancelled_halted_or_forgotten_did_not_end_well(make: Make) -> None:
    engine = make(jobs)
    run = engine.start(fragile.of("x"), name="c")
    with pytest.raises(
        ConfigError, match=r"check\(\): expected a run that has ended, got one that is open. wait\(\) first"
    ):
        run.check()
    run.cancel("enough")
    with pytest.raises(RunCancelled, match=r"was cancelled \(enough\)"):
        run.check()
    run.forget()
    with pytest.raises(RunForgotten):
        run.check()
    broken.add("x")
    halted = engine.run(engine.pipeline("p", steps(fragile)).of("x"), name="halted")
    assert halted.state is RunState.HALTED
    with pytest.raises(RunFailed, match=r"run halted: 1 of 1 tasks failed"):
        halted.check()


def test_a_run_that_was_halted_without_failures_says_why() -> None:
    raised = not_whole(
        StoredRun(7, "w", state=RunState.HALTED, round=0, reason="max_tasks=1 exceeded", created=0, ended=1, since=0),
        Counts(added=9, done=1, cancelled=8),
        ErrorSummary([], complete=True),
    )
    assert str(raised) == (
        "run w halted: max_tasks=1 exceeded. results(partial=True) gives the results that exist, "
        "retry(cancelled=True) retries cancelled tasks."
    )


def names() -> list[str]:
    return ["a", "b", "c"]


def test_tasks_that_a_dag_adds_are_not_counted_with_those_of_its_user(make: Make) -> None:
    engine = make(jobs)
    source = engine.task(names)
    broken.add("b")
    dag = engine.dag("etl")
    dag.map(fragile.of(dag.add(source.of()).each))
    run = engine.run(dag.of(), name="etl")
    assert run.counts.added > 4
    with pytest.raises(RunFailed, match=r"run etl: 1 of 4 tasks failed: 1 x fragile"):
        run.check()
    long = engine.dag("long")
    long.map(fragile.of(long.add(source.of()).each), max_items=1)
    # The one that makes the items failed, so it counts.
    with pytest.raises(RunFailed, match=r"run long: 1 of 2 tasks failed: 1 x ramify.map"):
        engine.run(long.of(), name="long").check()
