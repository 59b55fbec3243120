"""The oracle sees what is wrong with a topic. All else that it says is proven by machines and crashes that use it."""

import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from ramify.model.event import Status
from ramify.model.own_topics import FAILURES_TOPIC, TOPICS, StoredTopic, write_topic
from ramify.model.topic import Publication
from ramify.model.value import Swap
from ramify.store.memory import MemoryStore, MemoryTables
from ramify.testing.conformance.house import House
from ramify.testing.oracle import check

Tamper = Callable[[MemoryTables], None]


def published(place: MemoryTables) -> House:
    """Two publications of a task that is done, one of nobody, and a failure."""
    house = House(open=lambda clock: MemoryStore(place, clock), kill=lambda store: None)
    worker = house.worker()
    listens = Swap(TOPICS, FAILURES_TOPIC, 0, house.store.reserve(1), write_topic(StoredTopic()))
    worker.store.swap(worker.stamp(), [listens], publications=[Publication("bills", b"0")])
    house.run(house.tasks(2))
    claim = worker.take()
    done, failed = claim.tasks
    worker.done(claim, [done], publications=[Publication("bills", b"%d" % n, task=done) for n in (1, 2)])
    worker.end(claim, [failed], Status.FAILED)
    return house


def _renumber(place: MemoryTables) -> None:
    some = place.publications["bills"]
    some[2] = replace(some[2], number=7)


def _turn_back(place: MemoryTables) -> None:
    some = place.publications["bills"]
    some[3] = replace(some[3], at=some[3].at - 1)


def _forget_numbers(place: MemoryTables) -> None:
    place.topics["bills"] = 2, 0


def _by_one_that_failed(place: MemoryTables) -> None:
    some, failed = place.publications["bills"], place.publications[FAILURES_TOPIC][1].task
    some[3] = replace(some[3], task=failed)


def _by_one_that_is_done(place: MemoryTables) -> None:
    some, done = place.publications[FAILURES_TOPIC], place.publications["bills"][2].task
    some[1] = replace(some[1], task=done)


@pytest.mark.parametrize(
    ("tamper", "complaint"),
    [
        (_renumber, "number 3 of .* comes after number 7"),
        (_turn_back, "number 3 of .* comes after number 2"),
        (_forget_numbers, "its last number is 2, and it holds 1 to 3"),
        (_by_one_that_failed, "number 3 was published by task .*, which never ended so"),
        (_by_one_that_is_done, "number 1 was published by task .*, which never ended so"),
    ],
)
def test_what_is_wrong_with_a_topic_is_said(tamper: Tamper, complaint: str) -> None:
    place = MemoryTables()
    house = published(place)
    assert check(house.store) == []
    tamper(place)
    (found,) = check(house.store)
    assert re.search(f"^topic '.*': {complaint}", found), found
