"""`commit` of outcomes that are not ends: RETRYING and DEFERRED keep the task unfinished, in its row or in a later one.

Without `later` the task stays claimed, to be tried again from memory. With it, it leaves memory: it comes back at its
due time, in the same round, to whoever claims it. The events stay, and the next claim of the task tells its history: a
deferral uses no attempt, and a crash uses none either. What awaits the end of a run comes back with that end, or at its
due time if that is earlier.
"""

from __future__ import annotations

from ramify.model.commit import Later, Part
from ramify.model.event import UNTRIED, History, Status
from ramify.model.run import RunState
from ramify.model.segment import SegmentState
from ramify.testing.clock import SECOND
from ramify.testing.conformance.house import House, only, want
from ramify.testing.conformance.registry import case


@case("commit")
def a_retrying_task_stays_claimed(house: House) -> None:
    run = house.run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, claim.tasks[:1], Status.RETRYING, values=[b"why"])
    assert list(house.live(run)[0].tasks) == list(claim.tasks)
    assert house.offered() == []
    worker.end(claim, claim.tasks[:1], Status.RETRYING)
    worker.done(claim)
    assert house.events(claim.tasks[0]) == [Status.RETRYING, Status.RETRYING, Status.DONE]
    assert house.store.reads.history(claim.tasks[0]) == History(3, 2, 1, 0, Status.DONE)


@case("commit")
def the_next_claim_knows_the_attempts_that_were_used(house: House) -> None:
    house.run(house.tasks(3))
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, claim.tasks[:2], Status.RETRYING)
    worker.end(claim, claim.tasks[:1], Status.RETRYING)
    worker.release(claim)
    again = house.worker().take()
    assert list(again.tasks) == list(claim.tasks)
    told = [again.history.get(task, UNTRIED) for task in claim.tasks]
    assert told == [History(events=2, attempts=2), History(events=1, attempts=1), UNTRIED]


@case("commit")
def a_crash_forgets_no_attempt_and_uses_none(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, status=Status.RETRYING)
    house.bury(worker)
    again = house.worker().take()
    assert again.history == {claim.tasks[0]: History(events=1, attempts=1)}


@case("commit")
def a_deferral_uses_no_attempt(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, status=Status.DEFERRED, later=[Later(claim.tasks, house.clock.now())])
    assert house.worker().take().history == {claim.tasks[0]: History(events=1, attempts=0, deferrals=1)}


@case("commit")
def a_later_task_leaves_the_claim_and_comes_back_when_it_is_due(house: House) -> None:
    run = house.run(house.tasks(3))
    worker = house.worker()
    claim = worker.take()
    due = house.clock.now() + 30 * SECOND
    worker.end(claim, claim.tasks[1:2], Status.RETRYING, later=[Later(claim.tasks[1:2], due)])
    row = house.row_of(claim.tasks[1])
    assert (row.due, row.round, row.owner, row.state) == (due, 0, None, SegmentState.READY)
    worker.done(claim, [claim.tasks[0], claim.tasks[2]])
    house.clock.advance(29)
    assert house.offered() == []
    assert house.settle(run).round == 0
    house.clock.advance(1)
    again = house.worker().take()
    assert list(again.tasks) == [claim.tasks[1]]
    assert again.history == {claim.tasks[1]: History(events=1, attempts=1)}


@case("commit")
def who_committed_a_later_task_no_longer_holds_it(house: House) -> None:
    house.any_run(house.tasks(), house.tasks())
    worker = house.worker()
    one, two = worker.claim()
    worker.end(one, status=Status.RETRYING, later=[Later(one.tasks, house.clock.now())])
    other = house.worker()
    taken = other.take()
    assert list(taken.tasks) == list(one.tasks)
    with house.nothing_changes():
        assert worker.commit(Part(one.token, one.tasks)).refused == (one.token,)
    other.done(taken)
    worker.done(two)


@case("commit")
def many_later_tasks_of_one_due_time_share_a_row(house: House) -> None:
    """An outage that fails thousands at once must not make thousands of rows."""
    run = house.run(house.tasks(4_000))
    worker = house.worker()
    claim = worker.take(4_000)
    odd = [task for task in claim.tasks if task % 2]
    worker.end(claim, status=Status.RETRYING, later=[Later(odd, house.clock.now() + SECOND)])
    assert len(house.live(run)) == 2
    house.clock.advance(1)
    assert list(house.worker().take(4_000).tasks) == odd


@case("commit")
def several_due_times_in_one_part_are_kept_apart(house: House) -> None:
    house.run(house.tasks(4))
    worker = house.worker()
    claim = worker.take()
    soon, late = house.clock.now() + SECOND, house.clock.now() + 2 * SECOND
    worker.commit(
        Part(
            claim.token,
            claim.tasks,
            [Status.RETRYING, Status.DEFERRED, Status.DONE, Status.RETRYING],
            later=[Later([claim.tasks[0]], soon), Later([claim.tasks[1], claim.tasks[3]], late)],
        )
    )
    house.clock.advance(1)
    assert house.offered() == [claim.tasks[0]]
    house.clock.advance(1)
    assert house.offered() == [claim.tasks[0], claim.tasks[1], claim.tasks[3]]


@case("commit")
def a_later_task_holds_its_round(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    child = house.tasks(parents=claim.tasks[0])
    worker.end(claim, status=Status.DEFERRED, children=[child], later=[Later(claim.tasks, house.clock.now() + SECOND)])
    answer = house.advance(run, 0)
    assert (answer.moved, answer.round) == (False, 0)
    assert house.offered() == []


@case("commit")
def history_is_told_in_the_next_claim_of_the_same_commit(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    part = Part(claim.token, claim.tasks, Status.RETRYING, later=[Later(claim.tasks, house.clock.now())])
    again = only(worker.commit(part, then=want()).claimed.claims)
    assert again.history == {claim.tasks[0]: History(events=1, attempts=1)}
    assert again.token != claim.token


@case("commit")
def what_comes_back_is_as_it_was_added(house: House) -> None:
    tasks = house.tasks([b"a", b"b"], queue="slow", lane="a.org", parents=[3, 4], details=[b"m", None])
    run = house.run(tasks)
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, status=Status.DEFERRED, later=[Later(claim.tasks[:1], house.clock.now())])
    back = worker.take()
    assert list(back.tasks) == [tasks.first]
    assert (back.run, back.kind, back.queue, back.lane) == (run, "walk", "slow", "a.org")
    assert (list(back.bodies), list(back.parents)) == ([b"a"], [3])
    assert back.details[tasks.first].extra == b"m"


# until a run has ended


def awaiting(house: House, run: int) -> int:
    """A task that was put off until a run has ended, or for an hour."""
    house.run(house.tasks(kind="ask"))
    worker = house.worker()
    claim = worker.take(kinds=["ask"])
    later = Later(claim.tasks, house.clock.now() + 3600 * SECOND, awaits=run)
    worker.end(claim, status=Status.DEFERRED, later=[later])
    return claim.tasks[0]


@case("advance")
def the_end_of_a_run_makes_those_due_that_await_it(house: House) -> None:
    awaited, another = house.run(house.tasks()), house.run(house.tasks())
    first, second, stranger = awaiting(house, awaited), awaiting(house, awaited), awaiting(house, another)
    worker = house.worker()
    worker.done(worker.take(1))
    assert house.row_of(first).awaits == awaited
    assert house.offered(want(kinds=["ask"])) == [], "its tasks have ended, and it has not"
    assert house.advance(awaited, 0).state is RunState.DONE
    assert house.offered(want(kinds=["ask"])) == [first, second]
    assert [house.row_of(task).awaits for task in (first, stranger)] == [None, another]


@case("cancel")
def the_end_of_a_run_that_was_cancelled_makes_those_due_that_await_it(house: House) -> None:
    awaited = house.run(house.tasks())
    task = awaiting(house, awaited)
    house.store.cancel(awaited)
    assert house.settle(awaited).state is RunState.CANCELLED
    assert house.offered(want(kinds=["ask"])) == [task]


@case("commit")
def what_awaits_a_run_that_has_ended_by_now_is_due_at_once(house: House) -> None:
    """It may have ended between the look of the one who waits and this commit: nobody would wake it any more."""
    awaited = house.run(house.tasks())
    house.finish(awaited)
    task = awaiting(house, awaited)
    assert house.offered(want(kinds=["ask"])) == [task]
    assert house.row_of(task).awaits is None


@case("commit")
def what_awaits_a_run_that_does_not_end_comes_back_when_it_is_due(house: House) -> None:
    there, nowhere = house.run(house.tasks()), house.store.reserve(1)
    tasks = [awaiting(house, there), awaiting(house, nowhere)]
    assert house.offered(want(kinds=["ask"])) == []
    house.clock.advance(3600)
    assert house.offered(want(kinds=["ask"])) == tasks


@case("pause")
def what_a_run_wakes_stays_behind_the_gate_of_its_own_run(house: House) -> None:
    awaited = house.run(house.tasks())
    task = awaiting(house, awaited)
    own = house.row_of(task).run
    house.store.pause(own)
    house.finish(awaited)
    assert house.offered(want(kinds=["ask"])) == []
    house.store.resume(own)
    assert house.offered(want(kinds=["ask"])) == [task]


@case("release")
def a_claim_that_is_put_back_after_the_end_of_the_run_that_it_awaited_is_due(house: House) -> None:
    awaited = house.run(house.tasks())
    task = awaiting(house, awaited)
    house.clock.advance(3600)
    worker = house.worker()
    claim = worker.take(kinds=["ask"])
    house.finish(awaited)
    worker.release(claim)
    assert house.offered(want(kinds=["ask"])) == [task]
