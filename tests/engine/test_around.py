"""Hooks around every attempt: where they run, what they see, and that they change nothing."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ramify import (
    Call,
    ConfigError,
    Current,
    Defer,
    Engine,
    Fatal,
    Return,
    Run,
    RunState,
    Skip,
    Spawns,
    Tasks,
    current,
)
from ramify.kernel.tuning import PIECE
from ramify.testing import attempt, using
from tests.engine import hooked
from tests.engine.hooked import async_generator, coroutine, generator, leaf, plain, trace, troubles

CALLINGS = [plain, generator, coroutine, async_generator]
every_calling = pytest.mark.parametrize("task", CALLINGS, ids=lambda task: task.kind)


@pytest.fixture
def engine() -> Iterator[Engine]:
    """An engine with the tasks of every calling, and nothing that happened before."""
    trace.clear()
    troubles.clear()
    made = Engine("memory:", include=[hooked.jobs])
    yield made
    made.close()


def noting(name: str) -> Callable[[], Iterator[None]]:
    def hook() -> Iterator[None]:
        trace.append(f"before {name}")
        try:
            yield
        except BaseException as error:
            trace.append(f"{name} saw {type(error).__name__}")
            raise
        finally:
            trace.append(f"after {name}")

    return hook


def anoting(name: str) -> Callable[[], AsyncIterator[None]]:
    async def hook() -> AsyncIterator[None]:
        await asyncio.sleep(0)
        trace.append(f"before {name}")
        try:
            yield
        except BaseException as error:
            trace.append(f"{name} saw {type(error).__name__}")
            raise
        finally:
            await asyncio.sleep(0)
            trace.append(f"after {name}")

    return hook


def failed(run: Run[Any]) -> str:
    """What the only task of a run that failed is said to have raised."""
    (error,) = run.errors()
    return f"{error.failure.type}: {error.failure.text}"


def logged(engine: Engine, run: Run[Any]) -> list[str]:
    return [line.line.text for line in engine._runtime.store.reads.logs(run.id).rows]


@every_calling
def test_a_hook_is_around_the_whole_attempt_also_while_children_are_yielded(task: Any, engine: Engine) -> None:
    engine.around(noting("hook"))
    attempt_of = engine.run(task.of("work"))
    inner = ["work yielded 0", "work yielded 1"] if "generator" in task.kind else []
    assert trace[: len(inner) + 3] == ["before hook", *inner, "work", "after hook"]
    assert attempt_of.counts.done == (3 if inner else 1)
    assert trace.count("before hook") == trace.count("after hook") == attempt_of.counts.done


@every_calling
def test_a_context_variable_that_a_hook_sets_is_seen_by_the_task_and_gone_after_it(task: Any) -> None:
    trace.clear()
    troubles[:] = [OSError("once")]
    with using(hooked.engine):
        run = hooked.engine.run(task.of("work"), params="ann")
        assert list(run.results(task)) == ["ann 2"]
    assert hooked.tenant.get() == "nobody"


@every_calling
def test_hooks_nest_in_the_order_of_their_declaration(task: Any, engine: Engine) -> None:
    engine.around(noting("first"))
    engine.around(anoting("async"))
    engine.around(noting("last"))
    engine.run(task.of("work"))
    # An async hook is around async tasks only.
    inner = ["async"] if task.handler.calling.is_async else []
    hooks = ["first", *inner, "last"]
    assert trace[: len(hooks)] == [f"before {each}" for each in hooks]
    ends = trace[trace.index("work") + 1 :][: len(hooks)]
    assert ends == [f"after {each}" for each in reversed(hooks)]


def test_hooks_of_a_set_are_around_its_own_tasks_and_inside_those_of_the_sets_that_include_it() -> None:
    trace.clear()
    left, right, shared = Tasks(), Tasks(), Tasks()
    shared.task(walk)
    left.task(stroll)
    for tasks in (left, right):
        tasks.include(shared)
    engine = Engine("memory:", include=[left, right])
    for name, tasks in {"shared": shared, "right": right, "left": left, "engine": engine}.items():
        tasks.around(noting(name))
    engine.run(left.task(saunter).of())
    assert [each for each in trace if each.startswith("before")] == ["before engine", "before left"]
    trace.clear()
    (found,) = [task for task in engine._runtime.table().values() if task.kind == "walk"]
    engine.run(found.of())
    assert trace[:4] == ["before engine", "before left", "before right", "before shared"]
    engine.close()


def walk() -> None: ...
def stroll() -> None: ...
def saunter() -> None: ...


@every_calling
@pytest.mark.parametrize("hook", [noting, anoting], ids=["plain", "async"])
def test_what_a_task_raises_is_seen_at_the_yield_in_each_attempt(task: Any, hook: Any, engine: Engine) -> None:
    engine.around(hook("hook"))
    troubles[:] = [OSError("no"), OSError("never")]
    run = engine.run(task.of("work"))
    assert failed(run) == "OSError: never"
    seen = 2 if hook is noting or task.handler.calling.is_async else 0
    assert trace.count("hook saw OSError") == seen
    assert trace.count("after hook") == seen


@every_calling
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize(
    ("raised", "counted"),
    [
        (OSError("no"), "retries"),
        (Fatal("gone"), "failed"),
        (Skip("old"), "skipped"),
        (Defer(0), "deferrals"),
        (StopIteration(), "retries"),
        (asyncio.CancelledError(), "failed"),
    ],
    ids=lambda given: type(given).__name__ if isinstance(given, BaseException) else given,
)
def test_a_hook_that_swallows_what_a_task_raises_changes_nothing(
    task: Any, is_async: bool, raised: BaseException, counted: str, engine: Engine
) -> None:
    def swallow() -> Iterator[None]:
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - that is what it is for
            trace.append(f"swallowed {type(error).__name__}")

    async def aswallow() -> AsyncIterator[None]:
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - that is what it is for
            trace.append(f"swallowed {type(error).__name__}")

    engine.around(aswallow if is_async else swallow)
    troubles[:] = [raised]
    run = engine.run(task.of("work"))
    assert getattr(run.counts, counted) == 1
    assert sum(each.startswith("swallowed") for each in trace) == (not is_async or task.handler.calling.is_async)


@every_calling
def test_a_hook_that_raises_before_the_task_fails_the_attempt_by_policy_and_is_named(task: Any, engine: Engine) -> None:
    tries: list[int] = []

    @engine.around
    def connect(me: Current) -> Iterator[None]:
        tries.append(me.attempt)
        if me.kind == task.kind:
            raise ConnectionError("no route")
        yield

    run = engine.run(task.of("work"))
    assert failed(run) == "ConnectionError: no route; raised by the hook connect() before the task"
    assert (tries, trace) == ([1, 2], [])


@every_calling
def test_a_hook_that_raises_after_the_task_fails_the_attempt_with_its_children(task: Any, engine: Engine) -> None:
    @engine.around
    def commit(me: Current) -> Iterator[None]:
        yield
        if me.attempt == 1 and me.kind == task.kind:
            raise ConnectionError("lost")

    run = engine.run(task.of("work"))
    assert (run.counts.retries, run.counts.failed) == (1, 0)
    assert trace.count("work") == 2
    assert run.counts.added == (3 if "generator" in task.kind else 1)


def test_a_hook_may_defer_and_skip_as_a_task_may(engine: Engine) -> None:
    @engine.around
    def closed(me: Current) -> Iterator[None]:
        if me.kind == "plain":
            raise Skip("closed today")
        yield

    assert engine.run(plain.of("work")).counts.skipped == 1
    assert trace == []


@every_calling
def test_an_error_of_a_hook_after_that_of_the_task_is_logged_and_that_of_the_task_counts(
    task: Any, engine: Engine
) -> None:
    @engine.around
    def translate() -> Iterator[None]:
        try:
            yield
        except Fatal as error:
            raise ConnectionError("lost too") from error

    troubles[:] = [Fatal("gone")]
    run = engine.run(task.of("work"))
    assert failed(run) == "ramify.Fatal: gone"
    (line,) = logged(engine, run)
    assert line.startswith("the hook translate() raised an error of its own, after that of the task")
    assert "ConnectionError: lost too" in line


@every_calling
def test_a_hook_that_does_not_yield_once_fails_the_attempt_and_is_named(task: Any, engine: Engine) -> None:
    times = [0]

    @engine.around
    def often() -> Iterator[None]:
        for _ in range(times[0]):
            yield

    assert failed(engine.run(task.of("work"))) == (
        "RuntimeError: generator didn't yield; raised by the hook often() before the task"
    )
    times[0] = 2
    assert failed(engine.run(task.of("work"), name="twice")) == (
        "RuntimeError: generator didn't stop; raised by the hook often() after the task"
    )


def test_a_coroutine_that_runs_out_of_time_leaves_by_way_of_its_hooks(engine: Engine) -> None:
    engine.around(noting("plain"))
    engine.around(anoting("async"))

    @engine.task(retries=0, timeout=0.05)
    async def hang() -> None:
        await asyncio.Event().wait()

    assert failed(engine.run(hang.of())) == "TimeoutError: no result after 0.05 seconds"
    assert trace[2:] == ["async saw CancelledError", "after async", "plain saw CancelledError", "after plain"]


def test_what_is_not_heard_to_its_end_leaves_by_way_of_its_hooks_before_the_next_task_begins(engine: Engine) -> None:
    @engine.around
    def whose(me: Current) -> Iterator[None]:
        began = me.task
        try:
            yield
        finally:
            trace.append(f"{me.kind} {current().task == began}")

    @engine.task(retries=0, max_children=PIECE)
    def endless() -> Iterator[Call[Any]]:
        try:
            while True:
                yield leaf.of("")
        finally:
            trace.append("cleaned")

    @engine.task(retries=0, max_children=PIECE)
    async def aendless() -> AsyncIterator[Call[Any]]:
        try:
            while True:
                yield leaf.of("")
        finally:
            trace.append("cleaned")

    run = engine.run([endless.of(), endless.of(), aendless.of()], threads=0)
    assert run.counts.failed == 3
    assert trace == ["cleaned", "endless True", "cleaned", "endless True", "cleaned", "aendless True"]


def test_a_hook_may_spawn_and_what_it_spawned_counts_with_the_attempt(engine: Engine) -> None:
    @engine.around
    def audit(me: Current) -> Iterator[None]:
        yield
        if me.kind == "plain":
            me.spawn(leaf.of("audit"))

    troubles[:] = [OSError("once")]
    assert engine.run(plain.of("work")).counts.added == 2


def test_hooks_are_around_the_generator_of_a_map_and_not_around_tasks_of_ours(engine: Engine) -> None:
    engine.around(noting("hook"))
    count: Any = engine.task(numbers)
    dag = engine.dag("mapped")
    dag.map(leaf.of(dag.add(count.of(3)).each))
    assert engine.run(dag.of(), threads=0).state is RunState.DONE
    assert trace == ["before hook", "after hook"] * 4


def numbers(count: int) -> Iterator[str]:
    yield from map(str, range(count))


def test_hooks_work_in_worker_processes(tmp_path: Path) -> None:
    hooked.engine._runtime.url = tmp_path / "hooked.db"
    run = hooked.engine.run([plain.of("a"), coroutine.of("b"), leaf.of("c")], params="bob", processes=1)
    assert [*run.results(plain), *run.results(coroutine)] == ["bob 1", "bob 1"]
    assert [*run.results(leaf)] != [os.getpid()]
    hooked.engine.close()


def test_one_attempt_in_a_test_has_the_hooks_of_its_own_set() -> None:
    trace.clear()
    tasks = Tasks()
    tasks.task(walk)
    parent = tasks.task(grow)
    tasks.around(noting("hook"))
    done = attempt(parent.of())
    assert (done.result, len(done.children)) == (7, 1)
    assert trace == ["before hook", "after hook"]


def grow() -> Spawns[int]:
    yield leaf.of("a")
    return 7


def test_what_stands_in_for_a_task_in_a_test_has_its_hooks(engine: Engine) -> None:
    engine.around(noting("hook"))
    with using(engine, tasks={plain: lambda name: f"fake {name}", coroutine: OSError("planted")}):
        assert list(engine.run(plain.of("work")).results()) == ["fake work"]
        assert engine.run(coroutine.of("work")).counts.failed == 1
    assert trace[:2] == ["before hook", "after hook"]
    assert trace.count("hook saw OSError") == 2


def test_what_is_no_hook_is_refused() -> None:
    def returns() -> None: ...

    @contextmanager
    def managed() -> Iterator[None]:
        yield

    def two(me: Current, you: Current) -> Iterator[None]:
        yield

    def named(*, me: Current) -> Iterator[None]:
        yield

    for wrong in (returns, managed, Return, lambda: None):
        with pytest.raises(ConfigError, match="expected a function that yields once, where the task runs"):
            Tasks().around(wrong)  # type: ignore[type-var]
    with pytest.raises(
        ConfigError,
        match=r"@around on two\(\): expected one parameter or none, got me, you\. Take the current attempt only",
    ):
        Tasks().around(two)  # type: ignore[type-var]
    with pytest.raises(ConfigError, match="`me` is keyword-only\\. Take the current attempt by position"):
        Tasks().around(named)  # type: ignore[type-var]
