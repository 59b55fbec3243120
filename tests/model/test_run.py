"""How a run ends is one rule, whatever store asks."""

import pytest

from ramify.model.run import NewRun, RunState, Tolerance, ends_as, seconds_left, too_late, too_many

DONE, FAILED, CANCELLED, HALTED = RunState.DONE, RunState.FAILED, RunState.CANCELLED, RunState.HALTED


@pytest.mark.parametrize(
    ("bound_for", "failures", "cancelled", "stuck", "end"),
    [
        (DONE, 0, 0, 0, DONE),
        (DONE, 0, 7, 0, DONE),
        (DONE, 1, 0, 0, FAILED),
        (DONE, 0, 0, 1, FAILED),
        (CANCELLED, 0, 7, 0, CANCELLED),
        (CANCELLED, 1, 7, 1, CANCELLED),
        (CANCELLED, 0, 0, 0, DONE),
        (CANCELLED, 1, 0, 0, FAILED),
        (CANCELLED, 0, 0, 1, FAILED),
        (HALTED, 0, 1, 0, HALTED),
    ],
)
def test_a_run_ends_as_its_tasks_did_and_as_cancelled_while_it_was_and_they_are(
    bound_for: RunState, failures: int, cancelled: int, stuck: int, end: RunState
) -> None:
    assert ends_as(NewRun(1), bound_for, failures=failures, cancelled=cancelled, stuck=stuck) is end


@pytest.mark.parametrize(
    ("run", "failures", "stuck", "end"),
    [
        (NewRun(1, fails_as=HALTED), 1, 0, HALTED),
        (NewRun(1, fails_as=HALTED), 0, 0, DONE),
        (NewRun(1, fails_as=HALTED), 1, 1, FAILED),
        (NewRun(1, tolerates=Tolerance.ANY), 9, 0, DONE),
        (NewRun(1, tolerates=Tolerance.ANY), 0, 1, FAILED),
    ],
)
def test_what_failures_make_of_a_run_was_said_at_its_start(
    run: NewRun, failures: int, stuck: int, end: RunState
) -> None:
    assert ends_as(run, DONE, failures=failures, cancelled=0, stuck=stuck) is end


def test_a_run_is_too_late_from_its_deadline_on_and_only_once() -> None:
    run = NewRun(1, deadline=1_800_000_000_000_000)
    assert too_late(run.deadline, DONE, 1_799_999_999_999_999) is None
    assert too_late(run.deadline, DONE, 1_800_000_000_000_000) == "its deadline passed (2027-01-15 08:00:00 UTC)"
    assert too_late(run.deadline, CANCELLED, 1_800_000_000_000_000) is not None
    assert too_late(run.deadline, FAILED, 1_900_000_000_000_000) is None
    assert too_late(None, DONE, 1_900_000_000_000_000) is None
    assert seconds_left(run.deadline, DONE, 1_799_999_998_000_000) == 2.0
    assert seconds_left(run.deadline, FAILED, 0) is seconds_left(None, DONE, 0) is None


def test_a_run_may_have_as_many_tasks_as_it_was_told_and_no_more() -> None:
    assert too_many(NewRun(1, max_tasks=5), 5) is None
    assert too_many(NewRun(1), 5_000_000) is None
    assert too_many(NewRun(1, max_tasks=5), 6) == "max_tasks=5 exceeded (6 tasks)"
