"""1. A first run.

An engine keeps tasks and their results in one file. A task is a function with a decorator. It is still that function,
and the engine can run it, store its result and retry it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ramify import BadPayload, Engine, RunState

engine = Engine("first.db")  # nothing is opened yet, and no file is made


@engine.task
def add(a: int, b: int) -> int:
    return a + b


def test_a_task_is_still_a_function() -> None:
    """Calling the function runs it at once and stores nothing."""
    assert add(1, 2) == 3


def test_a_call_is_a_value() -> None:
    """`add.of(1, 2)` describes a task: a function and its arguments. Nothing runs and nothing is stored yet."""
    call = add.of(1, 2)
    assert repr(call) == "add(1, 2)"
    assert call == add.of(a=1, b=2)


def test_a_run_ends_when_everything_is_done() -> None:
    """`engine.run` stores the call, runs it, and returns when no work is left."""
    run = engine.run(add.of(1, 2))
    assert run.state is RunState.DONE
    assert list(run.results()) == [3]
    assert Path("first.db").exists(), "everything is in one file, and there is no server"


def test_a_run_can_have_many_roots() -> None:
    """Pass a list to start several calls in one run. Results come in the order of the calls."""
    run = engine.run([add.of(n, n) for n in range(5)])
    assert list(run.results()) == [0, 2, 4, 6, 8]
    assert run.counts.done == 5


def test_a_run_with_a_name_is_done_once() -> None:
    """A name makes a run unique. The same line tomorrow, or in another process, finds the finished run and returns its
    results. `again=True` does the work again.
    """
    engine.run(add.of(1, 2), name="sum")
    assert list(engine.run(add.of(1, 2), name="sum").results()) == [3]
    assert list(engine.run(add.of(1, 2), name="sum", again=True).results()) == [3]


def test_wrong_arguments_are_refused_at_once() -> None:
    """Arguments are checked against their annotations when the call is made, not when a worker runs it."""
    with pytest.raises(BadPayload, match="add"):
        add.of("one", 2)  # type: ignore[arg-type]
