"""6. Async.

`async def` tasks run side by side on one event loop, hundreds at a time, next to plain ones in threads. An async
generator yields children, and its last word is `yield Return(value)`, because it cannot return one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from ramify import AsyncSpawns, Engine, Return, RunState

engine = Engine("async.db")


@engine.resource
async def postbox() -> AsyncIterator[list[str]]:
    """What tasks share in a process: opened when the first one asks for it, closed at the end."""
    opened: list[str] = []
    yield opened
    opened.clear()


@engine.task
async def deliver(letter: str) -> int:
    box = await postbox()
    await asyncio.sleep(0)  # here the others go on
    box.append(letter)
    return len(letter)


@engine.task
async def write(count: int) -> AsyncSpawns[str]:
    for n in range(count):
        yield deliver.of("x" * n)
    yield Return(f"{count} letters")


def test_async_tasks_have_children_and_results_like_all_others() -> None:
    run = engine.run(write.of(4))
    assert list(run.results(write)) == ["4 letters"]
    assert list(run.results(deliver)) == [0, 1, 2, 3]


meeting: asyncio.Event | None = None
came = 0


@engine.task
async def meet(others: int) -> bool:
    global came, meeting
    meeting = meeting or asyncio.Event()
    came += 1
    if came == others:
        meeting.set()
    return await meeting.wait()


def test_they_run_side_by_side() -> None:
    run = engine.run([meet.of(20).key(str(n)) for n in range(20)])  # no one of them could end alone
    assert all(run.results())


def test_workers_inside_an_async_program() -> None:
    async def program() -> list[int]:
        async with engine.working():
            run = engine.start(write.of(3))
            await run
            assert run.state is RunState.DONE
            return [result async for result in run.aresults(deliver)]

    assert asyncio.run(program()) == [0, 1, 2]
