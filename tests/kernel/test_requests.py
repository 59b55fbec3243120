"""Requests from outside: pause, resume and cancel, obeyed by a kernel at work."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from ramify import Spawns
from ramify.engine.runs.reopening import reopen
from ramify.inspect.history import history_of
from ramify.kernel.attempts.coroutines import Coroutines
from ramify.kernel.attempts.current import current
from ramify.kernel.core.work import Chunk, Interrupted, Ran
from ramify.model.call import Call
from ramify.model.decision import Said
from ramify.model.event import Status
from ramify.model.mark import Mark, Scope, Settled, reason_value
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import RunState
from tests.kernel.claims import claim
from tests.kernel.shop import LONG, Gate, Shop, wait_until


@pytest.mark.alone
def test_a_paused_run_starts_nothing_more_within_two_seconds_and_goes_on_when_resumed(shop: Shop) -> None:
    gate = Gate()

    def slow(n: int) -> int:
        gate.enter()
        return n

    task = shop.task(slow)
    run = shop.start(*(task.of(n) for n in range(20)))
    with shop.working(threads=2, beat_every=1.0):
        gate.wait_for(2)
        began = time.monotonic()
        assert shop.open().pause(run) is RunState.PAUSED
        # The kernel puts back what nobody runs once it has heard; what runs is let finish.
        wait_until(lambda: sum(row.owner is not None for row in shop.store.reads.segments(run=run).rows) <= 2)
        threading.Event().wait(max(0.0, began + 1.2 - time.monotonic()))
        gate.open()
        wait_until(lambda: not any(row.owner for row in shop.store.reads.segments(run=run).rows))
        assert gate.came == 2
        assert time.monotonic() - began < 2
        shop.open().resume(run)
        wait_until(lambda: shop.state(run) is RunState.DONE)
    assert shop.results(run) == list(range(20))


def test_a_pause_outlives_the_process(shop: Shop) -> None:
    def work() -> int:
        return 1

    run = shop.start(shop.task(work).of())
    shop.store.pause(run)
    with shop.working():
        threading.Event().wait(0.15)
        assert shop.state(run) is RunState.PAUSED
    with shop.working():
        threading.Event().wait(0.15)
        assert shop.results(run) == []
        shop.open().resume(run)
        wait_until(lambda: shop.state(run) is RunState.DONE)
    assert shop.results(run) == [1]


def test_a_task_in_a_short_wait_is_put_back_with_its_paused_run(quick: Shop) -> None:
    from ramify.model.policy import Backoff

    def broken() -> None:
        if current().attempt == 1:
            raise ValueError

    run = quick.start(quick.task(broken, backoff=Backoff(first=0.3, jitter=False)).of())
    with quick.working():
        wait_until(lambda: quick.count(run, Status.RETRYING) == 1)
        quick.open().pause(run)
        wait_until(lambda: not any(row.owner for row in quick.store.reads.segments(run=run).rows))
        quick.open().resume(run)
        wait_until(lambda: quick.state(run) is RunState.DONE)
    assert quick.statuses(quick.tasks(run)[0]) == [Status.RETRYING, Status.DONE]


def test_a_cancelled_run_starts_nothing_more_and_ends(shop: Shop) -> None:
    gate = Gate()

    def slow(n: int) -> int:
        gate.enter()
        return n

    task = shop.task(slow)
    run = shop.start(*(task.of(n) for n in range(20)))
    with shop.working(threads=2):
        gate.wait_for(2)
        shop.open().cancel(run, said=Said("enough"))
        wait_until(lambda: sum(len(row.tasks) for row in shop.store.reads.segments(run=run).rows) <= 20)
        threading.Event().wait(0.15)
        gate.open()
        wait_until(lambda: shop.state(run) is RunState.CANCELLED)
    assert gate.came == 2
    assert shop.count(run, Status.DONE) == 2
    assert shop.count(run, Status.CANCELLED) == 18
    assert shop.store.reads.run(run).reason == "enough"


def test_a_run_that_is_cancelled_while_another_keeps_the_kernel_busy_ends(shop: Shop) -> None:
    gate, other = Gate(), Gate()

    def slow() -> None:
        gate.enter()

    def slow_too() -> None:
        other.enter()

    shop.start(shop.task(slow).of())
    run = shop.start(shop.task(slow_too).of())
    with shop.working():
        gate.wait_for(1)
        other.wait_for(1)
        shop.open().cancel(run)
        other.open()
        wait_until(lambda: shop.state(run) is RunState.CANCELLED)
        gate.open()


def test_a_queued_task_that_is_cancelled_never_runs(shop: Shop) -> None:
    def work() -> int:
        return 1

    made = shop.task(work)
    run = shop.start(made.of(), made.of())
    first, second = shop.tasks(run)
    assert shop.store.cancel(run, first) is Settled.CERTAIN
    shop.finish(run)
    assert shop.statuses(first) == [Status.CANCELLED]
    assert shop.statuses(second) == [Status.DONE]


def test_a_task_that_waits_in_the_memory_of_a_kernel_is_cancelled_before_it_runs(shop: Shop) -> None:
    gate = Gate()

    def slow(n: int) -> int:
        gate.enter()
        return n

    task = shop.task(slow)
    run = shop.start(*(task.of(n) for n in range(6)))
    with shop.working(run, threads=1):
        gate.wait_for(1)
        last = shop.tasks(run)[-1]
        assert shop.open().cancel(run, last, said=Said("no need")) is not Settled.UNKNOWN
        threading.Event().wait(0.15)
        gate.open()
        wait_until(lambda: shop.state(run).is_end)
    assert shop.statuses(last) == [Status.CANCELLED]
    assert b"no need" in (shop.events(last)[0].value or b"")
    assert gate.came == 5


def test_a_task_that_waits_in_the_memory_of_a_kernel_is_settled_before_it_runs(shop: Shop) -> None:
    gate = Gate()

    def slow(n: int) -> int:
        gate.enter()
        return n

    task = shop.task(slow)
    run = shop.start(*(task.of(n) for n in range(6)))
    with shop.working(run, threads=1):
        gate.wait_for(1)
        last = shop.tasks(run)[-1]
        assert shop.open().settle(run, last, Status.DONE, b"77", Said("known", "ann")) is not Settled.UNKNOWN
        threading.Event().wait(0.15)
        gate.open()
        wait_until(lambda: shop.state(run).is_end)
    assert shop.statuses(last) == [Status.DECIDED, Status.DONE]
    assert shop.events(last)[-1].value == b"77"
    assert gate.came == 5


def test_a_worker_that_ends_a_task_as_a_person_said_leaves_who_that_was(shop: Shop) -> None:
    """It may be quicker than the person, who reopens a failed task and only then settles it."""

    def fails() -> int:
        raise ValueError("no")

    run = shop.run(shop.task(fails, retries=0).of())
    (failed,) = shop.tasks(run)
    store = shop.open()
    reopen(store, run, [failed], Said("known", "ann"), Mark(run, Scope.TASK, None, Status.DONE, "known", b"77", "ann"))
    shop.finish(run)
    assert shop.statuses(failed) == [Status.FAILED, Status.REOPENED, Status.DECIDED, Status.DONE]
    assert shop.events(failed)[2].value == reason_value("known", "ann")
    told = [event.text for event in history_of(store.reads, failed).events]
    assert told[2:] == ["decided by ann: known", "counts as done: 77"]


def test_an_async_task_that_is_settled_while_it_runs_goes_on_and_its_own_result_counts(shop: Shop) -> None:
    gate, go = Gate(), threading.Event()

    async def slow() -> int:
        gate.arrive()
        while not go.is_set():
            await asyncio.sleep(0.01)
        return 1

    run = shop.start(shop.task(slow).of())
    with shop.working(run):
        gate.wait_for(1)
        (task,) = shop.tasks(run)
        assert shop.open().settle(run, task, Status.SKIPPED, None, Said("no")) is Settled.REQUESTED
        threading.Event().wait(0.15)
        go.set()
        wait_until(lambda: shop.state(run).is_end)
    assert shop.statuses(task) == [Status.DONE]


@pytest.mark.parametrize("threads", [None, 0], ids=["on the event loop", "in the thread of the kernel"])
def test_an_async_task_that_is_cancelled_while_it_runs_is_interrupted(shop: Shop, threads: int | None) -> None:
    gate, saw = Gate(), []

    async def slow() -> None:
        gate.arrive()
        try:
            await asyncio.Event().wait()
        finally:
            saw.append(current().cancelled)

    run = shop.start(shop.task(slow).of())
    with shop.working(run, threads=threads):
        gate.wait_for(1)
        (task,) = shop.tasks(run)
        assert shop.open().cancel(run, task, said=Said("too dear", "ann")) is Settled.REQUESTED
        wait_until(lambda: shop.state(run).is_end)
    (event,) = shop.store.reads.events(task, task)
    assert (event.status, event.value) == (Status.CANCELLED, reason_value("too dear", "ann"))
    assert saw == [True]


def test_an_async_task_of_a_cancelled_run_is_interrupted(shop: Shop) -> None:
    gate = Gate()

    async def slow() -> None:
        gate.arrive()
        await asyncio.Event().wait()

    run = shop.start(shop.task(slow).of())
    with shop.working(run):
        gate.wait_for(1)
        (task,) = shop.tasks(run)
        shop.open().cancel(run, said=Said("too late"))
        wait_until(lambda: shop.state(run) is RunState.CANCELLED)
    (event,) = shop.store.reads.events(task, task)
    assert (event.status, event.value) == (Status.CANCELLED, reason_value("too late"))


def test_an_async_task_whose_own_await_was_cancelled_has_failed(quick: Shop) -> None:
    async def own() -> None:
        inner = asyncio.get_running_loop().create_future()
        inner.cancel()
        await inner

    run = quick.run(quick.task(own, retries=1, retry_on=(BaseException,)).of())
    (task,) = quick.tasks(run)
    assert quick.statuses(task) == [Status.RETRYING, Status.FAILED]
    assert "CancelledError" in quick.failure(task).type


def test_what_runs_in_the_thread_of_the_kernel_and_stops_for_a_cancel_ends_as_cancelled(shop: Shop) -> None:
    gate = Gate()

    def patient() -> str:
        gate.arrive()
        wait_until(lambda: current().cancelled)
        return "stopped early"

    run = shop.start(shop.task(patient).of())
    with shop.working(run, threads=0):
        gate.wait_for(1)
        (task,) = shop.tasks(run)
        shop.open().cancel(run, task, said=Said("too dear", "ann"))
        wait_until(lambda: shop.state(run).is_end)
    (event,) = shop.store.reads.events(task, task)
    assert (event.status, event.value) == (Status.CANCELLED, reason_value("too dear", "ann"))


def test_a_thread_that_stops_because_its_task_or_its_run_was_cancelled_ends_as_cancelled(shop: Shop) -> None:
    gate = Gate()

    def patient(n: int) -> str:
        gate.arrive()
        wait_until(lambda: current().cancelled)
        return "stopped early"

    task = shop.task(patient)
    run = shop.start(task.of(1), task.of(2))
    with shop.working(run, threads=2):
        gate.wait_for(2)
        first, second = shop.tasks(run)
        shop.open().cancel(run, first)
        wait_until(lambda: shop.statuses(first))
        assert shop.statuses(second) == []
        shop.open().cancel(run)
        wait_until(lambda: shop.state(run).is_end)
    assert (shop.count(run, Status.CANCELLED), shop.count(run, Status.DONE)) == (2, 0)


def cancelled_while_it_runs(shop: Shop, fn: Callable[..., Any], gate: Gate, threads: int = 1) -> int:
    """The run of a task that somebody cancels while it runs."""
    run = shop.start(shop.task(fn).of())
    with shop.working(run, threads=threads):
        gate.wait_for(1)
        shop.open().cancel(run, shop.tasks(run)[0])
        wait_until(lambda: shop.state(run).is_end)
    return run


def test_nothing_counts_that_a_task_made_before_it_stopped_for_a_cancel(shop: Shop) -> None:
    gate = Gate()
    child = shop.task(nothing)

    def patient() -> Spawns[str]:
        current().context.set("half", 1)
        current().spawn(child.of())
        gate.arrive()
        wait_until(lambda: current().cancelled)
        yield child.of()
        return "stopped early"

    run = cancelled_while_it_runs(shop, patient, gate)
    assert (len(shop.tasks(run)), shop.count(run, Status.CANCELLED)) == (1, 1)
    assert shop.store.reads.context(run) == []


def nothing() -> None:
    pass


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "event loop"])
def test_stop_if_cancelled_ends_an_attempt_also_inside_of_except_exception(shop: Shop, is_async: bool) -> None:
    gate, cleaned = Gate(), []

    def plain() -> None:
        gate.arrive()
        while True:
            try:
                current().stop_if_cancelled()
            except Exception:  # noqa: BLE001  what a handler does that survives its own errors
                continue
            finally:
                cleaned.append(True)
            wait_until(lambda: current()._mark)

    async def other() -> None:
        current().stop_if_cancelled()
        gate.arrive()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        current().stop_if_cancelled()

    run = cancelled_while_it_runs(shop, other if is_async else plain, gate)
    assert (shop.count(run, Status.CANCELLED), shop.count(run, Status.FAILED)) == (1, 0)
    assert is_async or cleaned


def test_a_coroutine_that_swallows_its_cancel_and_saw_it_ends_as_cancelled(shop: Shop) -> None:
    gate = Gate()

    async def stubborn() -> str:
        gate.arrive()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "stopped early" if current().cancelled else "whole"

    run = cancelled_while_it_runs(shop, stubborn, gate)
    assert (shop.count(run, Status.CANCELLED), shop.count(run, Status.DONE)) == (1, 0)


def test_a_coroutine_that_swallows_its_cancel_and_returns_ends_as_cancelled(shop: Shop) -> None:
    gate = Gate()

    async def stubborn() -> str:
        gate.arrive()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "a stump"

    run = cancelled_while_it_runs(shop, stubborn, gate)
    assert (shop.count(run, Status.CANCELLED), shop.count(run, Status.DONE)) == (1, 0)


def test_a_task_that_never_asked_and_came_to_its_end_is_done(shop: Shop) -> None:
    gate = Gate()

    def unaware() -> str:
        me = current()
        gate.arrive()
        wait_until(lambda: me._mark)
        return "whole"

    run = cancelled_while_it_runs(shop, unaware, gate)
    assert shop.results(run) == ["whole"]


def test_a_task_is_cancelled_with_the_descendants_it_has_and_will_have(shop: Shop) -> None:
    gate, ran = Gate(), []

    def root(name: str) -> Iterator[Call[Any]]:
        for n in range(3):
            yield made_child.of(f"{name}{n}")

    def child(name: str) -> Iterator[Call[Any]]:
        gate.enter()
        yield made_leaf.of(name)

    def leaf(name: str) -> None:
        ran.append(name)

    made, made_child, made_leaf = shop.task(root), shop.task(child), shop.task(leaf)
    run = shop.start(made.of("a"), made.of("b"))
    first, _ = shop.tasks(run, "root")
    with shop.working(run, threads=6):
        gate.wait_for(6)
        shop.open().cancel(run, first, below=True)
        gate.open()
        wait_until(lambda: shop.state(run).is_end)
    assert sorted(ran) == ["b0", "b1", "b2"]
    assert shop.count(run, Status.CANCELLED) == 3


def test_a_task_that_was_reopened_after_a_cancel_is_wanted_again(quick: Shop) -> None:
    gate, saw = Gate(), []

    def patient() -> None:
        gate.arrive()
        if gate.came == 1:
            wait_until(lambda: current().cancelled)
            raise ValueError
        threading.Event().wait(0.15)
        saw.append(current().cancelled)

    run = quick.start(quick.task(patient, retries=0).of())
    with quick.working():
        gate.wait_for(1)
        (task,) = quick.tasks(run)
        store = quick.open()
        store.cancel(run, task)
        wait_until(lambda: quick.state(run).is_end)
        process = new_process_id()
        store.enter(NewProcess(process))
        store.reopen(Stamp(process, 1), run, [task])
        store.leave(process)
        wait_until(lambda: saw)
    assert saw == [False]


def test_a_handler_may_end_its_run_early(shop: Shop) -> None:
    def root() -> Iterator[Call[Any]]:
        yield made.of()
        current().run.stop("found it")

    made = shop.task(root)
    run = shop.start(made.of())
    kernel = shop.kernel(run)
    kernel.start()
    assert kernel.join(LONG)
    found = shop.store.reads.run(run)
    assert (found.state, found.reason) == (RunState.HALTED, "found it")
    assert shop.count(run, Status.DONE) == 1


def test_an_async_task_that_is_cancelled_before_its_first_step_comes_back(quick: Shop) -> None:
    async def work(n: int) -> int:
        return n

    kernel, cancelled = quick.kernel(), dict[int, Mark]()
    chunk = Chunk(claim(3, kind="work"), quick.task(work).handler, range(3), {})
    waiting, came, over = [chunk], list[Ran](), threading.Event()

    def deliver(rans: list[Ran], chunks: list[Chunk]) -> None:
        came.extend(rans)
        if chunk in chunks:
            over.set()

    def fill_and_cancel() -> None:
        coroutines._fill()
        cancelled[chunk.claim.run] = Mark(chunk.claim.run, Scope.RUN, None, Status.CANCELLED)
        coroutines._cancel_marked()

    place = replace(kernel._attempt_env, cancelled_runs=cancelled)
    coroutines = Coroutines(place, lambda: waiting.pop() if waiting else None, deliver)
    coroutines.start()
    coroutines.loop.call_soon_threadsafe(fill_and_cancel)
    assert over.wait(LONG), "nobody says what became of them"
    coroutines.stop()
    assert [verdict for ran in came for verdict in ran.others] == [(n, Interrupted()) for n in range(100, 103)]


def test_it_comes_back_in_the_thread_of_the_kernel_too(quick: Shop) -> None:
    async def work(n: int) -> int:
        return n

    kernel = quick.kernel()
    chunk = Chunk(claim(1, kind="work"), quick.task(work).handler, range(1), {})
    unwanted = Mark(chunk.claim.run, Scope.RUN, None, Status.CANCELLED)
    place = replace(kernel._attempt_env, cancelled_runs={unwanted.run: unwanted})
    coroutines = Coroutines(place, lambda: None, lambda rans, chunks: None)
    coroutines.mind_cancels()
    assert coroutines.run_here(chunk).others == [(100, Interrupted())]
    coroutines.close_here()


def test_what_a_handler_left_running_may_not_end_the_event_loop(quick: Shop) -> None:
    left: list[asyncio.Task[None]] = []

    async def leave() -> None:
        sys.exit(3)

    async def work(n: int) -> int:
        if n == 0:
            left.append(asyncio.create_task(leave()))
            await asyncio.wait(left)
        return n

    task = quick.task(work)
    run = quick.run(*(task.of(n) for n in range(3)), coroutines=1)
    assert quick.results(run) == [0, 1, 2]
    assert isinstance(left[0].exception(), SystemExit)
