"""`reads.tail`: a cursor over the commits that follows an open run and misses nothing.

It returns the next whole commits after the cursor, in the order in which they were written, with all their events. The
start of a run has its place among them.
"""

from __future__ import annotations

from ramify.model.addition import Addition
from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.run import NewRun, Order, StoredRun
from ramify.store.reads import CommitRow, RunStart
from ramify.testing.conformance.house import House, only
from ramify.testing.conformance.registry import case


@case("tail")
def a_tail_that_keeps_up_sees_every_event_once(house: House) -> None:
    tasks = house.tasks(12)
    run = house.run(tasks)
    workers = [house.worker() for _ in range(3)]
    claims = [worker.take(4) for worker in workers]
    seen = []
    after = house.store.reads.head()
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
    began = house.store.reads.head()
    worker.done(claim, claim.tasks[:2])
    head = house.store.reads.head()
    assert head > began
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
    after, pages = house.store.reads.head(), []
    for i in range(0, 30, 5):
        worker.done(claim, claim.tasks[i : i + 5])
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
    row = only(house.store.reads.tail(seq - 1).commits)
    assert (row.seq, row.process, row.n, row.at, row.events) == (seq, worker.process, worker.n, house.clock.now(), 3)


@case("tail")
def a_refused_commit_is_not_in_the_tail(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    worker.release(claim)
    head = house.store.reads.head()
    worker.commit(Part(claim.token, claim.tasks))
    assert not house.store.reads.tail(head).commits


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
    head = house.store.reads.head()
    house.store.cancel(run)
    house.settle(run)
    tail = house.store.reads.tail(head)
    assert [(sweep.run, sweep.first, sweep.last) for sweep in tail.sweeps] == [(run, tasks.first, tasks.last)]
    assert [sweep.seq for sweep in tail.sweeps] == [tail.after]
    assert house.store.reads.tail(tail.after).sweeps == []


@case("tail")
def events_come_in_the_order_of_commits_not_of_ids(house: House) -> None:
    house.run(house.tasks(4))
    one, two = house.worker(), house.worker()
    first, second = one.take(2), two.take(2)
    two.done(second)
    one.done(first)
    assert [event.task for event in house.log()] == [*second.tasks, *first.tasks]


@case("tail")
def the_start_of_a_run_is_in_the_tail(house: House) -> None:
    house.finish(house.run(house.tasks()))
    head = house.store.reads.head()
    house.clock.advance(7)
    run = house.store.start(NewRun(house.store.reserve(1), "crawl"), [house.tasks(3)]).run
    tail = house.store.reads.tail(head)
    assert list(tail.starts) == [RunStart(run.id, run.since + 1)]
    assert list(tail.commits) == [CommitRow(run.since + 1, 0, 0, run.created, 0)]
    assert run.since >= head
    assert (tail.after, house.store.reads.tail(tail.after).starts) == (run.since + 1, [])
    assert house.store.reads.run(run.id).since == run.since


@case("tail")
def a_start_that_is_sent_again_has_no_second_place_in_the_tail(house: House) -> None:
    new, tasks = NewRun(house.store.reserve(1), "crawl"), house.tasks()
    assert house.store.start(new, [tasks]).created
    head = house.store.reads.head()
    assert not house.store.start(new, [tasks]).created
    assert not house.store.start(NewRun(house.store.reserve(1), "crawl")).created
    assert house.store.reads.head() == head


def _queue(house: House, name: str) -> Addition:
    opens = NewRun(house.store.reserve(1), name, shape="jobs", order=Order.ANY, endless=True)
    return Addition.opening(opens, [house.tasks(kind="copy")])


def _named(house: House, name: str) -> StoredRun:
    found = house.store.reads.find_run(name)
    assert found is not None
    return found


@case("tail")
def runs_that_an_append_opens_have_their_start_in_the_tail(house: House) -> None:
    house.run(house.tasks())
    head = house.store.reads.head()
    house.store.append([_queue(house, "mail"), _queue(house, "parcels"), _queue(house, "mail")])
    runs = [_named(house, "mail"), _named(house, "parcels")]
    tail = house.store.reads.tail(head)
    begun = only(tail.commits)
    assert (begun.process, begun.events) == (0, 0)
    assert list(tail.starts) == [RunStart(run.id, begun.seq) for run in runs]
    assert {run.since for run in runs} == {begun.seq - 1}
    house.store.append([_queue(house, "mail")])
    assert house.store.reads.head() == begun.seq, "tasks for a run that was there have no place in the log"


@case("tail")
def a_run_that_a_commit_opens_has_its_start_there(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    seq = worker.done(worker.take(), additions=[_queue(house, "mail")]).seq
    tail = house.store.reads.tail(seq - 1)
    assert list(tail.starts) == [RunStart(_named(house, "mail").id, seq)]
    assert [(row.seq, row.events) for row in tail.commits] == [(seq, 1)]
    assert _named(house, "mail").since == seq - 1


@case("tail")
def a_page_of_the_tail_has_the_starts_of_its_commits(house: House) -> None:
    runs = [house.run(house.tasks()) for _ in range(5)]
    after, pages = 0, []
    while (tail := house.store.reads.tail(after, limit=2)).commits:
        assert [start.seq for start in tail.starts] == [commit.seq for commit in tail.commits]
        pages.append([start.run for start in tail.starts])
        after = tail.after
    assert pages == [runs[:2], runs[2:4], runs[4:]]


@case("tail")
def the_start_of_a_forgotten_run_stays_in_the_tail_and_its_commits_go(house: House) -> None:
    house.finish(run := house.run(house.tasks(2)))
    house.run(house.tasks())
    before = house.store.reads.tail(0)
    assert not house.store.forget(run).more
    after = house.store.reads.tail(0)
    assert after.starts == before.starts
    assert list(after.commits[:-1]) == [commit for commit in before.commits if not commit.events]
    assert [each.seq for each in after.decisions] == [after.after]


@case("tail")
def the_start_of_a_run_stays_in_the_tail_when_the_task_that_opened_it_is_forgotten(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    seq = worker.done(worker.take(), additions=[_queue(house, "mail")]).seq
    house.settle(run)
    house.run(house.tasks(kind="sum"))
    assert not house.store.forget(run).more
    tail = house.store.reads.tail(seq - 1, limit=1)
    assert list(tail.starts) == [RunStart(_named(house, "mail").id, seq)]
    assert [(row.seq, row.events) for row in tail.commits] == [(seq, 0)]
