"""A lock as programs use it: threads, coroutines and programs exclude each other, and errors say what to write."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest

from ramify import ConfigError, Engine, LockLost, LockReentered, LockTimeout
from ramify.model.lock import LOCKS
from tests.coordination.conftest import Programs
from tests.kernel.shop import LONG, wait_until


def state(engine: Engine, name: str = "report") -> Any:
    """The state of a lock as it is stored."""
    return engine._runtime.locks._ledger.read(name).state  # type: ignore[union-attr]


def waiters(engine: Engine, name: str = "report") -> int:
    return len(state(engine, name).waiters)


def test_one_at_a_time_holds_a_lock_and_fences_rise(programs: Programs) -> None:
    one, other = programs(), programs()
    with one.lock("report") as held:
        held.check()
        assert other.lock("report").try_acquire() is None
        assert other.lock("else").try_acquire() is not None, "another name is another lock"
        first = held.fence
    with other.lock("report") as held:
        assert held.fence > first
        assert held.name == "report"


def test_threads_of_one_program_exclude_each_other(programs: Programs) -> None:
    engine = programs()
    lock = engine.lock("report", wait=LONG)
    inside, most, fences = 0, 0, list[int]()

    def work() -> None:
        nonlocal inside, most
        for _ in range(5):
            with lock as held:
                inside += 1
                most = max(most, inside)
                fences.append(held.fence)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert most == 1
    assert fences == sorted(set(fences))
    assert len(fences) == 20


def test_so_many_hold_it_as_holders_says(programs: Programs) -> None:
    one, other = programs(), programs()
    lock = one.lock("report", holders=2)
    with lock, lock as second:
        assert other.lock("report", holders=2).try_acquire() is None
        with pytest.raises(LockReentered, match="holds it already"):
            lock.try_acquire()
        second.release()
        with other.lock("report", holders=2).try_acquire() or pytest.fail("it is free"):
            pass


def test_those_who_wait_are_served_first_come_first_served(programs: Programs) -> None:
    engines, served = [programs() for _ in range(3)], list[int]()

    def wait(number: int) -> None:
        with engines[number % 3].lock("report", wait=LONG):
            served.append(number)

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(6)]
    with engines[0].lock("report"):
        for number, thread in enumerate(threads):
            thread.start()
            wait_until(lambda: waiters(engines[0]) == number + 1)  # noqa: B023
    for thread in threads:
        thread.join(LONG)
    assert served == [0, 1, 2, 3, 4, 5]


def test_who_waits_in_vain_is_told_who_holds_it(programs: Programs) -> None:
    one, other = programs(), programs()
    with one.lock("report"):
        with pytest.raises(LockTimeout, match=r"not free within 0.05 s. Held by process \d+ on .* since") as caught:
            other.lock("report", wait=timedelta(milliseconds=50)).__enter__()
        assert caught.value.name == "report"
        assert [each.fence for each in caught.value.holders] == [each.fence for each in state(one).holders]
        assert waiters(one) == 0, "it has left the line"
        with pytest.raises(LockTimeout, match=r"'report'\): not free. Held by"):
            other.lock("report", wait=0).__enter__()


def test_a_thread_that_would_wait_for_itself_is_told_so(programs: Programs) -> None:
    engine = programs()
    with engine.lock("report") as held:
        with pytest.raises(LockReentered, match="this thread holds it already, and would wait for itself"):
            engine.lock("report").__enter__()
        held.check()
    with engine.lock("report"):
        pass


def test_a_lock_is_released_when_its_block_raises(programs: Programs) -> None:
    engine = programs()
    with pytest.raises(ZeroDivisionError), engine.lock("report"):
        raise ZeroDivisionError
    assert state(engine).is_free


def test_a_grant_may_be_released_in_another_thread_and_once(programs: Programs) -> None:
    engine = programs()
    held = engine.lock("report").try_acquire()
    assert held is not None
    thread = threading.Thread(target=held.release)
    thread.start()
    thread.join(LONG)
    held.release()
    with pytest.raises(LockLost, match="it was released"):
        held.check()
    with engine.lock("report"):
        pass


# coroutines


def test_coroutines_of_one_program_exclude_each_other_and_the_loop_turns(programs: Programs) -> None:
    engine = programs()
    fences, inside, turns = list[int](), 0, 0

    async def work() -> None:
        nonlocal inside
        async with engine.lock("report", wait=LONG) as held:
            inside += 1
            assert inside == 1
            await asyncio.sleep(0)
            fences.append(held.fence)
            inside -= 1

    async def turn() -> None:
        nonlocal turns
        while len(fences) < 5:
            turns += 1
            await asyncio.sleep(0)

    async def all() -> None:
        await asyncio.gather(turn(), *(work() for _ in range(5)))

    asyncio.run(all())
    assert fences == sorted(set(fences))
    assert turns > 50


def test_a_coroutine_that_is_cancelled_leaves_the_line_and_no_grant(programs: Programs) -> None:
    one, other = programs(), programs()

    async def wait() -> None:
        async with other.lock("report", wait=LONG):
            pytest.fail("it was cancelled")

    async def all() -> None:
        async with one.lock("report"):
            task = asyncio.create_task(wait())
            while waiters(one) == 0:
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert waiters(one) == 0
        assert state(one).is_free

    asyncio.run(all())


@pytest.mark.parametrize("turns", range(0, 40, 3))
def test_a_coroutine_may_be_cancelled_at_any_moment(turns: int, programs: Programs) -> None:
    engine = programs()

    async def hold() -> None:
        async with engine.lock("report", wait=LONG):
            await asyncio.sleep(0)

    async def all() -> None:
        task = asyncio.create_task(hold())
        for _ in range(turns * 50):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        async with engine.lock("report", wait=LONG):
            pass

    asyncio.run(all())


def test_a_coroutine_that_would_wait_for_itself_is_told_so(programs: Programs) -> None:
    engine = programs()

    async def all() -> None:
        async with engine.lock("report"):
            with pytest.raises(LockReentered, match="this coroutine holds it already"):
                await engine.lock("report").__aenter__()
            assert await asyncio.create_task(engine.lock("report").atry_acquire()) is None
        held = await engine.lock("report").atry_acquire()
        assert held is not None
        async with held:
            held.check()

    asyncio.run(all())


def test_a_lock_by_with_inside_a_coroutine_is_refused_with_what_to_write(programs: Programs) -> None:
    engine = programs()

    @engine.lock("report")
    def plain() -> None: ...

    async def all() -> None:
        for blocking in (engine.lock("report").__enter__, engine.lock("report").try_acquire, plain):
            with pytest.raises(ConfigError, match=r"Write `async with engine.lock\('report'\):`"):
                blocking()

    asyncio.run(all())


def test_who_waits_in_a_coroutine_in_vain_is_told_who_holds_it(programs: Programs) -> None:
    one, other = programs(), programs()

    async def all() -> None:
        async with one.lock("report"):
            with pytest.raises(LockTimeout, match="Held by process"):
                await other.lock("report", wait=0.05).__aenter__()
            with pytest.raises(LockTimeout, match="Held by process"):
                await other.lock("report", wait=0).__aenter__()

    asyncio.run(all())


# decorators


def test_a_decorator_takes_the_name_from_the_arguments(programs: Programs) -> None:
    engine = programs()

    @engine.lock("report-{customer}-{year}")
    def report(customer: str, *, year: int = 2026) -> list[str]:
        """Make a report."""
        return [
            name for name in ("report-ann-2026", "report-bob-1") if engine.lock(name, holders=2).try_acquire() is None
        ]

    assert report("ann") == ["report-ann-2026"]
    assert (report.__name__, report.__doc__) == ("report", "Make a report.")

    @engine.lock(lambda customer: f"report-{customer.lower()}")
    def other(first: int, customer: str) -> bool:
        return bool(state(engine, "report-eve").is_free)

    assert not other(1, "Eve")
    assert state(engine, "report-eve").is_free


def test_a_decorator_holds_the_lock_while_generators_and_coroutines_run(programs: Programs) -> None:
    engine = programs()
    seen: list[bool] = []

    def look() -> None:
        seen.append(state(engine).is_free)

    @engine.lock("report")
    def each() -> Iterator[int]:
        look()
        yield 1
        look()

    @engine.lock("report")
    async def call() -> None:
        look()

    @engine.lock("report")
    async def each_async() -> AsyncIterator[int]:
        yield 2
        look()

    async def all() -> None:
        await call()
        assert [made async for made in each_async()] == [2]

    assert list(each()) == [1]
    asyncio.run(all())
    assert seen == [False] * 4
    assert state(engine).is_free


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("report-{costumer}", r"report\(\) has no parameter 'costumer'. It has customer."),
        ("report-{}", "expected the name of a parameter in {}"),
        ("report-{0}", "expected the name of a parameter in {0}"),
        ("report-{", "Write {{ and }} for braces"),
        (lambda costumer: costumer, r"report\(\) has no parameter 'costumer'"),
    ],
)
def test_a_name_that_can_never_be_made_is_refused_at_decoration(name: Any, says: str, programs: Programs) -> None:
    def report(customer: str) -> None: ...

    with pytest.raises(ConfigError, match=says):
        programs().lock(name)(report)


def test_a_decorator_above_a_task_is_refused(programs: Programs) -> None:
    engine = programs()

    @engine.task
    def report(customer: str) -> None: ...

    with pytest.raises(ConfigError, match=r"Put @engine.lock\(...\) below @engine.task"):
        engine.lock("report")(report)


# bad input


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"name": 3}, r"Write engine.lock\(\"report\"\)"),
        ({"name": ""}, "name of a lock is empty. Give it a name"),
        ({"name": "n" * 256}, "at most 255 are allowed. Shorten it"),
        ({"name": "a\0b"}, "holds a NUL or a lone surrogate. Use plain text"),
        ({"name": "a\ud800"}, "holds a NUL or a lone surrogate. Use plain text"),
        ({"name": "report-{customer}"}, r"Write f'report-{customer}'"),
        ({"name": len}, "Only decorators take a function"),
        ({"wait": -1}, "expected seconds, a timedelta, or None to wait for ever. Write wait=10"),
        ({"wait": "1"}, "expected seconds, a timedelta, or None"),
        ({"holders": 0}, "expected a number from 1 to 100. Write holders=2"),
        ({"holders": 101}, "expected a number from 1 to 100"),
        ({"holders": True}, "expected a number from 1 to 100"),
        ({"ttl": 0}, "expected a time above 0. Give seconds or a timedelta"),
        ({"ttl": float("nan")}, "expected a time above 0"),
    ],
)
def test_bad_input_is_refused_with_what_to_write(given: dict[str, Any], says: str, programs: Programs) -> None:
    with pytest.raises(ConfigError, match=says):
        programs().lock(**{"name": "report", **given}).__enter__()


def test_values_of_programs_cannot_name_locks(programs: Programs) -> None:
    with pytest.raises(ConfigError, match="are reserved"):
        programs().values(LOCKS, str)
