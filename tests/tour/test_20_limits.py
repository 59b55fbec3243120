"""20. Limits.

A limit holds for all processes of a store together: so many tasks at a time, so many starts in a while, in all or in
each lane. What is over it waits in the store, and takes no worker.
"""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from ramify import ConfigError, Defer, Engine, JobState, Tasks
from ramify.testing import using

engine = Engine("shop.db")

api = engine.limit("api", max_running=2)
host = engine.limit("host", max_running=1, per="lane")

inside: Counter[str] = Counter()
most: Counter[str] = Counter()
throttled = ["b.example"]


@engine.task(limit=[api, host], lane="at")
def fetch(at: str, page: int) -> str:
    for name in ("all", at):
        inside[name] += 1
        most[name] = max(most[name], inside[name])
    threading.Event().wait(0.002)
    inside.subtract(["all", at])
    return at


@engine.task(max_rate="10/s")
def report(page: int) -> int:
    return page


@engine.task(limit=host, lane="at")
def ask(at: str, page: int) -> str:
    if at in throttled:
        throttled.remove(at)
        raise Defer(60, "429", closes="lane")
    return at


@engine.task(queue="mail")
def send(to: str) -> str:
    return to


def test_tasks_that_share_a_limit_keep_to_it_together() -> None:
    """`limit=[api, host]`: two at a time in all, and one for each host, in whichever process and thread they run."""
    with using(engine), engine.working(threads=6):
        run = engine.start([fetch.of(at, page) for page in range(10) for at in ("a.example", "b.example")])
        run.wait(30)
        assert run.counts.done == 20
    assert most["all"] <= 2
    assert (most["a.example"], most["b.example"]) == (1, 1)


def test_a_rate_spreads_the_starts_of_all_processes_evenly() -> None:
    """`max_rate="10/s"` of a task is a limit with the name of the task."""
    with using(engine) as bench:
        jobs = engine.enqueue_many([report.of(page) for page in range(20)])
        bench.drain()
        assert sum(job.ended for job in jobs) <= 3
        bench.advance(0.1)
        bench.drain()
        assert sum(job.ended for job in jobs) <= 5
        bench.finish()
        assert {job.state for job in jobs} == {JobState.DONE}


def test_a_service_that_throttles_is_left_alone_by_all() -> None:
    """`Defer(60, closes="lane")` closes the lane of the task for every process. Other lanes continue."""
    with using(engine) as bench:
        jobs = [engine.enqueue(ask.of(at, page)) for at in ("a.example", "b.example") for page in range(3)]
        bench.drain()
        assert [job.state for job in jobs] == [JobState.DONE] * 3 + [JobState.QUEUED] * 3
        bench.advance(60)
        bench.drain()
        assert {job.state for job in jobs} == {JobState.DONE}


def test_a_queue_has_a_limit_too() -> None:
    """`engine.queue("mail", max_running=1)` bounds every task of the queue, whatever its kind."""
    engine.queue("mail", max_running=1)
    with using(engine), engine.working(threads=4):
        jobs = engine.enqueue_many([send.of(str(number)) for number in range(5)])
        assert [job.result(30) for job in jobs] == ["0", "1", "2", "3", "4"]


def test_a_name_means_one_limit() -> None:
    """Two limits of one name that differ are refused where the second one is made or included."""
    other = Tasks()
    other.limit("api", max_running=9)
    with pytest.raises(ConfigError, match="two limits are called 'api': max_running=2 and max_running=9"):
        engine.include(other)
