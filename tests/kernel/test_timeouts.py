"""Time limits: an async task is cancelled, a thread loses its lease, a supervised process ends itself."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from ramify.kernel.attempts.current import current
from ramify.kernel.signals import Replaced, Signals
from ramify.model.event import Status
from ramify.model.run import RunState
from ramify.store.open import open_store
from tests.kernel.shop import LONG, Ear, Gate, Shop, wait_until

RETRYING, DONE, FAILED = Status.RETRYING, Status.DONE, Status.FAILED


def test_an_async_task_is_cancelled_when_its_time_is_up(shop: Shop) -> None:
    ended = []

    async def slow() -> int:
        try:
            if current().attempt == 1:
                await asyncio.Event().wait()
        finally:
            ended.append(current().attempt)
        return current().attempt

    run = shop.run(shop.task(slow, timeout=0.3).of())
    (task,) = shop.tasks(run)
    assert shop.statuses(task) == [RETRYING, DONE]
    assert ended == [1, 2]
    assert shop.events(task)[0].value is not None
    assert b"no result after 0.3 seconds" in (shop.events(task)[0].value or b"")


def test_an_async_task_that_raises_a_timeout_of_its_own_says_so(quick: Shop) -> None:
    async def own() -> None:
        raise TimeoutError("the other side")

    run = quick.run(quick.task(own, timeout=5, retries=0).of())
    assert quick.failure(quick.tasks(run)[0]).text == "the other side"


@pytest.mark.parametrize("colour", ["plain", "async"])
def test_a_call_may_have_its_own_time_limit(quick: Shop, colour: str) -> None:
    gate = Gate()

    def plain() -> None:
        gate.enter()

    async def coroutine() -> None:
        await asyncio.Event().wait()

    task = quick.task(plain if colour == "plain" else coroutine, retries=0)
    run = quick.run(task.of().timeout(0.05))
    assert quick.failure(quick.tasks(run)[0]).type == "TimeoutError"
    gate.open()


def test_a_thread_out_of_time_loses_its_lease_and_its_late_result_is_refused(shop: Shop) -> None:
    gate, late, saw = Gate(), threading.Event(), []

    def slow(n: int) -> int:
        if n == 0 and current().attempt == 1:
            gate.enter()
            saw.append(current().cancelled)
            late.set()
            return -1
        return n

    ear, signals = Ear(), Signals()
    signals.listen(ear)
    task = shop.task(slow, timeout=0.1)
    run = shop.start(*(task.of(n) for n in range(4)))
    with shop.working(run, threads=1, signals=signals) as kernel:
        wait_until(lambda: shop.state(run) is RunState.DONE)
        assert shop.results(run) == [0, 1, 2, 3]
        assert kernel.core.leases.chunks == {False: 0, True: 0}
        assert kernel.core.lost_threads == 1
        gate.open()
        assert late.wait(5)
    assert saw == [True]
    assert ear.of(Replaced)
    assert shop.results(run) == [0, 1, 2, 3]
    assert shop.statuses(shop.tasks(run)[0]) == [RETRYING, DONE]


def test_a_late_result_does_not_count_while_the_next_attempt_runs(quick: Shop) -> None:
    first, second, threads = Gate(), Gate(), []

    def slow() -> str:
        if current().attempt == 1:
            threads.append(threading.current_thread())
            first.enter()
            return "late"
        second.enter()
        return "in time"

    run = quick.start(quick.task(slow, timeout=0.5).of())
    with quick.working(run, threads=2) as kernel:
        second.wait_for(1)
        first.open()
        wait_until(lambda: not threads[0].is_alive())
        assert quick.statuses(quick.tasks(run)[0]) == [RETRYING]
        assert kernel.core.leases.running == 1
        second.open()
        wait_until(lambda: quick.state(run).is_end)
    assert quick.results(run) == ["in time"]


def test_a_thread_in_time_keeps_its_result(quick: Shop) -> None:
    def brisk(n: int) -> int:
        return n

    task = quick.task(brisk, timeout=5)
    run = quick.run(*(task.of(n) for n in range(200)))
    assert quick.results(run) == list(range(200))


@pytest.mark.parametrize("own", [False, True], ids=["of its kind", "of its call"])
def test_a_quick_task_with_a_time_limit_is_not_waited_for_by_the_loop(quick: Shop, own: bool) -> None:
    gate = Gate()

    def brisk(n: int) -> int:
        if n == 2_000:
            gate.enter()
        return n

    task = quick.task(brisk, timeout=None if own else 0.2, retries=0)
    calls = [task.of(n) for n in range(2_001)]
    run = quick.start(*(call.timeout(0.2) if own else call for call in calls))
    kernel = quick.kernel(run, threads=1)
    kernel.start()
    try:
        assert kernel.join(LONG / 2), "the loop hangs in the task"
    finally:
        gate.open()
    assert quick.count(run, Status.FAILED) == 1


def test_what_is_over_is_not_kept_until_its_time_would_have_been_up(quick: Shop) -> None:
    def brisk(n: int) -> int:
        return n

    task = quick.task(brisk, timeout=3_600)
    run = quick.start(*(task.of(n) for n in range(1_000)))
    kernel = quick.kernel(run)
    kernel.run()
    assert len(kernel.core.leases._deadlines) < 300


CHILD = """
import sys, threading
from pathlib import Path
sys.path[:0] = {path!r}
from tests.kernel.shop import Shop, opener
from ramify.kernel.attempts.current import current

shop = Shop(opener("sqlite", Path({folder!r})))

def hang(n: int) -> int:
    if n == 2 and current().attempt == 1:
        threading.Event().wait()
    return n

task = shop.task(hang, timeout=0.3)
if sys.argv[1] == "first":
    run = shop.start(*(task.of(n) for n in range(5)))
else:
    run = int(sys.argv[1])
print(run, flush=True)
shop.kernel(run, supervisor=1, threads=2, dead_after=5.0).run()
"""


def test_a_supervised_process_saves_and_ends_itself_to_be_rid_of_a_thread_that_hangs(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    code = CHILD.format(path=[str(root), str(root / "src")], folder=str(tmp_path))
    first = subprocess.run([sys.executable, "-c", code, "first"], capture_output=True, text=True, timeout=30)
    assert first.returncode == 75, first.stderr
    run = first.stdout.strip()
    store = open_store(tmp_path / "shop.db")
    done = store.reads.results(int(run)).rows
    assert len(done) == 4
    hung = next(row.id for row in store.reads.tasks(int(run)).rows if row.id not in {each.task for each in done})
    assert [event.status for event in store.reads.events(hung, hung)] == [RETRYING]
    (segment,) = store.reads.segments(run=int(run)).rows
    assert segment.deaths.count == 0
    second = subprocess.run([sys.executable, "-c", code, run], capture_output=True, text=True, timeout=30)
    assert second.returncode == 0, second.stderr
    assert store.reads.run(int(run)).state is RunState.DONE
    store.close()


@pytest.mark.parametrize("colour", ["plain", "async"])
@pytest.mark.parametrize("policy", [{"give_up_on": (TimeoutError,)}, {"retry_on": (ValueError,)}])
def test_time_that_is_up_is_an_error_like_any_other_to_the_policy(quick: Shop, colour: str, policy: Any) -> None:
    gate = Gate()

    def plain() -> None:
        gate.enter()

    async def coroutine() -> None:
        await asyncio.Event().wait()

    run = quick.run(quick.task(plain if colour == "plain" else coroutine, timeout=0.05, **policy).of())
    assert quick.statuses(quick.tasks(run)[0]) == [FAILED]
    gate.open()
