"""The record of a kernel at work: every attempt is in it while it runs, wherever that is, and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from ramify.model.death import Death
from ramify.store.record import death_of, overdue
from tests.kernel.shop import Gate, Shop, wait_until


def told(shop: Shop) -> Death:
    """What whoever buries the only kernel would read now."""
    folder = shop.store.records
    assert folder is not None
    (process,) = [process.id for process in shop.store.reads.processes() if not process.reaped]
    return death_of(folder, process)


@pytest.mark.parametrize("colour", ["threads", "coroutines"])
def test_what_runs_is_in_the_record_and_what_returned_is_not(colour: str, filed: Shop) -> None:
    shop, gate = filed, Gate()

    def blocking(n: int) -> None:
        gate.enter()

    async def waiting(n: int) -> None:
        await asyncio.to_thread(gate.enter)

    task = shop.task(blocking if colour == "threads" else waiting, kind="work", max_crashes=7)
    run = shop.start(*(task.of(n) for n in range(3)))
    with shop.working(threads=3, coroutines=3):
        gate.wait_for(3)
        assert told(shop) == Death(dict.fromkeys(shop.tasks(run), 7))
        gate.open()
        wait_until(lambda: shop.store.reads.run(run).state.is_end)
        assert told(shop) == Death()


def test_the_thread_of_the_loop_keeps_the_record_too(filed: Shop) -> None:
    seen: list[Death] = []

    def look(n: int) -> None:
        if n == 400:
            seen.append(told(filed))

    task = filed.task(look)
    run = filed.start(*(task.of(n) for n in range(500)))
    filed.finish(run, threads=0)
    ((found,),) = [death.ran for death in seen]
    assert found in filed.tasks(run)


def test_a_time_limit_is_in_the_record(filed: Shop) -> None:
    shop, gate = filed, Gate()

    def limited() -> None:
        gate.enter()

    run = shop.start(shop.task(limited, timeout=0.2, retries=0).of())
    folder = shop.store.records
    assert folder is not None
    with shop.working(threads=2):
        gate.wait_for(1)
        (process,) = [process.id for process in shop.store.reads.processes() if not process.reaped]
        wait_until(lambda: overdue(folder, process, 0.0) == shop.tasks(run)[0])
        gate.open()


def test_a_kernel_that_is_stopped_says_so_in_its_record(filed: Shop) -> None:
    shop, gate = filed, Gate()

    def work() -> None:
        gate.enter()

    shop.start(shop.task(work).of())
    kernel = shop.kernel(threads=1)
    kernel.start()
    gate.wait_for(1)
    assert told(shop).ran
    kernel.stop()
    assert told(shop) == Death()
    gate.open()
    assert kernel.join(10)


def test_nothing_is_left_of_a_kernel_that_left(filed: Shop) -> None:
    run = filed.run(filed.task(lambda: None, kind="work").of())
    assert filed.store.reads.run(run).state.is_end
    folder = filed.store.records
    assert folder is not None
    assert not [path.name for path in folder.iterdir() if path.suffix in (".record", ".fault")]
