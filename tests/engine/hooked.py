"""Tasks of every calling, and an engine with hooks where worker processes find it."""

import asyncio
import os
from collections.abc import Iterator
from contextvars import ContextVar

from ramify import AsyncSpawns, Backoff, Current, Engine, Return, Spawns, Tasks

SOON = Backoff(first=0)

jobs = Tasks()
engine = Engine("hooked.db", include=[jobs])

#: What happened, in order.
trace: list[str] = []
#: What the next attempts raise, first come, first served.
troubles: list[BaseException] = []
tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


@engine.around
def tenanted(me: Current) -> Iterator[None]:
    """The tenant of a run, for as long as an attempt lasts."""
    token = tenant.set(f"{me.params} {me.attempt}")
    try:
        yield
    finally:
        tenant.reset(token)


def here(name: str) -> str:
    trace.append(name)
    if troubles:
        raise troubles.pop(0)
    return tenant.get()


@jobs.task(retries=1, backoff=SOON)
def plain(name: str) -> str:
    return here(name)


@jobs.task(retries=1, backoff=SOON)
def generator(name: str) -> Spawns[str]:
    for n in range(2):
        yield leaf.of(f"{name}{n}")
        trace.append(f"{name} yielded {n}")
    return here(name)


@jobs.task(retries=1, backoff=SOON)
async def coroutine(name: str) -> str:
    await asyncio.sleep(0)
    return here(name)


@jobs.task(retries=1, backoff=SOON)
async def async_generator(name: str) -> AsyncSpawns[str]:
    for n in range(2):
        yield leaf.of(f"{name}{n}")
        trace.append(f"{name} yielded {n}")
    yield Return(here(name))


@jobs.task
def leaf(name: str) -> int:
    return os.getpid()
