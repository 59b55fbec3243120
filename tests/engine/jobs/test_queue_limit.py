"""How many jobs a queue takes: counted together where they come together, and waited for without getting in the way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ramify import ConfigError, Engine, Job, JobState, QueueFull, Tasks
from tests.engine.conftest import Make
from tests.engine.sums import add, elsewhere, sums, total

here = Tasks(include=[sums])


@here.task(retries=0)
def fail() -> None:
    raise ValueError("no")


@pytest.fixture
def engine(make: Make) -> Engine:
    return make(here)


async def soon(what: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(what, 30)


def test_a_full_queue_refuses(engine: Engine) -> None:
    queue = engine.queue("default", max_pending=3)
    engine.enqueue_many([add.of(1), add.of(2)])
    with pytest.raises(QueueFull, match=r"has 2 jobs that have not ended, and takes 3"):
        engine.enqueue_many([add.of(3), add.of(4)])
    with pytest.raises(QueueFull, match=r"takes at most 3 jobs, got 4 at once\. Add fewer"):
        engine.enqueue_many([add.of(n) for n in range(4)])
    engine.enqueue(add.of(3))
    with pytest.raises(QueueFull):
        asyncio.run(engine.aenqueue(add.of(4)))
    assert queue.pending == 3
    engine.enqueue(elsewhere.of(1))
    with engine.working(threads=1):
        for job in engine.jobs():
            job.wait(30)
    assert engine.enqueue(add.of(5)).is_new


def test_a_full_queue_lets_who_enqueues_wait_for_room(engine: Engine) -> None:
    engine.queue("default", max_pending=2, on_full="block")
    first = engine.enqueue_many([add.of(1), add.of(2)])
    with pytest.raises(QueueFull, match="Add fewer"):
        engine.enqueue_many([add.of(n) for n in range(3)])
    found: list[Job[int]] = []
    thread = threading.Thread(target=lambda: found.append(engine.enqueue(add.of(3))))
    thread.start()
    with engine.working(threads=1):
        thread.join(30)
        assert found[0].result(30) == 4
    assert all(job.state is JobState.DONE for job in first)


def test_of_many_that_come_at_once_as_many_are_added_as_there_is_room_for(engine: Engine) -> None:
    queue = engine.queue("default", max_pending=5)

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(engine.aenqueue(add.of(n)) for n in range(200)), return_exceptions=True)

    came = asyncio.run(all_of_them())
    assert queue.pending == 5
    assert sum(isinstance(each, Job) for each in came) == 5
    assert sum(isinstance(each, QueueFull) for each in came) == 195


def test_coroutines_wait_for_room_beside_each_other_until_all_are_in(engine: Engine) -> None:
    engine.queue("default", max_pending=3, on_full="block")

    async def all_of_them() -> list[Job[int]]:
        found: list[Job[int]] = await soon(asyncio.gather(*(engine.aenqueue(add.of(n)) for n in range(40))))
        return found

    with engine.working(threads=1):
        assert sorted(job.result(30) for job in asyncio.run(all_of_them())) == list(range(1, 41))


def test_who_waits_for_room_takes_no_thread_of_the_loop_and_holds_up_nobody(engine: Engine) -> None:
    engine.queue("default", max_pending=1, on_full="block")
    first, stuck = engine.enqueue(add.of(1)), threading.Event()

    async def wait_for_room() -> Job[int]:
        # The only thread that this loop lends is in use for as long as they wait.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        blocked = asyncio.create_task(asyncio.to_thread(stuck.wait, 30))
        waiting = asyncio.create_task(engine.aenqueue(add.of(2)))
        other = await soon(engine.aenqueue(elsewhere.of(1)))
        assert other.is_new
        assert not waiting.done()
        first.cancel()
        found: Job[int] = await soon(waiting)
        stuck.set()
        await blocked
        return found

    assert asyncio.run(wait_for_room()).state is JobState.QUEUED


def test_who_gives_up_waiting_for_room_is_gone_and_has_added_nothing(engine: Engine) -> None:
    queue = engine.queue("default", max_pending=1, on_full="block")
    engine.enqueue(add.of(1))
    gave_up: list[object] = []

    async def give_up() -> None:
        waiting = asyncio.create_task(engine.aenqueue(add.of(2)))
        await asyncio.sleep(0.05)
        waiting.cancel()
        gave_up.extend(await asyncio.gather(waiting, return_exceptions=True))

    # Beside this one, which would wait for ever for a loop that waits for its threads.
    thread = threading.Thread(target=lambda: asyncio.run(give_up()), daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert [type(each) for each in gave_up] == [asyncio.CancelledError]
    assert engine._runtime.watcher._asks == {}
    assert queue.pending == 1


def test_what_follows_a_job_needs_room_too(engine: Engine) -> None:
    queue = engine.queue("default", max_pending=2)
    first = engine.enqueue(add.of(1))
    first.then(total.of())
    with pytest.raises(QueueFull):
        first.then(total.of())
    with pytest.raises(QueueFull):
        engine.enqueue_many([elsewhere.of(1)], then=total.of())
    assert queue.pending == 2
    assert len(list(engine.jobs())) == 2


def test_a_full_queue_answers_with_the_job_that_has_the_key(engine: Engine) -> None:
    engine.queue("default", max_pending=2)
    held = engine.enqueue(add.of(1).unique("k"))
    done = engine.enqueue(add.of(2).unique("d"))
    with engine.working(threads=1):
        done.wait(30)
        held.wait(30)
    waits = engine.enqueue_many([add.of(1).unique("w").delay(100), add.of(3).delay(100)])
    assert engine.enqueue(add.of(9).unique("w")) == waits[0]
    assert engine.enqueue(add.of(9).unique("d")) == done
    assert [job.is_new for job in engine.enqueue_many([add.of(9).unique("w"), add.of(2).unique("d")])] == [False, False]
    for again in (True, False):
        # One that was done has no key for who comes again, and nobody has this one.
        with pytest.raises(QueueFull):
            engine.enqueue(add.of(9).unique("d" if again else "n"), again=again)
    waits[0].cancel()
    engine.enqueue(fail.of().delay(100))
    with pytest.raises(QueueFull):
        engine.enqueue(add.of(9).unique("w"))


def test_calls_with_one_key_that_come_at_once_need_room_for_one(engine: Engine) -> None:
    queue = engine.queue("default", max_pending=1)

    async def all_of_them() -> list[Job[int]]:
        return await asyncio.gather(*(engine.aenqueue(add.of(1).unique("k")) for _ in range(20)))

    assert len({job.id for job in asyncio.run(all_of_them())}) == 1
    assert engine.enqueue_many([add.of(1).unique("k"), add.of(2).unique("k")])[1].is_new is False
    assert queue.pending == 1


def test_a_bound_can_be_lifted_and_who_asks_for_the_queue_leaves_it_as_it_is(engine: Engine) -> None:
    engine.queue("default", max_pending=1)
    engine.enqueue(add.of(1))
    engine.queue("default")
    with pytest.raises(QueueFull):
        engine.enqueue(add.of(2))
    engine.queue("default", max_pending=None)
    assert engine.enqueue(add.of(2)).is_new


@pytest.mark.parametrize(
    "options",
    [
        {"max_pending": 0},
        {"max_pending": True},
        {"max_pending": "5"},
        {"max_pending": 1, "on_full": "drop"},
        {"on_full": "block"},
        {"max_pending": None, "on_full": "block"},
    ],
)
def test_bounds_that_make_no_sense_are_refused(engine: Engine, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^queue\(.*\): expected "):
        engine.queue("default", **options)
