"""Limits at work: how many at a time, how many starts in a while, per kind and per lane, never exceeded."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict

import pytest

from ramify.kernel.attempts.current import current
from ramify.model.event import Status
from ramify.model.policy import Rate
from tests.kernel.shop import LONG, Gate, Shop, wait_until

COLOURS = pytest.mark.parametrize("colour", ["plain", "async"])


class Meter:
    """How many are inside at a time, by name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.inside: dict[str | None, int] = defaultdict(int)
        self.most: dict[str | None, int] = defaultdict(int)
        self.starts: list[float] = []

    def enter(self, name: str | None = None) -> None:
        with self._lock:
            self.starts.append(time.monotonic())
            self.inside[name] += 1
            self.most[name] = max(self.most[name], self.inside[name])

    def leave(self, name: str | None = None) -> None:
        with self._lock:
            self.inside[name] -= 1


@COLOURS
def test_no_more_of_a_kind_run_at_a_time_than_allowed(quick: Shop, colour: str) -> None:
    meter = Meter()
    pause = threading.Event()

    def plain(n: int) -> None:
        meter.enter()
        pause.wait(0.002)
        meter.leave()

    async def coroutine(n: int) -> None:
        meter.enter()
        await asyncio.sleep(0.002)
        meter.leave()

    task = quick.task(plain if colour == "plain" else coroutine, kind="work", concurrency=3)
    run = quick.run(*(task.of(n) for n in range(200)), threads=8)
    assert meter.most[None] <= 3
    assert quick.count(run, Status.DONE) == 200


def test_as_many_as_allowed_do_run_at_a_time(quick: Shop) -> None:
    gate = Gate()

    def slow(n: int) -> None:
        gate.enter()

    task = quick.task(slow, concurrency=3)
    run = quick.start(*(task.of(n) for n in range(10)))
    with quick.working(run, threads=8):
        gate.wait_for(3)
        threading.Event().wait(0.05)
        assert gate.inside == 3
        gate.open()
        wait_until(lambda: quick.state(run).is_end)
    assert gate.most == 3


def test_as_many_as_allowed_run_at_a_time_also_after_quick_ones(quick: Shop) -> None:
    gate = Gate()

    def work(n: int, slow: bool) -> None:
        if slow:
            gate.enter()

    task = quick.task(work, concurrency=3)
    quick_ones = [task.of(n, False) for n in range(50)]
    run = quick.start(*quick_ones, *(task.of(n, True) for n in range(10)))
    with quick.working(run, threads=8):
        gate.wait_for(3)
        gate.open()
        wait_until(lambda: quick.state(run).is_end)
    assert gate.most == 3


@COLOURS
def test_each_lane_has_the_limit_for_itself(shop: Shop, colour: str) -> None:
    meter = Meter()
    pause = threading.Event()

    def plain(n: int) -> None:
        lane = current().lane
        meter.enter(lane)
        pause.wait(0.002)
        meter.leave(lane)

    async def coroutine(n: int) -> None:
        lane = current().lane
        meter.enter(lane)
        await asyncio.sleep(0.002)
        meter.leave(lane)

    task = shop.task(plain if colour == "plain" else coroutine, kind="work", concurrency=1)
    run = shop.run(*(task.of(n).lane(f"host{n % 4}") for n in range(80)), threads=8)
    assert dict(meter.most) == {f"host{n}": 1 for n in range(4)}
    assert shop.count(run, Status.DONE) == 80


def test_several_lanes_run_beside_each_other(quick: Shop) -> None:
    gate = Gate()

    def slow(n: int) -> None:
        gate.enter()

    task = quick.task(slow, concurrency=1)
    run = quick.start(*(task.of(n).lane(f"host{n % 4}") for n in range(12)))
    with quick.working(run, threads=8):
        gate.wait_for(4)
        gate.open()
        wait_until(lambda: quick.state(run).is_end)
    assert gate.most == 4


def test_a_kind_is_not_held_up_by_another_that_is_limited(shop: Shop) -> None:
    gate = Gate()

    def slow(n: int) -> None:
        gate.enter()

    def quick_one(n: int) -> None: ...

    limited, free = shop.task(slow, concurrency=1), shop.task(quick_one, kind="free")
    # The limited ones are first in line, and more than any window holds.
    held = shop.start(*(limited.of(n) for n in range(3_000)))
    run = shop.start(*(free.of(n) for n in range(300)))
    with shop.working(threads=4):
        gate.wait_for(1)
        wait_until(lambda: shop.state(run).is_end)
        assert gate.came == 1
        shop.open().cancel(held)
        gate.open()
    assert shop.count(run, Status.DONE) == 300


def test_a_lane_is_not_held_up_by_another_that_is_full(shop: Shop) -> None:
    gate, seen = Gate(), []

    def work(n: int) -> None:
        if current().lane == "stuck":
            gate.enter()
        else:
            seen.append(n)

    task = shop.task(work, concurrency=1)
    run = shop.start(*(task.of(n).lane("stuck") for n in range(2_000)), *(task.of(n).lane("free") for n in range(50)))
    with shop.working(threads=4):
        gate.wait_for(1)
        wait_until(lambda: len(seen) == 50)
        shop.open().cancel(run)
        gate.open()


@pytest.mark.alone
@COLOURS
def test_no_more_start_in_a_while_than_the_rate_allows(quick: Shop, colour: str) -> None:
    meter = Meter()

    def plain(n: int) -> None:
        meter.enter()

    async def coroutine(n: int) -> None:
        meter.enter()

    task = quick.task(plain if colour == "plain" else coroutine, kind="work", rate=Rate((5, 0.25)))
    began = time.monotonic()
    quick.run(*(task.of(n) for n in range(15)), threads=4)
    # Twenty a second: the last of fifteen starts 0.7 s after the first, and not much later.
    assert 0.65 < meter.starts[-1] - meter.starts[0] < 1.7
    assert meter.starts[0] - began < 0.3
    for first, last in zip(meter.starts, meter.starts[6:], strict=False):
        assert last - first > 0.2


@pytest.mark.alone
def test_a_burst_starts_at_once_and_the_rest_at_an_even_pace(quick: Shop) -> None:
    meter = Meter()

    def work(n: int) -> None:
        meter.enter()

    task = quick.task(work, rate=Rate((5, 0.25), burst=9))
    quick.run(*(task.of(n) for n in range(14)), threads=4)
    assert meter.starts[9] - meter.starts[0] < 0.15
    assert meter.starts[13] - meter.starts[9] > 0.15


@pytest.mark.alone
def test_each_lane_has_the_rate_for_itself(quick: Shop) -> None:
    starts: dict[str | None, list[float]] = defaultdict(list)

    def work(n: int) -> None:
        starts[current().lane].append(time.monotonic())

    task = quick.task(work, rate=Rate((1, 0.1)))
    began = time.monotonic()
    quick.run(*(task.of(n).lane(f"host{n % 5}") for n in range(15)), threads=4)
    assert time.monotonic() - began < 1.2
    for times in starts.values():
        assert times[2] - times[0] > 0.19


def test_a_kernel_that_waits_for_a_rate_rests(quick: Shop) -> None:
    def work(n: int) -> None: ...

    task = quick.task(work, rate=Rate((1, 10)))
    run = quick.start(*(task.of(n) for n in range(5)))
    with quick.working() as kernel:
        wait_until(lambda: quick.count(run, Status.DONE) == 1)
        steps: list[float] = []
        step = kernel.core.step
        kernel.core.step = lambda now: steps.append(now) or step(now)  # type: ignore[method-assign, func-returns-value]
        threading.Event().wait(0.3)
        assert len(steps) < 60


def test_very_many_lanes_of_one_quick_task_each_take_few_turns_of_the_loop(quick: Shop) -> None:
    def work(n: int) -> None: ...

    task = quick.task(work)
    run = quick.start(*(task.of(n).lane(f"host{n}") for n in range(3_000)))
    kernel = quick.kernel(run, threads=1)
    steps, step = [], kernel.core.step
    kernel.core.step = lambda now: steps.append(now) or step(now)  # type: ignore[method-assign, func-returns-value]
    kernel.start()
    assert kernel.join(LONG)
    assert quick.count(run, Status.DONE) == 3_000
    assert len(steps) < 1_500
