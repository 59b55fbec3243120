"""Locks that tasks and programs share: in one process, in several, and held by workers, on every store.

A store that lives inside one program has no other processes; there, its programs are engines on one client.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ramify import Engine, JobState, LockLost, LockTimeout, RunState, current
from ramify.coordination.held import Held
from ramify.coordination.unlocking import unlock
from ramify.inspect.locks import locks
from ramify.kernel.settings import Settings
from ramify.model.lock import FREE_FOR
from ramify.store.memory import MemoryStore, MemoryTables
from ramify.store.open import open_store
from ramify.testing import oracle
from ramify.testing.conformance.house import Worker
from ramify.testing.using import Workbench
from tests.behaviour.conftest import STORES
from tests.behaviour.office import acts, engine, letter
from tests.kernel.shop import LONG, wait_until

WORKER = """
import sys
from ramify import Engine
engine = Engine(sys.argv[1], durability="process")
for line in sys.stdin:
    with engine.lock("report", wait=60) as held:
        print(held.fence, flush=True)
        sys.stdin.readline()
    print("released", flush=True)
"""


@pytest.fixture(autouse=True)
def nothing_contradicts_itself(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test did, the log is whole."""
    yield
    acts.clear()
    if "bench" in request.fixturenames:
        assert oracle.check(engine._runtime.store) == []


def test_a_program_and_a_task_exclude_each_other(bench: Workbench) -> None:
    seen: list[Any] = []

    def act() -> None:
        try:
            with engine.lock("stamp", wait=0, holders=2) as held:
                seen.append((held.fence, current().task))
        except LockTimeout as error:
            seen.append(str(error))

    acts["ann"], acts["bob"] = act, act
    with engine.lock("stamp") as held:
        engine.enqueue(letter.of("ann"))
        bench.drain()
    job = engine.enqueue(letter.of("bob"))
    bench.drain()
    assert "not free. Held by process" in seen[0]
    assert seen[1][0] > held.fence
    assert seen[1][1] == job.id


def test_what_holds_a_lock_is_said_with_its_task(bench: Workbench) -> None:
    told: list[str] = []

    def act() -> None:
        with engine.lock("stamp"):
            (row,) = locks(engine._runtime.store)
            (holder,) = row.state.holders
            told.append(f"{holder.task} {holder.kind}")

    acts["ann"] = act
    job = engine.enqueue(letter.of("ann"))
    bench.drain()
    assert told == [f"{job.id} letter"]


def test_a_task_that_fails_holds_nothing(bench: Workbench) -> None:
    def act() -> None:
        with engine.lock("stamp"):
            raise ConnectionError("no ink")

    acts["ann"] = act
    job = engine.enqueue(letter.of("ann").retries(0))
    bench.drain(raising=False)
    assert job.state is JobState.FAILED
    assert not list(locks(engine._runtime.store))


def test_threads_of_workers_exclude_each_other(bench: Workbench) -> None:
    inside, most, fences = 0, 0, list[int]()

    def act() -> None:
        nonlocal inside, most
        with engine.lock("stamp", wait=LONG) as held:
            inside += 1
            most = max(most, inside)
            fences.append(held.fence)
            inside -= 1

    for number in range(20):
        acts[f"{number}"] = act
    run = engine.start([letter.of(f"{number}") for number in range(20)])
    engine._runtime.kernel(Settings(runs=frozenset({run.id}), until_ended=True, threads=4)).run()
    assert (most, len(fences)) == (1, 20)
    assert sorted(set(fences)) == fences


def test_coroutines_and_threads_exclude_each_other(bench: Workbench) -> None:
    inside, order = 0, list[str]()

    async def hold(name: str) -> None:
        nonlocal inside
        async with engine.lock("stamp", wait=LONG):
            inside += 1
            assert inside == 1
            order.append(name)
            inside -= 1

    async def all() -> None:
        await asyncio.gather(*(hold(f"{number}") for number in range(5)))

    thread = threading.Thread(target=lambda: asyncio.run(all()))
    with engine.lock("stamp"):
        thread.start()
        wait_until(lambda: [len(row.state.waiters) for row in locks(engine._runtime.store)] == [5])
    thread.join(LONG)
    assert len(order) == 5


def test_a_lock_ends_with_its_time_to_live(bench: Workbench) -> None:
    held = engine.lock("stamp", ttl=30).try_acquire()
    assert held is not None
    bench.advance(31)
    other = engine.lock("stamp", holders=2).try_acquire()
    assert other is not None
    assert other.fence > held.fence
    with pytest.raises(LockLost, match="its ttl of 30 s was up"):
        held.release()
    other.release()


def test_an_unlocked_lock_goes_to_the_next_in_line(bench: Workbench) -> None:
    got: list[int] = []

    def wait() -> None:
        with engine.lock("stamp", wait=LONG) as held:
            got.append(held.fence)

    thread = threading.Thread(target=wait)
    held = engine.lock("stamp").try_acquire()
    assert held is not None
    thread.start()
    wait_until(lambda: [len(row.state.waiters) for row in locks(engine._runtime.store)] == [1])
    unlock(engine._runtime.store, "stamp", "ann", "stuck")
    thread.join(LONG)
    assert got == [held.fence + 1]
    with pytest.raises(LockLost, match="ann unlocked it: stuck"):
        held.release()


def test_a_fence_rises_though_a_free_lock_is_forgotten(bench: Workbench) -> None:
    fences: list[int] = []
    for _ in range(3):
        with engine.lock("stamp") as held:
            fences.append(held.fence)
        bench.advance(FREE_FOR / 1_000_000 + 1)
        assert engine._runtime.store.vacuum().values == 1
    assert sorted(set(fences)) == fences


def test_two_processes_exclude_each_other(bench: Workbench, tmp_path: Path) -> None:
    if not engine._runtime.store.describe().shared:
        pytest.skip("the store lives inside one program")
    programs = [Program(tmp_path / "behaviour.db") for _ in range(2)]
    try:
        with engine.lock("report") as held:
            for at, program in enumerate(programs):
                program.tell()
                wait_until(lambda: [len(row.state.waiters) for row in locks(engine._runtime.store)] == [at + 1])  # noqa: B023
        first = programs[0].hear()
        assert int(first) > held.fence
        assert engine.lock("report").try_acquire() is None
        programs[0].tell()
        assert programs[0].hear() == "released"
        assert int(programs[1].hear()) > int(first)
        programs[1].kill()
        with engine.lock("report", wait=LONG):
            pass
    finally:
        for program in programs:
            program.kill()


# two programs and two versions on one store


@pytest.fixture(params=STORES)
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Engine]]:
    """Makes programs on one store, with real time; each has a session of its own."""
    tables, made = MemoryTables(), list[Engine]()

    def make() -> Engine:
        program = Engine("memory:")
        store = MemoryStore(tables) if request.param == "memory" else open_store(tmp_path / "locks.db")
        program._runtime.use(store)
        made.append(program)
        return program

    yield make
    assert oracle.check(made[0]._runtime.store) == []
    for each in made:
        each.close()


def test_a_program_that_never_heard_of_a_lock_changes_nothing_of_it(program: Callable[[], Engine]) -> None:
    """It works, restarts, reaps and vacuums beside it; who holds the lock, and who waits, never notice."""
    knows, waits = program(), program()
    got: list[int] = []

    def wait() -> None:
        with waits.lock("report", wait=LONG) as held:
            got.append(held.fence)

    thread = threading.Thread(target=wait)
    with knows.lock("report") as held:
        thread.start()
        wait_until(lambda: [len(row.state.waiters) for row in locks(knows._runtime.store)] == [1])
        (before,) = locks(knows._runtime.store)
        for _ in range(2):
            stranger = program()
            task = stranger.task(name="stranger")(letter.fn)
            assert stranger.run(task.of("a")).state is RunState.DONE
            with stranger.lock("else"):
                pass
            sweeper = Worker(stranger._runtime.store)
            assert sweeper.reap().processes == ()
            sweeper.store.leave(sweeper.process)
            sweeper.store.vacuum()
            stranger.close()
        (after,) = locks(knows._runtime.store)
        assert after.state == before.state
        held.check()
    thread.join(LONG)
    assert got == [held.fence + 1]


def test_of_two_versions_the_stricter_number_of_holders_holds_while_it_is_there(
    program: Callable[[], Engine],
) -> None:
    older, newer = program(), program()
    one, two = older.lock("report", holders=1), newer.lock("report", holders=2)
    with one:
        assert two.try_acquire() is None, "the older one holds it alone"
    with two.try_acquire() or pytest.fail("it is free"):
        assert one.try_acquire() is None, "the older one would hold it with another"
        with program().lock("report", holders=2).try_acquire() or pytest.fail("two may hold it"):
            assert program().lock("report", holders=2).try_acquire() is None
    with one:
        pass


def test_a_time_to_live_is_that_of_the_version_that_holds_the_lock(bench: Workbench) -> None:
    older, newer = engine.lock("stamp"), engine.lock("stamp", ttl=30, holders=1)
    held = older.try_acquire()
    assert held is not None
    bench.advance(31)
    assert _elsewhere(newer.try_acquire) is None, "the older version gave it no end"
    held.release()
    short = newer.try_acquire()
    assert short is not None
    bench.advance(29)
    assert _elsewhere(older.try_acquire) is None
    bench.advance(2)
    late = _elsewhere(older.try_acquire)
    assert late is not None
    assert late.fence > short.fence
    late.release()
    with pytest.raises(LockLost, match="its ttl of 30 s was up"):
        short.release()


def _elsewhere(act: Callable[[], Held | None]) -> Held | None:
    """Do something in another thread: one that holds the lock may not ask for it."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(act).result(LONG)


class Program:
    """Another process, which waits for the lock for each line that it is told, and holds it until the next."""

    def __init__(self, file: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def tell(self) -> None:
        """Let it go on."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        """What it says next."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()
