"""Whoever waits for a run sleeps on its store: it hears of every commit at once, and costs nothing meanwhile."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from ramify import Engine
from ramify.engine.runs import run as handles
from ramify.engine.runs import waiting
from ramify.engine.runs.run import Run
from ramify.engine.runs.waiting import Waiting
from ramify.kernel.tuning import DEAF, LONGEST_READ_PAUSE, READ_PAUSE
from ramify.store.contract import Store
from ramify.store.open import open_store
from tests.engine.conftest import Make
from tests.engine.sample_jobs import fragile, jobs

LIMIT = 20.0
FOR_EVER = 10 * LIMIT


class Counted:
    """A store that counts how often somebody sleeps on it, or looks at something."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.waits = self.looks = 0
        self.asleep = threading.Semaphore(0)

    @property
    def reads(self) -> Any:
        self.looks += 1
        return self._store.reads

    def wait(self, seconds: float, seen: int) -> int:
        if seen:
            self.waits += 1
            self.asleep.release()
        return self._store.wait(seconds, seen)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.fixture
def engine(make: Make) -> Engine:
    return make(jobs)


@pytest.fixture
def counted(engine: Engine) -> Counted:
    counted = Counted(open_store(engine._runtime.url))
    engine._runtime.use(cast(Store, counted))
    return counted


@pytest.fixture
def sleeps_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sleep that nothing ends is as long as if it had no end."""
    for room in (handles, waiting):
        monkeypatch.setattr(room, "LONGEST_REST", FOR_EVER)
    monkeypatch.setattr(waiting, "DEAF", FOR_EVER)


async def await_it(run: Run[str]) -> None:
    await run


WAITS: list[Callable[[Run[str]], object]] = [
    lambda run: run.wait(),
    lambda run: asyncio.run(await_it(run)),
    lambda run: list(run.results(partial=True, rows=True)),
]


@pytest.fixture(params=WAITS, ids=["wait", "await", "results"])
def wait(request: pytest.FixtureRequest) -> Callable[[Run[str]], object]:
    chosen: Callable[[Run[str]], object] = request.param
    return chosen


def cancel(store: Store, run: int) -> None:
    """End it, in two commits."""
    store.cancel(run)
    store.advance([(run, 0)])


CANCEL = """
import sys
from ramify.store.open import open_store
from tests.engine.runs.test_waiting import cancel
cancel(open_store(sys.argv[1]), int(sys.argv[2]))
"""


@pytest.mark.usefixtures("sleeps_long")
def test_whoever_waits_hears_of_an_end_that_its_own_process_commits(
    engine: Engine, counted: Counted, wait: Callable[[Run[str]], object]
) -> None:
    run = engine.start(fragile.of("x"))
    threads = [threading.Thread(target=wait, args=(run,)) for _ in range(3)]
    for thread in threads:
        thread.start()
        assert counted.asleep.acquire(timeout=LIMIT)
    cancel(engine._runtime.store, run.id)
    for thread in threads:
        thread.join(LIMIT)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.usefixtures("sleeps_long")
@pytest.mark.parametrize("make", ["sqlite"], indirect=True)
def test_whoever_waits_hears_of_an_end_that_another_process_commits(
    engine: Engine, counted: Counted, wait: Callable[[Run[str]], object]
) -> None:
    run = engine.start(fragile.of("x"))
    thread = threading.Thread(target=wait, args=(run,))
    thread.start()
    assert counted.asleep.acquire(timeout=LIMIT)
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", CANCEL, str(engine._runtime.url), str(run.id)]
    subprocess.run(command, cwd=root, check=True, timeout=LIMIT)
    thread.join(LIMIT)
    assert not thread.is_alive()
    # It slept until there was something to look at: it did not look now and then.
    assert counted.waits <= 3


@pytest.mark.usefixtures("sleeps_long")
def test_what_is_committed_between_a_read_and_a_rest_is_not_missed(engine: Engine) -> None:
    run = engine.start(fragile.of("x"))
    waits = Waiting(engine._runtime)
    assert not waits.read(lambda: run.ended)
    cancel(engine._runtime.store, run.id)
    began = time.monotonic()
    waits.rest(LIMIT)
    assert time.monotonic() - began < LIMIT / 2


def test_while_nothing_happens_a_wait_hardly_does_anything(engine: Engine, counted: Counted) -> None:
    run = engine.start(fragile.of("x"))
    assert not run.wait(0.1)
    before, seconds = counted.looks, 3 * DEAF
    counted.waits = 0
    assert not run.wait(seconds)
    assert counted.waits <= 5
    assert counted.looks - before <= 4


def test_after_a_long_read_the_next_one_is_put_off(engine: Engine) -> None:
    """A store that many read while others write to it without pause has something else to do."""
    waits = Waiting(engine._runtime)
    engine.start(fragile.of("x"))
    waits.read(threading.Event().wait, 0.01)
    looked = time.monotonic()
    waits.rest(LIMIT)
    assert min(READ_PAUSE * 0.01, LONGEST_READ_PAUSE) <= time.monotonic() - looked < LIMIT / 2
