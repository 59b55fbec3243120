"""`commit` of outcomes that are not ends: RETRYING and DEFERRED keep the task unfinished, in its row or in a later one.

Without `later` the task stays claimed, to be tried again from memory. With it, it leaves memory: it comes back at its
due time, in the same round, to whoever claims it. The events stay, and the next claim of the task tells its history: a
deferral uses no attempt, and a crash uses none either.
"""

from __future__ import annotations

from ramify.model.commit import Later, Part
from ramify.model.event import UNTRIED, History, Status
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
    assert house.worker().take().history == {claim.tasks[0]: History(events=1, attempts=0)}


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
