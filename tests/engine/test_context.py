"""The context of a run, seen by those who hold its handle, and what becomes of it when the run goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from ramify import Engine, RunForgotten, RunState, Spawns, Tasks, current
from tests.engine.conftest import Make

steps = Tasks()
#: Steps of these names fail.
broken: set[str] = set()


@steps.task(retries=0)
def step(name: str, *after: str) -> Spawns[list[str]]:
    here = current().context
    here.set(name, {"by": current().task, "file": "\udcff"})
    if after:
        yield step.of(*after)
    if name in broken:
        raise OSError(name)
    return sorted(each for each in ("one", "two", "three") if each in here)


@steps.task
async def count(n: int) -> int:
    here = current().context
    here.set("seen", n, overwrite=True)
    # Threads that asyncio starts for a task see its attempt.
    await asyncio.to_thread(lambda: here.set("last", n, overwrite=True))
    await asyncio.to_thread(lambda: current().context.set(f"number {n}", n))
    return n


@pytest.fixture
def engine(make: Make) -> Iterator[Engine]:
    broken.clear()
    yield make(steps)
    broken.clear()


def test_the_context_of_a_run_is_a_mapping_of_what_its_tasks_set(engine: Engine) -> None:
    run = engine.run(step.of("one", "two"))
    assert list(run.context) == ["one", "two"]
    assert run.context["one"] == {"by": run.roots[0].task, "file": "\udcff"}
    assert dict(engine.start(count.of(1)).context) == {}


def test_a_context_of_many_names_is_read_whole(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ramify.engine.runs.reading.PAGE", 7)
    run = engine.run([count.of(n) for n in range(40)])
    assert run.context.keys() == {"seen", "last", *(f"number {n}" for n in range(40))}
    assert run.context["number 17"] == 17
    assert json.dumps(dict(run.context))


def test_a_run_that_is_retried_keeps_its_context(engine: Engine) -> None:
    broken.add("two")
    run = engine.run(step.of("one", "two", "three"), name="r")
    assert run.state is RunState.FAILED
    before = run.context
    assert list(before) == ["one"]
    broken.clear()
    run.retry()
    assert run.context == before
    run = engine.run(step.of("one", "two", "three"), name="r")
    assert run.state is RunState.DONE
    assert list(run.context) == ["one", "three", "two"]
    assert list(run.results()) == [["one"], ["one", "two"], ["one", "three", "two"]]


def test_a_task_that_was_done_and_is_retried_sets_its_value_again(engine: Engine) -> None:
    run = engine.run(step.of("one", "two"), name="r")
    (first,) = [row.task for row in run.results(rows=True) if row.arguments == ("one", "two")]
    run.retry(first)
    run = engine.run(step.of("one", "two"), name="r")
    # The child that it made in its second life is another task, and came too late for the name.
    assert run.state is RunState.FAILED
    assert [error.failure.type for error in run.errors()] == ["ramify.errors.OverwriteError"]
    assert run.context["one"]["by"] == first


def test_the_next_run_of_a_name_begins_with_an_empty_context(engine: Engine) -> None:
    first = engine.run(step.of("one"), name="r")
    second = engine.run(step.of("one"), name="r", again=True)
    assert first.context["one"] != second.context["one"]
    assert list(second.results()) == [["one"]]


def test_a_forgotten_run_has_no_context(engine: Engine) -> None:
    run = engine.run(step.of("one"))
    run.forget()
    with pytest.raises(RunForgotten):
        _ = run.context
