"""The core decides: what it is told in which order, and what it says to do next. No store, no threads, no real time."""

from __future__ import annotations

import pytest

from ramify.kernel.core.core import Core
from ramify.kernel.core.handler import Calling
from ramify.kernel.core.steps import ClaimWork, Die, Enter, Flush, Leave, Look, Move, PutBack, Rest, Step
from ramify.kernel.core.work import Chunk, Interrupted, Postponed, Raised, Ran, Wait
from ramify.kernel.outgoing.outbox import Finished
from ramify.kernel.settings import Settings
from ramify.kernel.tuning import LONGEST_REST
from ramify.model.claim import Claimed
from ramify.model.commit import Committed
from ramify.model.death import Deaths
from ramify.model.event import Status
from ramify.model.mark import Mark, Scope
from ramify.model.outcome import Failure
from ramify.model.policy import Backoff
from ramify.model.run import Advanced, RunState
from ramify.store.contract import Beat
from tests.kernel.claims import answer, claim, core, handler, lease

FAILURE = Failure("ValueError", "no")
CANCEL = Mark(1, Scope.TASK, 100, Status.CANCELLED)
STEADY = Backoff(2.0, 1.0, 2.0, jitter=False)


def done(chunk: Chunk) -> Ran:
    return Ran(chunk, [chunk.claim.tasks[place] for place in chunk.positions], seconds=1.0)


def failed(chunk: Chunk) -> Ran:
    return Ran(chunk, others=[(chunk.claim.tasks[place], Raised(FAILURE)) for place in chunk.positions], seconds=1.0)


def flush(step: Step) -> tuple[Finished, ...]:
    assert isinstance(step, Flush)
    return step.batch


# entering, beating, being declared dead


def test_the_first_thing_is_to_enter_and_then_to_claim() -> None:
    made = core()
    made.is_in = False
    assert isinstance(made.step(0.0), Enter)
    made.entered(Beat(), 0.0)
    assert isinstance(made.step(0.0), ClaimWork)


def test_a_process_that_was_not_heard_of_for_half_the_time_leases_and_claims_nothing() -> None:
    made = core(dead_after=10.0)
    made.claimed(Claimed((claim(2),)), 0.0)
    assert made.lease(False, 4.9) is not None
    assert made.lease(False, 5.0) is None
    assert isinstance(made.step(5.0), Rest)
    made.heard(Beat(), 4.0)
    assert made.lease(False, 5.0) is not None


def test_a_beat_counts_from_when_it_was_sent_and_not_from_its_answer() -> None:
    made = core(dead_after=10.0)
    made.claimed(Claimed((claim(2),)), 0.0)
    made.heard(Beat(), 1.0)
    assert made.lease(False, 6.0) is None


def test_a_process_that_cannot_claim_rests_instead_of_spinning() -> None:
    made = core(dead_after=10.0, runs=frozenset({1}))
    made.claimed(Claimed((claim(1),)), 0.0)
    lease(made)
    made.claimed(Claimed(), 0.0)
    step = made.step(7.0)
    assert isinstance(step, Rest)
    assert step.seconds > 0.01


def test_a_process_that_was_declared_dead_forgets_everything_and_enters_anew() -> None:
    made = core()
    made.claimed(Claimed((claim(4),)), 0.0)
    chunk = lease(made)
    made.finished(done(chunk), 0.0)
    made.came_back(chunk)
    made.heard(Beat(reaped=True), 0.0)
    assert (made.holdings, made.outbox.finished, made.outbox.unsent) == ({}, {}, 0)
    assert isinstance(made.step(0.0), Enter)


def test_what_a_worker_brings_after_its_claim_is_gone_is_dropped() -> None:
    made = core()
    made.claimed(Claimed((claim(4),)), 0.0)
    chunk = lease(made)
    made.reaped()
    made.entered(Beat(), 1.0)
    made.finished(done(chunk), 1.0)
    made.came_back(chunk)
    assert not made.outbox.finished
    assert (made.leases.leased[False], made.leases.chunks[False]) == (0, 0)


def test_a_claim_that_is_answered_after_the_process_was_declared_dead_is_void() -> None:
    made = core()
    made.heard(Beat(reaped=True), 0.0)
    made.claimed(Claimed((claim(4),)), 0.0)
    assert not made.holdings


# outcomes and commits


def test_the_next_attempt_waits_for_the_commit_of_the_last() -> None:
    made = core(handler(backoff=Backoff(0.0)))
    made.claimed(Claimed((claim(1),)), 0.0)
    chunk = lease(made)
    made.finished(failed(chunk), 0.0)
    made.came_back(chunk)
    assert made.lease(False, 0.0) is None
    batch = flush(made.step(0.0))
    assert made.lease(False, 0.0) is None
    made.committed(batch, answer(), 0.0)
    again = lease(made)
    assert again.attempts == {0: 2}


def test_who_awaits_a_run_leaves_memory_however_short_the_wait_because_only_the_store_hears_of_its_end() -> None:
    made = core(memory_wait=5.0)
    made.claimed(Claimed((claim(1),)), 0.0)
    made.finished(Ran(lease(made), others=[(100, Postponed(1.0, "", 7))], seconds=1.0), 0.0)
    (finished,) = flush(made.step(0.0))
    assert (finished.again, finished.later) == ({}, {100: Wait(1.0, awaits=7)})


def test_a_short_wait_stays_in_memory_and_a_long_one_leaves_it() -> None:
    made = core(handler(backoff=STEADY), memory_wait=5.0)
    made.claimed(Claimed((claim(2),)), 0.0)
    first, second = lease(made), lease(made)
    made.finished(failed(first), 0.0)
    made.finished(Ran(second, others=[(101, Postponed(60.0))], seconds=1.0), 0.0)
    (finished,) = flush(made.step(0.0))
    assert (finished.again, finished.later) == ({100: Wait(2.0)}, {101: Wait(60.0)})
    made.committed([finished], answer(), 10.0)
    assert made.lease(False, 11.9) is None
    assert list(lease(made, 12.0).positions) == [0]


def test_outcomes_wait_for_company_but_not_for_long() -> None:
    made = core(threads=2, flush_after=0.5, flush_at=100)
    made.claimed(Claimed((claim(4),)), 0.0)
    chunk = lease(made)
    lease(made)
    made.finished(done(chunk), 0.0)
    step = made.step(0.1)
    assert isinstance(step, Rest)
    assert step.seconds == pytest.approx(0.4)
    assert isinstance(made.step(0.5), Flush)


def test_enough_outcomes_are_sent_at_once() -> None:
    made = core(threads=2, flush_at=1)
    made.claimed(Claimed((claim(8),)), 0.0)
    made.finished(done(lease(made)), 0.0)
    assert made.needs_step()
    assert isinstance(made.step(0.0), Flush)


def test_with_nothing_left_to_hand_out_outcomes_are_sent_at_once() -> None:
    made = core(flush_after=9.0)
    made.claimed(Claimed((claim(1),)), 0.0)
    made.finished(done(lease(made)), 0.0)
    assert isinstance(made.step(0.0), Flush)


def test_a_commit_brings_the_next_claim_along() -> None:
    made = core(threads=1)
    made.claimed(Claimed((claim(1),), ready=1), 0.0)
    made.finished(done(lease(made)), 0.0)
    step = made.step(0.0)
    assert isinstance(step, Flush)
    assert step.want is not None


@pytest.mark.parametrize("awaited", [False, True])
def test_what_follows_from_a_commit_is_taken_along_although_the_last_claim_found_nothing(awaited: bool) -> None:
    made = core(threads=2)
    made.claimed(Claimed((claim(1, awaited=awaited),)), 0.0)
    made.claimed(Claimed(()), 0.0)
    made.finished(done(lease(made)), 0.0)
    step = made.step(0.0)
    assert isinstance(step, Flush)
    assert (step.want is not None) == awaited


def test_a_refused_part_means_that_the_claim_is_lost() -> None:
    made = core()
    made.claimed(Claimed((claim(2), claim(2, first=200)), ready=1), 0.0)
    made.finished(done(lease(made)), 0.0)
    batch = flush(made.step(0.0))
    made.committed(batch, Committed(0, refused=(batch[0].claim.token,)), 0.0)
    assert [holding.claim.tasks[0] for holding in made.holdings.values()] == [200]
    assert list(lease(made).claim.tasks) == [200, 201]


def test_an_interrupted_task_is_handed_out_again_as_the_same_attempt() -> None:
    made = core()
    made.claimed(Claimed((claim(1),)), 0.0)
    chunk = lease(made)
    made.finished(Ran(chunk, others=[(100, Interrupted())]), 0.0)
    made.came_back(chunk)
    assert not made.outbox.finished
    assert lease(made).attempts == {}


def test_tasks_whose_end_is_known_are_committed_without_an_attempt() -> None:
    made = core()
    mark = Mark(1, Scope.TASK, 100, Status.CANCELLED)
    made.claimed(Claimed((claim(1, marks={100: mark}),)), 0.0)
    assert made.lease(False, 0.0) is None
    (finished,) = flush(made.step(0.0))
    assert finished.statuses == [Status.CANCELLED]


# pausing and cancelling


def test_a_paused_run_is_put_back_once_nothing_of_it_runs_or_is_unsent() -> None:
    made = core(threads=2)
    made.claimed(Claimed((claim(8),)), 0.0)
    chunk = lease(made)
    made.heard(Beat(paused=(1,)), 0.0)
    assert made.lease(False, 0.0) is None
    assert not isinstance(made.step(0.0), PutBack)
    made.finished(done(chunk), 0.0)
    made.came_back(chunk)
    batch = flush(made.step(0.0))
    assert not isinstance(made.step(0.0), PutBack)
    made.committed(batch, answer(), 0.0)
    assert made.step(0.0) == PutBack((claim(8).token,))
    made.released([claim(8).token])
    assert not made.holdings


def test_a_stopping_process_with_claims_to_put_back_is_not_woken_by_workers_that_look_for_more() -> None:
    made = core(handler(), handler("long"))
    made.claimed(Claimed((claim(1), claim(1, first=200, run=2, kind="long"))), 0.0)
    lease(made)
    made.heard(Beat(paused=(1, 2)), 1.0)
    made.stop(1.0)
    assert isinstance(made.step(1.0), Rest)
    assert made.lease(False, 1.0) is None
    assert not made.needs_step()


def test_a_paused_claim_whose_only_task_was_interrupted_is_put_back_too() -> None:
    made = core(threads=8, runs=frozenset({1}))
    made.claimed(Claimed((claim(1),)), 0.0)
    chunk = lease(made)
    made.heard(Beat(paused=(1,)), 0.0)
    made.claimed(Claimed(), 0.0)
    assert isinstance(made.step(0.0), Rest)
    made.finished(Ran(chunk, others=[(100, Interrupted())]), 0.0)
    made.came_back(chunk)
    assert made.step(0.0) == PutBack((claim(1).token,))


def test_only_the_paused_run_is_put_back() -> None:
    made = core()
    made.claimed(Claimed((claim(2), claim(2, first=200, run=2))), 0.0)
    made.heard(Beat(paused=(1,)), 0.0)
    assert list(lease(made).claim.tasks) == [200, 201]


def test_a_mark_puts_back_what_is_held_of_its_run_once() -> None:
    made = core(threads=1)
    mark = Mark(1, Scope.TASK, 101, Status.CANCELLED)
    made.claimed(Claimed((claim(8),)), 0.0)
    made.heard(Beat(marks=(mark,)), 0.0)
    assert made.step(0.0) == PutBack((claim(8).token,))
    made.released([claim(8).token])
    assert made.step(0.0) == Move(((1, 0),))
    assert isinstance(made.step(0.0), ClaimWork)
    made.claimed(Claimed((claim(8, first=200),)), 0.0)
    made.heard(Beat(marks=(mark,)), 0.0)
    assert made.lease(False, 0.0) is not None
    assert made.cancelled_tasks == {101: mark}


def test_a_claim_under_way_while_a_mark_is_heard_of_is_put_back_at_the_next_beat() -> None:
    made = core(threads=2)
    made.claimed(Claimed((claim(1),), ready=1), 0.0)
    assert isinstance(made.step(0.0), ClaimWork)
    mark = Mark(1, Scope.RUN, None, Status.CANCELLED)
    made.heard(Beat(marks=(mark,)), 0.1)
    made.claimed(Claimed((claim(8, first=200),)), 0.2)
    made.heard(Beat(marks=(mark,)), 0.3)
    assert made.lease(False, 0.3) is None


# suspects


def test_with_a_suspect_nothing_else_is_claimed() -> None:
    made = core()
    made.claimed(Claimed((claim(1, deaths=Deaths(ran=2, apart=True)),)), 0.0)
    lease(made)
    assert isinstance(made.step(0.0), Rest)


# time limits


def test_a_task_whose_time_is_up_is_taken_away_and_its_late_result_refused() -> None:
    made = core(handler(timeout=2.0, backoff=STEADY), threads=1)
    made.claimed(Claimed((claim(2),)), 0.0)
    chunk = lease(made)
    made.step(2.0)
    (finished,) = flush(made.step(2.1))
    assert (finished.tasks, finished.statuses) == ([100], [Status.RETRYING])
    assert chunk.lost
    assert made.lease(False, 2.0) is not None
    made.finished(done(chunk), 3.0)
    made.came_back(chunk)
    assert not made.outbox.finished
    assert made.leases.chunks[False] == 1


@pytest.mark.parametrize("colour", [Calling.PLAIN, Calling.ASYNC])
@pytest.mark.parametrize("seconds", [1.9, 2.0])
def test_a_result_is_judged_by_its_time_limit_when_it_is_brought(colour: Calling, seconds: float) -> None:
    made = core(handler(colour=colour, timeout=2.0, backoff=STEADY))
    made.claimed(Claimed((claim(1),)), 0.0)
    chunk = lease(made, colour=colour.is_async)
    # Nobody could look at the clock before: the task held the interpreter's lock until now.
    made.finished(Ran(chunk, [100], [b"1"], seconds=seconds), 2.0)
    made.came_back(chunk)
    (finished,) = flush(made.step(2.0))
    late = (finished.statuses, finished.again or finished.later) == ([Status.RETRYING], {100: Wait(2.0)})
    assert late == (seconds >= 2.0)
    assert (finished.values == [b"1"]) == (seconds < 2.0)


def test_a_task_that_was_interrupted_after_its_time_was_up_is_not_timed_out() -> None:
    made = core(handler(timeout=2.0))
    made.claimed(Claimed((claim(1),)), 0.0)
    chunk = lease(made)
    made.finished(Ran(chunk, others=[(100, Interrupted())], seconds=2.5), 2.0)
    made.came_back(chunk)
    assert not made.outbox.finished
    assert lease(made, 2.0).attempts == {}


def test_a_coroutine_out_of_time_is_taken_away_when_it_is_waited_for_no_more() -> None:
    own = handler(colour=Calling.ASYNC, timeout=2.0, backoff=STEADY)
    made = Core({"work": own}, Settings(), lambda: 0.5, extra_time=lambda chunk, now: 3.0 - now)
    made.entered(Beat(), 0.0)
    made.claimed(Claimed((claim(1),)), 0.0)
    chunk = lease(made, colour=True)
    made.step(2.0)
    assert not made.outbox.finished
    assert made.leases.next_moment(2.0) == 1.0
    (finished,) = flush(made.step(3.0))
    assert (finished.tasks, finished.statuses) == ([100], [Status.RETRYING])
    assert chunk.lost
    assert (made.lost_threads, made.leases.running, made.leases.chunks[True]) == (0, 0, 0)


def test_a_supervised_process_saves_and_dies_to_be_rid_of_a_thread_that_hangs() -> None:
    made = core(handler(timeout=2.0), supervisor=1)
    made.claimed(Claimed((claim(2),)), 0.0)
    lease(made)
    batch = flush(made.step(2.0))
    assert made.lease(False, 2.0) is None
    made.committed(batch, answer(), 2.0)
    assert made.step(2.0) == Die(100)


# stopping


def test_a_stop_leases_nothing_more_and_waits_for_what_runs_within_the_grace_period() -> None:
    made = core(grace=5.0)
    made.claimed(Claimed((claim(8),)), 0.0)
    lease(made)
    made.stop(1.0)
    assert made.lease(False, 1.0) is None
    assert isinstance(made.step(1.0), Rest)
    assert isinstance(made.step(5.9), Rest)
    assert isinstance(made.step(6.0), Leave)


def test_a_stop_saves_before_it_leaves() -> None:
    made = core(grace=5.0)
    made.claimed(Claimed((claim(8),)), 0.0)
    chunk = lease(made)
    made.stop(1.0)
    made.finished(done(chunk), 2.0)
    made.came_back(chunk)
    step = made.step(2.0)
    assert isinstance(step, Flush)
    assert step.want is None
    made.committed(step.batch, answer(), 2.0)
    assert isinstance(made.step(2.0), Leave)


def test_a_second_stop_does_not_prolong_the_first() -> None:
    made = core(grace=5.0)
    made.claimed(Claimed((claim(8),)), 0.0)
    lease(made)
    made.stop(1.0)
    made.stop(4.0)
    assert isinstance(made.step(6.0), Leave)


# moving runs on, and resting


def test_with_nothing_to_claim_the_run_is_asked_to_move_on() -> None:
    made = core(runs=frozenset({1}))
    made.claimed(Claimed(), 0.0)
    step = made.step(0.0)
    assert isinstance(step, Move)
    assert [run for run, _ in step.asked] == [1]


def test_a_run_is_moved_on_although_another_keeps_the_process_busy() -> None:
    made = core(threads=2)
    made.claimed(Claimed((claim(1), claim(1, first=200, run=2))), 0.0)
    made.finished(done(lease(made)), 0.0)
    lease(made)
    batch = flush(made.step(1.0))
    made.committed(batch, answer(), 1.0)
    made.claimed(Claimed(), 1.0)
    step = made.step(1.0)
    assert isinstance(step, Move)
    assert [run for run, _ in step.asked] == [1]


def test_it_ends_by_itself_when_the_awaited_runs_have_ended() -> None:
    made = core(runs=frozenset({1}), until_ended=True)
    made.claimed(Claimed(), 0.0)
    assert isinstance(made.step(0.0), Move)
    made.advanced(1, Advanced(RunState.DONE, 0, moved=True), 0.0)
    steps = [made.step(0.0)]
    if isinstance(steps[-1], ClaimWork):
        made.claimed(Claimed(), 0.0)
        steps.append(made.step(0.0))
    assert isinstance(steps[-1], Leave)


def test_without_given_runs_it_looks_for_some_now_and_then() -> None:
    made = core()
    made.claimed(Claimed(), 0.0)
    assert isinstance(made.step(0.0), Look)
    made.found([], 0.0)
    assert made.step(0.0) == Rest(LONGEST_REST, idle=True)


def test_a_rest_is_not_disturbed_by_what_changes_nothing() -> None:
    made = core(threads=2, flush_after=9.0)
    made.claimed(Claimed((claim(8),)), 0.0)
    first, second = lease(made), lease(made)
    assert isinstance(made.step(0.0), Rest)
    assert not made.needs_step()
    made.finished(done(first), 0.0)
    assert made.needs_step(), "the loop does not know yet when the first outcome is due"
    made.came_back(first)
    lease(made)
    assert isinstance(made.step(0.0), Rest)
    made.finished(done(second), 0.0)
    assert not made.needs_step()
    made.stop(0.0)
    assert made.needs_step()


def test_the_books_add_up_after_every_fact() -> None:
    made = core(handler(backoff=STEADY), threads=4, memory_wait=5.0)
    made.claimed(Claimed((claim(5),)), 0.0)
    (holding,) = made.holdings.values()
    chunks = [lease(made) for _ in range(4)]
    for ran in (done(chunks[0]), failed(chunks[1]), Ran(chunks[2], others=[(102, Interrupted())])):
        made.finished(ran, 0.0)
        made.came_back(ran.chunk)
        assert holding.adds_up()
    batch = flush(made.step(1.0))
    assert holding.adds_up()
    made.committed(batch, answer(), 1.0)
    assert holding.adds_up()
    assert (holding.left, holding.leased, holding.waiting, len(holding.back)) == (4, 1, 1, 1)


def test_a_supervised_process_that_is_to_die_lets_others_finish_within_the_grace_period() -> None:
    made = core(handler(timeout=2.0), handler("long"), supervisor=1, grace=5.0)
    made.claimed(Claimed((claim(1), claim(1, first=200, kind="long"))), 0.0)
    late, other = lease(made), lease(made)
    assert (late.claim.kind, other.claim.kind) == ("work", "long")
    assert isinstance(made.step(2.0), Rest)
    made.committed(flush(made.step(2.5)), answer(), 2.5)
    assert isinstance(made.step(3.0), Rest)
    made.finished(done(other), 4.0)
    made.came_back(other)
    made.committed(flush(made.step(4.0)), answer(), 4.0)
    assert made.step(4.0) == Die(100)


def test_a_supervised_process_dies_to_be_rid_of_a_task_that_goes_on_after_its_cancel_once_others_are_done() -> None:
    made = core(handler(), handler("long"), supervisor=1, grace=5.0)
    made.claimed(Claimed((claim(1), claim(1, first=200, run=2, kind="long"))), 0.0)
    unwanted, other = lease(made), lease(made)
    made.heard(Beat(marks=(CANCEL,)), 1.0)
    made.heard(Beat(marks=(CANCEL,)), 4.0)
    made.step(5.9)
    assert not made.is_stopping, "it may still end by itself"
    assert isinstance(made.step(6.0), Rest)
    assert (unwanted.lost, other.lost) == (True, False)
    assert not made.outbox.finished, "whoever claims it next honours the mark"
    made.claimed(Claimed((claim(1, first=300, kind="long"),)), 6.0)
    assert made.lease(False, 6.0) is None
    assert isinstance(made.step(900.0), Rest), "others know nothing of it, and have all the time they need"
    made.finished(done(other), 901.0)
    made.came_back(other)
    made.committed(flush(made.step(901.0)), answer(), 901.0)
    assert made.step(901.0) == Die(100)


def test_a_process_that_waits_for_others_before_it_dies_still_stops_within_the_grace_period_when_told() -> None:
    made = core(handler(), handler("long"), supervisor=1, grace=5.0)
    made.claimed(Claimed((claim(1), claim(1, first=200, run=2, kind="long"))), 0.0)
    _, other = lease(made), lease(made)
    made.heard(Beat(marks=(CANCEL,)), 0.0)
    made.step(5.0)
    made.stop(6.0)
    assert isinstance(made.step(10.9), Rest)
    assert not other.lost
    assert made.step(11.0) == Die(100)


@pytest.mark.parametrize("marks", [(), (Mark(1, Scope.RUN, None, Status.CANCELLED),)], ids=["retried", "run"])
def test_a_task_that_was_not_cancelled_itself_is_left_to_end(marks: tuple[Mark, ...]) -> None:
    made = core(handler(), supervisor=1, grace=5.0)
    made.claimed(Claimed((claim(1),)), 0.0)
    chunk = lease(made)
    made.heard(Beat(marks=(CANCEL,)), 0.0)
    made.heard(Beat(marks=marks), 1.0)
    assert isinstance(made.step(60.0), Rest)
    assert not chunk.lost


def test_a_process_that_nobody_replaces_does_not_die_of_a_task_that_goes_on_after_its_cancel() -> None:
    made = core(handler(), grace=5.0)
    made.claimed(Claimed((claim(1),)), 0.0)
    chunk = lease(made)
    made.heard(Beat(marks=(CANCEL,)), 0.0)
    assert isinstance(made.step(60.0), Rest)
    assert not chunk.lost


def test_only_those_that_were_held_back_by_a_run_are_asked_again_when_it_moves() -> None:
    made = core(runs=frozenset({1, 2, 3}))
    made.claimed(Claimed(), 0.0)
    for run, leader in ((1, None), (2, 1), (3, None)):
        made.advanced(run, Advanced(RunState.OPEN, -1, gated_by=leader), 0.0)
    while isinstance(made.step(0.0), Move):
        pass
    made.advanced(1, Advanced(RunState.DONE, 0, moved=True), 0.0)
    made.claimed(Claimed(), 0.0)
    assert made.step(0.0) == Move(((2, -1),))
    assert not isinstance(made.step(0.0), Move)


# moments


def test_an_idle_process_rests_no_longer_than_until_what_it_put_off_is_due() -> None:
    made = core()
    made.committed([], Committed(1), 0.0, dues=(0.3,))
    made.claimed(Claimed(), 0.0)
    while isinstance(step := made.step(0.0), Look):
        made.found((), 0.0)
    assert step == Rest(0.3, idle=True)
    assert isinstance(made.step(0.3), ClaimWork)


def test_an_idle_process_rests_until_the_next_row_is_due_that_a_claim_told_of() -> None:
    made = core()
    made.claimed(Claimed(next_due=0.3), 0.0)
    made.found((), 0.0)
    while isinstance(step := made.step(0.0), Look):
        made.found((), 0.0)
    assert step == Rest(0.3, idle=True)
    assert isinstance(made.step(0.3), ClaimWork)


def test_a_busy_process_claims_when_the_next_row_is_due() -> None:
    made = core(threads=2)
    made.claimed(Claimed((claim(1),)), 0.0)
    lease(made)
    for _ in range(20):
        made.claimed(Claimed(next_due=0.02), 0.0)
    assert made.step(0.0) == Rest(0.02, idle=False)
    assert isinstance(made.step(0.02), ClaimWork)


def test_a_process_that_may_not_lease_rests_although_a_row_is_due() -> None:
    made = core(dead_after=10.0)
    made.claimed(Claimed(next_due=0.3), 0.0)
    while isinstance(step := made.step(6.0), Look):
        made.found((), 6.0)
    assert step == Rest(LONGEST_REST, idle=True)
    made.heard(Beat(), 6.0)
    assert isinstance(made.step(6.0), ClaimWork)


def test_a_full_process_rests_on_although_a_row_is_due() -> None:
    made = core(threads=1)
    made.claimed(Claimed((claim(4),), ready=1), 0.0)
    lease(made)
    made.claimed(Claimed(next_due=0.02), 0.0)
    assert isinstance(made.step(0.0), Rest)
    for now in (0.02, 0.03):
        assert made.step(now) == Rest(LONGEST_REST, idle=False)


def test_an_idle_process_asks_a_run_at_its_deadline() -> None:
    made = core(runs=frozenset({1}))
    made.claimed(Claimed(), 0.0)
    assert made.step(0.0) == Move(((1, -1),))
    made.advanced(1, Advanced(RunState.OPEN, -1, time_left=0.3), 0.0)
    while isinstance(step := made.step(0.0), Move):
        pass
    assert step == Rest(0.3, idle=True)
    assert made.step(0.3) == Move(((1, -1),))


def test_a_busy_process_asks_a_run_that_it_holds_tasks_of_at_its_deadline() -> None:
    made = core()
    made.claimed(Claimed((claim(8),)), 0.0)
    lease(made)
    made.heard(Beat(time_left=((1, 2.5),)), 0.0)
    assert not isinstance(made.step(2.4), Move)
    assert made.step(2.5) == Move(((1, 0),))
    assert not isinstance(made.step(2.5), Move), "it is asked once"
    # It was not at that round: the answer tells the right one, and it is asked again at once.
    made.advanced(1, Advanced(RunState.OPEN, 3, time_left=-0.1), 2.6)
    assert made.step(2.6) == Move(((1, 3),))
    made.advanced(1, Advanced(RunState.DRAINING, 3, moved=True), 2.6)
    assert not isinstance(made.step(2.7), Move)


def test_a_rest_beside_running_tasks_ends_at_a_deadline() -> None:
    made = core(threads=1)
    made.claimed(Claimed((claim(1),)), 0.0)
    lease(made)
    made.claimed(Claimed(), 0.0)
    made.found((), 0.0)
    made.heard(Beat(time_left=((1, 0.25),)), 0.0)
    while not isinstance(step := made.step(0.2), Rest):
        made.claimed(Claimed(), 0.2)
    assert step.seconds <= 0.05 + 1e-9
