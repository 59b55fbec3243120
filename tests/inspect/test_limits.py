"""Limits as people see them: how full each is, who fills it, who waits, and when the next place opens."""

from __future__ import annotations

import pytest

from ramify.inspect.health import health_of
from ramify.inspect.left import left_in_words
from ramify.inspect.limits import limit_in_words, place_in_the_way, rate_in_words, statuses_of
from ramify.inspect.status import Phase, status_of, waits_in_words
from ramify.inspect.why import Cause, why
from ramify.model.commit import Later
from ramify.model.event import Status
from ramify.model.limit import LIMITS, Limit, Numbers, Pace, SetLimit, StoredLimit, write_limit
from ramify.model.policy import SECOND
from ramify.model.value import Swap
from ramify.testing.conformance import House


def limit(house: House, name: str, numbers: Numbers, *, per_lane: bool = False, kind: str = "walk") -> None:
    """Let a limit be in the store."""
    worker = house.worker()
    stored = StoredLimit(Limit(name, numbers, per_lane, (kind,)), "version 1")
    version = house.store.reserve(1)
    assert worker.store.swap(worker.stamp(), [Swap(LIMITS, name, 0, version, write_limit(stored))])
    worker.store.leave(worker.process)


def test_a_store_without_limits_has_nothing_to_say(house: House) -> None:
    tasks = house.tasks()
    house.run(tasks)
    house.worker()
    assert statuses_of(house.store) == []
    assert health_of(house.store).limits == []
    assert why(house.store, tasks.first).cause is Cause.READY


def test_a_full_limit_names_who_holds_it_wherever_it_is_in_the_way(house: House) -> None:
    limit(house, "api", Numbers(3))
    tasks = house.tasks(10)
    run = house.run(tasks)
    one, other = house.worker(), house.worker()
    one.take(1)
    other.take(5)
    assert one.claim() == ()
    text = f"limit api is full (3 of 3), held by process {other.process:x}"
    found = why(house.store, tasks.first + 9)
    assert found.cause is Cause.LIMIT
    assert found.text.startswith(text)
    assert " with 2, process " in found.text
    status = status_of(house.store, run)
    assert (status.live.run.limited, status.phase) == (7, Phase.RUNNING)
    assert [each.text for each in status.limits] == [found.text]
    assert "7 limited" in (waits_in_words(status) or "")
    (full,) = health_of(house.store).limits
    assert (full.limit, full.running, full.max_running, full.text) == ("api", 3, 3, found.text)
    assert health_of(house.store).healthy
    (stands,) = statuses_of(house.store)
    assert (stands.running, stands.waiting) == ({one.process: 1, other.process: 2}, 7)
    assert "7 tasks waiting for a place of a limit" in left_in_words(house.store)


def test_a_task_that_no_claim_has_met_yet_is_told_of_a_full_limit_too(house: House) -> None:
    limit(house, "api", Numbers(1))
    tasks = house.tasks(2)
    house.run(tasks)
    house.worker().take(1)
    assert why(house.store, tasks.first + 1).text.startswith("limit api is full (1 of 1), held by process ")


def test_a_limit_that_is_shut_says_when_it_opens(house: House) -> None:
    limit(house, "api", Numbers(pace=Pace(1, 60 * SECOND)))
    tasks = house.tasks(5)
    run = house.run(tasks)
    worker = house.worker()
    worker.done(worker.take(1))
    assert worker.claim() == ()
    found = why(house.store, tasks.first + 1)
    assert (found.cause, found.text) == (Cause.LIMIT, "limit api opens in 59 s")
    assert found.until == house.store.now() + 60 * SECOND - SECOND // 10
    (shut,) = health_of(house.store).limits
    assert (shut.text, shut.opens_in) == (found.text, 59.9)
    (stands,) = statuses_of(house.store)
    assert stands.opens == found.until
    assert status_of(house.store, run).live.run.later == 4, "the head of the line is due then"


def test_a_lane_that_is_full_is_named(house: House) -> None:
    limit(house, "host", Numbers(1), per_lane=True)
    a, b = house.tasks(3, lane="a"), house.tasks(3, lane="b")
    house.run(a, b)
    worker = house.worker()
    assert len(worker.claim()) == 2
    assert worker.claim() == ()
    found = why(house.store, b.first + 1)
    assert found.text.startswith("limit host in lane b is full (1 of 1), held by process ")
    (full,) = health_of(house.store).limits
    assert full.text.startswith("limit host is full in 2 lanes (1 each), held by process ")
    assert full.full_lanes == 2


def test_a_lane_that_was_closed_is_told_and_the_others_are_not(house: House) -> None:
    limit(house, "host", Numbers(1), per_lane=True)
    a, b = house.tasks(2, lane="a"), house.tasks(2, lane="b")
    house.run(a, b)
    worker = house.worker()
    first = next(claim for claim in worker.claim() if claim.lane == "a")
    due = house.store.now() + 30 * SECOND
    worker.end(first, status=Status.DEFERRED, later=[Later(first.tasks, due, closes="lane")])
    assert worker.claim() == ()
    assert why(house.store, a.first + 1).text == "limit host in lane a opens in 30 s"
    assert "is full (1 of 1)" in why(house.store, b.first + 1).text
    (stands,) = statuses_of(house.store)
    assert stands.opens == due


def test_a_place_with_room_is_in_nobodys_way(house: House) -> None:
    limit(house, "api", Numbers(2))
    tasks = house.tasks(2)
    house.run(tasks)
    worker = house.worker()
    worker.take(1)
    row = house.store.reads.segment(tasks.first + 1)
    assert row is not None
    assert place_in_the_way(house.store, row) is None
    assert why(house.store, tasks.first + 1).cause is Cause.READY


@pytest.mark.parametrize(
    ("pace", "words"),
    [
        (Pace(100, 60 * SECOND), "100/m"),
        (Pace(3, SECOND // 2), "3/0.5s"),
        (Pace(10, SECOND, 20), "10/s and 20 at once"),
        (Pace(5, 2 * 86_400 * SECOND), "5/172800s"),
    ],
)
def test_rates_in_words(pace: Pace, words: str) -> None:
    assert rate_in_words(pace) == words


def test_limits_in_words() -> None:
    declared = Limit("api", Numbers(5, Pace(100, 60 * SECOND)), True, ("scan",))
    assert limit_in_words(StoredLimit(declared)) == "at most 5 running, at most 100/m starting, per lane"
    lifted = SetLimit(Numbers(), "ann", "", 0)
    assert limit_in_words(StoredLimit(declared, fixed=lifted)) == "no bound, per lane"
