"""`cancel` of a run: no claim that begins after this returns starts any of its tasks.

The run drains into CANCELLED or HALTED: what is held may be finished and is kept, its children are published as usual
and never claimed, and `advance` sweeps what nobody holds and ends the run when nothing is held. Every end by a sweep
is an end like others: it is counted, it frees its key, and it arrives where somebody waits for it. (`cancel_tasks.py`
holds the cancel of a task and of a subtree.)
"""

from __future__ import annotations

from ramify.errors import UnknownRun
from ramify.model.commit import Later
from ramify.model.decision import Said
from ramify.model.event import Status, Tally
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.key import Hold
from ramify.model.mark import Scope, Settled
from ramify.model.run import RunState
from ramify.testing.clock import SECOND
from ramify.testing.conformance.house import House, members_and_broken, only, refused, tasks_of
from ramify.testing.conformance.registry import case


@case("cancel")
def no_claim_after_it_starts_a_task_of_the_run(house: House) -> None:
    run = house.any_run(house.tasks(3))
    other = house.tasks()
    house.any_run(other)
    house.store.cancel(run)
    assert house.store.reads.run(run).state in (RunState.DRAINING, RunState.CANCELLED)
    assert house.offered() == [other.first]


@case("cancel")
def a_run_nobody_works_on_is_swept_and_ends(house: House) -> None:
    tasks = house.tasks(3)
    run = house.run(tasks)
    answer = house.store.cancel(run, said=Said("too slow"))
    assert (answer is Settled.CERTAIN) == house.store.reads.run(run).state.is_end
    seen = house.settle(run)
    assert (seen.state, seen.ended, seen.reason) == (RunState.CANCELLED, house.clock.now(), "too slow")
    assert house.segments(run) == []
    assert [house.ended(task) for task in tasks.ids] == [Status.CANCELLED] * 3
    assert house.count(run, Status.CANCELLED) == 3
    sweep = only(house.store.reads.sweeps(run))
    assert (sweep.run, sweep.first, sweep.last) == (run, tasks.first, tasks.last)
    page = house.store.reads.results(run, status=Status.CANCELLED)
    assert [result.task for result in page.rows] == list(tasks.ids)


@case("cancel")
def a_run_may_be_halted_instead(house: House) -> None:
    run = house.run(house.tasks())
    house.store.cancel(run, into=RunState.HALTED)
    assert house.settle(run).state is RunState.HALTED


@case("cancel")
def only_what_is_unfinished_is_swept(house: House) -> None:
    run = house.run(house.tasks(6))
    worker = house.worker()
    claim = worker.take()
    worker.done(claim, claim.tasks[1:3])
    worker.release(claim)
    house.store.cancel(run)
    house.settle(run)
    assert [house.ended(task) for task in claim.tasks] == [
        Status.CANCELLED,
        Status.DONE,
        Status.DONE,
        *[Status.CANCELLED] * 3,
    ]
    assert (house.count(run, Status.DONE), house.count(run, Status.CANCELLED)) == (2, 4)


@case("cancel")
def what_is_held_may_be_finished_and_is_kept(house: House) -> None:
    run = house.run(house.tasks(3))
    worker = house.worker()
    claim = worker.take(1)
    house.store.cancel(run)
    answer = house.advance(run, 0)
    assert answer.state is RunState.DRAINING
    assert house.count(run, Status.CANCELLED) == 2
    worker.done(claim, values=[b"kept"])
    assert house.settle(run).state is RunState.CANCELLED
    assert house.ended(claim.tasks[0]) is Status.DONE


@case("cancel")
def asked_for_another_round_a_draining_run_only_says_where_it_is(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    house.store.cancel(run)
    worker.release(claim)
    with house.nothing_changes():
        answer = house.advance(run, 7)
    assert (answer.state, answer.round, answer.moved) == (RunState.DRAINING, 0, False)


@case("cancel")
def children_of_what_is_held_are_published_and_never_claimed(house: House) -> None:
    run = house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    house.store.cancel(run)
    children = house.tasks(3, parents=claim.tasks[0])
    worker.done(claim, children=[children])
    assert house.count(run, Tally.ADDED) == 4
    assert house.offered() == []
    assert house.settle(run).state is RunState.CANCELLED
    assert [house.ended(task) for task in children.ids] == [Status.CANCELLED] * 3


@case("cancel")
def what_is_put_back_while_draining_is_swept(house: House) -> None:
    run = house.run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    house.store.cancel(run)
    house.settle(run)
    worker.release(claim)
    assert house.offered() == []
    assert house.settle(run).state is RunState.CANCELLED


@case("cancel")
def what_the_dead_held_while_draining_is_swept(house: House) -> None:
    run = house.run(house.tasks(2))
    worker = house.worker()
    worker.take()
    house.store.cancel(run)
    house.settle(run)
    house.bury(worker)
    assert house.offered() == []
    assert house.settle(run).state is RunState.CANCELLED


@case("cancel")
def what_is_deferred_while_draining_is_swept(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    house.store.cancel(run)
    worker.end(claim, status=Status.DEFERRED, later=[Later(claim.tasks, house.clock.now() + SECOND)])
    assert house.settle(run).state is RunState.CANCELLED
    assert house.store.reads.history(claim.tasks[0]).ended is Status.CANCELLED


@case("cancel")
def waiting_deferred_and_later_tasks_are_swept_too(house: House) -> None:
    waiting = house.tasks(kind="sum", waits=True)
    later = house.tasks(due=house.clock.now() + SECOND)
    run = house.run(house.tasks(join=waiting.first), later, waiting, joins=[NewJoins.one(waiting.first, 1)])
    gated = house.tasks()
    house.add(run, gated)
    house.store.cancel(run)
    assert house.settle(run).state is RunState.CANCELLED
    assert {house.ended(task) for task in (waiting.first, later.first, gated.first)} == {Status.CANCELLED}
    assert house.count(run, Status.CANCELLED, "sum") == 1


@case("cancel")
def a_wide_row_is_swept_in_one_stroke(house: House) -> None:
    tasks = house.tasks(50_000)
    run = house.run(tasks)
    house.store.cancel(run)
    house.settle(run)
    assert house.count(run, Status.CANCELLED) == 50_000
    assert len(house.store.reads.sweeps(run)) == 1
    assert not house.store.reads.events(tasks.first, tasks.last)


@case("cancel")
def a_sweep_frees_keys(house: House) -> None:
    run = house.run(house.tasks(keys=[b"u"], hold=Hold.UNIQUE))
    house.store.cancel(run)
    house.settle(run)
    other = house.queue()
    assert not house.add(other, house.tasks(keys=[b"u"], hold=Hold.UNIQUE)).taken


@case("cancel")
def a_sweep_arrives_where_others_wait(house: House) -> None:
    awaited = house.tasks()
    run = house.run(awaited)
    waiting = house.tasks(kind="sum", waits=True)
    other = house.queue()
    join = NewJoins.one(waiting.first, 1)
    house.add(other, waiting, joins=[join], waiters=[NewWaiters.one(awaited.first, waiting.first, 0)])
    house.store.cancel(run)
    house.settle(run)
    house.settle(other)
    claim = house.worker().take()
    assert list(claim.tasks) == [waiting.first]
    assert members_and_broken(claim.details[waiting.first]) == (1, 1)


@case("cancel")
def a_sweep_arrives_at_the_joins_of_other_runs(house: House) -> None:
    other = house.queue()
    waiting = house.tasks(kind="sum", waits=True)
    house.add(other, waiting, joins=[NewJoins.one(waiting.first, 2)])
    run = house.run(house.tasks(2, join=waiting.first))
    worker = house.worker()
    claim = worker.take(1)
    house.store.cancel(run)
    worker.done(claim)
    house.settle(run)
    more = only(worker.claim()).details[waiting.first]
    assert members_and_broken(more) == (2, 1)


@case("cancel")
def those_who_hold_are_told_by_their_next_beat(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    worker.take()
    assert house.store.cancel(run, said=Said("enough")) is Settled.REQUESTED
    mark = only(worker.beat().marks)
    assert (mark.run, mark.scope, mark.status, mark.reason) == (run, Scope.RUN, Status.CANCELLED, "enough")


@case("cancel")
def those_who_hold_are_told_by_their_next_commit(house: House) -> None:
    run = house.run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    house.store.cancel(run)
    answer = worker.done(claim, claim.tasks[:1])
    assert [(mark.run, mark.scope) for mark in answer.marks] == [(run, Scope.RUN)]
    assert worker.done(claim, claim.tasks[1:]).marks == ()


@case("cancel")
def a_paused_run_can_be_cancelled(house: House) -> None:
    run = house.run(house.tasks())
    house.store.pause(run)
    house.store.cancel(run)
    assert house.settle(run).state is RunState.CANCELLED
    assert house.store.resume(run) is RunState.CANCELLED


@case("cancel")
def cancelling_twice_is_cancelling_once(house: House) -> None:
    run = house.run(house.tasks())
    house.store.cancel(run)
    house.store.cancel(run)
    assert house.settle(run).state is RunState.CANCELLED
    assert house.count(run, Status.CANCELLED) == 1


@case("cancel")
def an_ended_run_has_ended(house: House) -> None:
    run = house.run(house.tasks())
    house.finish(run)
    with house.nothing_changes():
        assert house.store.cancel(run) is Settled.ENDED
    assert house.store.reads.run(run).state is RunState.DONE


@case("cancel")
def a_run_that_does_not_exist_cannot_be_cancelled(house: House) -> None:
    with refused(UnknownRun):
        house.store.cancel(house.store.reserve(1))


@case("cancel")
def what_was_staged_in_a_cancelled_run_is_swept_when_it_is_published(house: House) -> None:
    run = house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    staged = house.tasks(3)
    worker.stage(claim, staged)
    house.store.cancel(run)
    worker.done(claim, publish=[staged.first])
    assert tasks_of(house.worker().claim()) == []
    assert house.settle(run).state is RunState.CANCELLED
    assert house.count(run, Status.CANCELLED) == 3
