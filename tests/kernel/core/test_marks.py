"""A mark is new once, and once more to a claim whose answer was on its way when it was heard of."""

from __future__ import annotations

from ramify.kernel.core.marks import Marks
from ramify.model.event import Status
from ramify.model.mark import Mark, Scope

TASK = Mark(1, Scope.TASK, 7, Status.CANCELLED)
RUN = Mark(2, Scope.RUN, None, Status.CANCELLED)


def test_a_mark_is_new_once() -> None:
    marks = Marks()
    assert marks.heard([TASK, RUN]) == {1, 2}
    assert marks.heard([TASK, RUN]) == set()
    assert (marks.tasks, marks.runs) == ({7: TASK}, {2: RUN})


def test_a_mark_that_went_away_and_came_back_is_new_again() -> None:
    marks = Marks()
    marks.heard([TASK])
    assert marks.heard([]) == set()
    assert marks.tasks == {}
    assert marks.heard([TASK]) == {1}


def test_a_claim_asked_for_before_the_mark_was_heard_of_makes_it_new_again() -> None:
    marks = Marks()
    marks.asked()
    marks.heard([TASK])
    marks.claimed()
    assert marks.heard([TASK]) == {1}


def test_a_claim_asked_for_after_it_does_not() -> None:
    marks = Marks()
    marks.heard([TASK])
    marks.asked()
    marks.claimed()
    assert marks.heard([TASK]) == set()


def test_a_claim_that_came_with_a_commit_knows_the_marks_that_came_with_it() -> None:
    marks = Marks()
    marks.asked()
    assert marks.committed([TASK]) == {1}
    marks.claimed()
    assert marks.heard([TASK]) == set()


def test_a_run_whose_cancel_went_away_is_wanted_again() -> None:
    marks = Marks()
    marks.heard([RUN])
    marks.heard([])
    assert marks.runs == {}


def test_a_task_that_was_settled_is_not_taken_for_a_cancelled_one() -> None:
    marks = Marks()
    assert marks.heard([Mark(1, Scope.TASK, 7, Status.DONE, value=b"1")]) == {1}
    assert marks.tasks == {}
    assert marks.heard([TASK]) == {1}
    assert marks.tasks == {7: TASK}


def test_why_a_run_drains_is_known_from_its_mark_whoever_told_of_it_first() -> None:
    marks, why = Marks(), Mark(2, Scope.RUN, None, Status.CANCELLED, "enough")
    assert marks.drained(2) == {2}
    assert marks.heard([why]) == set()
    assert marks.runs == {2: why}
