"""21. Operations that wait.

A job creates something, and requests to change it arrive meanwhile. `engine.job_for` finds the job by its key, and
`enqueue(..., after=job)` adds the change behind it: it starts when the job is done, in order with all the others.
"""

from __future__ import annotations

import pytest

from ramify import ConfigError, Engine, JobCancelled, JobState
from ramify.testing import using

engine = Engine("notes.db")

notes: dict[str, list[str]] = {}


@engine.task(retries=0)
def create(id: str) -> str:
    if not id.isalpha():
        raise ValueError(f"{id!r} is no name")
    notes[id] = []
    return id


@engine.task(retries=0)
def add(id: str, text: str) -> int:
    if not text:
        raise ValueError("an empty line")
    notes[id].append(text)
    return len(notes[id])


def test_an_operation_starts_when_the_creation_is_done() -> None:
    """`job_for(create, key)` returns the unfinished job that holds `.unique(key)`, in whichever program."""
    with using(engine) as bench:
        engine.enqueue(create.of("ann").unique("ann").delay(60))
        change = engine.enqueue(add.of("ann", "hello"), after=engine.job_for(create, "ann"))
        bench.drain()
        assert change.state is JobState.QUEUED
        bench.advance(60)
        bench.drain()
        assert change.result() == 1


def test_without_an_unfinished_creation_it_starts_at_once() -> None:
    """`job_for` returns None, and `after=None` waits for nothing."""
    with using(engine) as bench:
        notes["bob"] = []
        assert engine.job_for(create, "bob") is None
        change = engine.enqueue(add.of("bob", "hello"), after=engine.job_for(create, "bob"))
        bench.drain()
        assert change.result() == 1


def test_operations_start_in_order_and_each_outcome_is_its_own() -> None:
    """The second one fails. The third one starts after it all the same."""
    with using(engine) as bench:
        job = engine.enqueue(create.of("ann").unique("ann"))
        changes = [engine.enqueue(add.of("ann", text), after=job) for text in ("one", "", "two")]
        bench.drain(raising=False)
        assert notes["ann"] == ["one", "two"]
        assert [each.state for each in changes] == [JobState.DONE, JobState.FAILED, JobState.DONE]


def test_operations_behind_a_creation_that_failed_are_cancelled() -> None:
    """They say why. After `job.retry()`, they wait again."""
    with using(engine) as bench:
        job = engine.enqueue(create.of("b/b").unique("b/b"))
        change = engine.enqueue(add.of("b/b", "hello"), after=job)
        bench.drain(raising=False)
        with pytest.raises(JobCancelled, match="the job it waited for failed"):
            change.result()
        assert job.retry()
        assert change.state is JobState.QUEUED


def test_a_creation_that_ended_meanwhile_still_decides() -> None:
    """The job may end between `job_for` and `enqueue`: the store looks at it when it adds the operation."""
    with using(engine) as bench:
        job = engine.enqueue(create.of("c/c").unique("c/c"))
        bench.drain(raising=False)
        change = engine.enqueue(add.of("c/c", "hello"), after=job)
        bench.drain()
        assert change.state is JobState.CANCELLED


def test_what_is_no_job_is_refused() -> None:
    """The error says what to write."""
    with using(engine), pytest.raises(ConfigError, match=r"expected a job, got a call of create\. Enqueue it first"):
        engine.enqueue(add.of("ann", "hello"), after=create.of("ann"))  # type: ignore[arg-type]
