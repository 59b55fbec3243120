"""`cancel` of a task, or of it and all `below`: no claim that begins after this returns starts a covered task.

A task nobody holds ends in this transaction, "for certain". One that is held gets a mark, which its holder hears by
beat and commit, and which every later claim carries: such a task must be committed as the mark says, without calling
its handler. `below` is a durable mark that also covers descendants not yet created.
"""

from __future__ import annotations

from ramify.errors import UnknownRun
from ramify.model.commit import Later
from ramify.model.decision import Said
from ramify.model.event import Status
from ramify.model.join import NewJoins
from ramify.model.key import Hold
from ramify.model.mark import Mark, Scope, Settled
from ramify.model.run import RunState
from ramify.testing.clock import SECOND
from ramify.testing.conformance.house import House, members_and_broken, only, refused, want
from ramify.testing.conformance.registry import case


@case("cancel")
def a_queued_task_ends_for_certain_and_its_neighbours_do_not(house: House) -> None:
    tasks = house.tasks(5)
    run = house.run(tasks)
    target = tasks.first + 2
    assert house.store.cancel(run, target) is Settled.CERTAIN
    assert house.events(target) == [Status.CANCELLED]
    assert house.count(run, Status.CANCELLED) == 1
    assert house.offered() == [task for task in tasks.ids if task != target]
    assert house.finish(run).state is RunState.DONE


@case("cancel")
def the_only_task_of_a_row_takes_the_row_with_it(house: House) -> None:
    tasks = house.tasks()
    run = house.run(tasks)
    house.store.cancel(run, tasks.first)
    assert house.live(run) == []
    assert house.settle(run).state is RunState.DONE


@case("cancel")
def one_task_of_a_wide_row_ends_for_certain(house: House) -> None:
    tasks = house.tasks(30_000)
    run = house.run(tasks)
    targets = [tasks.first, tasks.first + 17_000, tasks.last]
    for target in targets:
        assert house.store.cancel(run, target) is Settled.CERTAIN
    assert sum(len(row.tasks) for row in house.live(run)) == 29_997
    assert house.offered() == [task for task in tasks.ids if task not in targets]


@case("cancel")
def a_deferred_task_ends_for_certain(house: House) -> None:
    run = house.run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    later = [Later(claim.tasks[:1], house.clock.now() + SECOND)]
    worker.end(claim, claim.tasks[:1], Status.RETRYING, later=later)
    assert house.store.cancel(run, claim.tasks[0]) is Settled.CERTAIN
    house.clock.advance(2)
    assert house.offered() == []
    assert house.events(claim.tasks[0]) == [Status.RETRYING, Status.CANCELLED]


@case("cancel")
def a_task_of_a_round_to_come_ends_for_certain(house: House) -> None:
    run = house.run(house.tasks())
    later = house.tasks(2)
    house.add(run, later)
    assert house.store.cancel(run, later.first) is Settled.CERTAIN
    assert house.finish(run).state is RunState.DONE
    assert [house.ended(task) for task in later.ids] == [Status.CANCELLED, Status.DONE]


@case("cancel")
def a_task_that_waits_for_a_join_ends_for_certain_and_is_not_raised_by_it(house: House) -> None:
    waiting = house.tasks(kind="sum", waits=True)
    run = house.run(house.tasks(join=waiting.first), waiting, joins=[NewJoins.one(waiting.first, 1)])
    assert house.store.cancel(run, waiting.first) is Settled.CERTAIN
    assert house.finish(run).state is RunState.DONE
    assert house.events(waiting.first) == [Status.CANCELLED]


@case("cancel")
def a_certain_end_arrives_at_its_join_and_frees_its_key(house: House) -> None:
    waiting = house.tasks(kind="sum", waits=True)
    member = house.tasks(join=waiting.first, keys=[b"k"], hold=Hold.UNIQUE)
    run = house.any_run(member, waiting, joins=[NewJoins.one(waiting.first, 1)])
    house.store.cancel(run, member.first)
    assert house.join(run, waiting.first).fired
    assert not house.add(run, house.tasks(keys=[b"k"], hold=Hold.UNIQUE)).taken
    claim = house.worker().take(kinds=["sum"])
    assert members_and_broken(claim.details[waiting.first]) == (1, 1)


@case("cancel")
def a_held_task_gets_a_mark_that_its_holder_hears_of(house: House) -> None:
    run = house.run(house.tasks(3))
    worker = house.worker()
    claim = worker.take()
    target = claim.tasks[1]
    assert house.store.cancel(run, target, said=Said("wrong")) is Settled.REQUESTED
    heard = only(worker.beat().marks)
    assert (heard.scope, heard.task, heard.status, heard.reason) == (Scope.TASK, target, Status.CANCELLED, "wrong")
    answer = worker.done(claim, claim.tasks[:1])
    assert [(mark.scope, mark.task) for mark in answer.marks] == [(Scope.TASK, target)]
    worker.end(claim, [target], Status.CANCELLED)
    worker.done(claim, claim.tasks[2:])
    assert house.ended(target) is Status.CANCELLED


@case("cancel")
def any_reason_can_be_given(house: House) -> None:
    """A reason is for people, and never a cause of failure."""
    run = house.any_run(house.tasks(4))
    worker = house.worker()
    claim = worker.take(3)
    for task, reason in zip(claim.tasks, ("\ud800", "a\0b", "x" * 100_000), strict=True):
        assert house.store.cancel(run, task, said=Said(reason)) is Settled.REQUESTED
    assert {mark.task for mark in worker.beat().marks} == set(claim.tasks)
    assert house.store.cancel(run, claim.tasks[2] + 1, said=Said("\ud800\0")) is Settled.CERTAIN
    worker.end(claim, status=Status.CANCELLED)
    settle = Mark(run, Scope.TASK, None, Status.SKIPPED, "\ud800\0")
    worker.reopen(run, claim.tasks, said=Said("\ud800\0"), settle=settle)
    assert set(worker.take().marks) == set(claim.tasks)
    worker.store.leave(worker.process)
    house.store.cancel(run, said=Said("\ud800\0" * 1_000))
    assert house.settle(run).state is RunState.CANCELLED


@case("cancel")
def its_holder_may_have_finished_it_already(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    house.store.cancel(run, claim.tasks[0])
    worker.done(claim)
    assert house.events(claim.tasks[0]) == [Status.DONE]
    assert house.settle(run).state is RunState.DONE


@case("cancel")
def a_marked_task_that_is_put_back_is_never_started(house: House) -> None:
    run = house.run(house.tasks(3))
    worker = house.worker()
    claim = worker.take()
    house.store.cancel(run, claim.tasks[1])
    worker.release(claim)
    assert house.offered() == [claim.tasks[0], claim.tasks[2]]
    assert house.finish(run).state is RunState.DONE
    assert house.ended(claim.tasks[1]) is Status.CANCELLED


@case("cancel")
def a_marked_task_whose_holder_died_is_never_started(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    house.store.cancel(run, claim.tasks[0])
    house.bury(worker)
    assert house.offered() == []
    assert house.finish(run).state is RunState.DONE
    assert house.ended(claim.tasks[0]) is Status.CANCELLED


@case("cancel")
def a_marked_task_that_is_deferred_is_never_started(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    house.store.cancel(run, claim.tasks[0])
    worker.end(claim, status=Status.RETRYING, later=[Later(claim.tasks, house.clock.now())])
    assert house.offered() == []
    house.finish(run)
    assert house.ended(claim.tasks[0]) is Status.CANCELLED


@case("cancel")
def a_claim_sent_again_after_the_cancel_is_the_same_claim(house: House) -> None:
    """It began before; the holder hears of the mark by beat."""
    run = house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    house.store.cancel(run, claim.tasks[0])
    assert worker.store.claim(worker.last, want()).claims[0].token == claim.token
    assert len(worker.beat().marks) == 1


@case("cancel")
def a_task_that_has_ended_has_ended(house: House) -> None:
    run = house.any_run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    worker.done(claim, claim.tasks[:1])
    with house.nothing_changes():
        assert house.store.cancel(run, claim.tasks[0]) is Settled.ENDED
    worker.release(claim)
    house.store.cancel(run, claim.tasks[1])
    with house.nothing_changes():
        assert house.store.cancel(run, claim.tasks[1]) is Settled.ENDED


@case("cancel")
def a_task_that_is_not_of_the_run_is_unknown(house: House) -> None:
    run, other = house.run(tasks := house.tasks()), house.run(house.tasks())
    worker = house.worker()
    claim = worker.take(1)
    staged = house.tasks()
    worker.stage(claim, staged)
    with house.nothing_changes():
        assert house.store.cancel(other, tasks.first) is Settled.UNKNOWN
        assert house.store.cancel(run, house.store.reserve(1)) is Settled.UNKNOWN
        assert house.store.cancel(claim.run, staged.first) is Settled.UNKNOWN
    with refused(UnknownRun):
        house.store.cancel(house.store.reserve(1), tasks.first)


@case("cancel")
def a_task_of_a_paused_run_can_be_cancelled(house: House) -> None:
    tasks = house.tasks(2)
    run = house.run(tasks)
    house.store.pause(run)
    assert house.store.cancel(run, tasks.first) is Settled.CERTAIN
    house.store.resume(run)
    assert house.offered() == [tasks.last]


@case("cancel")
def queued_descendants_are_never_started(house: House) -> None:
    run = house.any_run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    below, beside = house.tasks(2, parents=claim.tasks[0]), house.tasks(2, parents=claim.tasks[1])
    worker.done(claim, children=[below, beside])
    house.store.cancel(run, claim.tasks[0], below=True, said=Said("branch"))
    assert house.offered() == list(beside.ids)
    assert house.finish(run).state is RunState.DONE
    assert {house.ended(task) for task in below.ids} == {Status.CANCELLED}
    assert {house.ended(task) for task in beside.ids} == {Status.DONE}


@case("cancel")
def descendants_that_are_created_later_are_never_started(house: House) -> None:
    run = house.any_run(house.tasks())
    worker = house.worker()
    root = worker.take()
    child = house.tasks(parents=root.tasks[0])
    worker.done(root, children=[child])
    held = worker.take()
    house.store.cancel(run, root.tasks[0], below=True)
    grandchildren = house.tasks(2, parents=child.first)
    worker.done(held, children=[grandchildren])
    assert house.offered() == []
    claim = worker.take()
    assert {mark.status for mark in claim.marks.values()} == {Status.CANCELLED}
    assert set(claim.marks) == set(grandchildren.ids)
    assert house.ended(child.first) is Status.DONE


@case("cancel")
def a_held_task_and_all_below_it_is_a_request(house: House) -> None:
    run = house.any_run(house.tasks())
    worker = house.worker()
    root = worker.take()
    assert house.store.cancel(run, root.tasks[0], below=True) is Settled.REQUESTED
    mark = only(worker.beat().marks)
    assert (mark.scope, mark.task, mark.status) == (Scope.SUBTREE, root.tasks[0], Status.CANCELLED)
    child = house.tasks(parents=root.tasks[0])
    worker.done(root, children=[child])
    assert house.offered() == []


@case("cancel")
def a_queued_task_and_all_below_it_is_never_started(house: House) -> None:
    tasks = house.tasks(2)
    run = house.run(tasks)
    house.store.cancel(run, tasks.first, below=True)
    assert house.offered() == [tasks.last]
    assert house.finish(run).state is RunState.DONE
    assert house.ended(tasks.first) is Status.CANCELLED


@case("cancel")
def the_mark_of_a_subtree_is_durable(house: House) -> None:
    run = house.any_run(house.tasks())
    worker = house.worker()
    root = worker.take()
    house.store.cancel(run, root.tasks[0], below=True)
    house.bury(worker)
    house.close()
    house.workers.clear()
    house.store = house.client()
    assert house.offered() == []
    assert [mark.scope for mark in house.worker().take().marks.values()] == [Scope.SUBTREE]


@case("cancel")
def a_descendant_of_another_kind_and_queue_is_covered(house: House) -> None:
    run = house.any_run(house.tasks())
    worker = house.worker()
    root = worker.take()
    child = house.tasks(kind="copy", queue="slow", lane="a.org", parents=root.tasks[0])
    worker.done(root, children=[child])
    house.store.cancel(run, root.tasks[0], below=True)
    assert house.offered() == []


@case("cancel")
def what_is_staged_below_is_covered_once_it_is_published(house: House) -> None:
    run = house.any_run(house.tasks())
    worker = house.worker()
    root = worker.take()
    staged = house.tasks(3, parents=root.tasks[0])
    worker.stage(root, staged)
    house.store.cancel(run, root.tasks[0], below=True)
    worker.done(root, publish=[staged.first])
    assert house.offered() == []


@case("cancel")
def a_task_that_waits_for_itself_can_be_cancelled(house: House) -> None:
    """A member that lost its key to the task of its join is waited for as that task."""
    waits = house.tasks(1, waits=True, keys=[b"a"], hold=Hold.UNIQUE)
    member = house.tasks(1, join=waits.first, keys=[b"a"], hold=Hold.UNIQUE)
    run = house.any_run(house.tasks(1), endless=True)
    house.add(run, waits, member, joins=[NewJoins.one(waits.first, 1)])
    assert house.row_of(waits.first).first == waits.first
    assert house.store.cancel(run, waits.first) is Settled.CERTAIN
    assert waits.first not in house.offered()
    assert house.ended(waits.first) is Status.CANCELLED
