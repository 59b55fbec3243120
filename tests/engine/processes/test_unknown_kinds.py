"""What a kernel cannot notice: kinds that nobody knows."""

import time
from collections.abc import Callable, Iterator, Mapping
from threading import Event

import pytest

from ramify import Engine, Tasks
from ramify.engine.processes import unknown_kinds
from ramify.engine.processes.unknown_kinds import AGAIN, BUSY, IDLE, REST, UnknownKinds
from ramify.errors import StoreUnavailable
from ramify.kernel.signals import Adapted, NobodyKnows, Saved, Signal, StoreAway, StoreBack, Took
from ramify.model.process import NewProcess, new_process_id
from ramify.store.memory import MemoryStore, MemoryTables
from ramify.testing.conformance import House
from tests.engine.conftest import Make

LONG = 30.0
WORDS = "1 task of kind 'work' waits: no task of that name here; rename it back or give aliases=('work',)"

old, new = Tasks(), Tasks()


@old.task
def work(n: int) -> int:
    return n


@new.task(name="job")
def work_renamed(n: int) -> int:
    return n


class Watcher:
    """A look at three tasks of a kind that nobody knows, and a clock in the hands of the test."""

    def __init__(self, house: House, runs: list[int] | None = None) -> None:
        self.now = 1_000.0
        self.told: list[Signal] = []
        self.unknown_kinds = UnknownKinds(house.store, runs, self.told.append, lambda: self.now)

    def after(self, seconds: float, signal: Signal) -> int:
        self.now += seconds
        self.unknown_kinds(signal)
        return len(self.told)


@pytest.fixture
def house() -> Iterator[House]:
    place = MemoryTables()
    house = House(lambda clock: MemoryStore(place, clock), lambda store: None)
    house.store.enter(NewProcess(new_process_id(), kinds=("copy",)))
    yield house
    house.close()


def test_a_kind_that_nobody_knows_is_told_at_once_and_again_each_minute(house: House) -> None:
    watcher = Watcher(house, [house.run(house.tasks(3))])
    assert watcher.after(0, Took(0)) == 1
    assert watcher.told == [NobodyKnows((("walk", 3),))]
    assert watcher.after(IDLE, Took(0)) == 1
    assert watcher.after(AGAIN - IDLE, Took(0)) == 2


def test_a_second_kind_is_told_at_once(house: House) -> None:
    run = house.run(house.tasks(3))
    watcher = Watcher(house)
    assert watcher.after(0, Took(0)) == 1
    house.add(run, house.tasks(5, kind="sum"))
    assert watcher.after(IDLE, Took(0)) == 2
    assert watcher.told[-1] == NobodyKnows((("sum", 5), ("walk", 3)))


def test_a_busy_kernel_looks_once_a_minute(house: House) -> None:
    watcher = Watcher(house)
    watcher.after(0, Took(0))
    house.run(house.tasks(3))
    for signal in (Took(5), Saved(5, 0, 0, 0.1), Adapted("threads", 1, 2, "faster")):
        assert watcher.after(IDLE, signal) == 0
    assert watcher.after(BUSY, Saved(5, 0, 0, 0.1)) == 1


def test_a_look_that_takes_long_is_followed_by_a_long_rest(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.run(house.tasks(3))
    watcher, looks = Watcher(house), list[int]()
    counts = house.store.reads.counts

    def slowly(run: int) -> Mapping[str, Mapping[int, int]]:
        looks.append(run)
        watcher.now += 0.5
        return counts(run)

    monkeypatch.setattr(house.store.reads, "counts", slowly)
    for _ in range(round(0.5 * REST)):
        watcher.after(IDLE, Took(0))
    assert len(looks) == 1
    watcher.after(IDLE, Took(0))
    assert len(looks) == 2


def test_of_many_runs_a_page_is_looked_at_and_the_next_look_goes_on_from_there(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unknown_kinds, "PAGE", 2)
    for kind in ("copy", "copy", "walk", "sum", "walk"):
        house.run(house.tasks(1, kind=kind))
    watcher = Watcher(house)
    told = [watcher.after(IDLE, Took(0)) for _ in range(6)]
    # Nothing in the first page, two kinds in the second, nothing new in the third; and so in the next round.
    assert told == [0, 1, 1, 1, 1, 1]
    assert watcher.told == [NobodyKnows((("walk", 1), ("sum", 1)))]
    # The first look of the third round is in another minute, and its second one finds them.
    assert [watcher.after(AGAIN, Took(0)) for _ in range(2)] == [1, 2]


def test_paused_and_ended_runs_are_not_told_of(house: House) -> None:
    house.store.pause(house.run(house.tasks(3)))
    assert Watcher(house).after(0, Took(0)) == 0


def test_a_store_that_is_away_is_looked_at_again_later(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    run = house.run(house.tasks(3))
    watcher = Watcher(house, [run])

    def away(run: int) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as broken:
        broken.setattr(house.store.reads, "counts", away)
        assert watcher.after(0, Took(0)) == 0
    assert watcher.after(IDLE, Took(0)) == 1


def wait_until(true: Callable[[], object], what: str) -> None:
    end, never = time.monotonic() + LONG, Event()
    while not true():
        assert time.monotonic() < end, f"{what}: never"
        never.wait(0.01)


def test_a_task_that_was_renamed_between_two_starts_is_said(make: Make) -> None:
    first = make(old)
    run = first.start(work.of(1), name="renamed")
    second = make(new)
    if first._runtime.store.describe().name == "memory":
        second._runtime.use(first._runtime.store)
    said: list[str] = []
    second._runtime.say = said.append
    with second.working(threads=1):
        wait_until(lambda: WORDS in said, "the words")
    assert run.counts.pending == 1


def test_what_keeps_work_from_going_on_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine("memory:", include=[new])
    engine._runtime.teller(NobodyKnows((("work", 1),)))
    engine._runtime.teller(StoreAway("disk full"))
    engine._runtime.teller(StoreBack(3.0))
    found = [(record.levelname, record.message) for record in caplog.records]
    assert found[0] == ("WARNING", WORDS)
    assert found[1][0] == "WARNING"
    assert "disk full" in found[1][1]


def test_many_unknown_kinds_are_not_a_flood() -> None:
    engine, said = Engine("memory:"), list[str]()
    engine._runtime.say = said.append
    engine._runtime.teller(NobodyKnows(tuple((f"kind{n}", 1) for n in range(100))))
    assert len(said) == 6
    assert said[-1] == "and so do tasks of 95 more kinds; `ramify doctor` names them"
