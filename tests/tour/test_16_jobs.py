"""16. Jobs.

A job is a standalone task: enqueue it in a web request, say, and run it in a worker. `engine.enqueue` returns when the
job is stored, and returns a handle. The id of the job is all that another program needs.
"""

from __future__ import annotations

import pytest

from ramify import Backoff, Engine, JobFailed, JobState, Stream, current
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


@engine.task(backoff=Backoff(first=1))
def pay(order: str) -> None:
    current().enqueue(invoice.of(order, 40))
    if current().attempt == 1:
        raise ConnectionError("the bank is away")


def test_enqueue_here_and_run_elsewhere() -> None:
    """`engine.job(id)` makes a handle from an id, in any process."""
    with using(engine):
        job = engine.enqueue(invoice.of("o-17", 40))
        assert job.state is JobState.QUEUED
        with engine.working():
            assert engine.job(job.id).result(timeout=30) == 40


def test_unique_jobs_are_added_once() -> None:
    """`.unique(key)` returns the job that has this key. A finished job keeps its key and its result for a day."""
    with using(engine) as bench:
        first = engine.enqueue(invoice.of("o-17", 40).unique("o-17"))
        second = engine.enqueue(invoice.of("o-17", 40).unique("o-17"))
        assert (first.is_new, second.is_new, first == second) == (True, False, True)
        bench.drain()
        assert not engine.enqueue(invoice.of("o-17", 40).unique("o-17")).is_new
        assert engine.enqueue(invoice.of("o-17", 40).unique("o-17"), again=True).is_new


def test_a_failed_job_says_why() -> None:
    """`result()` raises `JobFailed`, with the traceback of the task."""
    with using(engine):
        job = engine.enqueue(invoice.of("o-18", -1))
        with pytest.raises(JobFailed, match="o-18 owes nothing"):
            job.result()
        assert job.retry("mended")


def test_a_job_can_wait_for_others() -> None:
    """`then=` adds a job that waits for a whole list of jobs and gets their results."""
    with using(engine):
        parts, total = engine.enqueue_many([invoice.of(f"o-{n}", n) for n in range(5)], then=closing.of())
        assert total.result() == 10
        assert all(job.state is JobState.DONE for job in parts)


def test_a_task_can_enqueue_jobs() -> None:
    """`current().enqueue` adds jobs with the end of the task: exactly if it ends as done, and once."""
    with using(engine) as bench:
        engine.enqueue(pay.of("o-17"))
        bench.drain(raising=False)
        assert not list(engine.jobs(kind=invoice))
        bench.advance(1)
        bench.drain()
        assert [job.result() for job in engine.jobs(kind=invoice)] == [40]


def test_a_job_can_expire() -> None:
    """A job that has not started in time is cancelled."""
    with using(engine) as bench:
        job = engine.enqueue(invoice.of("o-17", 40).expires(60))
        bench.advance(61)
        bench.drain()
        assert job.state is JobState.CANCELLED
