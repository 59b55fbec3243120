"""What an attempt came to becomes one event; whether another attempt follows is decided here and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from ramify.kernel.core.verdicts import EndedUntried, Verdict, known_ends, verdict_of
from ramify.kernel.core.work import Dropped, Postponed, Raised, Wait
from ramify.model.call import Extra
from ramify.model.claim import Details
from ramify.model.death import Deaths
from ramify.model.event import History, Status
from ramify.model.join import Ends, Rule
from ramify.model.mark import Mark, Scope
from ramify.model.outcome import Failure
from ramify.model.policy import Backoff
from tests.kernel.claims import handler, holding

FAILURE = Failure("ValueError", "no")
STEADY = Backoff(2.0, 2.0, 100.0, jitter=False)


def chance() -> float:
    return 0.5


@pytest.mark.parametrize(("before", "wait"), [(0, 2.0), (1, 4.0), (2, 8.0)])
def test_a_failed_attempt_is_tried_again_after_a_wait_that_grows(before: int, wait: float) -> None:
    held = holding(1, handler(retries=3, backoff=STEADY), history={100: History(before, before)})
    assert verdict_of(Raised(FAILURE), held, 0, chance) == (Status.RETRYING, FAILURE.encode(), Wait(wait))


def test_the_last_attempt_that_fails_ends_the_task() -> None:
    held = holding(1, handler(retries=3), history={100: History(3, 3)})
    assert verdict_of(Raised(FAILURE), held, 0, chance) == (Status.FAILED, FAILURE.encode(), None)


def test_without_retries_the_first_failure_is_the_end() -> None:
    assert verdict_of(Raised(FAILURE), holding(1, handler(retries=0)), 0, chance)[0] is Status.FAILED


def test_a_call_may_have_a_budget_of_its_own() -> None:
    held = holding(1, handler(retries=0), details={100: Details(extra=b'{"retries":1}')})
    assert verdict_of(Raised(FAILURE), held, 0, chance)[0] is Status.RETRYING


def test_a_final_failure_is_not_tried_again() -> None:
    assert verdict_of(Raised(FAILURE, final=True), holding(1), 0, chance) == (Status.FAILED, FAILURE.encode(), None)


def test_a_postponed_task_waits_as_long_as_it_asked_and_uses_no_attempt() -> None:
    status, _, wait = verdict_of(Postponed(3.5), holding(1), 0, chance)
    assert (status, wait) == (Status.DEFERRED, Wait(3.5))


def test_a_task_that_awaits_a_run_waits_for_that_or_as_long_as_it_asked() -> None:
    status, _, wait = verdict_of(Postponed(3.5, "waits", 7), holding(1), 0, chance)
    assert (status, wait) == (Status.DEFERRED, Wait(3.5, awaits=7))


def test_a_postponed_task_is_stored_with_its_reason_or_its_seconds() -> None:
    assert verdict_of(Postponed(3.5), holding(1), 0, chance)[1] == b'{"seconds":3.5}'
    assert verdict_of(Postponed(3.5, "no file \udcff"), holding(1), 0, chance)[1] == rb'{"reason":"no file \\udcff"}'


def test_a_dropped_attempt_ends_as_cancelled() -> None:
    assert verdict_of(Dropped("enough"), holding(1), 0, chance) == (Status.CANCELLED, b'{"reason":"enough"}', None)


def statuses(ends: dict[int, Verdict]) -> list[Status]:
    return [verdict.status for verdict in ends.values() if isinstance(verdict, EndedUntried)]


def test_a_task_that_was_late_is_judged_as_if_it_had_run_out_of_time_itself() -> None:
    marks = {100: Mark(1, Scope.TASK, 100, Status.RETRYING)}
    (verdict,) = known_ends(holding(1, handler(timeout=3.0), marks=marks), 0).values()
    assert verdict == Raised(Failure("TimeoutError", "no result after 3 seconds"))
    extra = {100: Details(extra=b'{"timeout":7}')}
    (verdict,) = known_ends(holding(1, handler(give_up_on=(TimeoutError,)), marks=marks, details=extra), 0).values()
    assert verdict == Raised(Failure("TimeoutError", "no result after 7 seconds"), final=True)


def test_a_marked_task_ends_as_its_mark_says() -> None:
    mark = Mark(1, Scope.TASK, 101, Status.CANCELLED, "not wanted")
    ends = known_ends(holding(3, marks={101: mark}), 0)
    assert ends == {101: EndedUntried(Status.CANCELLED, b'{"reason":"not wanted"}')}


def test_a_mark_may_bring_the_result() -> None:
    mark = Mark(1, Scope.TASK, 100, Status.DONE, "by hand", b"7")
    assert known_ends(holding(1, marks={100: mark}), 0) == {100: EndedUntried(Status.DONE, b"7")}


def test_a_task_over_which_enough_processes_died_is_quarantined() -> None:
    ends = known_ends(holding(1, handler(max_crashes=5), deaths=Deaths(ran=5, apart=True, alone=True)), 0)
    assert statuses(ends) == [Status.QUARANTINED]


@pytest.mark.parametrize(
    "fields",
    [
        {"deaths": Deaths(ran=4, alone=True)},
        {"deaths": Deaths(ran=5)},
        {"deaths": Deaths(ran=5, alone=True), "tasks": 2},
    ],
    ids=["too-few-deaths", "not-alone", "more-than-one-task"],
)
def test_blame_needs_proof(fields: dict[str, Any]) -> None:
    assert known_ends(holding(by=handler(max_crashes=5), **{"tasks": 1, **fields}), 0) == {}


def test_without_max_crashes_nothing_is_quarantined() -> None:
    assert known_ends(holding(1, handler(max_crashes=None), deaths=Deaths(ran=99, apart=True, alone=True)), 0) == {}


def test_a_continuation_whose_members_broke_is_skipped() -> None:
    ends = known_ends(holding(1, details={100: Details(members=Ends(2, failed=1))}), 0)
    assert statuses(ends) == [Status.SKIPPED]


def test_a_continuation_that_wants_to_run_always_does() -> None:
    details = {100: Details(members=Ends(2, failed=1), rule=Rule.ALWAYS)}
    assert known_ends(holding(1, details=details), 0) == {}


def test_a_mark_counts_more_than_broken_members() -> None:
    mark = Mark(1, Scope.TASK, 100, Status.CANCELLED)
    ends = known_ends(holding(1, marks={100: mark}, details={100: Details(members=Ends(failed=1))}), 0)
    assert statuses(ends) == [Status.CANCELLED]


def test_a_task_that_expired_before_it_was_begun_is_cancelled() -> None:
    details = {100: Details(extra=Extra(until=1_000).encode())}
    (verdict,) = known_ends(holding(1, details=details), 1_000).values()
    assert isinstance(verdict, EndedUntried)
    assert verdict.status is Status.CANCELLED
    assert known_ends(holding(1, details=details), 999) == {}


@pytest.mark.parametrize("fields", [{"history": {100: History(1, 1)}}, {"deaths": Deaths(ran=1)}])
def test_a_task_that_was_begun_does_not_expire_any_more(fields: dict[str, Any]) -> None:
    details = {100: Details(extra=Extra(until=1_000).encode())}
    assert known_ends(holding(1, details=details, **fields), 2_000) == {}
