"""6. Async.

`async def` tasks run concurrently on one event loop, hundreds at a time, beside plain tasks in threads. An async
generator yields its children and returns a result with `yield Return(value)`, because Python lets it return none.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from ramify import AsyncSpawns, Engine, Return, RunState

engine = Engine("async.db")


@engine.resource
async def postbox() -> AsyncIterator[list[str]]:
    """Opened when the first task of a process asks for it, and closed at the end."""
    opened: list[str] = []
    yield opened
    opened.clear()


@engine.task
async def deliver(letter: str) -> int:
    box = await postbox()
    await asyncio.sleep(0)  # other tasks continue here
    box.append(letter)
    return len(letter)


@engine.task
async def write(count: int) -> AsyncSpawns[str]:
    for n in range(count):
        yield deliver.of("x" * n)
    yield Return(f"{count} letters")


def test_async_tasks_have_children_and_results() -> None:
    """A resource, such as an HTTP client, is opened once per process, when the first task asks for it."""
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


def test_async_tasks_run_concurrently() -> None:
    """Each of these twenty tasks waits for all others, so none could end alone."""
    run = engine.run([meet.of(20).key(str(n)) for n in range(20)])
    assert all(run.results())


def test_workers_run_inside_an_async_program() -> None:
    """`engine.working()` works in the background for the length of a block. Runs and jobs are awaitable."""

    async def program() -> list[int]:
        async with engine.working():
            run = engine.start(write.of(3))
            await run
            assert run.state is RunState.DONE
            return [result async for result in run.aresults(deliver)]

    assert asyncio.run(program()) == [0, 1, 2]
