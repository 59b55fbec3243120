"""3. Retries.

A task that raises is tried again: three more times, unless it says otherwise. Each attempt is recorded before the next
one begins, and a failure never stops the rest of the run.
"""

from __future__ import annotations

import pytest

from ramify import Backoff, Defer, Engine, Fatal, RunFailed, RunState, current

engine = Engine("retries.db")

AT_ONCE = Backoff(first=0)  # the default waits a second, then two, then four, each cut by chance


@engine.task(retries=2, backoff=AT_ONCE)
def flaky(good_at: int) -> int:
    if current().attempt < good_at:
        raise ConnectionError("no answer")
    return current().attempt


def test_a_task_is_tried_again() -> None:
    run = engine.run(flaky.of(3))
    assert list(run.results()) == [3]
    assert run.counts.retries == 2


def test_and_fails_when_its_retries_are_used_up() -> None:
    run = engine.run(flaky.of(4))
    assert run.state is RunState.FAILED
    (error,) = run.errors()
    assert (error.kind, error.arguments, error.failure.type) == ("flaky", (4,), "ConnectionError")
    with pytest.raises(RunFailed, match="no answer"):
        list(run.results())


def test_a_call_may_have_a_budget_of_its_own() -> None:
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
    run = engine.run([read.of("nowhere"), check.of(-1)])
    assert run.counts.failed == 2
    assert run.counts.retries == 0


calls = 0


@engine.task(retries=0)
def wait_for_it() -> str:
    global calls
    calls += 1
    if calls < 3:
        raise Defer(0.01)  # not now; this is no failure and uses up no attempt
    return f"attempt {current().attempt}, call {calls}"


def test_a_task_may_put_itself_off() -> None:
    assert list(engine.run(wait_for_it.of()).results()) == ["attempt 1, call 3"]


def test_what_failed_can_be_tried_again_when_the_cause_is_gone() -> None:
    run = engine.run(read.of("letter"), name="post")
    with open("letter", "w") as file:
        file.write("dear all")
    run.retry()
    assert list(engine.run(read.of("letter"), name="post").results()) == ["dear all"]
