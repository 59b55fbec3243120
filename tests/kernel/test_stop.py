"""Stopping: what runs finishes, what was done is saved, and the rest goes back as if it had never been taken."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import pytest

from ramify.engine.library import StoreLibrary
from ramify.errors import StoreUnavailable
from ramify.kernel.attempts.current import current
from ramify.kernel.signals import Drained, Signals, Stopping, StoreAway
from ramify.model.decision import Said
from ramify.model.event import Status
from ramify.model.run import RunState
from tests.kernel.shop import LONG, Away, Ear, Gate, Shop, wait_until


def test_stopping_lets_what_runs_finish_saves_it_and_puts_the_rest_back(shop: Shop) -> None:
    gate = Gate()

    def slow(n: int) -> int:
        gate.enter()
        return n

    ear, signals = Ear(), Signals()
    signals.listen(ear)
    task = shop.task(slow)
    run = shop.start(*(task.of(n) for n in range(20)))
    kernel = shop.kernel(threads=3, signals=signals)
    kernel.start()
    gate.wait_for(3)
    kernel.stop()
    ear.wait_for(Stopping)
    assert not kernel.join(0.05)
    gate.open()
    assert kernel.join(LONG)
    assert gate.came == 3
    assert shop.count(run, Status.DONE) == 3
    assert [signal.phase for signal in ear.of(Stopping)] == ["draining", "saving", "done"]
    assert [signal.running for signal in ear.of(Stopping)] == [3, 0, 0]
    rows = shop.store.reads.segments(run=run).rows
    assert sum(len(row.tasks) for row in rows) == 17
    assert all(row.owner is None and row.deaths.count == 0 and row.attempt == 0 for row in rows)
    shop.finish(run)
    assert shop.results(run) == list(range(20))


def test_a_process_that_is_asked_to_drain_finishes_what_runs_and_leaves_the_rest_to_others(shop: Shop) -> None:
    gate = Gate()

    def slow(n: int) -> int:
        gate.enter()
        return n

    ear, signals = Ear(), Signals()
    signals.listen(ear)
    task = shop.task(slow)
    run = shop.start(*(task.of(n) for n in range(20)))
    kernel = shop.kernel(run, threads=3, signals=signals)
    kernel.start()
    gate.wait_for(3)
    assert shop.open().drain(kernel.sender.process, Said("deploy", "ann"))
    ear.wait_for(Drained)
    ear.wait_for(Stopping)
    gate.open()
    assert kernel.join(LONG)
    assert kernel.is_drained
    assert gate.came == 3
    assert ear.of(Drained) == [Drained(kernel.sender.process)]
    assert all(process.reaped for process in shop.store.reads.processes())
    assert sum(len(row.tasks) for row in shop.store.reads.segments(run=run).rows) == 17
    shop.finish(run)
    assert shop.results(run) == list(range(20))


def test_a_kernel_that_is_to_finish_takes_nothing_more_and_waits_for_what_it_holds(shop: Shop) -> None:
    gate = Gate()

    def slow() -> int:
        gate.enter()
        return current().attempt

    def brisk() -> None:
        pass

    run = shop.start(shop.task(slow).of())
    other = shop.task(brisk)
    kernel = shop.kernel(grace=0.0, threads=2)
    kernel.start()
    gate.wait_for(1)
    kernel.finish()
    left = shop.start(other.of())
    assert not kernel.join(0.3)
    gate.open()
    assert kernel.join(LONG)
    assert shop.results(run) == [1]
    assert shop.store.reads.run(run).state is RunState.DONE
    assert shop.count(left, Status.DONE) == 0


def test_what_does_not_finish_within_the_grace_period_is_interrupted(shop: Shop) -> None:
    gate = Gate()
    ended: list[str] = []

    def slow() -> int:
        if not ended:
            gate.enter()
        return current().attempt

    async def slow_async() -> int:
        if not ended:
            gate.arrive()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("cancelled")
        return current().attempt

    run = shop.start(shop.task(slow).of(), shop.task(slow_async).of())
    ear, signals = Ear(), Signals()
    signals.listen(ear)
    kernel = shop.kernel(grace=0.05, signals=signals)
    kernel.start()
    gate.wait_for(2)
    began = time.monotonic()
    kernel.stop()
    assert kernel.join(LONG)
    assert time.monotonic() - began < 3
    assert ended == ["cancelled"]
    assert ear.of(Stopping)[-1] == Stopping("done", 2)
    rows = shop.store.reads.segments(run=run).rows
    assert [(row.owner, row.deaths.count) for row in rows] == [(None, 0)] * 2
    gate.open()
    shop.finish(run)
    assert shop.results(run) == [1, 1]
    assert shop.count(run, Status.DONE) == 2


def test_a_quick_task_that_hangs_is_not_waited_for_beyond_the_grace_period(quick: Shop) -> None:
    gate = Gate()

    def brisk(n: int) -> int:
        if n == 2_000:
            gate.enter()
        return n

    task = quick.task(brisk)
    run = quick.start(*(task.of(n) for n in range(2_001)))
    kernel = quick.kernel(threads=1, grace=0.2)
    kernel.start()
    gate.wait_for(1)
    kernel.stop()
    try:
        assert kernel.join(LONG / 2), "the loop hangs in the task"
        assert all(process.reaped for process in quick.store.reads.processes())
    finally:
        gate.open()
    assert quick.count(run, Status.DONE) >= 1_000


def test_a_second_stop_changes_nothing(quick: Shop) -> None:
    gate = Gate()

    def slow() -> None:
        gate.enter()

    run = quick.start(quick.task(slow).of())
    kernel = quick.kernel()
    kernel.start()
    gate.wait_for(1)
    kernel.stop()
    kernel.stop()
    gate.open()
    assert kernel.join(LONG)
    kernel.stop()
    assert quick.count(run, Status.DONE) == 1


def test_a_kernel_may_be_stopped_before_it_began(quick: Shop) -> None:
    kernel = quick.kernel()
    kernel.stop()
    kernel.run()
    assert list(quick.store.reads.processes()) == []


@pytest.mark.alone
def test_an_idle_kernel_stops_at_once(shop: Shop) -> None:
    shop.task(lambda: None, kind="nothing")
    kernel = shop.kernel()
    kernel.start()
    wait_until(lambda: shop.store.reads.processes())
    threading.Event().wait(0.1)
    began = time.monotonic()
    kernel.stop()
    assert kernel.join(LONG)
    # Less than the rest of an idle kernel, which is a second.
    assert time.monotonic() - began < 0.8


def test_while_it_drains_the_kernel_rests(quick: Shop) -> None:
    gate = Gate()

    def slow() -> None:
        gate.enter()

    quick.start(quick.task(slow).of())
    kernel = quick.kernel(flush_after=0.1)
    kernel.start()
    gate.wait_for(1)
    kernel.stop()
    steps: list[float] = []
    step = kernel.core.step
    kernel.core.step = lambda now: steps.append(now) or step(now)  # type: ignore[method-assign, func-returns-value]
    threading.Event().wait(0.3)
    assert len(steps) < 30
    gate.open()
    assert kernel.join(LONG)


def test_what_was_done_is_saved_when_the_store_comes_back_before_the_stop_is_over(shop: Shop) -> None:
    gate = Gate()

    def slow() -> int:
        gate.enter()
        return 1

    ear, signals = Ear(), Signals()
    signals.listen(ear)
    run = shop.start(shop.task(slow).of())
    away = Away(shop.open())
    kernel = shop.kernel(store=away, signals=signals)
    kernel.start()
    gate.wait_for(1)
    away.go()
    kernel.stop()
    gate.open()
    ear.wait_for(StoreAway)
    assert not kernel.join(0.1)
    away.come_back()
    assert kernel.join(LONG)
    assert shop.results(run) == [1]


def test_a_kernel_that_is_abandoned_does_not_wait_for_the_store(quick: Shop) -> None:
    gate = Gate()

    def slow() -> int:
        gate.enter()
        return 1

    ear, signals = Ear(), Signals()
    signals.listen(ear)
    run = quick.start(quick.task(slow).of())
    away = Away(quick.open())
    kernel = quick.kernel(store=away, signals=signals)
    kernel.start()
    gate.wait_for(1)
    away.go()
    gate.open()
    ear.wait_for(StoreAway)
    kernel.abandon()
    try:
        assert kernel.join(LONG)
    except StoreUnavailable:
        pass
    else:
        raise AssertionError("nobody was told that the store was away")
    assert quick.state(run) is RunState.OPEN


def test_a_resource_that_fails_to_close_does_not_keep_the_kernel(
    quick: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(library: StoreLibrary) -> None:
        raise ValueError("cannot be closed")

    async def work() -> int:
        return 1

    monkeypatch.setattr(StoreLibrary, "put_away", fails)
    run = quick.start(quick.task(work).of())
    began = time.monotonic()
    quick.kernel(run).run()
    assert time.monotonic() - began < 5
    gc.collect()
    assert "cannot be closed" in caplog.text
    assert quick.results(run) == [1]
