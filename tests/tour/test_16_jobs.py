"""16. Jobs.

A job is a task that stands for itself: enqueued from a web request, say, and done by a worker. `engine.enqueue` returns
when the job is in the store, and gives a handle; its id is all that another program needs.
"""

from __future__ import annotations

import pytest

from ramify import Engine, JobFailed, JobState, Stream
from ramify.testing import using

engine = Engine("shop.db")


@engine.task(retries=0)
def invoice(order: str, amount: int) -> int:
    if amount < 0:
        raise ValueError(f"{order} owes nothing")
    return amount


@engine.task
def closing(amounts: Stream[int] = Stream()) -> int:
    return sum(amounts)


def test_a_job_is_enqueued_here_and_done_elsewhere() -> None:
    with using(engine):
        job = engine.enqueue(invoice.of("o-17", 40))
        assert job.state is JobState.QUEUED
        with engine.working():
            assert engine.job(job.id).result(timeout=30) == 40


def test_a_job_that_is_there_is_not_added_twice() -> None:
    with using(engine) as bench:
        first = engine.enqueue(invoice.of("o-17", 40).unique("o-17"))
        second = engine.enqueue(invoice.of("o-17", 40).unique("o-17"))
        assert (first.is_new, second.is_new, first == second) == (True, False, True)
        bench.drain()
        # Its result is kept for a day, and its key with it.
        assert not engine.enqueue(invoice.of("o-17", 40).unique("o-17")).is_new
        assert engine.enqueue(invoice.of("o-17", 40).unique("o-17"), again=True).is_new


def test_a_job_that_failed_tells_why_and_can_be_tried_again() -> None:
    with using(engine):
        job = engine.enqueue(invoice.of("o-18", -1))
        with pytest.raises(JobFailed, match="o-18 owes nothing"):
            job.result()
        assert job.retry("mended")


def test_a_job_follows_others() -> None:
    with using(engine):
        parts, total = engine.enqueue_many([invoice.of(f"o-{n}", n) for n in range(5)], then=closing.of())
        assert total.result() == 10
        assert all(job.state is JobState.DONE for job in parts)


def test_what_was_not_begun_in_time_is_not_begun_at_all() -> None:
    with using(engine) as bench:
        job = engine.enqueue(invoice.of("o-17", 40).expires(60))
        bench.advance(61)
        bench.drain()
        assert job.state is JobState.CANCELLED
