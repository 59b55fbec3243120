"""What became of one task, in words."""

import pytest

from ramify.errors import UnknownTask
from ramify.inspect.follow import Follower
from ramify.inspect.history import history_of
from ramify.inspect.review import review
from ramify.model.decision import Said
from ramify.model.event import Status
from ramify.model.outcome import Failure
from ramify.testing.conformance import House


def test_a_task_is_told_from_its_first_failure_to_its_second_life(house: House) -> None:
    run = house.run(house.tasks([b'["/usr"]']), name="walk")
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, status=Status.RETRYING, values=[Failure("OSError", "gone").encode()])
    house.clock.advance(5)
    worker.end(claim, status=Status.FAILED, values=[Failure("OSError", "gone again").encode()])
    house.settle(run)
    worker.reopen(run, claim.tasks, said=Said("the disk is back"))
    worker.done(worker.take(), values=[b"12"])
    found = history_of(house.store.reads, claim.tasks[0])
    assert (found.call, found.run) == ('walk("/usr")', "walk")
    words = [
        "attempt 1 failed, to be tried again: OSError: gone",
        "attempt 2 failed, and it was the last: OSError: gone again",
        "opened again: the disk is back",
        "attempt 1 was done: 12",
    ]
    assert [told.text for told in found.events] == words
    followed = Follower(house.store.reads, run).next()
    assert followed is not None
    assert [told.text for told in followed] == ["began", *words[:2], "reopened: the disk is back", *words[2:]]
    first, second = found.events[0].at, found.events[1].at
    assert first is not None
    assert second == first + 5_000_000


def test_the_end_by_a_cancelled_run_is_told_in_its_place(house: House) -> None:
    run = house.run(house.tasks(3))
    house.store.cancel(run, said=Said("enough"))
    task = house.store.reads.tasks(run).rows[0].id
    found = history_of(house.store.reads, task)
    assert [(told.n, told.text) for told in found.events] == [(0, "cancelled with its run")]
    assert found.fold.ended is Status.CANCELLED


def test_a_task_that_is_not_there_is_refused(house: House) -> None:
    with pytest.raises(UnknownTask, match="no task 77"):
        history_of(house.store.reads, 77)


def test_failures_that_look_alike_are_one_group_with_an_example(house: House) -> None:
    run = house.run(house.tasks([b'["a"]', b'["b"]', b'["c"]']))
    worker = house.worker()
    claim = worker.take()
    errors = [Failure("OSError", "gone", ("walk.py:3 in walk",)), Failure("OSError", "gone"), Failure("KeyError", "x")]
    worker.end(claim, status=Status.FAILED, values=[error.encode() for error in errors])
    found = review(house.store.reads, run)
    assert [(each.group.count, each.group.type, each.call) for each in found.groups] == [
        (2, "OSError", 'walk("a")'),
        (1, "KeyError", 'walk("c")'),
    ]
    assert found.groups[0].frames == ("walk.py:3 in walk",)
    assert (found.looked_at, found.failures, found.others) == (3, 3, 0)


def test_a_follower_hears_its_own_run_only_and_misses_nothing(house: House) -> None:
    run, other = house.any_run(house.tasks(30)), house.any_run(house.tasks(30))
    follower = Follower(house.store.reads, run)
    worker = house.worker()
    heard: list[int | None] = []
    for _ in range(30):
        for claim in worker.claim(2):
            worker.done(claim)
        while (some := follower.next()) is not None:
            heard += [followed.task for followed in some]
    # First of all its start, which is about no task.
    assert heard == [None, *sorted(task.id for task in house.store.reads.tasks(run).rows)]
    assert other not in heard


def test_a_follower_hears_of_a_cancelled_run(house: House) -> None:
    run = house.run(house.tasks(3))
    house.store.cancel(run)
    some = Follower(house.store.reads, run, house.store.reads.run(run).since + 1).next()
    assert some is not None
    assert [(followed.task, followed.text) for followed in some] == [
        (None, "cancelled"),
        (None, "3 tasks were cancelled with the run"),
    ]


def test_a_follower_hears_what_is_decided_between_the_events(house: House) -> None:
    run, other = house.any_run(house.tasks(2)), house.any_run(house.tasks())
    worker = house.worker()
    claims = [worker.take(1), worker.take(1)]
    house.store.pause(run, Said("too hot", "ann"))
    worker.done(claims[0])
    house.store.pause(other, Said("not this one", "ann"))
    house.store.resume(run, Said(by="bob"))
    worker.done(claims[1])
    some = Follower(house.store.reads, run, house.store.reads.run(run).since + 1)
    told: list[tuple[str, str]] = []
    while (page := some.next()) is not None:
        told += ((each.status, each.text) for each in page if each.task is None)
    assert told == [("paused", "paused by ann: too hot"), ("resumed", "resumed by bob")]


def test_a_follower_hears_first_that_its_run_began_and_with_what(house: House) -> None:
    house.run(house.tasks())
    run = house.run(house.tasks(), shown="walk('/')")
    some = Follower(house.store.reads, run).next()
    assert some is not None
    first = next(some)
    stored = house.store.reads.run(run)
    assert (first.status, first.text, first.task) == ("started", "began with walk('/')", None)
    assert (first.seq, first.at) == (stored.since + 1, stored.created)
