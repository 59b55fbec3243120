"""Decisions about a run are numbered: one that another has overtaken changes nothing, however late it arrives.

All of them are kept: what was decided, by whom, why and when. Each has its place in the log.
"""

from __future__ import annotations

from ramify.errors import UnknownRun
from ramify.model.decision import Decision, Said, What
from ramify.model.event import Status
from ramify.model.mark import Settled
from ramify.model.policy import SECOND
from ramify.model.run import RunState
from ramify.testing.conformance.house import House, only, refused
from ramify.testing.conformance.registry import case
from ramify.testing.paging import every


def _last(house: House, run: int) -> Decision:
    decision = house.store.reads.run(run).decision
    assert decision is not None
    return decision


@case("pause")
def a_run_remembers_the_last_decision_about_it(house: House) -> None:
    run = house.run(house.tasks(2))
    assert house.store.reads.run(run).decision is None
    house.store.pause(run, Said("holiday", "ann"))
    assert _last(house, run) == Decision(1, What.PAUSED, "ann", "holiday", house.clock.now())
    house.clock.advance(5)
    house.store.resume(run, Said("back", "bob"))
    assert _last(house, run) == Decision(2, What.RESUMED, "bob", "back", house.clock.now())
    worker = house.worker()
    claim = worker.take(1)
    worker.end(claim, status=Status.FAILED)
    worker.reopen(run, claim.tasks, said=Said("again", "ann"))
    assert _last(house, run) == Decision(3, What.REOPENED, "ann", "again", house.clock.now())
    house.store.cancel(run, said=Said("enough", "bob"))
    assert _last(house, run) == Decision(4, What.CANCELLED, "bob", "enough", house.clock.now())
    assert house.store.reads.run(run).reason == "enough"


def _decided(house: House, run: int, limit: int = 100) -> list[Decision]:
    return every(lambda after: house.store.reads.decisions(run, after=after, limit=limit))


@case("pause")
def every_decision_about_a_run_is_kept(house: House) -> None:
    run, other = house.run(house.tasks(2)), house.run(house.tasks())
    assert _decided(house, run) == []
    began = house.clock.now()
    for n in range(4):
        house.store.pause(run, Said(f"reason {n}", "ann"))
        house.store.pause(other)
        house.clock.advance(1)
    house.store.resume(run, Said("odd \udc80 \0", "bob"))
    kept = _decided(house, run)
    assert kept[:4] == [Decision(n + 1, What.PAUSED, "ann", f"reason {n}", began + n * SECOND) for n in range(4)]
    assert (kept[4].n, kept[4].what, kept[4].by) == (5, What.RESUMED, "bob")
    assert kept[4] == _last(house, run)
    assert _decided(house, run, limit=2) == kept
    assert list(house.store.reads.decisions(run, after=3).rows) == kept[3:]
    with refused(UnknownRun):
        house.store.reads.decisions(house.store.reserve(1))


@case("pause")
def a_decision_that_changes_nothing_is_not_kept(house: House) -> None:
    run = house.run(house.tasks())
    house.store.pause(run, Said("holiday", "ann"))
    with house.nothing_changes():
        house.store.resume(run, Said("late", "bob", after=0))
    assert [each.reason for each in _decided(house, run)] == ["holiday"]


@case("forget")
def the_decisions_about_a_forgotten_run_stay(house: House) -> None:
    run = house.any_run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, status=Status.FAILED)
    house.settle(run)
    worker.reopen(run, claim.tasks, said=Said("again", "ann"))
    house.finish(run)
    house.run(house.tasks())
    while house.store.forget(run, said=Said("old", "bob"), limit=1).more:
        pass
    assert [(each.n, each.what, each.by) for each in _decided(house, run)] == [
        (1, What.REOPENED, "ann"),
        (2, What.FORGOTTEN, "bob"),
    ]
    tail = house.store.reads.tail(0)
    assert [each.decision for each in tail.decisions] == _decided(house, run)
    assert {each.seq for each in tail.decisions} <= {commit.seq for commit in tail.commits}


@case("tail")
def decisions_are_in_the_tail_in_their_place(house: House) -> None:
    run = house.any_run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, status=Status.FAILED)
    house.settle(run)
    head = house.store.reads.head()
    worker.reopen(run, claim.tasks, said=Said("again", "ann"))
    house.store.pause(run, Said("holiday", "ann"))
    house.store.resume(run)
    house.store.cancel(run, said=Said("enough", "bob"))
    house.store.forget(run)
    tail = house.store.reads.tail(head)
    assert [each.run for each in tail.decisions] == [run] * 5
    assert [each.decision for each in tail.decisions] == _decided(house, run)
    seqs = [each.seq for each in tail.decisions]
    assert seqs == sorted(set(seqs))
    assert set(seqs) <= {commit.seq for commit in tail.commits}
    at = {commit.seq: commit.at for commit in tail.commits}
    assert all(at[each.seq] == each.decision.at for each in tail.decisions)


@case("tail")
def a_reopening_and_its_events_are_in_one_commit(house: House) -> None:
    run = house.any_run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, status=Status.FAILED)
    house.settle(run)
    head = house.store.reads.head()
    worker.reopen(run, claim.tasks, said=Said("again", "ann"))
    tail = house.store.reads.tail(head)
    seq = only(tail.commits).seq
    assert seq > head
    assert [each.seq for each in tail.decisions] == [seq]
    assert [event.seq for event in tail.events] == [seq] * 2


@case("pause")
def a_pause_that_arrives_after_the_resume_that_followed_it_changes_nothing(house: House) -> None:
    tasks = house.tasks()
    run = house.run(tasks)
    late = Said("holiday", "ann", after=0)
    house.store.pause(run, late)
    assert house.store.resume(run, Said(by="bob", after=1)) is RunState.OPEN
    with house.nothing_changes():
        assert house.store.pause(run, late) is RunState.OPEN
    assert house.offered() == [tasks.first]


@case("pause")
def a_pause_that_came_too_late_for_a_run_does_not_hold_it_up_when_it_is_reopened(house: House) -> None:
    """A reopening is noted whatever its maker had seen: it is numbered, so it never comes late itself."""
    run = house.any_run(tasks := house.tasks())
    house.finish(run)
    late = Said("holiday", "ann", after=0)
    assert house.store.pause(run, late).is_end
    house.worker().reopen(run, tasks.ids, said=Said("again", "bob", after=7))
    assert _last(house, run).n == 1
    with house.nothing_changes():
        assert house.store.pause(run, late) is RunState.OPEN


@case("pause")
def a_resume_overtakes_a_pause_that_has_not_arrived_yet(house: House) -> None:
    """It finds nothing to resume, and is a decision all the same."""
    tasks = house.tasks()
    run = house.run(tasks)
    assert house.store.resume(run, Said(by="bob", after=0)) is RunState.OPEN
    with house.nothing_changes():
        assert house.store.pause(run, Said(by="ann", after=0)) is RunState.OPEN
    assert house.offered() == [tasks.first]


@case("pause")
def a_resume_that_arrives_late_changes_nothing_either(house: House) -> None:
    run = house.run(house.tasks())
    house.store.pause(run, Said(after=0))
    house.store.pause(run, Said(after=1))
    with house.nothing_changes():
        assert house.store.resume(run, Said(after=1)) is RunState.PAUSED
    assert house.offered() == []


@case("pause")
def sent_again_a_decision_is_made_once(house: House) -> None:
    run = house.run(house.tasks())
    assert house.store.pause(run, Said("holiday", after=0)) is RunState.PAUSED
    with house.nothing_changes():
        assert house.store.pause(run, Said("holiday", after=0)) is RunState.PAUSED


@case("cancel")
def a_cancel_that_was_overtaken_says_so_and_changes_nothing(house: House) -> None:
    tasks = house.tasks()
    run = house.run(tasks)
    house.store.resume(run)
    with house.nothing_changes():
        assert house.store.cancel(run, said=Said(after=0)) is Settled.OVERTAKEN
    assert house.offered() == [tasks.first]
    assert house.store.cancel(run, said=Said(after=1)) is Settled.CERTAIN
    with house.nothing_changes():
        assert house.store.cancel(run, said=Said(after=1)) is Settled.ENDED


@case("cancel")
def a_cancel_does_not_reach_a_run_that_was_opened_again_since(house: House) -> None:
    tasks = house.tasks()
    run = house.run(tasks)
    worker = house.worker()
    worker.end(worker.take(), status=Status.FAILED)
    house.settle(run)
    worker.reopen(run, tasks.ids)
    with house.nothing_changes():
        assert house.store.cancel(run, said=Said(after=0)) is Settled.OVERTAKEN
    assert house.offered() == [tasks.first]


@case("cancel")
def a_drained_run_takes_no_more_decisions(house: House) -> None:
    run = house.run(house.tasks(2))
    house.worker().take(1)
    house.store.cancel(run, said=Said("enough", "ann"))
    with house.nothing_changes():
        assert house.store.cancel(run, said=Said("no", "bob")) is Settled.REQUESTED
        assert house.store.resume(run, Said(by="bob")) is RunState.DRAINING


@case("cancel")
def cancelled_again_a_run_ends_once_nobody_holds_anything_of_it(house: House) -> None:
    """Perhaps nobody works any more who would ask whether it is over."""
    run = house.run(house.tasks(2))
    worker = house.worker()
    claim = worker.take(1)
    assert house.store.cancel(run) is Settled.REQUESTED
    worker.release(claim)
    assert house.store.cancel(run) is Settled.CERTAIN
    assert house.store.cancel(run) is Settled.ENDED
    assert house.store.reads.run(run).state is RunState.CANCELLED


@case("reopen")
def a_reopen_that_opens_nothing_is_no_decision(house: House) -> None:
    tasks = house.tasks()
    run = house.run(tasks)
    house.worker().reopen(run, tasks.ids, said=Said("again", "ann"))
    assert house.store.reads.run(run).decision is None
