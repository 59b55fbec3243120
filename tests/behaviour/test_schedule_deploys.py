"""Schedules and deploys: several programs, of several versions, on one file. Whoever is started last is right, who does
not know a schedule leaves it alone, and a program that dies while it declares one leaves neither two clocks nor none.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ramify import JobState
from ramify.model.run import RunState
from ramify.shapes.cron.declaration import clock_kind
from ramify.testing import oracle
from tests.behaviour.mortal import Depot, Program, Reach
from tests.behaviour.station import DAY, HOUR, NOON, stamps, times, yard

MINUTE = timedelta(minutes=1)


@pytest.fixture
def depot(tmp_path: Path) -> Iterator[Depot]:
    """A file without anything in it."""
    yard.clear()
    made = Depot(tmp_path / "depot")
    yield made
    assert oracle.check(made.open()) == []
    made.close()


def halves(first: float, last: float) -> list[datetime]:
    """Each half hour from one to another, in hours after noon."""
    return [NOON + 30 * MINUTE * each for each in range(round(first * 2), round(last * 2) + 1)]


def test_a_worker_that_does_not_know_a_schedule_leaves_it_alone(depot: Depot) -> None:
    knows, other = depot.program(1, catch_up="all", overlap="queue"), depot.program(2)
    knows.work()
    depot.pass_time(5 * HOUR, 30 * MINUTE, other)
    assert yard.left == []
    assert (knows.line().state, knows.clocks()) == (RunState.OPEN, 1)
    knows.work()
    # It runs jobs of the other's schedule, which any worker knows.
    depot.pass_time(HOUR, 30 * MINUTE, other, knows)
    assert yard.left == times(1, 2, 3, 4, 5, 6)


@pytest.mark.parametrize(("catch_up", "left"), [("latest", (1, 26)), ("all", range(1, 27)), ("none", (1,))])
def test_a_schedule_that_is_not_declared_for_a_while_catches_up_by_its_policy(
    depot: Depot, catch_up: str, left: Any
) -> None:
    options: dict[str, Any] = {"catch_up": catch_up, "overlap": "queue"}
    depot.pass_time(2 * HOUR, HOUR, depot.program(1, every=HOUR, start=NOON, **options))
    yard.left.clear()
    without = depot.program(2)
    depot.pass_time(DAY + 10 * MINUTE, 10 * MINUTE, without)
    assert yard.left == []
    again = depot.program(3, every=HOUR, start=NOON, **options)
    again.work()
    assert yard.left == [each for each in times(*left) if each > NOON + 2 * HOUR]


def test_a_changed_time_counts_from_the_start_of_the_newer_program_on(depot: Depot) -> None:
    old = depot.program(1, every=HOUR)
    old.work()
    depot.pass_time(3 * HOUR, 10 * MINUTE, old)
    new = depot.program(2, every=30 * MINUTE)
    new.work()
    depot.pass_time(3 * HOUR, 10 * MINUTE, old, new)
    assert yard.left == [*times(1, 2), *halves(3, 6)]
    assert new.clocks() == 1


def test_a_clock_of_times_that_do_not_count_any_more_starts_nothing(depot: Depot) -> None:
    old = depot.program(1, every=30 * MINUTE)
    old.work()
    depot.pass_time(HOUR, 10 * MINUTE, old)
    new = depot.program(2, every=HOUR)
    new.work()
    # The clock of before comes first.
    depot.pass_time(3 * HOUR, 10 * MINUTE, old, new)
    assert yard.left == [*halves(0.5, 1), *times(2, 3, 4)]
    assert new.clocks() == 1


def test_a_schedule_that_comes_rarely_is_changed_at_once(depot: Depot) -> None:
    depot.program(1, cron="0 0 1 1 *").work()
    new = depot.program(2, every=HOUR)
    new.work()
    depot.pass_time(2 * HOUR, HOUR, new)
    assert yard.left == times(1, 2)
    assert new.clocks() == 1


def test_an_older_program_that_declares_later_does_not_win(depot: Depot) -> None:
    new = depot.program(5, every=30 * MINUTE)
    new.work()
    old = depot.program(4, every=HOUR)
    old.work()
    depot.pass_time(3 * HOUR, 10 * MINUTE, old)
    depot.pass_time(3 * HOUR, 10 * MINUTE, old, new)
    assert yard.left == halves(0.5, 6)


def test_an_older_program_that_declares_later_adds_nothing(depot: Depot) -> None:
    new = depot.program(5, every=30 * MINUTE)
    new.work()
    before = new.tasks(clock_kind("line"))
    for _ in range(3):
        depot.program(4, every=HOUR).work()
    assert new.tasks(clock_kind("line")) == before == [(None, None)]


def test_a_program_that_is_started_later_wins_back_the_old_times(depot: Depot) -> None:
    for since, every in enumerate((HOUR, 30 * MINUTE, HOUR), start=1):
        program = depot.program(since, every=every)
        program.work()
        depot.pass_time(2 * HOUR, 10 * MINUTE, program)
    assert yard.left == [*times(1), *halves(2, 4), *times(5, 6)]
    assert program.clocks() == 1


def test_of_two_versions_that_start_together_the_younger_one_counts_for_both(depot: Depot) -> None:
    first = depot.program(1, every=HOUR)
    first.work()
    old, new = depot.program(2, every=20 * MINUTE), depot.program(3, every=30 * MINUTE)
    for program in (new, old):
        program.engine._runtime.declare_schedules()
    depot.pass_time(3 * HOUR, 10 * MINUTE, first, old, new)
    assert yard.left == halves(0.5, 3)


@pytest.mark.parametrize("change", [{"overlap": "queue"}, {"jitter": 1}, {"late_after": HOUR}, {"keep": DAY}])
def test_a_changed_option_keeps_the_slots_as_they_are(depot: Depot, change: dict[str, Any]) -> None:
    old, new = depot.program(1, every=HOUR), depot.program(2, every=HOUR, **change)
    old.work()
    depot.pass_time(90 * MINUTE, 10 * MINUTE, old)
    new.work()
    depot.pass_time(150 * MINUTE, 10 * MINUTE, old, new)
    assert yard.left[:3] == times(1, 2, 3)
    assert set(yard.left) <= set(times(1, 2, 3, 4))


def test_a_slot_that_was_missed_before_a_change_is_caught_up_with_after_it(depot: Depot) -> None:
    old = depot.program(1, every=HOUR, catch_up="all", overlap="queue")
    old.work()
    depot.clock.advance(3 * 3_600 + 60)
    new = depot.program(2, every=HOUR, catch_up="all", overlap="queue", keep=DAY)
    new.work()
    depot.pass_time(HOUR, 10 * MINUTE, new)
    assert yard.left == times(1, 2, 3, 4)


def test_a_slot_that_comes_while_a_change_is_declared_is_started(depot: Depot) -> None:
    depot.program(1, every=HOUR).work()
    depot.clock.advance(3_599)

    def pass_a_moment(point: str) -> bool:
        depot.clock.advance(2 if point == "after-claim" and depot.now < NOON + HOUR else 0)
        return False

    new = depot.program(2, pass_a_moment, every=HOUR, keep=DAY)
    new.work()
    assert yard.left == times(1)
    depot.pass_time(HOUR, HOUR, new)
    assert yard.left == times(1, 2)


@pytest.mark.parametrize("end", [None, NOON + HOUR], ids=["goes on", "is over"])
def test_a_change_starts_no_slot_again_that_a_clock_ahead_of_ours_has_started(
    depot: Depot, tmp_path: Path, end: datetime | None
) -> None:
    behind = Depot(tmp_path / "depot")
    new = behind.program(2, every=HOUR, keep=DAY)
    old = depot.program(1, every=HOUR, end=end)
    old.work()
    depot.pass_time(HOUR, 10 * MINUTE, old)
    behind.clock.advance(59 * 60)
    new.work()
    behind.pass_time(2 * HOUR, MINUTE, new)
    behind.close()
    assert list(old.slots()) == stamps(1, 2)
    assert yard.left == times(1, 2)


def test_a_paused_schedule_is_changed_and_goes_on_by_the_change(depot: Depot) -> None:
    old = depot.program(1, every=HOUR)
    old.work()
    old.line().pause()
    new = depot.program(2, every=30 * MINUTE)
    new.work()
    depot.pass_time(HOUR, 10 * MINUTE, new, old)
    assert yard.left == []
    new.line().resume()
    depot.pass_time(HOUR, 10 * MINUTE, new, old)
    assert set(halves(1.5, 2)) <= set(yard.left)
    assert len(yard.left) == len(set(yard.left)) <= 3


def test_a_queue_that_is_renamed_takes_the_schedule_along(depot: Depot) -> None:
    old = depot.program(1, every=HOUR, queue="old")
    old.work()
    new = depot.program(2, every=HOUR, queue="new")
    new.work()
    queues = {row.queue for row in new.store.reads.segments(run=new.line().id).rows}
    assert "new" in queues
    depot.pass_time(2 * HOUR, 10 * MINUTE, new)
    assert yard.left == times(1, 2)


def test_a_removed_schedule_is_begun_once_by_two_programs(depot: Depot) -> None:
    one, two = depot.program(1, every=HOUR), depot.program(2, every=HOUR)
    one.work()
    one.line().cancel()
    for program in (one, two, one, two):
        program.work()
    depot.pass_time(2 * HOUR, 10 * MINUTE, one, two)
    assert yard.left == times(1, 2)


# deaths


def count_down(times: int) -> Reach:
    """Says True when it is asked for the n-th time."""
    left = [times]

    def reach(point: str) -> bool:
        left[0] -= 1
        return left[0] == 0

    return reach


def die_at_points(play: Callable[[str, Reach], bool], first: int, stride: int) -> int:
    """Let a program die at every so many-th point, until one does not come past so many; how many died."""
    for deaths, point in enumerate(range(first, 1_000, stride)):
        if play(f"{point}", count_down(point)):
            assert point > 8, "there are more points than that"
            return deaths
    raise AssertionError("it comes past points for ever")


@pytest.mark.parametrize("point", ["before-append", "after-append"])
def test_a_worker_that_dies_as_it_adds_the_job_of_a_slot_adds_one(depot: Depot, point: str) -> None:
    other = depot.program(1, every=HOUR)
    other.work()
    depot.pass_time(HOUR, HOUR, other)
    depot.clock.advance(3_600)
    assert not depot.program(1, lambda at: at == point, every=HOUR).work()
    depot.bury()
    other.work()
    check(other, times(1, 2))


#: How many points there are from one death to the next: some in every run of the tests, all in the long one.
EACH = pytest.mark.parametrize("stride", [6, pytest.param(1, marks=[pytest.mark.full, pytest.mark.timeout(600)])])


def check(program: Program, required: Iterable[datetime], allowed: Iterable[datetime] = ()) -> None:
    """Each of these slots was started once, and no other; a job each has done its work."""
    slots = {datetime.fromisoformat(stamp): end for stamp, end in program.slots().items()}
    assert set(slots.values()) == {"done"}
    assert set(required) <= set(slots) <= {*required, *allowed}
    assert [job.state for job in program.engine.jobs()] == [JobState.DONE] * len(slots)
    # A train that left, and whose program died before it could say so, leaves again.
    assert Counter(yard.left).keys() == set(slots)
    assert len(yard.left) <= len(slots) + 1
    assert program.clocks() == 1
    assert oracle.check(program.store) == []


@EACH
@pytest.mark.parametrize("is_late", [False, True])
def test_a_program_that_dies_anywhere_while_it_declares_a_change_loses_no_slot_and_doubles_none(
    tmp_path: Path,
    is_late: bool,
    stride: int,
    seed: random.Random,
    record_property: Callable[[str, object], None],
) -> None:
    def play(name: str, reach: Reach) -> bool:
        yard.clear()
        depot = Depot(tmp_path / name)
        old = depot.program(1, every=HOUR, catch_up="all", overlap="queue")
        old.work()
        depot.pass_time(2 * HOUR, 20 * MINUTE, old)
        if is_late:
            depot.clock.advance(70 * 60)
        new: dict[str, Any] = {"every": 30 * MINUTE, "catch_up": "all", "overlap": "queue"}
        first = depot.program(2, reach, **new)
        lives = first.work()
        depot.bury()
        depot.pass_time(40 * MINUTE, 10 * MINUTE, old)
        second = depot.program(3, **new)
        second.work()
        depot.pass_time(3 * HOUR + 30 * MINUTE, 10 * MINUTE, old, second)
        # Between the death and the next start, nobody may know yet of the change.
        end = (depot.now - NOON) / HOUR
        check(second, [*times(1, 2, 3), *halves(4, end // 0.5 / 2)], halves(2.5, 4))
        depot.close()
        return lives

    record_property("kills", die_at_points(play, seed.randint(1, stride), stride))


def tour(program: Program, slot: object) -> object:
    """What a slot starts as a run."""
    return program.tour.of()


@EACH
@pytest.mark.parametrize("is_run", [False, True])
@pytest.mark.parametrize("overlap", ["queue", "skip"])
def test_a_program_that_dies_anywhere_at_a_slot_starts_it_once(
    tmp_path: Path,
    is_run: bool,
    overlap: str,
    stride: int,
    seed: random.Random,
    record_property: Callable[[str, object], None],
) -> None:
    def play(name: str, reach: Reach) -> bool:
        yard.clear()
        depot = Depot(tmp_path / name)
        catch_up = "all" if overlap == "queue" else "latest"
        options: dict[str, Any] = {"every": HOUR, "overlap": overlap, "catch_up": catch_up}
        other = depot.program(1, **options)
        mortal = depot.program(1, reach, **options)
        if is_run:
            for program in (other, mortal):
                program.engine._schedules["line"].make = partial(tour, program)
        other.work()
        depot.pass_time(HOUR, HOUR, other)
        yard.held = overlap == "queue"
        depot.pass_time(HOUR, HOUR, other)
        depot.clock.advance(3_600)
        lives = mortal.work()
        depot.bury()
        yard.held = False
        depot.pass_time(2 * HOUR, 20 * MINUTE, other)
        hours = times(1, 2, 3, 4, 5)
        if is_run:
            runs = [run for run in other.engine.runs(RunState.DONE) if str(run.name).startswith("cron/line/")]
            assert sorted(str(run.name) for run in runs) == [f"cron/line/{stamp}" for stamp in stamps(1, 2, 3, 4, 5)]
            assert list(other.slots()) == stamps(1, 2, 3, 4, 5)
        else:
            check(other, hours)
        assert set(yard.left) == set(hours)
        depot.close()
        return lives

    record_property("kills", die_at_points(play, seed.randint(1, stride), stride))


@EACH
def test_a_change_after_a_worker_died_anywhere_at_a_slot_loses_no_slot_and_doubles_none(
    tmp_path: Path, stride: int, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    def play(name: str, reach: Reach) -> bool:
        yard.clear()
        depot = Depot(tmp_path / name)
        options: dict[str, Any] = {"every": HOUR, "catch_up": "all", "overlap": "queue"}
        depot.program(1, **options).work()
        depot.clock.advance(2 * 3_600 + 60)
        lives = depot.program(1, reach, **options).work()
        depot.bury()
        new = depot.program(2, keep=DAY, **options)
        new.work()
        depot.pass_time(2 * HOUR, 20 * MINUTE, new)
        check(new, times(1, 2, 3, 4))
        depot.close()
        return lives

    record_property("kills", die_at_points(play, seed.randint(1, stride), stride))
