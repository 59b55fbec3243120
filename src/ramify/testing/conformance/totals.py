"""`reads.totals`: all that ever happened, by kind and queue. No verb lowers a total, whatever it takes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ramify.model.commit import Later, Part
from ramify.model.death import NOBODYS_FAULT
from ramify.model.event import Status, Tally
from ramify.model.mark import Mark, Scope
from ramify.model.process import NewProcess, new_process_id
from ramify.model.run import RunState
from ramify.store.reads import KindTotals, Totals
from ramify.testing.conformance.editions import Map
from ramify.testing.conformance.house import House
from ramify.testing.conformance.registry import case

DAY = 86_400
EVERYTHING = range(2**62)


def _of(house: House, kind: str = "walk", queue: str = "default") -> KindTotals:
    (found,) = (each for each in house.store.reads.totals().kinds if (each.kind, each.queue) == (kind, queue))
    return found


@contextmanager
def _nothing_falls(house: House) -> Iterator[None]:
    """No total is lower after a block than before it."""

    def flat(totals: Totals) -> dict[tuple[str, str, int], int]:
        return {(each.kind, each.queue, what): count for each in totals.kinds for what, count in each.ever.items()}

    before = flat(house.store.reads.totals())
    yield
    after = flat(house.store.reads.totals())
    fell = {name: (count, after.get(name, 0)) for name, count in before.items() if after.get(name, 0) < count}
    assert not fell, f"totals fell: {fell}"


def _ended(house: House, run: int, *statuses: Status) -> None:
    """End tasks of a run like this."""
    worker = house.worker()
    claim = worker.take(len(statuses))
    assert claim.run == run
    worker.commit(Part(claim.token, claim.tasks, list(statuses)))


@case("reads")
def a_store_that_was_never_used_has_no_totals(house: House) -> None:
    assert house.store.reads.totals() == Totals([])


@case("reads")
def totals_are_told_by_kind_and_queue(house: House) -> None:
    run = house.queue(house.tasks(3), house.tasks(2, queue="mail"), house.tasks(1, kind="copy"))
    other = house.queue(house.tasks(4, queue="mail"))
    assert house.store.cancel(other)
    house.settle(other)
    worker = house.worker()
    for claim in worker.claim():
        if claim.queue == "mail":
            worker.done(claim)
    assert house.store.reads.run(run).state is RunState.OPEN
    assert [(each.kind, each.queue, each.ever, each.pending) for each in house.store.reads.totals().kinds] == [
        ("copy", "default", {Tally.ADDED: 1}, 1),
        ("walk", "default", {Tally.ADDED: 3}, 3),
        ("walk", "mail", {Tally.ADDED: 6, Status.DONE: 2, Status.CANCELLED: 4}, 0),
    ]


@case("reads")
def retries_and_deferrals_are_in_the_totals(house: House) -> None:
    house.queue(house.tasks(3))
    worker = house.worker()
    claim = worker.take()
    statuses = [Status.RETRYING, Status.DEFERRED, Status.FAILED]
    later = [Later(list(claim.tasks[:2]), house.store.now() + 1)]
    worker.commit(Part(claim.token, claim.tasks, statuses, later=later))
    found = _of(house)
    assert found.ever == {Tally.ADDED: 3, Status.RETRYING: 1, Status.DEFERRED: 1, Status.FAILED: 1}
    assert found.pending == 2


@case("reads")
def the_end_of_a_run_changes_no_total(house: House) -> None:
    run = house.run(house.tasks(3))
    _ended(house, run, Status.DONE, Status.DONE, Status.FAILED)
    before = house.store.reads.totals()
    assert house.settle(run).state is RunState.FAILED
    assert house.store.reads.totals() == before


@case("reads")
def what_is_forgotten_stays_in_the_totals(house: House) -> None:
    queue = house.queue(house.tasks(4))
    _ended(house, queue, Status.DONE, Status.FAILED, Status.CANCELLED, Status.SKIPPED)
    run = house.run(house.tasks(3))
    house.finish(run)
    house.clock.advance(2 * DAY)
    before = house.store.reads.totals()
    assert _of(house).ever[Tally.ADDED] == 7
    assert house.store.forget(queue, EVERYTHING).tasks == 4
    assert house.store.forget(run, EVERYTHING).tasks == 3
    assert house.store.forget(run).tasks == 0
    assert house.store.reads.run(run).state is RunState.FORGOTTEN
    assert house.count(queue, Tally.ADDED) == 0
    assert house.store.reads.totals().kinds == before.kinds


@case("reads")
def a_new_life_adds_to_the_totals(house: House) -> None:
    for start in (house.run, house.queue):
        run = start(house.tasks(2))
        before = _of(house).ever.get(Status.FAILED, 0)
        worker = house.worker()
        claim = worker.take()
        worker.end(claim, claim.tasks, Status.FAILED)
        house.settle(run)
        for lives in (2, 3):
            with _nothing_falls(house):
                assert len(worker.reopen(run, claim.tasks).tasks) == 2
                assert _of(house).pending == 2
            again = worker.take()
            worker.end(again, again.tasks, Status.FAILED)
            house.settle(run)
            found = _of(house)
            assert (found.ever[Status.FAILED] - before, found.pending) == (2 * lives, 0)
    assert _of(house).ever[Tally.ADDED] == 4
    assert _of(house).ever[Status.REOPENED] == 8


@case("reads")
def a_result_given_by_hand_to_what_was_done_counts_once_more(house: House) -> None:
    run = house.run(house.tasks(1))
    house.finish(run)
    (task,) = house.store.reads.tasks(run).rows
    worker = house.worker()
    with _nothing_falls(house):
        worker.reopen(run, [task.id], settle=Mark(run, Scope.TASK, task.id, Status.DONE, value=b"7"))
    house.finish(run)
    assert (_of(house).ever[Status.DONE], _of(house).pending) == (2, 0)


@case("reads")
def what_is_replaced_stays_in_the_totals(house: House) -> None:
    map = Map(house)
    map.make(items=3)
    claim = map.take()
    map.worker.done(claim, claim.tasks[:2])
    map.worker.release(claim)
    with _nothing_falls(house):
        map.reopen()
    found = _of(house, "copy")
    assert (found.ever[Status.DONE], found.ever[Status.REPLACED], found.pending) == (2, 3, 0)


@case("reads")
def deaths_are_counted_once_and_who_leaves_did_not_die(house: House) -> None:
    house.queue(house.tasks(3))
    leaver, victim, watcher = house.worker(), house.worker(), house.worker()
    leaver.store.leave(leaver.process)
    assert victim.take(2).tasks
    house.bury(victim, by=watcher)
    house.store.bury(victim.process, NOBODYS_FAULT)
    visitor = new_process_id()
    house.store.enter(NewProcess(visitor, kinds=()))
    house.store.bury(visitor, NOBODYS_FAULT)
    found = house.store.reads.totals()
    assert (found.starts, found.deaths, found.redelivered) == (3, 1, 2)


@case("reads")
def starts_are_counted_once_also_when_they_are_sent_again(house: House) -> None:
    worker = NewProcess(new_process_id())
    house.store.enter(worker)
    house.store.enter(worker)
    assert house.store.reads.totals().starts == 1


@case("reads")
def commits_that_came_too_late_are_counted(house: House) -> None:
    house.queue(house.tasks(2))
    frozen = house.worker()
    claim = frozen.take()
    frozen.release(claim)
    assert frozen.commit(Part(claim.token, claim.tasks, Status.DONE)).refused
    assert house.store.reads.totals().refused == 1


@case("reads")
def totals_outlive_everybody(house: House) -> None:
    run = house.queue(house.tasks(5))
    _ended(house, run, *[Status.DONE] * 3)
    last = house.worker()
    assert last.take().tasks
    assert house.kill(last, NOBODYS_FAULT) == 2
    told = house.client().reads.totals()
    assert (_of(house).ever, _of(house).pending) == ({Tally.ADDED: 5, Status.DONE: 3}, 2)
    assert (told.starts, told.deaths, told.redelivered) == (2, 1, 2)
