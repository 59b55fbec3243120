"""Items of a map that are left out (`on_failed="skip"`), however they came to nothing: the run is done without them."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ramify import Engine, Fatal, RunState, Stream, Tasks, current
from ramify.engine.library import StoreLibrary
from ramify.kernel.kernel import Kernel
from ramify.kernel.settings import Settings
from ramify.model.claim import Want
from ramify.model.death import Death
from ramify.model.process import NewProcess, Stamp, new_process_id
from tests.shapes.dags import listed, number, numbers

own = Tasks()


@pytest.fixture(autouse=True)
def with_tasks_of_its_own(both: Engine) -> None:
    both.include(own)


@own.task(retries=0, max_crashes=3)
def deadly(n: int) -> int:
    """Processes die over it."""
    return n


@own.task(retries=0)
def together(how: str, n: int, parts: Stream[int] = Stream()) -> int:
    """What a fork of an item comes to."""
    if how == "continuation" and n == 1:
        raise Fatal("told to")
    return sum(parts) + 10 * n


@own.task(retries=0)
def forks(how: str, n: int) -> int:
    """An item that goes on with others; one of them fails as told."""
    member = -1 if how == "member" and n == 1 else 1
    current().spawn([number.of(member), number.of(2)], then=together.of(how, n))
    return 0


@own.task(retries=0)
def forks_twice(how: str, n: int) -> int:
    """The same, one further down."""
    current().spawn(then=forks.of(how, n))
    return 0


def test_an_item_over_which_processes_died_is_left_out(both: Engine) -> None:
    dag = both.dag("x")
    dag.add(listed.of(dag.map(deadly.of(dag.add(numbers.of(1)).each), on_failed="skip").out), id="rest")
    both.start(dag.of(), name="x")
    store, handlers = both._runtime.store, both._runtime.handlers()
    others = {kind: each for kind, each in handlers.items() if kind != "deadly"}
    Kernel(store, others, StoreLibrary(store, handlers), Settings(until_idle=True, threads=0)).run()
    for _ in range(3):
        dead = NewProcess(new_process_id(), pid=os.getpid())
        store.enter(dead)
        (claim,) = store.claim(Stamp(dead.id, 1), Want(frozenset({"deadly"}), 1)).claims
        store.bury(dead.id, Death(dict.fromkeys(claim.tasks, 3), evidence=True))
    run = both.run(dag.of(), name="x")
    assert (run.state, run["rest"].result, run["deadly"].result.broken) == (RunState.DONE, [], 1)
    assert "3 processes died over it" in str(run["deadly[0]"].error)


@pytest.mark.parametrize("task", [forks, forks_twice], ids=lambda task: task.kind)
@pytest.mark.parametrize("how", ["member", "continuation"])
def test_an_item_whose_continuation_or_member_fails_is_left_out(both: Engine, how: str, task: Any) -> None:
    dag = both.dag("x")
    dag.add(listed.of(dag.map(task.of(how, dag.add(numbers.of(3)).each), on_failed="skip").out), id="rest")
    run = both.run(dag.of())
    assert (run.state, run["rest"].result) == (RunState.DONE, [3, 23])


def test_without_that_they_fail_the_run(both: Engine) -> None:
    dag = both.dag("x")
    dag.map(forks.of("continuation", dag.add(numbers.of(3)).each))
    assert both.run(dag.of()).state is RunState.FAILED


@own.task(retries=0)
def counted(parts: Stream[int] = Stream()) -> list[str]:
    """What is told of those that failed."""
    return [error.failure.text for error in parts.failures]


@own.task(retries=0)
def forks_in_any_case(n: int) -> None:
    """An item that wants to know which of its members failed."""
    current().spawn([number.of(-1)], then=counted.of().always())


def test_a_continuation_that_wants_to_know_is_still_told_what_failed(both: Engine) -> None:
    dag = both.dag("x")
    dag.add(listed.of(dag.map(forks_in_any_case.of(dag.add(numbers.of(1)).each), on_failed="skip").out), id="rest")
    run = both.run(dag.of())
    assert run["rest"].result == [["-1 is negative"]]
