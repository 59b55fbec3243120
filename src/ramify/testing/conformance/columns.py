"""Bad input: columns that do not fit are refused with BadPayload before anything is written, the same on every store.

The stamp of a refused verb is not used up: the same number serves for the corrected one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from ramify.errors import BadPayload
from ramify.model.claim import Claim
from ramify.model.commit import Later, Part
from ramify.model.event import Status
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.key import Hold
from ramify.model.task import MAX_ID, MAX_KEY, MAX_NAME, MAX_PAYLOAD, NewTasks
from ramify.testing.conformance.house import House, Worker, refused
from ramify.testing.conformance.registry import case


def _bad_tasks(house: House) -> dict[str, NewTasks]:
    """Groups of new tasks, each wrong in one way."""
    return {
        "an empty group": house.tasks([]),
        "too few parents": house.tasks(2, parents=[1]),
        "too many keys": house.tasks(2, keys=[b"a", b"b", b"c"]),
        "too few extras": house.tasks(2, details=[b""]),
        "an empty kind": house.tasks(kind=""),
        "a NUL in the kind": house.tasks(kind="a\0"),
        "a lone surrogate in the queue": house.tasks(queue="\udc80"),
        "a NUL in the lane": house.tasks(lane="\0"),
        "an empty lane": house.tasks(lane=""),
        "an empty lane among others": house.tasks(2, lanes=["a", ""]),
        "no lane among others": house.tasks(2, lanes=["a", None]),
        "too few lanes": house.tasks(2, lanes=["a"]),
        "one lane for all and one each": house.tasks(2, lane="a", lanes=["a", "b"]),
        "a kind that is too long": house.tasks(kind="k" * (MAX_NAME + 1)),
        "a body over the limit": house.tasks([b"x" * (MAX_PAYLOAD + 1)]),
        "a key over the limit": house.tasks(keys=[b"k" * (MAX_KEY + 1)], hold=Hold.ONCE),
        "a priority out of range": house.tasks(priority=1001),
        "an id nobody reserved": NewTasks(0, "walk", [b""]),
        "a negative id": NewTasks(-5, "walk", [b""]),
        "an id beyond the last": NewTasks(MAX_ID, "walk", [b""]),
        "an id that was never handed out": NewTasks(house.store.reserve(1) + 1_000_000, "walk", [b""]),
        "a due time and a join to wait for": house.tasks(due=1, waits=True),
        "a wait for a join that is not made": house.tasks(waits=True),
        "a member of a join that does not exist": house.tasks(join=house.store.reserve(1)),
    }


@case("append")
def tasks_that_do_not_fit_are_refused(house: House) -> None:
    run = house.queue()
    for wrong, tasks in _bad_tasks(house).items():
        _is_refused(house, wrong, partial(house.add, run, tasks))


@case("commit")
def children_that_do_not_fit_are_refused(house: House) -> None:
    worker, claim = _working(house)
    for wrong, tasks in _bad_tasks(house).items():
        part = Part(claim.token, claim.tasks, children=[house.tasks(), tasks])
        _is_refused(house, wrong, partial(worker.commit, part))
    worker.done(claim)


@case("stage")
def staged_tasks_that_do_not_fit_are_refused(house: House) -> None:
    worker, claim = _working(house)
    for wrong, tasks in _bad_tasks(house).items():
        if tasks.join is None:
            _is_refused(house, wrong, partial(worker.stage, claim, tasks))
    worker.done(claim)


@case("append")
def the_largest_values_allowed_come_back_unharmed(house: House) -> None:
    key = bytes(range(256)) * (MAX_KEY // 256)
    body = bytes(range(256)) * (MAX_PAYLOAD // 256)
    name = "é" * MAX_NAME
    house.any_run(house.tasks([body], kind=name, queue=name, lane=name, keys=[key], hold=Hold.UNIQUE, priority=-1000))
    worker = house.worker()
    claim = worker.take(kinds=[name])
    assert (claim.kind, claim.queue, claim.lane) == (name, name, name)
    assert claim.bodies[0] == body
    assert claim.details[claim.tasks[0]].key == key
    worker.done(claim, values=[body])
    assert house.store.reads.events(claim.tasks[0], claim.tasks[0])[0].value == body


@case("commit")
def empty_and_missing_values_are_different_things(house: House) -> None:
    worker, claim = _working(house)
    worker.done(claim, values=[b"", None, b"\0"])
    assert [event.value for event in house.store.reads.events(claim.tasks[0], claim.tasks[2])] == [b"", None, b"\0"]


@case("commit")
def parts_that_do_not_fit_are_refused(house: House) -> None:
    worker, claim = _working(house)
    one = claim.tasks[0]

    def bad(tasks: list[int], **rest: Any) -> Part:
        return Part(claim.token, tasks, **rest)

    for wrong, part in {
        "too few statuses": bad([one], statuses=[Status.DONE, Status.DONE]),
        "too few values": bad([one], values=[]),
        "a task twice": bad([one, one]),
        "an event that only reopen writes": bad([one], statuses=Status.REOPENED),
        "a value over the limit": bad([one], values=[b"x" * (MAX_PAYLOAD + 1)]),
        "a later task that ended": bad([one], later=[Later([one], 0)]),
        "a later task without an event": bad([one], statuses=Status.RETRYING, later=[Later([one + 1], 0)]),
        "a later task twice": bad([one], statuses=Status.RETRYING, later=[Later([one], 0), Later([one], 1)]),
    }.items():
        _is_refused(house, wrong, partial(worker.commit, part))
    worker.done(claim)


@case("commit")
def a_task_that_the_claim_does_not_hold_is_refused(house: House) -> None:
    """Ended before, never in the row, of another row, of nobody: none of them may get a second end this way."""
    other = house.tasks(kind="copy")
    worker, claim = _working(house, other)
    worker.done(claim, claim.tasks[:1])
    for task in (claim.tasks[0], claim.tasks[-1] + 1, other.first, 1):
        part = Part(claim.token, [claim.tasks[1], task])
        _is_refused(house, f"task {task}", partial(worker.commit, part))
    worker.done(claim, claim.tasks[1:])


@case("commit")
def one_bad_part_and_no_part_is_written(house: House) -> None:
    worker, claim = _working(house)
    house.add(claim.run, house.tasks(kind="copy"))
    other = worker.take(1, ["copy"])
    good = Part(claim.token, claim.tasks)
    bad = Part(other.token, other.tasks, values=[b"", b""])
    _is_refused(house, "the second part", lambda: worker.commit(good, bad))
    _is_refused(house, "the first part", lambda: worker.commit(bad, good))
    worker.done(claim)


@case("commit")
def a_bad_commit_does_not_use_up_its_stamp(house: House) -> None:
    worker, claim = _working(house)
    stamp = worker.stamp()
    with refused(BadPayload):
        worker.store.commit(stamp, [Part(claim.token, claim.tasks, values=[])])
    assert worker.store.commit(stamp, [Part(claim.token, claim.tasks)]).seq > 0
    assert house.ended(claim.tasks[0]) is Status.DONE


@case("append")
def ids_that_are_in_the_log_are_refused(house: House) -> None:
    """Tasks are immutable: nothing may be written over them, or twice in one call."""
    run = house.queue(known := house.tasks(3))
    fresh = house.tasks(3)
    _is_refused(house, "known ids", lambda: house.add(run, house.tasks(), known))
    _is_refused(house, "the ids of its neighbour", lambda: house.add(run, fresh, NewTasks(fresh.last, "copy", [b""])))


@case("commit")
def children_under_ids_that_are_in_the_log_are_refused(house: House) -> None:
    worker, claim = _working(house)
    fresh = house.tasks(3)
    for wrong, children in {
        "the id of the parent": [NewTasks(claim.tasks[0], "walk", [b""])],
        "the ids of its neighbour": [fresh, NewTasks(fresh.last, "copy", [b""])],
    }.items():
        _is_refused(house, wrong, partial(worker.commit, Part(claim.token, claim.tasks, children=children)))
    worker.done(claim)


@case("commit")
def times_that_do_not_fit_are_refused(house: House) -> None:
    worker, claim = _working(house)
    for wrong, took in {"of another task": {claim.tasks[-1] + 1: 5}, "no time": {claim.tasks[0]: 0}}.items():
        _is_refused(house, wrong, partial(worker.commit, Part(claim.token, claim.tasks, took=took)))
    worker.done(claim)


@case("commit")
def a_range_is_published_or_discarded_once(house: House) -> None:
    worker, claim = _working(house)
    staged = house.tasks(2)
    worker.stage(claim, staged)
    for wrong, part in {
        "published twice": Part(claim.token, claim.tasks, publish=[staged.first] * 2),
        "discarded twice": Part(claim.token, claim.tasks, discard=[staged.first] * 2),
        "published and discarded": Part(claim.token, claim.tasks, publish=[staged.first], discard=[staged.first]),
    }.items():
        _is_refused(house, wrong, partial(worker.commit, part))
    worker.done(claim, publish=[staged.first])


@case("joins")
def joins_that_do_not_fit_are_refused(house: House) -> None:
    run = house.queue()
    old, new = (house.tasks(kind="sum", waits=True) for _ in range(2))
    house.add(run, old, joins=[NewJoins.one(old.first, 2)])
    join, one, two = NewJoins.one(new.first, 1), house.tasks(), house.tasks(2)
    for wrong, act in {
        "a join twice": partial(house.add, run, new, joins=[join, join]),
        "a join that exists": partial(house.add, run, joins=[NewJoins.one(old.first, 1)]),
        "a join that needs less than nobody": partial(house.add, run, new, joins=[replace(join, needs=[-1])]),
        "more members than slots": partial(house.add, run, new, replace(two, join=new.first), joins=[join]),
        "more members than an old join has": partial(house.add, run, replace(two, join=old.first, slot=1)),
        "a slot before the first": partial(house.add, run, replace(one, join=old.first, slot=-1)),
        "a waiter at no slot": partial(house.add, run, one, waiters=[NewWaiters.one(one.first, old.first, 2)]),
        "a waiter at no join": partial(house.add, run, one, waiters=[NewWaiters.one(one.first, one.first, 0)]),
        "a waiter for no task": partial(house.add, run, waiters=[NewWaiters.one(house.store.reserve(1), old.first, 0)]),
    }.items():
        _is_refused(house, wrong, act)


@case("commit")
def nothing_is_published_that_was_not_staged(house: House) -> None:
    worker, claim = _working(house)
    stranger = house.tasks()
    part = Part(claim.token, claim.tasks, publish=[stranger.first])
    _is_refused(house, "publish", lambda: worker.commit(part))
    worker.done(claim)


def _working(house: House, *more: NewTasks) -> tuple[Worker, Claim]:
    """A worker that holds a row of three tasks."""
    house.any_run(house.tasks(3), *more)
    worker = house.worker()
    return worker, worker.take(3, ["walk"])


def _is_refused(house: House, wrong: str, act: Callable[[], object]) -> None:
    before = house.picture()
    try:
        act()
    except BadPayload:
        assert house.picture() == before, f"refused, but something was written: {wrong}"
    else:
        raise AssertionError(f"accepted: {wrong}")
