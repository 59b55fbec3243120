"""Signals: what the kernel tells whoever listens, and what it changes by itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ramify.kernel.attempts.control import Defer, Fatal
from ramify.kernel.attempts.current import current
from ramify.kernel.attempts.stream import Stream
from ramify.kernel.machine import Machine
from ramify.kernel.signals import Adapted, Entered, Moved, Saved, Signal, Signals, Stopping, Took
from ramify.model.call import Call
from ramify.model.run import RunState
from tests.kernel.shop import LONG, Ear, Gate, Shop, wait_until


@pytest.fixture
def ear() -> Ear:
    return Ear()


@pytest.fixture
def signals(ear: Ear) -> Signals:
    signals = Signals()
    signals.listen(ear)
    return signals


def test_a_run_is_told_from_beginning_to_end(shop: Shop, ear: Ear, signals: Signals) -> None:
    def root(n: int) -> Iterator[Call[Any]]:
        for _ in range(n):
            yield made.of(n - 1)

    made = shop.task(root)
    run = shop.run(made.of(3), signals=signals)
    assert isinstance(ear.heard[0], Entered)
    assert isinstance(ear.heard[-1], Stopping)
    assert sum(saved.outcomes for saved in ear.of(Saved)) == 16
    assert sum(saved.children for saved in ear.of(Saved)) == 15
    assert sum(saved.refused for saved in ear.of(Saved)) == 0
    assert [(moved.run, moved.round, moved.state) for moved in ear.of(Moved)] == [
        (run, 1, RunState.OPEN),
        (run, 2, RunState.OPEN),
        (run, 3, RunState.OPEN),
        (run, 3, RunState.DONE),
    ]
    assert ear.of(Took)


def test_a_commit_tells_what_each_attempt_came_to(shop: Shop, ear: Ear, signals: Signals) -> None:
    def fork() -> None:
        current().spawn(frail.of(), then=after.of())

    def broken() -> None:
        raise troubles.pop()

    def never(members: Stream[Any] = Stream()) -> None: ...

    troubles = [Fatal("gone"), OSError("no"), OSError("no"), Defer(0)]
    frail, after = shop.task(broken, retries=5), shop.task(never)
    run = shop.run(shop.task(fork).of(), signals=signals)
    ends = [end for saved in ear.of(Saved) for end in saved.ends(True)]
    assert {end.run for end in ends} == {run}
    assert [(end.kind, end.attempt, end.status.name) for end in ends] == [
        ("fork", 1, "DONE"),
        ("broken", 1, "DEFERRED"),
        ("broken", 1, "RETRYING"),
        ("broken", 2, "RETRYING"),
        ("broken", 3, "FAILED"),
        ("never", 0, "SKIPPED"),
    ]
    others = [end for saved in ear.of(Saved) for end in saved.ends(False)]
    assert others == ends[1:]


def test_a_listener_that_raises_is_dropped_and_the_work_goes_on(quick: Shop, ear: Ear, signals: Signals) -> None:
    heard: list[Signal] = []

    def broken(signal: Signal) -> None:
        heard.append(signal)
        raise ValueError

    def work() -> int:
        return 1

    signals.listen(broken)
    run = quick.run(quick.task(work).of(), signals=signals)
    assert quick.results(run) == [1]
    assert len(heard) == 1
    assert len(ear.heard) > 3


def test_a_listener_may_stop_listening(ear: Ear) -> None:
    signals, other = Signals(), Ear()
    stop = signals.listen(other)
    signals.listen(ear)
    signals.send(Took(1))
    stop()
    signals.send(Took(2))
    assert other.heard == [Took(1)]
    assert ear.heard == [Took(1), Took(2)]


def test_tasks_that_wait_get_more_threads(quick: Shop, ear: Ear, signals: Signals) -> None:
    pause = threading.Event()

    def wait(n: int) -> None:
        pause.wait(0.01)

    task = quick.task(wait)
    run = quick.start(*(task.of(n) for n in range(2_000)))
    with quick.working(run, signals=signals):
        change = ear.wait_for(Adapted)
        quick.open().cancel(run)
    assert change.of == "threads"
    assert change.now > change.before
    assert change.why == "tasks wait"


@pytest.mark.parametrize("colour", ["plain", "async"])
def test_a_kind_that_defers_itself_is_throttled_and_leaves_the_workers_to_others(
    quick: Shop, ear: Ear, signals: Signals, colour: str
) -> None:
    gate = Gate()

    def plain(n: int) -> None:
        threading.Event().wait(0.01)
        raise Defer(0.01)

    async def coroutine(n: int) -> None:
        await asyncio.sleep(0.01)
        raise Defer(0.01)

    def other(n: int) -> None:
        gate.enter()

    task = quick.task(plain if colour == "plain" else coroutine, kind="shy")
    free = quick.task(other)
    run = quick.start(*(task.of(n).lane("south") for n in range(400)))
    with quick.working(signals=signals, threads=4) as kernel:
        wait_until(lambda: kernel.core.leases.limits.at_a_time("shy", "south") == 1)
        quick.start(*(free.of(n) for n in range(40)))
        # One of the four threads may be busy with the kind that is throttled; no more than that.
        gate.wait_for(3)
        gate.open()
        quick.open().cancel(run)
    change = next(change for change in ear.of(Adapted) if change.why == "tasks defer themselves")
    assert change.of == "shy in lane south"
    assert change.now == change.before // 2
    assert kernel.core.leases.adapters[False].target == 4


def test_scarce_memory_halves_the_number_at_a_time_and_claims_less(quick: Shop, ear: Ear, signals: Signals) -> None:
    gate, plenty = Gate(), threading.Event()
    machine = Machine(is_scarce=lambda: not plenty.is_set())

    def slow(n: int) -> None:
        gate.enter()

    task = quick.task(slow)
    run = quick.start(*(task.of(n) for n in range(100)))
    with quick.working(run, signals=signals, machine=machine) as kernel:
        change = ear.wait_for(Adapted)
        assert (change.before, change.now, change.why) == (4, 2, "memory is scarce")
        wait_until(lambda: kernel.core.leases.adapters[False].target == 1)
        assert kernel.core.claim_policy.scarce
        plenty.set()
        gate.open()
        wait_until(lambda: quick.state(run).is_end)


def test_a_fixed_number_of_threads_never_changes(quick: Shop, ear: Ear, signals: Signals) -> None:
    pause = threading.Event()

    def wait(n: int) -> None:
        pause.wait(0.002)

    task = quick.task(wait)
    quick.run(*(task.of(n) for n in range(500)), signals=signals, threads=4)
    assert ear.of(Adapted) == []


def test_many_coroutines_wait_together(quick: Shop) -> None:
    arrived: list[int] = []

    async def meet(n: int) -> None:
        arrived.append(n)
        while len(arrived) < 30:
            await asyncio.sleep(0.001)

    task = quick.task(meet)
    run = quick.run(*(task.of(n) for n in range(30)))
    assert quick.state(run) is RunState.DONE


def test_a_listener_may_stop_the_kernel_whatever_it_hears(quick: Shop) -> None:
    pause = threading.Event()

    def wait(n: int) -> None:
        pause.wait(0.01)

    def stop(signal: Signal) -> None:
        if isinstance(signal, Adapted):
            kernel.stop()

    signals = Signals()
    signals.listen(stop)
    task = quick.task(wait)
    run = quick.start(*(task.of(n) for n in range(2_000)))
    kernel = quick.kernel(run, signals=signals)
    kernel.start()
    assert kernel.join(LONG)
    assert quick.state(run) is RunState.OPEN
