"""Coroutines that do not keep their time limit: it is kept all the same, and those beside them come to no harm."""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from ramify.kernel.attempts.current import current
from ramify.kernel.signals import Replaced, Signals
from ramify.kernel.tuning import PIECE
from ramify.model.event import Status
from tests.kernel.shop import LONG, Ear, Gate, Shop, wait_until

RETRYING, DONE, FAILED = Status.RETRYING, Status.DONE, Status.FAILED
LIMIT = 0.2


def heard() -> tuple[Ear, Signals]:
    ear, signals = Ear(), Signals()
    signals.listen(ear)
    return ear, signals


def event_loops() -> int:
    return sum(thread.name == "ramify-event-loop" for thread in threading.enumerate())


async def seen(gate: Gate, *, open: bool = False) -> None:
    """Until a gate was reached, or opened, by somebody else; the loop turns meanwhile."""
    while not (gate._open if open else gate.came):
        await asyncio.sleep(0.005)


def test_a_coroutine_that_swallows_its_cancellation_is_timed_out_and_its_late_result_refused(shop: Shop) -> None:
    gate, cancels, late = Gate(), [], threading.Event()

    async def stubborn(n: int) -> str:
        if n or current().attempt > 1:
            return "in time"
        gate.arrive()
        while not gate._open:
            try:
                await seen(gate, open=True)
            except asyncio.CancelledError:
                cancels.append(current().cancelled)
        late.set()
        return "late"

    ear, signals = heard()
    task = shop.task(stubborn, timeout=LIMIT)
    run = shop.start(task.of(0), task.of(1))
    with shop.working(signals=signals) as kernel:
        wait_until(lambda: shop.state(run).is_end)
        assert kernel.core.leases.chunks == {False: 0, True: 0}
        gate.open()
        assert late.wait(LONG)
        wait_until(lambda: kernel.workers.coroutines is not None and not kernel.workers.coroutines.has_strays())
        assert cancels == [False], "once is enough"
    assert shop.results(run) == ["in time", "in time"]
    assert shop.statuses(shop.tasks(run)[0]) == [RETRYING, DONE]
    assert b"no result after 0.2 seconds" in (shop.events(shop.tasks(run)[0])[0].value or b"")
    assert not ear.of(Replaced), "its loop turns, so nothing had to be replaced"


def test_a_result_that_comes_after_the_cancellation_was_swallowed_is_too_late(quick: Shop) -> None:
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "late"
        return "never"

    run = quick.run(quick.task(stubborn, timeout=0.1, retries=0).of())
    assert quick.failure(quick.tasks(run)[0]).text == "no result after 0.1 seconds"


def test_a_coroutine_that_is_cancelled_and_cleans_up_is_waited_for(quick: Shop) -> None:
    cleaned = []

    async def tidy() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.1)
            cleaned.append(current().cancelled)

    run = quick.run(quick.task(tidy, timeout=0.1, retries=0).of())
    assert quick.statuses(quick.tasks(run)[0]) == [FAILED]
    assert cleaned == [False], "it was taken away while it cleaned up"


def test_a_stop_does_not_wait_for_a_coroutine_that_was_left_behind(quick: Shop) -> None:
    async def stubborn() -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    began = time.monotonic()
    run = quick.run(quick.task(stubborn, timeout=0.1, retries=0).of())
    assert quick.statuses(quick.tasks(run)[0]) == [FAILED]
    assert time.monotonic() - began < 5


def test_a_coroutine_that_blocks_its_loop_is_timed_out_and_those_beside_it_start_over(shop: Shop) -> None:
    gate, starts = Gate(), Counter[int]()

    async def block(n: int) -> tuple[int, int]:
        starts[n] += 1
        if n == 3 and current().attempt == 1:
            gate.enter()
        elif not gate.came:
            await seen(gate)
        return n, current().attempt

    ear, signals = heard()
    task = shop.task(block, timeout=LIMIT)
    run = shop.start(*(task.of(n) for n in range(4)))
    with shop.working(signals=signals) as kernel:
        wait_until(lambda: shop.state(run).is_end)
        assert kernel.core.leases.chunks == {False: 0, True: 0}
        gate.open()
        wait_until(lambda: event_loops() == 1)
    assert shop.results(run) == [(0, 1), (1, 1), (2, 1), (3, 2)]
    assert starts == dict.fromkeys(range(4), 2)
    tasks = shop.tasks(run)
    assert [shop.statuses(task) for task in tasks] == [[DONE], [DONE], [DONE], [RETRYING, DONE]]
    assert [signal.why for signal in ear.of(Replaced)] == [
        f"task {tasks[3]} ran out of time and lets nothing else run on it"
    ]


def test_what_ended_before_the_loop_was_blocked_is_not_run_again(quick: Shop) -> None:
    gate, starts = Gate(), Counter[str]()

    async def brisk() -> None:
        starts["brisk"] += 1

    async def block() -> None:
        gate.enter()

    # The first is done in the very turn of the loop that the second does not let end.
    first, second = quick.task(brisk), quick.task(block, timeout=LIMIT, retries=0)
    run = quick.start(first.of(), second.of())
    with quick.working(run):
        wait_until(lambda: quick.state(run).is_end)
        gate.open()
    assert starts == {"brisk": 1}
    assert [quick.statuses(task)[0] for task in quick.tasks(run)] == [DONE, FAILED]


def test_a_task_without_a_time_limit_may_block_the_loop_but_the_limits_of_others_are_kept(quick: Shop) -> None:
    gate, starts = Gate(), Counter[str]()

    async def block() -> None:
        starts["block"] += 1
        while not starts["wait"]:
            await asyncio.sleep(0.005)
        gate.enter()

    async def wait() -> None:
        starts["wait"] += 1
        await asyncio.Event().wait()

    ear, signals = heard()
    run = quick.start(quick.task(block).of(), quick.task(wait, timeout=LIMIT, retries=0).of())
    with quick.working(run, signals=signals):
        wait_until(lambda: quick.count(run, FAILED))
        assert not gate._open
        gate.open()
        wait_until(lambda: quick.state(run).is_end)
    assert starts == {"block": 1, "wait": 1}
    assert [quick.statuses(task)[0] for task in quick.tasks(run)] == [DONE, FAILED]
    assert not ear.of(Replaced)


def test_a_task_inside_a_task_that_blocks_the_loop_is_found_too(quick: Shop) -> None:
    gate, came = Gate(), threading.Event()

    async def inner() -> None:
        gate.enter()

    async def block() -> None:
        await asyncio.gather(inner(), inner())

    async def beside() -> int:
        if not came.is_set():
            came.set()
            await asyncio.Event().wait()
        return current().attempt

    run = quick.start(quick.task(beside).of(), quick.task(block, timeout=LIMIT, retries=0).of())
    with quick.working(run):
        wait_until(lambda: quick.state(run).is_end)
        gate.open()
    assert quick.results(run) == [1]
    assert quick.failure(quick.tasks(run)[1]).type == "TimeoutError"


def test_a_coroutine_that_was_left_behind_may_not_block_the_loop_either(quick: Shop) -> None:
    gate, beside = Gate(), threading.Event()

    async def stubborn() -> None:
        while not beside.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.005)
        gate.enter()

    async def wait() -> int:
        if not beside.is_set():
            while not quick.count(run, FAILED):
                await asyncio.sleep(0.01)
            beside.set()
            await asyncio.Event().wait()
        return current().attempt

    run = quick.start(quick.task(stubborn, timeout=0.1, retries=0).of(), quick.task(wait).of())
    with quick.working(run):
        wait_until(lambda: quick.state(run).is_end)
        gate.open()
    assert quick.results(run) == [1]


@pytest.mark.parametrize("colour", ["plain", "async"])
def test_a_result_that_comes_with_the_interpreter_lock_after_the_limit_is_refused(shop: Shop, colour: str) -> None:
    hold = ctypes.PyDLL(None).usleep

    def plain() -> str:
        hold(250_000)
        return "late"

    async def coroutine() -> str:
        hold(250_000)
        return "late"

    run = shop.run(shop.task(plain if colour == "plain" else coroutine, timeout=0.1, retries=0).of())
    (task,) = shop.tasks(run)
    assert shop.results(run) == []
    assert shop.failure(task).text == "no result after 0.1 seconds"


@pytest.mark.parametrize("colour", ["generator", "async generator"])
def test_children_that_a_late_attempt_wrote_do_not_exist(shop: Shop, colour: str) -> None:
    hold = ctypes.PyDLL(None).usleep

    def child(n: int) -> None:
        pass

    def plain() -> Any:
        yield from (made.of(n) for n in range(PIECE + 10))
        hold(550_000)

    async def coroutine() -> Any:
        for n in range(PIECE + 10):
            yield made.of(n)
        hold(550_000)

    made = shop.task(child)
    run = shop.run(shop.task(plain if colour == "generator" else coroutine, timeout=0.5, retries=0).of())
    assert [shop.statuses(task) for task in shop.tasks(run)] == [[FAILED]]
