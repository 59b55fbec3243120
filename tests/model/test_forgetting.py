"""What may be forgotten is decided once: runs by their state and readers, tasks by what may still ask for them."""

from __future__ import annotations

import pytest

from ramify.errors import BadPayload, RunForgotten, RunNeeded
from ramify.model import forgetting
from ramify.model.decision import UNSAID, Decision, Said, What
from ramify.model.event import ENDS, Status
from ramify.model.forgetting import NEVER, Cutoffs, Piece, Reader, Removal
from ramify.model.run import RunState, StoredRun

DONE = Status.DONE


def run_in(state: RunState, decision: Decision | None = None) -> StoredRun:
    return StoredRun(1, state=state, round=0, reason=None, created=0, ended=5, since=0, decision=decision)


def chosen(ended: dict[int, Status], *not_before: tuple[int, int], endless: bool = True, **rest: object) -> list[int]:
    facts = {"named": (), "rows": (), **rest}
    return forgetting.chosen(ended, endless=endless, not_before=not_before, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", RunState)
def test_only_a_run_that_has_ended_begins_to_be_forgotten(state: RunState) -> None:
    if state is RunState.FORGOTTEN:
        assert forgetting.begin(run_in(state), Said(after=7), lambda: Reader(1, 2, 3), 9) is None
    elif state.is_end:
        moved = forgetting.begin(run_in(state), Said("old", "ann"), lambda: None, 9)
        assert moved is not None
        assert (moved.state, moved.decision) == (RunState.FORGOTTEN, Decision(1, What.FORGOTTEN, "ann", "old", 9))
    else:
        with pytest.raises(RunNeeded, match=f"run 1 is {state.value}"):
            forgetting.begin(run_in(state), UNSAID, lambda: None, 9)


def test_a_run_stays_that_somebody_decided_about_or_whose_results_somebody_has() -> None:
    opened = Decision(2, What.REOPENED)
    with pytest.raises(RunNeeded, match="meanwhile"):
        forgetting.begin(run_in(RunState.DONE, opened), Said(after=1), lambda: None, 9)
    with pytest.raises(RunNeeded, match=r"task 8 of run 3 has the result of task 4 of run 1 .* forget run 3 first"):
        forgetting.begin(run_in(RunState.DONE), UNSAID, lambda: Reader(4, 8, 3), 9)


def test_what_was_forgotten_says_when_by_whom_and_why() -> None:
    assert forgetting.check_remembered(run_in(RunState.DONE)).id == 1
    gone = run_in(RunState.FORGOTTEN, Decision(1, What.FORGOTTEN, "ann", "old", 0))
    with pytest.raises(RunForgotten, match="run 1 was forgotten on 1970-01-01 00:00 UTC by ann: old"):
        forgetting.check_remembered(gone)


def test_of_a_run_with_an_end_only_what_says_nothing_against_it_goes() -> None:
    ended = dict(enumerate((Status.DONE, Status.FAILED, Status.CANCELLED, Status.SKIPPED, Status.QUARANTINED), 1))
    assert chosen(ended) == [1, 2, 3, 4, 5]
    assert chosen(ended, endless=False) == [1, 4]


def test_a_named_task_and_one_in_a_live_row_stay() -> None:
    ended = dict.fromkeys(range(1, 9), DONE)
    assert chosen(ended, named=[2], rows=[(4, 5), (8, 20)]) == [1, 3, 6, 7]


def test_nothing_goes_before_what_may_ask_for_it() -> None:
    ended = dict.fromkeys(range(1, 5), DONE)
    assert chosen(ended, (1, 2), (2, 3)) == [1, 2, 3, 4]
    assert chosen(ended, (1, 2), (2, 3), (3, 99)) == [4]
    assert chosen(ended, (1, 2), (2, 1), (1, NEVER)) == [3, 4]


def test_a_page_is_cut_where_it_is_full() -> None:
    spans = [(1, 4), (10, 12), (20, 29)]
    assert forgetting.pieces(spans, range(2, 100), 5) == ([Piece(1, 2, 4), Piece(10, 10, 11)], True)
    assert forgetting.pieces(spans, range(2, 13), 6) == ([Piece(1, 2, 4), Piece(10, 10, 12)], False)
    assert forgetting.pieces(spans, range(2, 100), 6) == ([Piece(1, 2, 4), Piece(10, 10, 12)], True)
    assert forgetting.pieces(spans, range(5, 10), 6) == ([], False)


def test_what_was_added_lately_may_still_be_added_again_so_it_stays() -> None:
    ended = [(task, Status.DONE, task) for task in (49, 50, 69, 70)]
    assert list(forgetting.settled(Removal(), "walk", ended, 70)) == [49, 50, 69]
    assert list(forgetting.settled(Removal(before=50), "walk", ended, 70)) == [49]
    assert list(forgetting.settled(Removal(before=90), "walk", ended, 70)) == [49, 50, 69]


def test_how_long_tasks_stay_may_differ_by_kind_and_by_how_they_ended() -> None:
    cutoffs = Cutoffs({"mail": 60, "report": 10}, failed=20, cancelled=40)
    times = {status: cutoffs.of("mail", status) for status in ENDS}
    assert times == {
        Status.DONE: 60,
        Status.FAILED: 20,
        Status.QUARANTINED: 20,
        Status.CANCELLED: 40,
        Status.SKIPPED: 40,
        Status.REPLACED: 40,
    }
    assert cutoffs.of("report", Status.DONE) == 10
    assert {cutoffs.of("unknown", status) for status in ENDS} == {0}
    ended = [(1, Status.DONE, 59), (2, Status.DONE, 60), (3, Status.FAILED, 59), (4, Status.FAILED, 19)]
    assert list(forgetting.settled(Removal(before=cutoffs), "mail", ended, 100)) == [1, 4]


@pytest.mark.parametrize("removal", [Removal(limit=0), Removal(before=1), Removal(range(1, 9, 2))])
def test_what_can_mean_nothing_is_refused(removal: Removal) -> None:
    with pytest.raises(BadPayload):
        forgetting.check_removal(removal)
