"""Retries: how often, when, and what an attempt may say about the next one."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from ramify.kernel.attempts.control import Defer, Fatal
from ramify.kernel.attempts.current import current
from ramify.kernel.core.handler import Policy
from ramify.kernel.faults import arm
from ramify.model.event import Status
from ramify.model.policy import Backoff
from ramify.model.run import RunState
from tests.kernel.shop import Shop, wait_until

RETRYING, DEFERRED, DONE, FAILED = Status.RETRYING, Status.DEFERRED, Status.DONE, Status.FAILED
MODES = pytest.mark.parametrize("threads", [None, 0], ids=["workers", "inline"])


class Own(ValueError):
    pass


@MODES
def test_two_retries_are_three_attempts_and_each_leaves_its_error(shop: Shop, threads: int | None) -> None:
    def broken() -> None:
        raise Own(f"attempt {current().attempt}")

    run = shop.run(shop.task(broken, retries=2).of(), threads=threads)
    (task,) = shop.tasks(run)
    assert shop.statuses(task) == [RETRYING, RETRYING, FAILED]
    assert shop.failure(task).text == "attempt 3"
    assert shop.failure(task).type.endswith("Own")
    assert "in broken" in shop.failure(task).frames[-1]
    assert shop.state(run) is RunState.FAILED


@MODES
def test_an_attempt_knows_whether_a_retry_follows_it(shop: Shop, threads: int | None) -> None:
    seen: list[tuple[int, int, bool]] = []

    def broken(n: int) -> None:
        seen.append((n, current().attempt, current().last_attempt))
        raise Own

    task = shop.task(broken, retries=2)
    shop.run(task.of(1), task.of(2).retries(0), task.of(3).retries(1), threads=threads)
    assert sorted(seen) == [
        (1, 1, False), (1, 2, False), (1, 3, True), (2, 1, True), (3, 1, False), (3, 2, True),
    ]  # fmt: skip


def test_an_attempt_starts_only_after_the_event_of_the_one_before_is_committed(shop: Shop) -> None:
    seen = []

    def broken() -> None:
        seen.append(len(shop.store.reads.events(current().task, current().task)))
        raise ValueError

    shop.run(shop.task(broken, retries=3).of())
    assert seen == [0, 1, 2, 3]


def test_a_short_wait_stays_in_memory_and_a_long_one_leaves_it(shop: Shop) -> None:
    def broken() -> None:
        raise ValueError

    short = shop.task(broken, kind="short", backoff=Backoff(first=0.4, jitter=False), retries=1000)
    long = shop.task(broken, kind="long", backoff=Backoff(first=600.0, cap=600.0, jitter=False))
    run = shop.start(short.of(), long.of())
    with shop.working():
        tasks = shop.tasks(run, "short") + shop.tasks(run, "long")
        wait_until(lambda: all(RETRYING in shop.statuses(task) for task in tasks))
        rows = {row.kind: row for row in shop.store.reads.segments(run=run).rows}
        assert rows["short"].owner is not None
        assert rows["long"].owner is None
        due = rows["long"].due
        assert due is not None
        assert 590 < (due - shop.store.now()) / 1e6 < 700


def test_a_wait_of_seconds_is_known_to_the_store(shop: Shop) -> None:
    """So that it is waited for after a kill too. Only waits that are over before anybody could take over are not."""

    def broken() -> None:
        raise ValueError

    run = shop.start(shop.task(broken, backoff=Backoff(first=4.0, jitter=False)).of())
    with shop.working():
        wait_until(lambda: shop.statuses(shop.tasks(run)[0]) == [RETRYING])
        (row,) = shop.store.reads.segments(run=run).rows
        assert row.due is not None
        assert 3 < (row.due - shop.store.now()) / 1e6 < 5


def test_a_kernel_knows_when_what_it_put_off_is_due(quick: Shop) -> None:
    """Then it wakes up by itself (`test_core.py`), whatever its next claim tells of."""

    def broken() -> None:
        raise ValueError

    quick.start(quick.task(broken, backoff=Backoff(first=60.0, jitter=False)).of())
    with quick.working() as kernel:
        wait_until(lambda: kernel.core.claim_policy._dues)


def test_while_a_task_waits_the_kernel_rests(quick: Shop) -> None:
    def broken() -> None:
        raise ValueError

    run = quick.start(quick.task(broken, backoff=Backoff(first=3.0, jitter=False)).of())
    with quick.working() as kernel:
        wait_until(lambda: quick.statuses(quick.tasks(run)[0]) == [RETRYING])
        steps = []
        step = kernel.core.step
        kernel.core.step = lambda now: steps.append(now) or step(now)  # type: ignore[method-assign, func-returns-value]
        threading.Event().wait(0.4)
        assert len(steps) < 60


def test_a_long_wait_is_over_when_it_is_due(shop: Shop) -> None:
    def moody() -> float:
        if current().attempt == 1:
            raise ValueError
        return time.time()

    task = shop.task(moody, backoff=Backoff(first=0.3, jitter=False))
    began = time.time()
    run = shop.run(task.of(), memory_wait=0.0)
    assert 0.25 < shop.results(run)[0] - began < 3


@pytest.mark.parametrize(
    ("policy", "error", "statuses"),
    [
        ({"retry_on": (ConnectionError,)}, ConnectionResetError(), [RETRYING, FAILED]),
        ({"retry_on": (ConnectionError,)}, ValueError(), [FAILED]),
        ({"give_up_on": (KeyError,)}, KeyError("k"), [FAILED]),
        ({"give_up_on": (KeyError,)}, ValueError(), [RETRYING, FAILED]),
        ({}, SystemExit(1), [FAILED]),
        ({}, Fatal("no use"), [FAILED]),
        ({"retry_on": (BaseException,)}, Fatal("no use"), [FAILED]),
    ],
)
@pytest.mark.parametrize("colour", ["plain", "async"])
def test_the_policy_says_which_errors_are_tried_again(
    quick: Shop, policy: dict[str, Any], error: BaseException, statuses: list[Status], colour: str
) -> None:
    def plain() -> None:
        raise error

    async def coroutine() -> None:
        raise error

    run = quick.run(quick.task(plain if colour == "plain" else coroutine, retries=1, **policy).of())
    assert quick.statuses(quick.tasks(run)[0]) == statuses


@MODES
@pytest.mark.parametrize("memory_wait", [5.0, 0.0], ids=["short", "long"])
def test_defer_uses_up_no_attempt(shop: Shop, threads: int | None, memory_wait: float) -> None:
    calls = []

    def shy() -> int:
        calls.append(current().attempt)
        if len(calls) < 4:
            raise Defer(0.001)
        return current().attempt

    run = shop.run(shop.task(shy, retries=0).of(), threads=threads, memory_wait=memory_wait)
    assert calls == [1, 1, 1, 1]
    (task,) = shop.tasks(run)
    assert shop.statuses(task) == [DEFERRED, DEFERRED, DEFERRED, DONE]
    assert json.loads(shop.events(task)[0].value or b"") == {"seconds": 0.001}


def test_an_async_task_may_defer_too(quick: Shop) -> None:
    calls = []

    async def shy() -> int:
        calls.append(1)
        if len(calls) < 3:
            raise Defer(0)
        return len(calls)

    assert quick.results(quick.run(quick.task(shy, retries=0).of())) == [3]


def test_attempts_are_counted_across_processes(shop: Shop) -> None:
    def broken() -> int:
        if current().attempt < 3:
            raise ValueError
        return current().attempt

    task = shop.task(broken, retries=2, backoff=Backoff(first=0.05, jitter=False))
    run = shop.start(task.of())
    kernel = shop.kernel(memory_wait=0.0)
    kernel.start()
    wait_until(lambda: shop.statuses(shop.tasks(run)[0]) == [RETRYING])
    kernel.stop()
    assert kernel.join(5)
    shop.finish(run)
    assert shop.results(run) == [3]


@pytest.mark.parametrize(("kind", "own", "tries"), [(0, 2, 3), (3, 0, 1)])
@pytest.mark.parametrize("colour", ["plain", "async"])
def test_a_call_may_have_its_own_number_of_retries(quick: Shop, kind: int, own: int, tries: int, colour: str) -> None:
    def plain() -> None:
        raise ValueError

    async def coroutine() -> None:
        raise ValueError

    task = quick.task(plain if colour == "plain" else coroutine, retries=kind)
    run = quick.run(task.of().retries(own))
    assert len(quick.statuses(quick.tasks(run)[0])) == tries


def test_a_worker_thread_that_dies_is_replaced_and_its_tasks_run(quick: Shop) -> None:
    died: list[threading.Thread] = []

    def die() -> None:
        if not died:
            died.append(threading.current_thread())
            raise SystemError("the thread dies here")

    def work(n: int) -> int:
        return n

    for point in ("leased", "before-attempt", "after-attempt"):
        died.clear()
        arm(point, die)
        task = quick.task(work, kind=point)
        hook, threading.excepthook = threading.excepthook, lambda args: None
        try:
            run = quick.run(*(task.of(n) for n in range(10)))
        finally:
            threading.excepthook = hook
        assert died
        assert quick.results(run) == list(range(10))
        assert quick.store.reads.history(quick.tasks(run)[0]).attempts == 0


def test_the_default_policy_is_three_retries_of_any_exception() -> None:
    assert Policy().retries == 3
    assert Policy().retries_after(ValueError)
    assert not Policy().retries_after(SystemExit)


@pytest.mark.parametrize("seconds", [1e9, 1e15, 1e300])
def test_a_task_may_ask_for_a_wait_that_nobody_lives_to_see(shop: Shop, seconds: float) -> None:
    def shy() -> None:
        raise Defer(seconds)

    run = shop.start(shop.task(shy).of())
    with shop.working():
        wait_until(lambda: shop.count(run, Status.DEFERRED) == 1)
    (row,) = shop.store.reads.segments(run=run).rows
    assert row.due is not None
    assert row.due > shop.store.now() + 20 * 365 * 86_400 * 1_000_000


def test_a_task_whose_back_off_is_endless_waits_in_the_store(shop: Shop) -> None:
    def broken() -> None:
        raise ValueError

    run = shop.start(shop.task(broken, backoff=Backoff(first=1e300, cap=1e300, jitter=False)).of())
    with shop.working():
        wait_until(lambda: shop.count(run, Status.RETRYING) == 1)
