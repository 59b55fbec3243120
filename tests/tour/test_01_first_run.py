"""1. A first run.

An engine is a file with tasks in it. A task is a function with a decorator: it still is that function, and it can also
be handed to the engine, which runs it and keeps what it returned.
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
    assert add(1, 2) == 3


def test_a_call_is_a_task_that_does_not_exist_yet() -> None:
    call = add.of(1, 2)  # nothing happens: this is a value
    assert repr(call) == "add(1, 2)"
    assert call == add.of(a=1, b=2)


def test_a_run_works_until_everything_is_done() -> None:
    run = engine.run(add.of(1, 2))
    assert run.state is RunState.DONE
    assert list(run.results()) == [3]
    assert Path("first.db").exists(), "everything is in one file, and there is no server"


def test_a_run_can_have_many_roots() -> None:
    run = engine.run([add.of(n, n) for n in range(5)])
    assert list(run.results()) == [0, 2, 4, 6, 8]
    assert run.counts.done == 5


def test_a_run_with_a_name_is_done_once() -> None:
    engine.run(add.of(1, 2), name="sum")
    # Tomorrow, in another process: the same line finds it finished, and gives back what it found then.
    assert list(engine.run(add.of(1, 2), name="sum").results()) == [3]
    # And when it should be done anew:
    assert list(engine.run(add.of(1, 2), name="sum", again=True).results()) == [3]


def test_what_could_not_be_kept_is_refused_at_once() -> None:
    with pytest.raises(BadPayload, match="add"):
        add.of("one", 2)  # type: ignore[arg-type]
