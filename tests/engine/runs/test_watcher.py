"""Coroutines that wait share one thread, and take none of those that their event loop lends."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ramify import Engine, Job, JobFailed, StoreUnavailable, Tasks
from tests.engine.conftest import Make

here = Tasks()
GO = threading.Event()


@here.task(retries=0)
def after_all(n: int) -> int:
    assert GO.wait(30)
    if n < 0:
        raise ValueError("below")
    return n


@pytest.fixture
def engine(make: Make) -> Engine:
    GO.clear()
    return make(here)


def watchers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "ramify-watcher"]


def test_many_wait_in_one_thread_and_leave_those_of_the_loop_alone(engine: Engine) -> None:
    stuck = threading.Event()

    async def wait_for_all() -> list[int]:
        loop = asyncio.get_running_loop()
        # The only thread that this loop lends is in use for as long as they wait.
        loop.set_default_executor(ThreadPoolExecutor(1))
        jobs = engine.enqueue_many([after_all.of(n) for n in range(60)])
        blocked = asyncio.create_task(asyncio.to_thread(stuck.wait, 30))
        waiting = [asyncio.ensure_future(_result(job)) for job in jobs]
        await asyncio.sleep(0)
        assert len(watchers()) == 1
        GO.set()
        found = await asyncio.wait_for(asyncio.gather(*waiting), 30)
        stuck.set()
        await blocked
        return found

    with engine.working(threads=2):
        assert asyncio.run(wait_for_all()) == list(range(60))


async def _result(job: Job[int]) -> int:
    return await job


def test_who_gives_up_is_forgotten_and_the_thread_ends_with_the_last(engine: Engine) -> None:
    job = engine.enqueue(after_all.of(1))

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_result(job), 0.01)

    asyncio.run(give_up())
    assert engine._runtime.watcher._asks == {}
    engine._runtime.store.wake()
    for thread in watchers():
        thread.join(30)
    assert watchers() == []
    GO.set()

    async def both() -> None:
        engine.enqueue(after_all.of(-1))
        assert await job == 1
        with pytest.raises(JobFailed, match="below"):
            await next(engine.jobs())

    with engine.working(threads=1):
        asyncio.run(both())


def test_what_asking_runs_into_is_raised_where_somebody_waits(engine: Engine) -> None:
    engine.enqueue(after_all.of(1))

    def ask() -> None:
        raise StoreUnavailable("away")

    async def wait() -> None:
        with pytest.raises(StoreUnavailable, match="away"):
            await engine._runtime.watcher.until(ask)

    asyncio.run(wait())
