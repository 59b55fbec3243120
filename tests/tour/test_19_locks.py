"""19. Locks.

A lock lets one holder at a time do something: a thread, a coroutine, a task or another program on the same store. It
is free at once when the process that holds it dies.
"""

from __future__ import annotations

import asyncio

import pytest

from ramify import Engine, LockLost, LockReentered
from ramify.testing import using

engine = Engine("shop.db")


@engine.task
@engine.lock("customer-{customer}")
def charge(customer: str, cents: int) -> int:
    return cents


def test_a_lock_is_held_for_a_block() -> None:
    """Whoever else asks for it waits, at most `wait` seconds. `try_acquire` does not wait, and may return None."""
    with using(engine):
        with engine.lock("report") as held:
            held.check()
        other = engine.lock("report").try_acquire()
        assert other is not None
        with other:
            assert other.fence > held.fence


def test_coroutines_write_async_with() -> None:
    """The event loop turns while a coroutine waits."""
    order: list[str] = []

    async def build(name: str) -> None:
        async with engine.lock("report"):
            order.append(f"{name} begins")
            await asyncio.sleep(0)
            order.append(f"{name} ends")

    async def both() -> None:
        await asyncio.gather(build("a"), build("b"))

    with using(engine):
        asyncio.run(both())
        assert order in (["a begins", "a ends", "b begins", "b ends"], ["b begins", "b ends", "a begins", "a ends"])


def test_a_decorator_takes_the_name_from_the_arguments() -> None:
    """One charge of a customer at a time, whichever worker runs it."""
    with using(engine):
        run = engine.run([charge.of("ann", 1), charge.of("ann", 2), charge.of("bob", 3)])
        assert sorted(run.results()) == [1, 2, 3]


def test_locks_are_not_re_entrant() -> None:
    """A thread that would wait for itself is told so."""
    with using(engine), engine.lock("report"), pytest.raises(LockReentered):
        engine.lock("report").try_acquire()


def test_a_lost_lock_says_so() -> None:
    """A lock can expire. Others may hold it then, so `check` and the end of the block raise LockLost."""
    with using(engine) as bench:
        held = engine.lock("report", ttl=60).try_acquire()
        assert held is not None
        held.check()
        bench.advance(61)
        with pytest.raises(LockLost, match="its ttl of 60 s was up"):
            held.check()
        with pytest.raises(LockLost):
            held.release()
