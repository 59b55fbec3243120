"""A new job begins soon, however many tasks another run has waiting: behind what is held and runs, and nothing else.

Time is made up, and passes only in tasks: the kernel runs them in its own thread, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ramify.kernel.kernel import Kernel
from ramify.kernel.machine import Machine
from ramify.model.addition import Addition
from ramify.model.run import NewRun, Order
from ramify.model.task import NewTasks
from ramify.store.contract import Store
from ramify.store.memory import MemoryStore
from ramify.store.sqlite import SqliteStore
from ramify.testing.clock import SECOND, FakeClock
from tests.kernel.shop import Shop

#: As in the promise: a new job waits no longer than one task takes, and so many seconds.
PROMISED = 1.0
MANY = 100_000


class Race:
    """A run of very many tasks, and a job that is enqueued when so many of them have begun."""

    def __init__(self, store: Store, many: int, take_time: Callable[[], None], at: int) -> None:
        self._shop = Shop(lambda: store)
        self._take_time, self._at = take_time, at
        self._begun = 0
        self._kernel: Kernel | None = None
        #: When the job was enqueued: how many had begun, and how many of those that had not were held.
        self.before = self.held = 0
        #: How many had begun when it did.
        self.after: int | None = None
        self._shop.task(self.grind)
        self._shop.task(self.job)
        tasks = NewTasks(store.reserve(many), "grind", [b"[]"] * many)
        store.start(NewRun(store.reserve(1), order=Order.ANY), [tasks])
        self._jobs = store.reserve(1)
        store.start(NewRun(self._jobs, order=Order.ANY, endless=True))

    def run(self, machine: Machine) -> None:
        """Until the job begins."""
        self._kernel = self._shop.kernel(threads=0, dead_after=1e9, machine=machine)
        self._kernel.run()
        self._shop.close()

    def grind(self) -> None:
        """One of very many."""
        assert self._kernel is not None
        self._begun += 1
        if self._begun == self._at:
            store = self._shop.store
            held = self._kernel.core.leases.kinds["grind"]
            store.append([Addition(self._jobs, [NewTasks(store.reserve(1), "job", [b"[]"], queue="mail")])])
            self.before, self.held = self._begun, held
        self._take_time()

    def job(self) -> None:
        """The one that everybody waits for."""
        assert self._kernel is not None
        self.after = self._begun
        self._kernel.stop()


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Store, FakeClock]:
    """A store, and its clock."""
    clock = FakeClock()
    return MemoryStore(clock=clock) if request.param == "memory" else SqliteStore(tmp_path / "s.db", clock=clock), clock


def check_promise(store: Store, clock: FakeClock, many: int, lengths: Callable[[int], float], at: int) -> None:
    """`lengths` says how long the task takes that is the so-manieth to begin."""
    starts: list[int] = []
    longest = 0.0

    def take_time() -> None:
        nonlocal longest
        starts.append(clock.monotonic())
        seconds = lengths(len(starts))
        clock.advance(seconds)
        if len(starts) >= at:
            longest = max(longest, seconds)

    race = Race(store, many, take_time, at)
    race.run(Machine(clock=lambda: clock.monotonic() / SECOND))
    assert race.after is not None, "the job never began"
    assert race.after - race.before <= race.held, "somebody was let in before it"
    waited = (clock.monotonic() - starts[at - 1]) / SECOND
    assert waited <= longest + PROMISED


@pytest.mark.parametrize(
    ("seconds", "at"), [(1e-4, 1), (1e-4, 6_000), (0.01, 300), (0.3, 30), (2.0, 1), (2.0, 20), (60.0, 20)]
)
def test_a_new_job_waits_for_one_task_and_a_second_at_most(
    place: tuple[Store, FakeClock], seconds: float, at: int
) -> None:
    check_promise(*place, MANY, lambda nth: seconds, at)


@pytest.mark.parametrize("longer", [0.01, 0.3, 3.0, 60.0])
@pytest.mark.parametrize("after", [-1, 0, 1, 300])
def test_that_is_so_when_tasks_become_longer(place: tuple[Store, FakeClock], longer: float, after: int) -> None:
    """Many quick ones are held by then, and in the hands of the worker that the first of the longer ones keeps."""
    changed = 6_000
    check_promise(*place, MANY, lambda nth: 1e-4 if nth < changed else longer, changed + after)


@pytest.mark.parametrize("at", [3_000, 3_050, 3_099])
def test_that_is_so_when_some_take_much_longer_than_the_others(place: tuple[Store, FakeClock], at: int) -> None:
    check_promise(*place, MANY, lambda nth: 1e-4 if nth % 100 else 2.0, at)


@pytest.mark.full
@pytest.mark.parametrize("at", [6_000, 100_000])
def test_that_is_so_behind_a_million_tasks(place: tuple[Store, FakeClock], at: int) -> None:
    check_promise(*place, 1_000_000, lambda nth: 1e-4, at)
