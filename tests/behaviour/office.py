"""An office with jobs of several kinds, and a trace of which were begun."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ramify import Backoff, Engine, Fatal, Stream, current

engine = Engine("behaviour.db")
#: The jobs that were begun, in order.
trace: list[str] = []
#: What a job does while it runs, by its name.
acts: dict[str, Callable[[], object]] = {}


@engine.task
def letter(name: str) -> str:
    """Write a letter."""
    trace.append(name)
    if name in acts:
        acts.pop(name)()
    return f"Dear {name}"


@engine.task(queue="mail")
def post(name: str) -> str:
    """Send one."""
    trace.append(name)
    return f"sent {name}"


@engine.task
def lost(name: str) -> str:
    """Fail at first, until somebody tries again."""
    trace.append(name)
    if current().attempt == 1 and trace.count(name) == 1:
        raise Fatal("no such address")
    return f"found {name}"


@engine.task(retries=1, backoff=Backoff(first=10.0, jitter=False))
def late(name: str) -> str:
    """Succeed the second time, ten seconds later."""
    trace.append(name)
    if current().attempt == 1:
        raise ConnectionError("not yet")
    return f"{name}, late"


@engine.task(keep=60)
def memo(name: str) -> str:
    """Something that is kept for a minute."""
    trace.append(name)
    return name


@engine.task
def bundle(letters: Stream[str] = Stream()) -> list[str]:
    """What others gave, in the order of their calls."""
    trace.append("bundle")
    return list(letters)


@engine.task
def stamp(text: str, sign: str = "!") -> str:
    """What another gave, with a sign behind it."""
    trace.append("stamp")
    return f"{text}{sign}"


@engine.task
def clip(letters: Stream[str], sep: str) -> str:
    """What others gave, as one text."""
    return sep.join(letters)


@engine.task
def sell(who: str) -> int:
    """Take a stamp from those of somebody, which all jobs share; how many are left."""
    trace.append(who)
    return current().values("stamps", int).update(who, lambda left: left - 1, default=0)


@engine.task
async def hang_detector(name: str) -> None:
    """Run until somebody cancels it."""
    trace.append(name)
    await asyncio.Event().wait()
