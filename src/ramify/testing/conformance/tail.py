"""`reads.tail`: a cursor over the commits that follows an open run and misses nothing.

It returns the next whole commits after the cursor, in the order in which they were written, with all their events.
"""

from __future__ import annotations

from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.testing.conformance.house import House, only
from ramify.testing.conformance.registry import case


@case("tail")
def a_tail_that_keeps_up_sees_every_event_once(house: House) -> None:
    tasks = house.tasks(12)
    run = house.run(tasks)
    workers = [house.worker() for _ in range(3)]
    claims = [worker.take(4) for worker in workers]
    seen = []
    after = 0
    for i in range(4):
        for worker, claim in zip(workers, claims, strict=True):
            worker.done(claim, claim.tasks[i : i + 1])
        tail = house.store.reads.tail(after)
        assert len(tail.commits) == 3
        seen += [event.task for event in tail.events]
        after = tail.after
    assert sorted(seen) == list(tasks.ids)
    empty = house.store.reads.tail(after)
    assert (list(empty.commits), list(empty.events), empty.after) == ([], [], after)
    assert house.count(run, Status.DONE) == 12


@case("tail")
def a_tail_that_begins_at_the_head_sees_what_comes_and_nothing_before(house: House) -> None:
    house.run(house.tasks(4))
    worker = house.worker()
    claim = worker.take()
    assert house.store.reads.head() == 0
    worker.done(claim, claim.tasks[:2])
    head = house.store.reads.head()
    assert house.store.reads.tail(head).commits == []
    assert head == house.store.reads.tail(0).after
    worker.done(claim, claim.tasks[2:3])
    worker.done(claim, claim.tasks[3:])
    assert [event.task for event in house.store.reads.tail(head).events] == list(claim.tasks[2:])


@case("tail")
def a_page_of_the_tail_holds_whole_commits(house: House) -> None:
    house.run(house.tasks(30))
    worker = house.worker()
    claim = worker.take()
    for i in range(0, 30, 5):
        worker.done(claim, claim.tasks[i : i + 5])
    after, pages = 0, []
    while (tail := house.store.reads.tail(after, limit=2)).commits:
        assert len(tail.commits) <= 2
        assert len(tail.events) == sum(commit.events for commit in tail.commits)
        assert {event.seq for event in tail.events} == {commit.seq for commit in tail.commits}
        pages.append(len(tail.events))
        after = tail.after
    assert pages == [10, 10, 10]


@case("tail")
def a_commit_row_says_who_when_and_how_much(house: House) -> None:
    house.run(house.tasks(3))
    worker = house.worker()
    claim = worker.take()
    house.clock.advance(7)
    seq = worker.done(claim).seq
    row = only(house.store.reads.tail(0).commits)
    assert (row.seq, row.process, row.n, row.at, row.events) == (seq, worker.process, worker.n, house.clock.now(), 3)


@case("tail")
def a_refused_commit_is_not_in_the_tail(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    worker.release(claim)
    worker.commit(Part(claim.token, claim.tasks))
    assert not house.store.reads.tail(0).commits


@case("tail")
def queued_cancels_and_new_lives_are_in_the_tail(house: House) -> None:
    run = house.run(house.tasks(2))
    worker = house.worker()
    claim = worker.take(1)
    worker.end(claim, status=Status.FAILED)
    house.store.cancel(run, claim.tasks[0] + 1)
    worker.reopen(run, claim.tasks)
    statuses = [event.status for event in house.log()]
    assert statuses == [Status.FAILED, Status.CANCELLED, Status.REOPENED]
    assert [event.seq for event in house.log()] == sorted({event.seq for event in house.log()})


@case("tail")
def sweeps_are_in_the_tail(house: House) -> None:
    run = house.run(tasks := house.tasks(3))
    house.store.cancel(run)
    house.settle(run)
    tail = house.store.reads.tail(0)
    assert [(sweep.run, sweep.first, sweep.last) for sweep in tail.sweeps] == [(run, tasks.first, tasks.last)]
    assert [sweep.seq for sweep in tail.sweeps] == [commit.seq for commit in tail.commits]
    assert house.store.reads.tail(tail.after).sweeps == []


@case("tail")
def events_come_in_the_order_of_commits_not_of_ids(house: House) -> None:
    house.run(house.tasks(4))
    one, two = house.worker(), house.worker()
    first, second = one.take(2), two.take(2)
    two.done(second)
    one.done(first)
    assert [event.task for event in house.log()] == [*second.tasks, *first.tasks]
