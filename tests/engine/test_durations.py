"""A length of time is seconds or a timedelta, wherever somebody gives one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from ramify import Backoff, Defer, Engine, Rate, steps
from ramify.model.policy import microseconds_in, seconds_in
from ramify.shapes.bounds import Bounds

MINUTE = timedelta(minutes=1)
engine = Engine("memory:")


@engine.task
def work(n: int = 0) -> int:
    """Do nothing."""
    return n


@engine.task(timeout=MINUTE, keep=MINUTE)
def limited() -> None:
    """Has its times as timedeltas."""


WAYS: dict[str, Callable[[Any], Any]] = {
    "delay": lambda length: work.of().delay(length),
    "expires": lambda length: work.of().expires(length),
    "timeout": lambda length: work.of().timeout(length),
    "unique": lambda length: work.of().unique("k", keep=length),
    "poll": lambda length: work.of().poll(length, timeout=length),
    "defer": lambda length: Defer(length).seconds,
    "backoff": lambda length: Backoff(first=length, cap=length).longest(1),
    "rate": lambda length: Rate((3, length)).seconds,
    "deadline": lambda length: Bounds(deadline=length).moment(0),
    "gate": lambda length: steps(work).gate("ask", bool, timeout=length)._verbs,
    "sleep": lambda length: steps(work).sleep(length)._verbs,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_timedelta_means_the_same_as_its_seconds(way: Callable[[Any], Any]) -> None:
    assert repr(way(MINUTE)) == repr(way(60)) == repr(way(60.0))


def test_options_of_a_task_take_both() -> None:
    assert (limited.handler.policy.timeout, limited.keep) == (60.0, 60.0)


def test_waits_and_ages_take_both() -> None:
    job = engine.enqueue(work.of())
    tenth = timedelta(milliseconds=1)
    assert not job.wait(tenth)
    with pytest.raises(TimeoutError, match=r"not ended after 0\.001 seconds"):
        job.result(tenth)
    run = engine.queue("default").run
    assert run is not None
    assert not run.wait(tenth)
    for age in (3600, timedelta(hours=1)):
        assert list(engine.jobs(newer=age)) == [job]
        assert list(engine.jobs(older=age)) == []
        assert run.forget(older=age) == 0
    engine.close()


@pytest.mark.parametrize("given", [True, "60", None, float("nan"), 3j])
def test_what_is_no_length_of_time_is_none(given: object) -> None:
    assert (seconds_in(given), microseconds_in(given)) == (None, None)


def test_a_time_for_ever_or_before_now_is_none_that_the_store_can_count() -> None:
    assert [microseconds_in(given) for given in (float("inf"), -1, timedelta(seconds=-1))] == [None] * 3
    assert microseconds_in(timedelta(microseconds=1)) == 1
