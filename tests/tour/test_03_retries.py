"""3. Retries.

A task that raises an exception is retried, by default three times. Each attempt is recorded before the next one starts,
and a failure never stops the rest of the run.
"""

from __future__ import annotations

import pytest

from ramify import Backoff, Defer, Engine, Fatal, RunFailed, RunState, current

engine = Engine("retries.db")

AT_ONCE = Backoff(first=0)  # the default waits up to 1, 2 and 4 s, at random


@engine.task(retries=2, backoff=AT_ONCE)
def flaky(good_at: int) -> int:
    if current().attempt < good_at:
        raise ConnectionError("no answer")
    return current().attempt


def test_a_task_is_retried() -> None:
    """This task succeeds at its third attempt."""
    run = engine.run(flaky.of(3))
    assert list(run.results()) == [3]
    assert run.counts.retries == 2


def test_a_task_fails_after_its_last_retry() -> None:
    """`run.errors()` lists the failures with their arguments and tracebacks."""
    run = engine.run(flaky.of(4))
    assert run.state is RunState.FAILED
    (error,) = run.errors()
    assert (error.kind, error.arguments, error.failure.type) == ("flaky", (4,), "ConnectionError")
    with pytest.raises(RunFailed, match="no answer"):
        list(run.results())


def test_a_call_can_have_its_own_number_of_retries() -> None:
    """Options of a task are defaults. A call can override them."""
    assert list(engine.run(flaky.of(4).retries(3)).results()) == [4]


@engine.task(give_up_on=FileNotFoundError, backoff=AT_ONCE)
def read(path: str) -> str:
    with open(path) as file:
        return file.read()


@engine.task
def check(age: int) -> None:
    if age < 0:
        raise Fatal("nobody is younger than nothing")


def test_some_failures_are_final() -> None:
    """`give_up_on` names exceptions that are not worth a retry. `raise Fatal(...)` fails a task at once."""
    run = engine.run([read.of("nowhere"), check.of(-1)])
    assert run.counts.failed == 2
    assert run.counts.retries == 0


calls = 0


@engine.task(retries=0)
def wait_for_it() -> str:
    global calls
    calls += 1
    if calls < 3:
        raise Defer(0.01)  # not now: this uses up no attempt
    return f"attempt {current().attempt}, call {calls}"


def test_a_task_can_postpone_itself() -> None:
    """`raise Defer(seconds)` runs the task again later, without using up an attempt. No worker waits meanwhile."""
    assert list(engine.run(wait_for_it.of()).results()) == ["attempt 1, call 3"]


def test_retry_only_the_failed_tasks() -> None:
    """Fix the cause, then call `run.retry()`, or type `ramify retry post --failed`. The failed tasks run again;
    finished ones do not.
    """
    run = engine.run(read.of("letter"), name="post")
    with open("letter", "w") as file:
        file.write("dear all")
    run.retry()
    assert list(engine.run(read.of("letter"), name="post").results()) == ["dear all"]
