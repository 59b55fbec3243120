"""Suspects: tasks over which processes died run alone, and are quarantined only when the blame is proven."""

from __future__ import annotations

import os
import threading

from ramify.errors import Reaped
from ramify.model.claim import Claim, Want
from ramify.model.event import Status
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import Order, RunState
from tests.kernel.shop import Gate, Made, Shop, wait_until


def die_over(shop: Shop, kind: str, times: int) -> Claim | None:
    """Processes that die while they hold what a claim gives them, one after the other; the last claim."""
    last = None
    for _ in range(times):
        store = shop.open()
        dead = NewProcess(new_process_id(), pid=os.getpid())
        store.enter(dead)
        claimed = store.claim(Stamp(dead.id, 1), Want(frozenset({kind}), 1_000))
        last = claimed.claims[0] if claimed.claims else last
        store.close()
        _bury(shop, dead.id)
    return last


def _bury(shop: Shop, process: int) -> None:
    """A reaper that beats until the dead one is found."""
    store = shop.open()
    reaper = NewProcess(new_process_id(), pid=os.getpid())
    store.enter(reaper)

    def found() -> bool:
        store.beat(reaper.id)
        try:
            store.reap(reaper.id, 0.02)
        except Reaped:
            return True
        return any(row.id == process and row.reaped for row in store.reads.processes())

    wait_until(found)
    store.leave(reaper.id)


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
    from ramify.kernel.current import current

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
    die_over(shop, "suspect", 1)
    shop.store.pause(run)
    endless = shop.start(*(other.of(100 * n) for n in range(20)), order=Order.ANY)
    with shop.working(threads=4, beat_every=0.2):
        gate.wait_for(5)
        shop.store.resume(run)
        wait_until(lambda: together)
        done.set()
        wait_until(lambda: shop.state(run) is RunState.DONE)
    assert together == [0]
