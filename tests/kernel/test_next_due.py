"""A process that rests wakes up when a row is due that somebody else added, and does not spin for rows it cannot have.

The core and the reference store are real; time is made up, and nothing waits for it.
"""

from __future__ import annotations

import pytest

from ramify.kernel.core.core import Core
from ramify.kernel.core.steps import ClaimWork, Look, Rest
from ramify.kernel.tuning import LONGEST_PAUSE, LONGEST_REST
from ramify.model.addition import Addition
from ramify.model.claim import Claim, Want
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import NewRun, Order
from ramify.model.task import NewTasks
from ramify.store.memory import MemoryStore, MemoryTables
from ramify.testing.clock import SECOND, FakeClock
from tests.kernel.claims import core

LONG = 100


class Sleeper:
    """A process with nothing to do, whose rests take no time. It hears of nothing that others write."""

    def __init__(self, place: MemoryTables, clock: FakeClock) -> None:
        self.store = MemoryStore(place, clock)
        self.clock = clock
        self.core: Core = core(dead_after=10.0 * LONG)
        self.process, self.now, self.claims, self.rests = new_process_id(), 0.0, 0, 0
        self.store.enter(NewProcess(self.process))

    def until_claimed(self, seconds: float = LONG) -> tuple[Claim, ...]:
        """Work until something is claimed, or for so long."""
        end = self.now + seconds
        while self.now < end:
            match self.core.step(self.now):
                case ClaimWork(want):
                    self.claims += 1
                    answer = self.store.claim(Stamp(self.process, self.claims), want)
                    if answer.claims:
                        return answer.claims
                    self.core.claimed(answer, self.now)
                case Look(limit):
                    self.core.found(self.store.movable(limit), self.now)
                case Rest(length, idle=True):
                    self.rests += 1
                    self.clock.advance(length)
                    self.now += length
                    self.core.stirred(changed=False)
                case step:
                    raise AssertionError(step)
        return ()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def place() -> MemoryTables:
    return MemoryTables()


def add(place: MemoryTables, clock: FakeClock, *dues: float, kind: str = "work") -> None:
    """Somebody else adds tasks that are due so many seconds from now."""
    other = MemoryStore(place, clock)
    run = other.reserve(1)
    other.start(NewRun(run, order=Order.ANY, endless=True))
    rows = [NewTasks(other.reserve(2), kind, [b"[1]"], due=clock.now() + round(due * SECOND)) for due in dues]
    other.append([Addition(run, rows)])


@pytest.mark.parametrize("due", [0.3, 0.9999, 2.7])
def test_a_process_wakes_up_when_a_row_is_due_that_somebody_else_added(
    place: MemoryTables, clock: FakeClock, due: float
) -> None:
    sleeper = Sleeper(place, clock)
    add(place, clock, due, due + 5)
    assert len(sleeper.until_claimed()) == 1
    assert sleeper.now == pytest.approx(due, abs=1e-5)
    assert sleeper.claims <= 2 + due / LONGEST_REST


def test_rows_that_another_process_takes_first_do_not_keep_it_awake(place: MemoryTables, clock: FakeClock) -> None:
    sleeper, rival = Sleeper(place, clock), MemoryStore(place, clock)
    process = new_process_id()
    rival.enter(NewProcess(process))
    add(place, clock, *(0.5 * n for n in range(1, 21)))
    for n in range(1, 21):
        sleeper.until_claimed(0.5 - 1e-4)
        clock.advance(1e-4)
        sleeper.now += 1e-4
        assert rival.claim(Stamp(process, n), Want(frozenset({"work"}), 100)).claims
    assert sleeper.claims < 45


def test_rows_that_are_told_of_too_early_do_not_keep_it_awake(
    place: MemoryTables, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store may tell of rows that are due at any moment and that this process does not know."""
    monkeypatch.setattr("ramify.store.memory.claims._next_due", lambda tables, want, looked, now: 1e-6)
    sleeper = Sleeper(place, clock)
    assert not sleeper.until_claimed(10.0)
    assert sleeper.claims < 2 * 10.0 / LONGEST_PAUSE
    monkeypatch.undo()
    add(place, clock, 0.4)
    began = sleeper.now
    assert sleeper.until_claimed()
    assert sleeper.now - began == pytest.approx(0.4, abs=LONGEST_PAUSE)


def test_an_idle_process_that_knows_of_no_later_row_rests_as_long_as_ever(
    place: MemoryTables, clock: FakeClock
) -> None:
    sleeper = Sleeper(place, clock)
    add(place, clock, *(0.1 * n for n in range(100)), kind="unknown")
    assert not sleeper.until_claimed(20.0)
    assert sleeper.claims <= 22
