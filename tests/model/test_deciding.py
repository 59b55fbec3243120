"""What follows from a decision is said once, whatever store asks."""

import pytest

from ramify.errors import BadPayload
from ramify.model.deciding import Settle, cancelled, check_settle, decide, settling
from ramify.model.decision import UNSAID, Decision, Said, What
from ramify.model.event import Status
from ramify.model.mark import Mark, Scope, Settled, reason_text, reason_value
from ramify.model.run import RunState
from ramify.model.segment import SegmentState

OPEN, PAUSED, DRAINING, DONE = RunState.OPEN, RunState.PAUSED, RunState.DRAINING, RunState.DONE


@pytest.mark.parametrize(
    ("what", "before", "after"),
    [
        (What.PAUSED, OPEN, PAUSED),
        (What.PAUSED, PAUSED, PAUSED),
        (What.RESUMED, PAUSED, OPEN),
        (What.RESUMED, OPEN, OPEN),
        (What.CANCELLED, OPEN, DRAINING),
        (What.CANCELLED, PAUSED, DRAINING),
        (What.REOPENED, PAUSED, PAUSED),
        (What.FORGOTTEN, DONE, RunState.FORGOTTEN),
        *((What.FORGOTTEN, state, None) for state in (OPEN, PAUSED, RunState.FORGOTTEN)),
        *((what, DRAINING, None) for what in What),
        *((what, DONE, None) for what in What if what is not What.FORGOTTEN),
    ],
)
def test_a_decision_moves_a_run_or_is_none(what: What, before: RunState, after: RunState | None) -> None:
    moved = decide(what, before, None, Said("why", "ann"), 7)
    assert (None if moved is None else moved.state) is after
    if moved is not None:
        assert moved.decision == Decision(1, what, "ann", "why", 7)


def test_a_decision_counts_only_if_none_was_made_since_the_one_it_names() -> None:
    last = Decision(3, What.RESUMED)
    assert decide(What.PAUSED, OPEN, last, Said(after=2), 0) is None
    for after in (3, None):
        moved = decide(What.PAUSED, OPEN, last, Said(after=after), 0)
        assert moved is not None
        assert moved.decision.n == 4


def test_what_a_cancel_is_told_follows_from_where_the_run_is() -> None:
    assert cancelled(OPEN, RunState.CANCELLED) is Settled.CERTAIN
    assert cancelled(DRAINING, RunState.CANCELLED) is Settled.CERTAIN
    assert cancelled(DONE, DONE) is Settled.ENDED
    assert cancelled(PAUSED, DRAINING) is Settled.REQUESTED
    assert cancelled(OPEN, OPEN) is Settled.OVERTAKEN


@pytest.mark.parametrize(
    ("row", "below", "answer", "marks", "ends"),
    [
        (SegmentState.READY, False, Settled.CERTAIN, False, True),
        (SegmentState.WAITING, False, Settled.CERTAIN, False, True),
        (SegmentState.GATED, True, Settled.REQUESTED, True, True),
        (SegmentState.CLAIMED, False, Settled.REQUESTED, True, False),
        (SegmentState.CLAIMED, True, Settled.REQUESTED, True, False),
        (None, True, Settled.REQUESTED, True, False),
        (None, False, Settled.ENDED, False, False),
    ],
)
def test_a_task_ends_where_nobody_holds_it_and_is_marked_where_somebody_does(
    row: SegmentState | None, below: bool, answer: Settled, marks: bool, ends: bool
) -> None:
    ask = Settle(5, UNSAID, below=below)
    plan = settling(ask, 1, OPEN, is_here=True, row=row, life=lambda: 1, is_marked=lambda mark: False)
    assert (plan.answer, plan.mark is not None, plan.ends) == (answer, marks, ends)


def test_a_mark_that_is_there_is_not_left_again() -> None:
    ask = Settle(5, Said("why"), Status.DONE, b"1")
    found = []

    def is_marked(mark: Mark) -> bool:
        found.append(mark)
        return True

    plan = settling(ask, 1, OPEN, is_here=True, row=SegmentState.CLAIMED, life=lambda: 1, is_marked=is_marked)
    assert (plan.answer, plan.mark, plan.events) == (Settled.REQUESTED, None, ())
    assert found == [Mark(1, Scope.TASK, 5, Status.DONE, "why", b"1")]


def test_a_result_that_is_too_large_or_out_of_place_is_refused() -> None:
    for ask in (Settle(5, UNSAID, Status.FAILED), Settle(5, UNSAID, Status.SKIPPED, b"1")):
        with pytest.raises(BadPayload, match="task 5"):
            check_settle(ask)


def test_a_mark_ends_a_task_with_its_result_or_with_who_and_why() -> None:
    said = "because", None, "ann"
    assert Mark(1, Scope.TASK, 5, Status.DONE, *said).end_value is None
    assert Mark(1, Scope.TASK, 5, Status.SKIPPED, *said).end_value == reason_value("because", "ann")
    assert reason_text(reason_value("because", "ann")) == "because"
    assert reason_text(reason_value("", "ann")) == ""
    assert reason_text(b"[1]") == "[1]"
