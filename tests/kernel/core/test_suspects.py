"""Suspects: tasks over which processes died run alone, and are quarantined only when the blame is proven."""

from __future__ import annotations

import os
import threading
import time

from ramify.kernel.attempts.current import current
from ramify.kernel.tuning import WATCHED
from ramify.model.claim import Want
from ramify.model.death import Death
from ramify.model.event import Status
from ramify.model.policy import Backoff, Rate
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import Order, RunState
from tests.kernel.shop import Gate, Made, Shop, wait_until


def die_over(shop: Shop, kind: str, times: int, *, evidence: bool = True) -> None:
    """Processes that die while they run what a claim gives them, one after the other."""
    for _ in range(times):
        store = shop.open()
        dead = NewProcess(new_process_id(), pid=os.getpid())
        store.enter(dead)
        claimed = store.claim(Stamp(dead.id, 1), Want(frozenset({kind}), 1_000))
        ran = {task: shop.handlers[kind].policy.max_crashes for claim in claimed.claims for task in claim.tasks}
        store.close()
        shop.store.bury(dead.id, Death(ran, evidence))


def made(shop: Shop, ran: list[int], max_crashes: int | None) -> Made:
    def work(n: int) -> int:
        ran.append(n)
        return n

    return shop.task(work, max_crashes=max_crashes)


def test_a_task_over_which_processes_died_alone_too_often_is_quarantined(shop: Shop) -> None:
    ran: list[int] = []
    run = shop.start(made(shop, ran, max_crashes=3).of(1))
    die_over(shop, "work", 3)
    shop.finish(run)
    (task,) = shop.tasks(run)
    assert shop.statuses(task) == [Status.QUARANTINED]
    assert ran == []
    assert "3 processes died over it" in shop.failure(task).text
    assert shop.state(run) is RunState.FAILED


def test_without_evidence_it_takes_five_times_as_many_deaths(shop: Shop) -> None:
    ran: list[int] = []
    run = shop.start(made(shop, ran, max_crashes=1).of(1))
    die_over(shop, "work", 4, evidence=False)
    shop.store.pause(run)
    other = shop.start(made(shop, ran, max_crashes=1).of(2))
    die_over(shop, "work", 5, evidence=False)
    shop.store.resume(run)
    shop.finish(run)
    shop.finish(other)
    assert ran == [1]
    assert [shop.statuses(task) for task in shop.tasks(other)] == [[Status.QUARANTINED]]


def test_one_death_fewer_and_it_runs(shop: Shop) -> None:
    ran: list[int] = []
    run = shop.start(made(shop, ran, max_crashes=3).of(1))
    die_over(shop, "work", 2)
    shop.finish(run)
    assert ran == [1]
    assert shop.results(run) == [1]


def test_without_a_limit_it_is_never_quarantined(shop: Shop) -> None:
    ran: list[int] = []
    run = shop.start(made(shop, ran, max_crashes=None).of(1))
    die_over(shop, "work", 4)
    shop.finish(run)
    assert ran == [1]


def test_tasks_that_died_in_company_are_not_quarantined(shop: Shop) -> None:
    ran: list[int] = []
    task = made(shop, ran, max_crashes=1)
    run = shop.start(*(task.of(n) for n in range(200)))
    die_over(shop, "work", 1)
    shop.finish(run)
    assert sorted(ran) == list(range(200))
    assert shop.state(run) is RunState.DONE


def test_crashes_use_up_no_attempt(shop: Shop) -> None:
    def work() -> int:
        return current().attempt

    run = shop.start(shop.task(work, retries=0).of())
    die_over(shop, "work", 2)
    shop.finish(run)
    assert shop.results(run) == [1]


def test_a_busy_kernel_drains_itself_to_take_suspects_and_takes_them_alone(shop: Shop) -> None:
    gate, together = Gate(), []
    running: set[int] = set()
    lock = threading.Lock()

    def suspect(n: int) -> None:
        with lock:
            together.append(len(running))

    def plain(n: int) -> None:
        with lock:
            running.add(n)
        gate.arrive()
        threading.Event().wait(0.002)
        with lock:
            running.discard(n)
        if not done.is_set():
            shop.add(endless, other.of(n + 1), store=shop.store)

    done = threading.Event()
    made, other = shop.task(suspect), shop.task(plain)
    run = shop.start(made.of(1))
    die_over(shop, "suspect", 2)
    shop.store.pause(run)
    endless = shop.start(*(other.of(100 * n) for n in range(20)), order=Order.ANY)
    with shop.working(threads=4, beat_every=0.2):
        gate.wait_for(5)
        shop.store.resume(run)
        wait_until(lambda: together)
        done.set()
        wait_until(lambda: shop.state(run) is RunState.DONE)
    assert together == [0]


def test_a_suspect_that_waits_for_its_next_attempt_holds_up_nobody(shop: Shop) -> None:
    others = threading.Event()

    def suspect() -> None:
        # Its second attempt is far off; the others must not wait for it.
        if current().attempt == 1:
            raise ValueError
        assert others.is_set()

    def plain(n: int) -> None:
        others.set()

    run = shop.start(shop.task(suspect, backoff=Backoff(first=0.3, jitter=False), retries=1).of())
    die_over(shop, "suspect", 2)
    other = shop.start(*(shop.task(plain).of(n) for n in range(10)))
    with shop.working(threads=2):
        wait_until(lambda: shop.state(other) is RunState.DONE)
        wait_until(lambda: shop.state(run) is RunState.DONE)


def test_a_suspect_that_a_rate_holds_back_holds_up_nobody(shop: Shop) -> None:
    started: list[str] = []
    limited = shop.task(lambda n: started.append("limited"), kind="limited", rate=Rate("1/h"))
    plain = shop.task(lambda n: started.append("plain"), kind="plain")
    run = shop.start(limited.of(1), limited.of(2))
    die_over(shop, "limited", 2)
    with shop.working(threads=2):
        wait_until(lambda: started == ["limited"])
        other = shop.start(*(plain.of(n) for n in range(10)))
        wait_until(lambda: shop.state(other) is RunState.DONE)
    assert started == ["limited"] + ["plain"] * 10
    assert shop.state(run) is RunState.OPEN


def test_suspects_are_watched_for_a_moment_before_their_end_is_committed(shop: Shop) -> None:
    def work() -> float:
        return time.monotonic()

    run = shop.start(shop.task(work).of())
    die_over(shop, "work", 2)
    shop.finish(run, flush_after=0.0)
    # The store was told no sooner than a task that kills a moment after it returned would have done so.
    (returned,) = shop.results(run)
    assert time.monotonic() - returned >= WATCHED
