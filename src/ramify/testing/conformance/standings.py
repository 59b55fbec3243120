"""`standings`: where many tasks stand, in one read and at one moment."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from ramify.model.event import Status
from ramify.model.join import NewJoins
from ramify.model.segment import SegmentState
from ramify.model.task import MAX_ID
from ramify.store.reads import TaskStanding
from ramify.testing.conformance.forget_tasks import DAY
from ramify.testing.conformance.house import House
from ramify.testing.conformance.registry import case


@case("reads")
def tasks_that_are_asked_for_together_stand_where_each_of_them_does(house: House) -> None:
    waiting = house.tasks(kind="sum", waits=True)
    first, second = house.tasks(5, join=waiting.first), house.tasks(2, priority=1)
    house.any_run(first, waiting, second, joins=[NewJoins.one(waiting.first, 5)])
    worker, reads = house.worker(), house.store.reads
    claim = worker.take(4)
    done, failed, again, held = claim.tasks
    worker.done(claim, [done], values=[b"7"])
    worker.end(claim, [failed], Status.FAILED, values=[b"no"])
    worker.end(claim, [again], Status.RETRYING)
    asked = [*second.ids, *waiting.ids, *reversed(first.ids)]
    told = reads.standings(asked)
    assert {task: standing.row for task, standing in told.items()} == {task: reads.task(task) for task in asked}
    seq = {event.task: event.seq for event in reads.events(done, failed)}
    row = told[done].row
    assert told[done] == TaskStanding(row, Status.DONE, b"7", seq[done])
    assert (told[failed].ended, told[failed].value, told[failed].seq) == (Status.FAILED, b"no", seq[failed])
    for task in set(asked) - {done, failed}:
        assert told[task] == TaskStanding(told[task].row, segment=house.row_of(task))
    segments = {task: standing.segment for task, standing in told.items() if standing.segment is not None}
    assert segments[held].owner == segments[again].owner == worker.process
    assert segments[waiting.first].state is SegmentState.WAITING


@case("reads")
def only_published_tasks_stand_anywhere(house: House) -> None:
    run = house.run(tasks := house.tasks(2))
    worker, reads = house.worker(), house.store.reads
    claim = worker.take()
    worker.stage(claim, staged := house.tasks())
    nobody = [-1, 0, run, tasks.last + 1, staged.first, house.store.reserve(1), MAX_ID, 2**63, 2**80]
    assert list(reads.standings([*nobody, tasks.last, tasks.last])) == [tasks.last]
    assert not reads.standings(nobody)
    assert not reads.standings([])


@case("reads")
def a_task_that_was_swept_stands_cancelled_until_it_is_reopened(house: House) -> None:
    run = house.run(tasks := house.tasks(3), other := house.tasks())
    worker, reads = house.worker(), house.store.reads
    claim = worker.take(1)
    house.store.cancel(run)
    worker.done(claim)
    house.settle(run)
    assert len({sweep.seq for sweep in reads.sweeps(run)}) == 1
    told = reads.standings([*tasks.ids, *other.ids])
    assert [told[task].ended for task in tasks.ids] == [Status.DONE, Status.CANCELLED, Status.CANCELLED]
    swept = TaskStanding(told[other.first].row, Status.CANCELLED, seq=reads.sweeps(run)[0].seq)
    assert told[other.first] == swept
    worker.reopen(run, other.ids)
    house.settle(run)
    told = reads.standings([*tasks.ids, *other.ids])
    assert told[tasks.last].ended is Status.CANCELLED
    assert told[other.first] == TaskStanding(swept.row, segment=house.row_of(other.first))


@case("reads")
def a_task_that_was_forgotten_stands_nowhere(house: House) -> None:
    run, whole = house.queue(tasks := house.tasks(3)), house.any_run(others := house.tasks(2))
    worker, reads = house.worker(), house.store.reads
    for claim in worker.claim():
        worker.done(claim)
    house.settle(whole)
    house.clock.advance(2 * DAY)
    assert house.store.forget(run, range(tasks.first, tasks.last)).tasks == 2
    assert house.store.forget(whole, limit=1).more
    assert list(reads.standings([*tasks.ids, *others.ids])) == [tasks.last]


@case("reads")
def what_ends_together_is_told_together(house: House) -> None:
    house.run(house.tasks(40))
    worker = house.worker()
    claim = worker.take()
    pairs = list(zip(claim.tasks[:20], claim.tasks[:19:-1], strict=True))

    with ThreadPoolExecutor(1) as pool:
        for pair in pairs:
            ending = pool.submit(worker.done, claim, pair)
            told = house.store.reads.standings(claim.tasks)
            assert all(told[one].seq == told[other].seq for one, other in pairs)
            ending.result()
