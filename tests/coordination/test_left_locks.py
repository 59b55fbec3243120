"""Locks that are left in odd ways: by another thread, by a loop that ends, by nobody, and taken again after that."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import _GeneratorContextManager, suppress
from types import FrameType
from typing import Any, TypeVar

import pytest

from ramify import Engine, LockLost, LockReentered
from ramify.model.lock import MOST_WAITERS, Acquisition, LockState
from tests.coordination.conftest import Programs
from tests.coordination.test_lock import state
from tests.kernel.shop import LONG, wait_until

T = TypeVar("T")


def elsewhere(act: Callable[[], T]) -> T:
    """Call something in a thread of its own."""
    found = list[T]()
    thread = threading.Thread(target=lambda: found.append(act()))
    thread.start()
    thread.join(LONG)
    return found[0]


def block(engine: Engine, name: str = "report") -> Iterator[None]:
    with engine.lock(name):
        yield


def test_a_block_may_end_in_another_thread_than_it_began_in(programs: Programs) -> None:
    engine = programs()
    making = block(engine)
    next(making)
    elsewhere(making.close)  # type: ignore[attr-defined]
    assert state(engine).is_free


def test_a_block_may_end_in_another_coroutine_than_it_began_in(programs: Programs) -> None:
    engine = programs()
    lock = engine.lock("report")

    async def both() -> None:
        await asyncio.create_task(lock.__aenter__())
        assert not state(engine).is_free
        await asyncio.create_task(lock.__aexit__(None, None, None))

    asyncio.run(both())
    assert state(engine).is_free


def test_a_block_ends_its_own_hold_although_others_have_one_by_the_same_value(programs: Programs) -> None:
    lock = programs().lock("report", holders=3)
    first = elsewhere(lock.__enter__)
    with lock as held:
        other = elsewhere(lock.__enter__)
        held.check()
    assert [each._is_released for each in (first, held, other)] == [False, True, False]
    elsewhere(lambda: lock.__exit__(None, None, None))
    elsewhere(lambda: lock.__exit__(None, None, None))
    assert first._is_released
    assert other._is_released


def test_locks_are_released_whose_release_is_under_way_when_the_loop_ends(programs: Programs) -> None:
    engine = programs()
    names = [f"report-{at}" for at in range(8)]

    inside = list[str]()

    async def hold(name: str, go: asyncio.Event) -> None:
        async with engine.lock(name):
            inside.append(name)
            await go.wait()

    async def leave() -> None:
        go = asyncio.Event()
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(hold(name, go)) for name in names]
        while len(inside) < len(names):
            await asyncio.sleep(0.01)
        tasks.append(asyncio.create_task(engine._runtime.locks.aside(block_others)))
        while not entered.is_set():
            await asyncio.sleep(0.01)
        go.set()
        # All of them have begun to release, behind a step that takes long.
        while engine._runtime.locks._steps._work_queue.qsize() < len(names):  # type: ignore[union-attr]
            await asyncio.sleep(0.01)

    entered, freed = threading.Event(), threading.Event()

    def block_others() -> None:
        entered.set()
        freed.wait(LONG)

    thread = threading.Thread(target=lambda: asyncio.run(leave()))
    thread.start()
    thread.join(LONG)
    freed.set()
    wait_until(lambda: all(state(engine, name).is_free for name in names))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_lock_of_a_coroutine_that_is_thrown_away_is_released(programs: Programs) -> None:
    engine = programs()

    inside = list[bool]()

    async def hold() -> None:
        async with engine.lock("report"):
            inside.append(True)
            await asyncio.Event().wait()

    loop = asyncio.new_event_loop()
    task = loop.create_task(hold())
    while not inside:
        loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()
    del task
    gc.collect()
    wait_until(lambda: state(engine).is_free)


def test_a_thread_is_not_taken_for_one_that_has_ended(programs: Programs) -> None:
    engine = programs()
    held = elsewhere(engine.lock("report").try_acquire)
    assert held is not None
    for _ in range(5):
        assert elsewhere(engine.lock("report").try_acquire) is None, "its number may be that of the first"
    held.release()


def test_who_has_lost_a_lock_may_take_it_again(programs: Programs) -> None:
    engine = programs()
    lock = engine.lock("report", wait=LONG, ttl=0.2)
    first = lock.try_acquire()
    assert first is not None
    wait_until(lambda: bool(first._bid.why_not()))
    with engine.lock("report") as second:
        assert second.fence > first.fence
        with pytest.raises(LockReentered):
            lock.try_acquire()
        with pytest.raises(LockLost, match="ttl"):
            first.release()
        with pytest.raises(LockReentered):
            lock.try_acquire()


def test_a_coroutine_that_has_lost_a_lock_may_take_it_again(programs: Programs) -> None:
    engine = programs()

    async def twice() -> None:
        first = await engine.lock("report", ttl=0.2).atry_acquire()
        assert first is not None
        await asyncio.to_thread(wait_until, lambda: bool(first._bid.why_not()))
        async with engine.lock("report") as second:
            assert second.fence > first.fence
            with pytest.raises(LockReentered, match="this coroutine"):
                await engine.lock("report").atry_acquire()

    asyncio.run(twice())


@pytest.mark.parametrize(("outer", "inner"), [(1, 2), (2, 1)])
def test_who_holds_a_lock_alone_would_wait_for_itself_whatever_holders_says(
    outer: int, inner: int, programs: Programs
) -> None:
    engine = programs()
    with engine.lock("report", holders=outer), pytest.raises(LockReentered, match="holds it already"):
        engine.lock("report", holders=inner, wait=LONG).__enter__()


@pytest.mark.parametrize("at", range(1, 25, 2))
def test_ctrl_c_in_the_exit_of_a_transaction_leaves_no_grant(at: int, programs: Programs) -> None:
    engine = programs()
    exits = 0

    def interrupt(frame: FrameType, event: str, _: object) -> None:
        nonlocal exits
        if event == "call" and frame.f_code is contextmanager_exit:
            exits += 1
            if exits == at:
                raise KeyboardInterrupt

    contextmanager_exit = _GeneratorContextManager.__exit__.__code__
    with engine.lock("another"):
        pass
    sys.settrace(interrupt)
    with suppress(KeyboardInterrupt), engine.lock("report"):
        pass
    sys.settrace(None)
    assert exits >= at
    assert state(engine).is_free
    with engine.lock("report"):
        pass


def test_who_finds_the_line_full_rests(programs: Programs) -> None:
    engine = programs()
    engine.lock("report").try_acquire()
    bid = engine._runtime.locks._bid("report", 1, None)
    full = LockState(1, 1_000, (of(0),), tuple(of(at) for at in range(1, MOST_WAITERS + 1)))
    show(bid, full)
    assert not bid.is_news()
    show(bid, full.left(7))
    assert bid.is_news(), "there is a place in the line"
    show(bid, full.left(7).asked(of(bid.id)))
    assert not bid.is_news(), "it is in line"


def of(id: int) -> Acquisition:
    return Acquisition(id, 1, 1, "host", 0)


def show(bid: Any, state: LockState) -> None:
    """Let a bid read that state."""
    bid._ledger._read.clear()
    bid._ledger.read = lambda _: type("Found", (), {"state": state})
