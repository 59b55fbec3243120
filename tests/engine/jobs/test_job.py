"""The handle of a job: what it tells, what it can be told, and how it is waited for."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from ramify import (
    BadPayload,
    ConfigError,
    Engine,
    Job,
    JobCancelled,
    JobFailed,
    JobState,
    Settled,
    Stream,
    Tasks,
    current,
)
from ramify.testing import using
from tests.engine.conftest import Make

here = Tasks()
BEGAN, GO = threading.Event(), threading.Event()
BAD: set[int] = set()


@here.task
def add(a: int, b: int = 1) -> int:
    return a + b


@here.task(retries=0)
def check(n: int) -> int:
    if n in BAD:
        raise ValueError(f"{n} is bad")
    return n


@here.task
def hold() -> str:
    BEGAN.set()
    assert GO.wait(30)
    return "let go"


@here.task
async def until_cancelled() -> None:
    BEGAN.set()
    await asyncio.Event().wait()


@here.task
def steps() -> None:
    for done in (1, 2):
        current().progress(done, 2, "pages")


@here.task
def total(parts: Stream[int] = Stream()) -> int:
    return sum(parts)


@here.task
def cleaned() -> str:
    return "cleaned"


@pytest.fixture
def engine(make: Make) -> Engine:
    BEGAN.clear()
    GO.clear()
    BAD.clear()
    return make(here)


def test_a_job_tells_what_it_is_from_anywhere(engine: Engine) -> None:
    job = engine.enqueue(add.of(1, b=2).key("k").headers(tenant="acme").queue("mail"))
    other = engine.job(job.id)
    assert (other.kind, other.key, other.queue, other.headers) == ("add", "k", "mail", {"tenant": "acme"})
    assert (job.is_new, other.is_new, other == job, hash(other) == hash(job)) == (True, False, True, True)
    assert repr(job) == f"<job {job.id}: queued>"
    assert (job.state, job.error, job.progress, job.ended) == (JobState.QUEUED, None, None, False)
    with engine.working(threads=1):
        assert job.result(30) == 3
    assert (job.state, job.error, job.ended) == (JobState.DONE, None, True)


@pytest.mark.parametrize("id", [1, 0, -5, 10**6, 2**62, 2**70])
def test_a_job_that_is_not_there_is_not_found_and_no_error(engine: Engine, id: int) -> None:
    job = engine.job(id)
    assert job.state is JobState.NOT_FOUND
    assert (job.kind, job.key, job.queue, job.headers, job.error, job.progress) == (None, None, None, {}, None, None)
    assert job.wait(0)
    assert (job.cancel(), job.retry()) == (Settled.UNKNOWN, False)
    with pytest.raises(LookupError, match=f"no job {id}"):
        job.result()


@pytest.mark.parametrize("id", [0, -5, 10**6, 2**62, 2**63, -(2**70)])
def test_a_job_that_is_not_there_tells_nothing(engine: Engine, id: int) -> None:
    job = engine.job(id)
    assert (job.state, job.attempts) == (JobState.NOT_FOUND, 0)
    assert {job.worker, job.traceback, job.enqueued_at, job.started_at, job.ended_at} == {None}


@pytest.mark.parametrize("id", [0, -5, 10**6, 2**62, 2**63, -(2**70)])
def test_nothing_follows_a_job_that_is_not_there(engine: Engine, id: int) -> None:
    with pytest.raises(BadPayload, match=f"task {id} is not in the log"):
        engine.job(id).then(total.of())


@pytest.mark.parametrize("id", ["5", None, 5.0, True])
def test_what_is_no_id_is_refused(engine: Engine, id: int) -> None:
    with pytest.raises(ConfigError, match="expected the id of a task"):
        engine.job(id)


def test_a_result_that_does_not_come_in_time_is_a_time_out(engine: Engine) -> None:
    job = engine.enqueue(add.of(1))
    with pytest.raises(TimeoutError, match=r"has not ended after 0\.01 seconds; it continues"):
        job.result(0.01)
    assert not job.wait(0)


@pytest.mark.parametrize("timeout", ["x", True, float("nan")])
def test_what_is_no_time_to_wait_is_refused(engine: Engine, timeout: Any) -> None:
    job = engine.enqueue(add.of(1))
    for wait in (job.result, job.wait):
        with pytest.raises(ConfigError, match=r"timeout=.*expected seconds"):
            wait(timeout)


def test_a_job_that_failed_raises_and_is_tried_again(engine: Engine) -> None:
    BAD.add(7)
    job = engine.enqueue(check.of(7))
    with engine.working(threads=1):
        with pytest.raises(JobFailed, match="ValueError: 7 is bad") as told:
            job.result(30)
        error = job.error
        assert error is not None
        assert (told.value.error, error.failure.type) == (error, "ValueError")
        assert error.traceback in str(told.value.__cause__), (
            "what is printed of the exception shows where it was raised"
        )
        assert error.traceback.endswith('in check\n    raise ValueError(f"{n} is bad")\nValueError: 7 is bad\n')
        BAD.clear()
        assert job.retry("mended")
        assert job.result(30) == 7
        assert job.error is None
        assert job.retry(), "also one that was done"
        assert job.result(30) == 7


def test_a_job_whose_key_another_one_has_now_is_not_tried_again(engine: Engine) -> None:
    BAD.add(7)
    job = engine.enqueue(check.of(7).unique("k"))
    with engine.working(threads=1):
        assert job.wait(30)
    other = engine.enqueue(check.of(8).unique("k"))
    assert other.is_new
    with pytest.raises(ConfigError, match=f"job {other.id} has its key now"):
        job.retry()


def test_a_queued_job_is_cancelled_for_certain(engine: Engine) -> None:
    job = engine.enqueue(add.of(1))
    assert job.cancel("changed my mind", by="ann") is Settled.CERTAIN
    assert job.state is JobState.CANCELLED
    with pytest.raises(JobCancelled, match="changed my mind"):
        job.result()
    assert job.cancel() is Settled.ENDED


def test_a_running_job_is_asked_to_stop_and_may_end_first(engine: Engine) -> None:
    job = engine.enqueue(hold.of())
    with engine.working(threads=1):
        assert BEGAN.wait(30)
        assert job.state is JobState.RUNNING
        assert not job.retry()
        assert job.cancel() is Settled.REQUESTED
        GO.set()
        assert job.wait(30)


def test_a_running_coroutine_is_cancelled(engine: Engine) -> None:
    job = engine.enqueue(until_cancelled.of())
    with engine.working():
        assert BEGAN.wait(30)
        assert job.cancel("enough") is Settled.REQUESTED
        with pytest.raises(JobCancelled, match="enough"):
            job.result(30)


def test_a_job_can_be_awaited(engine: Engine) -> None:
    async def both() -> list[int]:
        async with engine.working(threads=1):
            jobs = [await engine.aenqueue(add.of(n)) for n in range(3)]
            return [await job for job in jobs]

    assert asyncio.run(both()) == [1, 2, 3]


def test_the_last_progress_counts(engine: Engine) -> None:
    job = engine.enqueue(steps.of())
    with engine.working(threads=1):
        assert job.wait(30)
    assert job.progress is not None
    assert job.progress.text == "2 of 2 pages"


def test_a_job_that_has_ended_shows_what_it_said_last_of_its_progress(engine: Engine) -> None:
    with engine.working(threads=1):
        # Several, for what is not written with their end may be written just then.
        for _ in range(5):
            job = engine.enqueue(steps.of())
            assert job.wait(30)
            assert job.progress is not None
            assert job.progress.text == "2 of 2 pages"


def test_what_follows_a_job_begins_when_it_was_done(engine: Engine) -> None:
    job = engine.enqueue(check.of(5))
    after, later = job.then(total.of()), job.then(cleaned.of().delay(0.001))
    assert (after.is_new, after.state) == (True, JobState.QUEUED)
    with engine.working(threads=1):
        assert (after.result(30), later.result(30)) == (5, "cleaned")
        assert job.then(total.of()).result(30) == 5, "also when it is over already"
        assert after.then(total.of()).result(30) == 5


def test_what_follows_a_job_that_failed_is_cancelled_unless_it_always_runs(engine: Engine) -> None:
    BAD.add(5)
    job = engine.enqueue(check.of(5))
    after, always = job.then(total.of()), job.then(cleaned.of().always())
    with engine.working(threads=1):
        with pytest.raises(JobCancelled, match="did not end well"):
            after.result(30)
        assert always.result(30) == "cleaned"
        BAD.clear()
        assert job.retry()
        assert after.result(30) == 5, "it runs once what it follows is done after all"


def test_what_is_wrong_with_a_call_is_told_where_it_is_made() -> None:
    for seconds in (0, -1, float("nan")):
        with pytest.raises(BadPayload, match="expires"):
            add.of(1).expires(seconds)
    with pytest.raises(BadPayload, match="Give text that is not empty"):
        add.of(1).unique("")
    assert repr(add.of(1, 2).unique("k", keep=60).expires(5)) == "add(1, 2).unique('k', keep=60).expires(5)"


def test_a_key_without_a_text_is_that_of_the_arguments(engine: Engine) -> None:
    job = engine.enqueue(add.of(1, 2).unique())
    assert engine.enqueue(add.of(1, b=2).unique()) == job
    assert engine.enqueue(add.of(1, 3).unique()) != job


def test_the_key_of_a_job_is_kept_as_long_as_its_result() -> None:
    engine = Engine("memory:", include=[here])
    with using(engine) as bench:
        job = engine.enqueue(add.of(1).unique("k"))
        short = engine.enqueue(add.of(1).unique("s", keep=0))
        bench.drain()
        assert job.state is short.state is JobState.DONE
        assert not engine.enqueue(add.of(1).unique("k")).is_new
        assert engine.enqueue(add.of(1).unique("s", keep=0)).is_new
        bench.advance(86_399)
        assert not engine.enqueue(add.of(1).unique("k")).is_new
        bench.advance(2)
        assert engine.enqueue(add.of(1).unique("k")).is_new


def test_in_a_test_waiting_for_a_job_does_its_work() -> None:
    engine = Engine("memory:", include=[here])
    with using(engine) as bench:
        job: Job[int] = engine.enqueue(add.of(1))
        bench.assert_enqueued(add.of(1), times=1)
        assert job.result() == 2
        bench.refute_enqueued(add)


def test_in_a_test_waiting_for_a_job_goes_no_further_than_to_its_end() -> None:
    engine = Engine("memory:", include=[here])
    with using(engine) as bench:
        began = bench.now
        late, soon = engine.enqueue(add.of(1).delay(3_600)), engine.enqueue(add.of(2).delay(60))
        assert soon.result() == 3
        assert (bench.now - began).total_seconds() == pytest.approx(60, abs=1)
        assert late.state is JobState.QUEUED
        engine.queue("default").run.pause()  # type: ignore[union-attr]
        with pytest.raises(ConfigError, match="cannot end"):
            late.result()
