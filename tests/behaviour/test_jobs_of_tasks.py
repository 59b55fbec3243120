"""Jobs that tasks enqueue: they are in their queues exactly if the task ends as done, once, on every store."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from msgspec import json

from ramify import BadPayload, Fatal, JobState, QueueFull, RunState, current
from ramify.kernel.tuning import PIECE
from ramify.model.event import Status
from ramify.model.run import StoredRun
from ramify.testing import oracle
from ramify.testing.attempt import attempt
from ramify.testing.using import Workbench
from tests.behaviour.office import acts, engine, late, letter, memo, post, trace


@pytest.fixture(autouse=True)
def nothing_contradicts_itself(bench: Workbench) -> Iterator[None]:
    """Whatever a test did, the log is whole."""
    yield
    assert oracle.check(engine._runtime.store) == []


def _queue(name: str) -> StoredRun:
    found = engine._runtime.store.reads.find_run(f"jobs/{name}")
    assert found is not None
    return found


def _in_queue(name: str) -> list[str]:
    rows = engine._runtime.store.reads.tasks(_queue(name).id).rows
    return [json.decode(row.body)[0] for row in rows]


def test_a_task_enqueues_jobs_into_their_queues(bench: Workbench) -> None:
    acts["ann"] = lambda: current().enqueue(post.of("one"), [post.of("two"), letter.of("three")])
    run = engine.run(letter.of("ann"), name="writing")
    bench.drain()
    assert (run.state, run.counts.done) == (RunState.DONE, 1)
    assert sorted(trace) == ["ann", "one", "three", "two"]
    assert (sorted(_in_queue("mail")), _in_queue("default")) == (["one", "two"], ["three"])
    assert {job.state for job in engine.jobs()} == {JobState.DONE}


def test_a_task_that_fails_enqueues_nothing(bench: Workbench) -> None:
    def fail() -> None:
        current().enqueue(post.of("never"))
        raise Fatal("no ink")

    acts["ann"] = fail
    job = engine.enqueue(letter.of("ann"))
    bench.drain(raising=False)
    assert (job.state, trace) == (JobState.FAILED, ["ann"])
    assert engine._runtime.store.reads.find_run("jobs/mail") is None


def test_of_tasks_that_run_one_after_the_other_each_enqueues_its_own_jobs(bench: Workbench) -> None:
    """Tasks that are this quick come to a worker many at a time."""

    def write(number: int) -> None:
        current().enqueue(post.of(f"{number}"))
        if number % 2:
            raise Fatal("no ink")

    acts.update({f"{number}": partial(write, number) for number in range(200)})
    engine.enqueue_many([letter.of(f"{number}") for number in range(200)])
    bench.drain(raising=False)
    assert sorted(map(int, _in_queue("mail"))) == list(range(0, 200, 2))


def test_each_attempt_begins_with_no_jobs(bench: Workbench) -> None:
    def fail() -> None:
        current().enqueue(post.of("first try"))
        raise ConnectionError("no ink")

    acts["ann"] = fail
    job = engine.enqueue(letter.of("ann"))
    bench.drain(raising=False)
    acts["ann"] = lambda: current().enqueue(post.of("second try"))
    bench.advance(300)
    bench.drain(raising=False)
    assert (job.state, _in_queue("mail")) == (JobState.DONE, ["second try"])


def test_a_job_of_a_task_whose_key_is_taken_is_dropped(bench: Workbench) -> None:
    first = engine.enqueue(memo.of("here").unique("m"))
    acts["ann"] = lambda: current().enqueue(memo.of("there").unique("m"))
    engine.enqueue(letter.of("ann"))
    bench.drain()
    assert first.state is JobState.DONE
    assert sorted(trace) == ["ann", "here"]


def test_the_result_of_such_a_job_holds_its_key_as_long_as_its_task_says(bench: Workbench) -> None:
    acts["ann"] = lambda: current().enqueue(memo.of("there").unique("m"))
    engine.enqueue(letter.of("ann"))
    bench.drain()
    assert not engine.enqueue(memo.of("again").unique("m")).is_new
    bench.advance(61)
    assert engine.enqueue(memo.of("again").unique("m")).is_new


def test_a_cancelled_queue_goes_on_with_such_a_job_as_its_next_generation(bench: Workbench) -> None:
    gone = engine.enqueue(post.of("gone"))
    engine._runtime.store.cancel(_queue("mail").id)
    acts["ann"] = lambda: current().enqueue(post.of("kept"))
    engine.enqueue(letter.of("ann"))
    bench.drain()
    assert (gone.state, _queue("mail").generation) == (JobState.CANCELLED, 2)
    assert sorted(trace) == ["ann", "kept"]


def test_such_a_job_may_wait_has_no_parent_and_inherits_headers(bench: Workbench) -> None:
    acts["ann"] = lambda: current().enqueue(post.of("late").delay(60))
    engine.enqueue(letter.of("ann").headers(tenant="acme"))
    bench.drain()
    (job,) = engine.jobs(queue="mail")
    row = engine._runtime.store.reads.task(job.id)
    assert row is not None
    assert (job.state, row.parent, job.headers) == (JobState.QUEUED, None, {"tenant": "acme"})
    bench.advance(61)
    bench.drain()
    assert trace == ["ann", "late"]


def test_a_cancel_of_the_task_and_its_descendants_leaves_such_a_job(bench: Workbench) -> None:
    acts["ann"] = lambda: current().enqueue(post.of("kept").delay(60))
    run = engine.run(letter.of("ann"), name="writing")
    run.cancel()
    (job,) = engine.jobs(queue="mail")
    assert job.state is JobState.QUEUED


def test_very_many_jobs_of_one_task_are_there_together(bench: Workbench) -> None:
    acts["ann"] = lambda: current().enqueue(post.of(str(n)) for n in range(PIECE + 5))
    engine.enqueue(letter.of("ann"))
    bench.drain()
    assert len(trace) == PIECE + 6


def test_a_full_queue_fails_the_attempt(bench: Workbench) -> None:
    engine.queue("mail", max_pending=1)
    engine.enqueue(post.of("here").delay(600))
    acts["ann"] = lambda: current().enqueue(post.of("there"))
    job = engine.enqueue(letter.of("ann"))
    bench.drain(raising=False)
    engine.queue("mail", max_pending=None)
    assert (job.state, _in_queue("mail")) == (JobState.QUEUED, ["here"])
    (event,) = engine._runtime.store.reads.events(job.id, job.id)
    assert event.status is Status.RETRYING
    assert QueueFull.__name__.encode() in (event.value or b"")


def test_what_is_no_call_is_refused(bench: Workbench) -> None:
    said: list[str] = []

    def wrong() -> None:
        with pytest.raises(BadPayload) as refused:
            current().enqueue("ann")  # type: ignore[arg-type]
        said.append(str(refused.value))

    acts["ann"] = wrong
    engine.enqueue(letter.of("ann"))
    bench.drain()
    assert said[0].startswith("enqueue(): expected calls, got 'ann' (a str).")


def test_an_attempt_in_a_test_tells_what_it_would_enqueue() -> None:
    acts["ann"] = lambda: current().enqueue(post.of("one"), late.of("two"))
    assert attempt(letter.of("ann")).jobs == [post.of("one"), late.of("two")]
