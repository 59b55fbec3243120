"""Additions: tasks for other runs, that come in with a commit or by `append`, and open the run that they need.

What a task adds to a queue is in the log exactly if its end is. The queue is named, not its run: if that one has ended
or drains, or there is none, the next generation begins in the same transaction.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ramify.errors import BadPayload
from ramify.model.addition import Addition
from ramify.model.commit import Part
from ramify.model.event import Tally
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.key import Hold
from ramify.model.run import NewRun, Order, RunState, StoredRun
from ramify.model.task import NewTasks
from ramify.testing.conformance.house import House, refused, want
from ramify.testing.conformance.registry import case

NAME = "jobs/mail"


def _queue(house: House, **columns: object) -> NewRun:
    columns = {"name": NAME, "shape": "jobs", "order": Order.ANY, "endless": True, **columns}
    return NewRun(house.store.reserve(1), **columns)  # type: ignore[arg-type]


def _newest(house: House) -> StoredRun:
    found = house.store.reads.find_run(NAME)
    assert found is not None
    return found


def _added(house: House, *groups: NewTasks) -> Addition:
    return Addition.opening(_queue(house), groups)


def _live(house: House, run: int) -> list[int]:
    return sorted(task for row in house.live(run) for task in row.tasks)


@case("commit")
def what_a_part_adds_to_a_queue_is_in_the_log_with_its_ends(house: House) -> None:
    queue = _queue(house)
    assert house.store.start(queue).created
    worker, run = house.worker(), house.run(house.tasks(1))
    mails = house.tasks(2, kind="copy", queue="mail")
    worker.done(worker.take(), additions=[_added(house, mails)])
    assert _live(house, queue.id) == list(mails.ids)
    assert house.count(queue.id, Tally.ADDED, "copy") == 2
    assert house.settle(run).state is RunState.DONE
    assert worker.take().run == queue.id


@case("commit")
def a_part_with_a_void_token_adds_nothing_to_a_queue(house: House) -> None:
    worker = house.worker()
    house.run(house.tasks(1))
    claim = worker.take()
    assert worker.release(claim)
    answer = worker.commit(Part(claim.token, claim.tasks, additions=[_added(house, house.tasks(kind="copy"))]))
    assert answer.refused == (claim.token,)
    assert house.store.reads.find_run(NAME) is None


@case("commit")
def a_queue_that_is_not_there_begins_with_what_a_part_adds(house: House) -> None:
    worker, mails = house.worker(), house.tasks(kind="copy")
    house.run(house.tasks(1))
    new = _added(house, mails)
    worker.done(worker.take(), additions=[new])
    run = _newest(house)
    assert (run.id, run.generation, run.state, run.round, run.endless) == (new.run, 1, RunState.OPEN, 0, True)
    assert _live(house, run.id) == list(mails.ids)
    followed = house.store.reads.tail(run.since)
    assert followed.commits, "a tail that begins where the run does finds nothing"


@case("commit")
def a_queue_that_has_ended_or_drains_goes_on_as_its_next_generation(house: House) -> None:
    worker, first = house.worker(), _queue(house)
    held = house.tasks(1, kind="copy")
    assert house.store.start(first, [held]).created
    claim = worker.take(kinds=["copy"])
    house.store.cancel(first.id)
    assert _newest(house).state is RunState.DRAINING
    house.run(house.tasks(1))
    mails = house.tasks(kind="sum")
    worker.done(worker.take(kinds=["walk"]), additions=[_added(house, mails)])
    second = _newest(house)
    assert (second.generation, second.state) == (2, RunState.OPEN)
    assert _live(house, second.id) == list(mails.ids)
    worker.done(claim)
    house.settle(first.id)
    house.store.cancel(second.id)
    assert _newest(house).state is RunState.CANCELLED
    house.run(house.tasks(1))
    worker.done(worker.take(kinds=["walk"]), additions=[_added(house, house.tasks(kind="sum"))])
    assert _newest(house).generation == 3


@case("commit")
def parts_of_one_commit_that_open_a_queue_share_it(house: House) -> None:
    worker = house.worker()
    house.run(house.tasks(1), house.tasks(1, kind="sum"))
    claims = worker.claim()
    mails = [house.tasks(kind="copy") for _ in claims]
    parts = [
        Part(claim.token, claim.tasks, additions=[_added(house, mail)])
        for claim, mail in zip(claims, mails, strict=True)
    ]
    assert not worker.commit(*parts).refused
    run = _newest(house)
    assert run.generation == 1
    assert _live(house, run.id) == sorted(task for mail in mails for task in mail.ids)


@case("commit")
def what_a_part_adds_to_a_queue_can_be_taken_by_the_next_claim_of_the_commit(house: House) -> None:
    worker, mails = house.worker(), house.tasks(3, kind="copy")
    house.run(house.tasks(1))
    claim = worker.take()
    answer = worker.commit(
        Part(claim.token, claim.tasks, additions=[_added(house, mails)]), then=want(10, kinds=["copy"])
    )
    assert [list(each.tasks) for each in answer.claimed.claims] == [list(mails.ids)]


@case("commit")
def sent_again_a_commit_adds_to_a_queue_once(house: House) -> None:
    worker, mails = house.worker(), house.tasks(kind="copy")
    house.run(house.tasks(1))
    claim = worker.take()
    parts = [Part(claim.token, claim.tasks, additions=[_added(house, mails)])]
    first = worker.commit(*parts)
    again = worker.store.commit(worker.last, parts)
    assert (again.seq, again.refused) == (first.seq, first.refused)
    assert house.count(_newest(house).id, Tally.ADDED, "copy") == 1


@case("commit")
def a_key_that_another_job_holds_drops_what_a_part_adds(house: House) -> None:
    worker = house.worker()
    unique: dict[str, Any] = {"kind": "copy", "keys": [b"o-17"], "hold": Hold.UNIQUE}
    first, second = house.tasks(1, **unique), house.tasks(1, **unique)
    for mails in (first, second):
        house.run(house.tasks(1))
        worker.done(worker.take(kinds=["walk"]), additions=[_added(house, mails)])
    run = _newest(house).id
    assert _live(house, run) == list(first.ids)
    assert house.count(run, Tally.DUPLICATE, "copy") == 1
    worker.done(worker.take(kinds=["copy"]))
    house.run(house.tasks(1))
    third = house.tasks(1, **unique)
    worker.done(worker.take(kinds=["walk"]), additions=[_added(house, third)])
    assert _live(house, run) == list(third.ids)


@case("commit")
def what_cannot_be_added_to_a_queue_refuses_the_whole_commit(house: House) -> None:
    worker, run = house.worker(), house.run(house.tasks(1))
    claim = worker.take()
    fresh = house.tasks(kind="copy")
    far = NewTasks(2**40, "copy", [b"1"])
    closed = [
        Addition(run, [fresh]),
        Addition.opening(_queue(house, endless=False), [fresh]),
        Addition.opening(_queue(house, name=None), [fresh]),
        Addition.opening(_queue(house, order=Order.ROUNDS), [fresh]),
        Addition.opening(_queue(house, max_tasks=1), [fresh]),
        Addition.opening(_queue(house), [house.tasks(kind="copy", queue="\0")]),
        Addition.opening(_queue(house), [far]),
        Addition.opening(NewRun(2**40, NAME, shape="jobs", order=Order.ANY, endless=True), [fresh]),
        Addition(0, [fresh], [NewJoins.one(fresh.first, 1)], opens=_queue(house)),
        Addition(0, [fresh], (), [NewWaiters.one(claim.tasks[0], fresh.first, 0)], opens=_queue(house)),
    ]
    for new in closed:
        with refused(BadPayload):
            worker.commit(Part(claim.token, claim.tasks, additions=[new]))
        worker.n -= 1
    assert house.store.reads.find_run(NAME) is None
    worker.done(claim, additions=[_added(house, fresh)])


@case("commit")
def a_run_of_another_shape_is_no_queue(house: House) -> None:
    house.run(name=NAME, shape="dag", order=Order.ANY, endless=True)
    house.run(house.tasks(1))
    worker = house.worker()
    claim = worker.take()
    with refused(BadPayload):
        worker.commit(Part(claim.token, claim.tasks, additions=[_added(house, house.tasks(kind="copy"))]))


@case("append")
def tasks_from_outside_open_the_queue_that_they_name(house: House) -> None:
    first, second = house.tasks(kind="copy"), house.tasks(kind="copy")
    for mails in (first, second):
        new = _added(house, mails)
        (answer,) = house.store.append([new])
        assert (answer.ids, answer.run, answer.already) == ((tuple(mails.ids),), _newest(house).id, False)
        (again,) = house.store.append([new])
        assert (again.ids, again.run, again.already) == (answer.ids, answer.run, True)
    run = _newest(house)
    assert run.generation == 1
    assert _live(house, run.id) == sorted([*first.ids, *second.ids])
    house.store.cancel(run.id)
    (answer,) = house.store.append([_added(house, house.tasks(kind="copy"))])
    assert (_newest(house).generation, _newest(house).id) == (2, answer.run)


@case("append")
def late_tasks_of_a_queue_that_went_on_since_are_there_already(house: House) -> None:
    house.store.append([_added(house, house.tasks(kind="copy"))])
    new = _added(house, house.tasks(kind="copy"))
    (first,) = house.store.append([new])
    house.store.cancel(first.run)
    house.store.append([_added(house, house.tasks(kind="copy"))])
    (late,) = house.store.append([new])
    assert (late.already, late.run, late.ids) == (True, first.run, first.ids)
    assert _newest(house).generation == 2


@case("append")
def sent_again_what_lost_all_its_keys_answers_with_its_queue_and_who_has_them_now(house: House) -> None:
    unique: dict[str, Any] = {"keys": [b"o-17"], "hold": Hold.UNIQUE}
    holder = house.tasks(1, kind="copy", **unique)
    house.store.append([_added(house, holder)])
    news = [_added(house, house.tasks(1, kind="sum")), _added(house, house.tasks(1, kind="copy", **unique))]
    house.store.append(news)
    _, again = house.store.append(news)
    assert (again.already, again.run, again.ids) == (True, _newest(house).id, ((holder.first,),))
    assert set(again.taken) == {(0, 0)}
    worker = house.worker()
    worker.done(worker.take(kinds=["copy"]))
    _, later = house.store.append(news)
    assert (later.already, later.ids) == (True, ((0,),))


@case("append")
def many_clients_open_one_queue(house: House) -> None:
    news = [_added(house, house.tasks(kind="copy")) for _ in range(8)]
    clients = [house.client() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda pair: pair[0].append([pair[1]]), zip(clients * 2, news, strict=True)))
    run = _newest(house)
    assert run.generation == 1
    assert house.count(run.id, Tally.ADDED, "copy") == 8


@case("append")
def the_id_of_a_run_that_is_there_opens_no_other(house: House) -> None:
    queue = _queue(house)
    assert house.store.start(queue).created
    house.store.cancel(queue.id)
    with refused(BadPayload):
        house.store.append([Addition.opening(queue, [house.tasks(kind="copy")])])
    assert _newest(house).generation == 1


@case("append")
def a_run_that_was_never_reserved_is_not_opened(house: House) -> None:
    far = NewRun(2**40, NAME, shape="jobs", order=Order.ANY, endless=True)
    with refused(BadPayload):
        house.store.append([Addition.opening(far, [house.tasks(kind="copy")])])
    assert house.store.reads.find_run(NAME) is None
