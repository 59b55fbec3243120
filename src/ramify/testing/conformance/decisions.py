"""Decisions about a run are numbered: one that another has overtaken changes nothing, however late it arrives.

The run remembers the last one: what was decided, by whom, why and when.
"""

from __future__ import annotations

from ramify.model.decision import Decision, Said, What
from ramify.model.event import Status
from ramify.model.mark import Settled
from ramify.model.run import RunState
from ramify.testing.conformance.house import House
from ramify.testing.conformance.registry import case


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
