"""What a schedule is to those who use it, told on every store: what its slots start, what they skip, catch up with and
wait for, and what people can do about it. Time is in the hands of the test.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ramify import ConfigError, Engine, JobState, Slot, Tasks, steps
from ramify.model.run import RunState
from ramify.testing import oracle
from ramify.testing.using import Workbench, using
from tests.behaviour.conftest import STORES
from tests.behaviour.station import (
    DAY,
    HOUR,
    LOOK,
    NOON,
    Opened,
    Station,
    branch,
    load,
    node,
    pass_time,
    rolling,
    save,
    stamps,
    times,
    train,
    yard,
)

MINUTE = timedelta(minutes=1)
WEEK = timedelta(weeks=1)


@pytest.fixture(params=STORES)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """Puts a station on an empty store; whatever a test did, the log is whole."""
    yard.clear()
    with ExitStack() as stack:
        stations: list[Station] = []

        def open(station: Station) -> Workbench:
            stations.append(station)
            return stack.enter_context(using(station.engine, STORES[request.param](tmp_path), now=NOON))

        yield open
        for station in stations:
            assert oracle.check(station.store) == []


def begin(opened: Opened, station: Station) -> Workbench:
    """Put a station on a store and let a worker declare what it has."""
    bench = opened(station)
    bench.drain()
    return bench


# what a slot starts


def test_a_slot_starts_a_job_and_the_next_one_follows(opened: Opened) -> None:
    station = Station()
    station.schedule()
    bench = begin(opened, station)
    assert yard.left == []
    pass_time(bench, 3 * HOUR, HOUR)
    assert yard.left == times(1, 2, 3)
    assert station.slots() == dict.fromkeys(stamps(1, 2, 3), "done")
    assert [job.state for job in station.engine.jobs()] == [JobState.DONE] * 3
    assert (station.line().state, station.clocks()) == (RunState.OPEN, 1)


def test_a_slot_that_has_not_come_starts_nothing(opened: Opened) -> None:
    station = Station()
    station.schedule()
    bench = begin(opened, station)
    bench.advance(HOUR - timedelta(microseconds=1))
    bench.drain()
    assert yard.left == []
    bench.advance(timedelta(microseconds=1))
    bench.drain()
    assert yard.left == times(1)


def test_a_decorated_task_runs_under_its_own_name(opened: Opened) -> None:
    station = Station()
    station.engine.cron("30 * * * *")(train)
    bench = begin(opened, station)
    pass_time(bench, HOUR, 30 * MINUTE)
    assert yard.left == [NOON + 30 * MINUTE]
    assert station.slots("train") == {"2030-01-01T12:30:00Z": "done"}


def test_a_slot_starts_a_dag_by_the_name_of_its_time(opened: Opened) -> None:
    station = Station()
    station.schedule(lambda slot: station.tour.of())
    bench = begin(opened, station)
    pass_time(bench, 2 * HOUR, HOUR)
    names = [run.name for run in station.engine.runs(RunState.DONE)]
    assert sorted(map(str, names)) == [f"cron/line/{stamp}" for stamp in stamps(1, 2)]
    assert yard.left == times(1, 2)


def test_a_slot_starts_a_pipeline(opened: Opened) -> None:
    station = Station()
    flow = station.engine.pipeline("flow", steps(load).chain(save))
    station.schedule(lambda slot: flow.of(f"{slot.at:%H}"))
    bench = begin(opened, station)
    pass_time(bench, HOUR, HOUR)
    assert [(name, slot and slot.at) for name, slot in yard.seen] == [
        ("load 13", *times(1)),
        ("save 13", *times(1)),
    ]


def test_a_slot_starts_several_roots_as_one_run(opened: Opened) -> None:
    station = Station()
    station.schedule(lambda slot: [train.of(), train.of()])
    bench = begin(opened, station)
    pass_time(bench, HOUR, HOUR)
    assert yard.left == times(1, 1)
    assert [run.name for run in station.engine.runs(RunState.DONE)] == [f"cron/line/{stamps(1)[0]}"]


def test_the_function_gets_the_slot_with_its_neighbours_in_the_zone(opened: Opened) -> None:
    station, got = Station(), []

    def make(slot: Any) -> object:
        got.append(slot)
        return train.of()

    station.schedule(make, cron="0 6 * * *", tz="Europe/Berlin")
    bench = begin(opened, station)
    got.clear()
    bench.advance(DAY)
    bench.drain()
    (slot,) = got
    assert slot.at.isoformat() == "2030-01-02T06:00:00+01:00"
    assert (slot.previous, slot.next) == (slot.at - DAY, slot.at + DAY)


def test_the_slot_is_known_to_the_job_and_to_its_children_and_not_to_others(opened: Opened) -> None:
    station = Station()
    station.schedule(branch.of())
    bench = begin(opened, station)
    pass_time(bench, HOUR, HOUR)
    known = Slot(NOON + HOUR, NOON, NOON + 2 * HOUR)
    assert yard.seen == [("branch", known), ("leaf", known)]
    station.engine.enqueue(branch.of())
    bench.drain()
    assert yard.seen[2:] == [("branch", None), ("leaf", None)]


def test_the_slot_is_known_to_every_node_of_a_dag(opened: Opened) -> None:
    station = Station()
    dag = station.engine.dag("etl")
    one = dag.add(node.of("one"), id="one")
    two = dag.add(node.of("two"), id="two")
    dag.add(node.of("three", one.out, two.out), id="three")
    station.schedule(lambda slot: dag.of())
    bench = begin(opened, station)
    pass_time(bench, HOUR, HOUR)
    assert {name: slot and slot.at for name, slot in yard.seen} == dict.fromkeys(("one", "two", "three"), *times(1))


def test_a_schedule_of_every_second_starts_every_second(opened: Opened) -> None:
    station = Station()
    station.schedule(every=1)
    bench = begin(opened, station)
    pass_time(bench, timedelta(seconds=30), timedelta(seconds=0.5))
    assert yard.left == [NOON + timedelta(seconds=each) for each in range(1, 31)]


def test_sets_of_tasks_bring_their_schedules_along(opened: Opened) -> None:
    tasks = Tasks(include=[rolling])
    tasks.cron(every=HOUR, name="sweep")(train)
    station = Station(tasks)
    bench = begin(opened, station)
    pass_time(bench, HOUR, HOUR)
    assert yard.left == times(1)
    assert station.slots("sweep") == {stamps(1)[0]: "done"}


# what it does about slots that nobody was there for


def test_the_latest_slot_of_a_week_is_caught_up_with(opened: Opened) -> None:
    station = Station()
    station.schedule()
    bench = begin(opened, station)
    bench.advance(WEEK + 10 * MINUTE)
    bench.drain()
    assert yard.left == times(7 * 24)
    pass_time(bench, HOUR, HOUR)
    assert yard.left == times(7 * 24, 7 * 24 + 1)


@pytest.mark.parametrize("jitter", [timedelta(0), 50 * MINUTE])
def test_the_latest_slot_alone_is_caught_up_with_also_with_jitter(opened: Opened, jitter: timedelta) -> None:
    station = Station()
    station.schedule(overlap="allow", jitter=jitter)
    bench = begin(opened, station)
    # The last slot has come by now, and would not have come with the longest jitter.
    bench.advance(WEEK + 49 * MINUTE)
    bench.drain()
    assert yard.left == times(7 * 24)


@pytest.mark.parametrize(("most", "first"), [(100, 69), (1_000, 1), (1, 168)])
def test_all_slots_of_a_week_are_caught_up_with_in_order_up_to_a_number(opened: Opened, most: int, first: int) -> None:
    station = Station()
    station.schedule(catch_up="all", max_catch_up=most, overlap="queue")
    bench = begin(opened, station)
    bench.advance(WEEK)
    bench.drain()
    assert yard.left == times(*range(first, 7 * 24 + 1))


def test_runs_of_missed_slots_are_queued_in_order_too(opened: Opened) -> None:
    station = Station()
    station.schedule(lambda slot: station.tour.of(), catch_up="all", overlap="queue")
    bench = begin(opened, station)
    bench.advance(12 * HOUR)
    bench.drain()
    assert yard.left == times(*range(1, 13))


def test_catching_up_with_all_slots_and_skipping_those_that_overlap_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"catch_up='all' starts missed slots together.*Write overlap='queue'"):
        Station().schedule(catch_up="all")


def test_slots_that_were_missed_are_left_out_when_none_are_caught_up_with(opened: Opened) -> None:
    station = Station()
    station.schedule(catch_up="none")
    bench = begin(opened, station)
    bench.advance(WEEK + 2 * MINUTE)
    bench.drain()
    assert yard.left == []
    bench.advance(HOUR - 2 * MINUTE + timedelta(seconds=59))
    bench.drain()
    assert yard.left == times(7 * 24 + 1)


# what it does when the slot before has not ended


OVERLAPS = ("skip", "queue", "allow", "cancel")


def overlapping(opened: Opened, overlap: str, is_run: bool) -> tuple[Station, Workbench]:
    """A station whose first two trains stay until the third slot is over."""
    station = Station()
    what = (lambda slot: station.tour.of()) if is_run else None
    station.schedule(what, overlap=overlap)
    bench = begin(opened, station)
    yard.held = True
    pass_time(bench, 3 * HOUR, 30 * MINUTE)
    assert yard.left == []
    if overlap == "queue":
        assert set(yard.tried) == set(times(1))
    yard.held = False
    bench.advance(2 * LOOK)
    bench.drain()
    for _ in range(4):
        bench.advance(MINUTE)
        bench.drain()
    return station, bench


@pytest.mark.parametrize("is_run", [False, True])
def test_a_slot_is_skipped_while_the_one_before_has_not_ended(opened: Opened, is_run: bool) -> None:
    station, bench = overlapping(opened, "skip", is_run)
    assert yard.left == times(1)
    assert list(station.slots().values()) == ["done", "skipped", "skipped"]
    pass_time(bench, HOUR, HOUR)
    assert yard.left == times(1, 4)


@pytest.mark.parametrize("is_run", [False, True])
def test_slots_are_queued_behind_each_other_and_keep_their_order(opened: Opened, is_run: bool) -> None:
    station, bench = overlapping(opened, "queue", is_run)
    assert yard.left == times(1, 2, 3)
    pass_time(bench, HOUR, HOUR)
    assert yard.left == times(1, 2, 3, 4)
    assert list(station.slots().values()) == ["done"] * 4


@pytest.mark.parametrize("is_run", [False, True])
def test_slots_overlap_where_that_is_allowed(opened: Opened, is_run: bool) -> None:
    overlapping(opened, "allow", is_run)
    assert sorted(each for each in yard.left if each) == times(1, 2, 3)


@pytest.mark.parametrize("is_run", [False, True])
def test_the_older_one_is_cancelled_where_that_is_asked_for(opened: Opened, is_run: bool) -> None:
    station, bench = overlapping(opened, "cancel", is_run)
    assert yard.left == times(3)
    assert list(station.slots().values()) == ["done"] * 3
    if is_run:
        assert len(list(station.engine.runs(RunState.CANCELLED))) == 2
    else:
        assert [job.state for job in station.engine.jobs()].count(JobState.CANCELLED) == 2
    pass_time(bench, HOUR, HOUR)
    assert yard.left == times(3, 4)


@pytest.mark.parametrize("overlap", OVERLAPS)
@pytest.mark.parametrize("is_run", [False, True])
def test_a_slot_that_failed_keeps_no_other_back(opened: Opened, overlap: str, is_run: bool) -> None:
    station = Station()
    station.schedule((lambda slot: station.tour.of()) if is_run else None, overlap=overlap)
    bench = begin(opened, station)
    yard.broken = True
    pass_time(bench, 2 * HOUR, HOUR)
    assert yard.left == times(1, 2)


@pytest.mark.parametrize("overlap", ["skip", "queue"])
@pytest.mark.parametrize("is_run", [False, True])
@pytest.mark.parametrize("is_forgotten", [False, True])
def test_a_slot_that_was_cancelled_or_forgotten_keeps_no_other_back(
    opened: Opened, overlap: str, is_run: bool, is_forgotten: bool
) -> None:
    station = Station()
    station.schedule((lambda slot: station.tour.of()) if is_run else None, overlap=overlap)
    bench = begin(opened, station)
    yard.held = True
    pass_time(bench, HOUR, HOUR)
    if is_run:
        run = station.engine.find(f"cron/line/{stamps(1)[0]}")
        assert run is not None
        run.cancel()
        bench.drain()
        if is_forgotten:
            run.forget()
    else:
        (job,) = station.engine.jobs()
        job.cancel()
        if is_forgotten:
            bench.advance(3 * DAY)
            station.clean()
            assert job.state is JobState.NOT_FOUND
    yard.held = False
    pass_time(bench, HOUR, HOUR)
    assert len(yard.left) == 1


# jitter, start, end, lateness


def test_jitter_is_within_bounds_and_the_same_in_every_program(opened: Opened) -> None:
    station = Station()
    station.schedule(jitter=10 * MINUTE)
    bench = begin(opened, station)
    began: list[datetime] = []
    while bench.now < NOON + 12 * HOUR:
        before = len(yard.left)
        bench.advance(MINUTE)
        bench.drain()
        began += [bench.now] * (len(yard.left) - before)
    late = [moment - slot for moment, slot in zip(began, times(*range(1, 12)), strict=True)]
    assert all(timedelta(0) <= each <= 10 * MINUTE for each in late)
    assert len(set(late)) > 3
    (declared,) = (schedule.declaration for schedule in station.engine._schedules.values())
    again = Station()
    again.schedule(jitter=10 * MINUTE)
    (same,) = (schedule.declaration for schedule in again.engine._schedules.values())
    moments = [round(each.timestamp() * 1_000_000) for each in times(*range(1, 12))]
    assert [declared.offset(each) for each in moments] == [same.offset(each) for each in moments]
    assert [-(-declared.offset(each) // 60_000_000) for each in moments] == [each // MINUTE for each in late]


def test_no_slot_lies_before_the_start_or_after_the_end(opened: Opened) -> None:
    station = Station()
    station.schedule(start=NOON + 3 * HOUR, end=NOON + 5 * HOUR)
    bench = begin(opened, station)
    pass_time(bench, 8 * HOUR, HOUR)
    assert yard.left == times(3, 4, 5)
    assert (station.clocks(), station.line().state) == (0, RunState.OPEN)


def test_a_slot_that_begins_late_is_told_as_a_failure_of_the_schedule(opened: Opened) -> None:
    station = Station()
    station.schedule(late_after=5 * MINUTE)
    bench = begin(opened, station)
    pass_time(bench, 90 * MINUTE, 10 * MINUTE)
    assert station.complaints() == []
    bench.advance(40 * MINUTE)
    bench.drain(raising=False)
    assert station.complaints() == ["the slot of line at 2030-01-01 14:00:00 UTC began 600 s late"]
    assert yard.left == times(1, 2)


@pytest.mark.parametrize("is_run", [False, True])
def test_a_slot_that_ends_late_is_told_as_a_failure_of_the_schedule(opened: Opened, is_run: bool) -> None:
    station = Station()
    station.schedule((lambda slot: station.tour.of()) if is_run else None, late_after=5 * MINUTE)
    bench = begin(opened, station)
    yard.held = True
    pass_time(bench, 70 * MINUTE, MINUTE)
    (text,) = station.complaints()
    assert text.startswith("the slot of line at 2030-01-01 13:00:00 UTC has not ended after 300 s: ")
    yard.held = False
    pass_time(bench, HOUR, MINUTE)
    assert station.complaints() == [text]
    assert yard.left == times(1, 2)


def test_jitter_does_not_make_a_slot_late(opened: Opened) -> None:
    station = Station()
    station.schedule(jitter=30 * MINUTE, late_after=5 * MINUTE)
    bench = begin(opened, station)
    pass_time(bench, 12 * HOUR, MINUTE)
    assert len(yard.left) >= 11
    assert station.complaints() == []


# what people do


@pytest.mark.parametrize(("catch_up", "left"), [("latest", (1, 4)), ("all", (1, 2, 3, 4)), ("none", (1,))])
def test_a_paused_schedule_starts_nothing_and_catches_up_when_it_is_resumed(
    opened: Opened, catch_up: str, left: tuple[int, ...]
) -> None:
    station = Station()
    station.schedule(catch_up=catch_up, overlap="queue")
    bench = begin(opened, station)
    pass_time(bench, HOUR, HOUR)
    station.line().pause()
    pass_time(bench, 3 * HOUR + 10 * MINUTE, 10 * MINUTE)
    assert yard.left == times(1)
    station.line().resume()
    bench.drain()
    assert yard.left == times(*left)
    pass_time(bench, HOUR, 10 * MINUTE)
    assert yard.left == times(*left, 5)


def test_a_schedule_that_was_cancelled_begins_anew_when_it_is_declared(opened: Opened) -> None:
    station = Station()
    station.schedule()
    bench = begin(opened, station)
    pass_time(bench, HOUR, HOUR)
    first = station.line()
    first.cancel()
    bench.advance(90 * MINUTE)
    bench.drain()
    assert first.state is RunState.CANCELLED
    pass_time(bench, HOUR, 30 * MINUTE)
    assert yard.left == times(1, 3)
    assert station.line().id != first.id
    assert station.clocks() == 1


def test_a_schedule_that_was_forgotten_begins_anew_when_it_is_declared(opened: Opened) -> None:
    station = Station()
    station.schedule()
    bench = begin(opened, station)
    first = station.line()
    first.cancel()
    first.forget()
    pass_time(bench, 2 * HOUR, HOUR)
    assert yard.left == times(2)


@pytest.mark.parametrize("is_run", [False, True])
def test_a_trigger_starts_a_slot_now_and_the_timetable_stays(opened: Opened, is_run: bool) -> None:
    station = Station()
    station.schedule((lambda slot: station.tour.of()) if is_run else None)
    bench = begin(opened, station)
    bench.advance(10 * MINUTE)
    station.trigger()
    bench.drain()
    assert yard.left == [NOON + 10 * MINUTE]
    pass_time(bench, HOUR, 10 * MINUTE)
    assert yard.left == [NOON + 10 * MINUTE, *times(1)]


def test_a_trigger_does_not_mind_what_has_not_ended(opened: Opened) -> None:
    station = Station()
    station.schedule()
    bench = begin(opened, station)
    yard.held = True
    pass_time(bench, 70 * MINUTE, 10 * MINUTE)
    station.trigger()
    bench.drain()
    yard.held = False
    bench.advance(2 * LOOK)
    bench.drain()
    assert yard.left == [*times(1), NOON + 70 * MINUTE]


@pytest.mark.parametrize("parallel", [1, 3])
@pytest.mark.parametrize("is_run", [False, True])
def test_a_backfill_starts_each_slot_that_did_not_run_once(opened: Opened, parallel: int, is_run: bool) -> None:
    station = Station()
    station.schedule((lambda slot: station.tour.of()) if is_run else None)
    bench = begin(opened, station)
    # Slots 1, 4 and 5 run, and the others are missed.
    pass_time(bench, HOUR, HOUR)
    bench.advance(3 * HOUR)
    bench.drain()
    pass_time(bench, HOUR, HOUR)
    bench.advance(5 * HOUR)
    bench.drain()
    assert yard.left == times(1, 4, 5, 10)
    assert station.backfill(NOON + HOUR, NOON + 10 * HOUR, parallel) == 6
    pass_time(bench, 30 * MINUTE, MINUTE)
    assert sorted(each for each in yard.left if each) == times(*range(1, 11))
    assert station.backfill(NOON + HOUR, NOON + 10 * HOUR, parallel) == 0


@pytest.mark.parametrize("is_run", [False, True])
def test_a_backfill_waits_for_each_slot_in_its_line(opened: Opened, is_run: bool) -> None:
    station = Station()
    station.schedule((lambda slot: station.tour.of()) if is_run else None, catch_up="none")
    bench = begin(opened, station)
    bench.advance(6 * HOUR + 10 * MINUTE)
    bench.drain()
    yard.held = True
    assert station.backfill(NOON + HOUR, NOON + 6 * HOUR, 2) == 6
    pass_time(bench, 10 * MINUTE, MINUTE)
    runs = [run for run in station.engine.runs(RunState.OPEN) if "line/" in str(run.name)]
    jobs = list(station.engine.jobs(state=JobState.QUEUED))
    assert (len(runs), len(jobs)) == ((2, 0) if is_run else (0, 2))
    yard.held = False
    pass_time(bench, 20 * MINUTE, MINUTE)
    assert sorted(each for each in yard.left if each) == times(1, 2, 3, 4, 5, 6)


def test_two_backfills_of_the_same_slots_start_each_once(opened: Opened) -> None:
    station = Station()
    station.schedule(catch_up="none")
    bench = begin(opened, station)
    bench.advance(4 * HOUR + 10 * MINUTE)
    bench.drain()
    yard.held = True
    station.backfill(NOON + HOUR, NOON + 4 * HOUR, 2)
    bench.drain()
    station.backfill(NOON + HOUR, NOON + 4 * HOUR, 1)
    bench.drain()
    yard.held = False
    pass_time(bench, 20 * MINUTE, MINUTE)
    assert sorted(each for each in yard.left if each) == times(1, 2, 3, 4)


def test_a_backfill_goes_on_behind_a_job_that_failed(opened: Opened) -> None:
    station = Station()
    station.schedule(catch_up="none")
    bench = begin(opened, station)
    bench.advance(4 * HOUR + 10 * MINUTE)
    bench.drain()
    yard.broken = True
    station.backfill(NOON + HOUR, NOON + 4 * HOUR)
    pass_time(bench, 10 * MINUTE, MINUTE)
    assert yard.left == times(1, 2, 3, 4)


def test_a_backfill_goes_on_behind_a_slot_whose_function_raises(opened: Opened) -> None:
    station = Station()

    def make(slot: Any) -> object:
        if slot.at == NOON + 2 * HOUR:
            raise LookupError("no such day")
        return train.of()

    station.schedule(make, catch_up="none")
    bench = begin(opened, station)
    bench.advance(4 * HOUR + 10 * MINUTE)
    bench.drain()
    station.backfill(NOON + HOUR, NOON + 4 * HOUR)
    pass_time(bench, 10 * MINUTE, MINUTE)
    assert yard.left == times(1, 3, 4)
    assert station.failures() == ["no such day"]


def test_a_slot_waits_for_room_in_a_full_queue(opened: Opened) -> None:
    station = Station()
    station.schedule(overlap="allow")
    bench = begin(opened, station)
    station.engine.queue("default", max_pending=1)
    station.engine.enqueue(train.of().delay(HOUR + 2 * MINUTE))
    pass_time(bench, HOUR, HOUR)
    assert (yard.left, station.failures()) == ([], [])
    pass_time(bench, 10 * MINUTE, MINUTE)
    assert times(1)[0] in yard.left


# mistakes


def test_a_function_that_raises_is_tried_again_and_the_next_slot_comes_all_the_same(opened: Opened) -> None:
    station, tries = Station(), []

    def make(slot: Any) -> object:
        tries.append(slot.at)
        if slot.at == NOON + HOUR:
            raise LookupError("no such day")
        return train.of()

    station.schedule(make)
    bench = begin(opened, station)
    tries.clear()
    pass_time(bench, 2 * HOUR, MINUTE)
    assert tries == times(1, 1, 1, 1, 2)
    assert yard.left == times(2)
    assert station.failures() == ["no such day"]
    assert list(station.slots().values()) == ["failed", "done"]


def test_a_function_that_gives_nothing_is_refused_before_its_first_slot(opened: Opened) -> None:
    station = Station()
    station.schedule(lambda slot: None)
    with pytest.raises(ConfigError, match="schedule 'line': expected its function to give a call"):
        begin(opened, station)


def test_a_slot_for_which_its_function_gives_nothing_fails_and_the_next_one_comes(opened: Opened) -> None:
    station = Station()
    station.schedule(lambda slot: train.of() if slot.at != NOON + 2 * HOUR else None)
    bench = begin(opened, station)
    pass_time(bench, 3 * HOUR, HOUR)
    assert yard.left == times(1, 3)
    (text,) = station.failures()
    assert "expected its function to give a call" in text


def test_a_slot_of_a_task_that_the_engine_does_not_know_fails_with_what_to_write(opened: Opened) -> None:
    station, strange = Station(), Tasks()

    @strange.task
    def stranger() -> None:
        pass

    station.schedule(lambda slot: stranger.of())
    bench = begin(opened, station)
    pass_time(bench, HOUR, HOUR)
    (text,) = station.failures()
    assert "Include its set" in text


def test_two_schedules_of_one_name_are_refused_with_both_places() -> None:
    engine = Engine("memory:")

    @engine.task
    def report() -> None:
        pass

    engine.schedule(report.of(), name="report", every=HOUR)
    with pytest.raises(ConfigError, match=r"two schedules are called 'report': .*test_schedules.py:\d+ and "):
        engine.schedule(report.of(), name="report", every=HOUR)
    tasks = Tasks()
    tasks.schedule(report.of(), name="report", every=HOUR)
    with pytest.raises(ConfigError, match="two schedules are called 'report'"):
        engine.include(tasks)


@pytest.mark.parametrize("name", ["", "a/b", "a#2", "x" * 201, "\ud800", "a\nb", None])
def test_a_name_with_bad_characters_is_refused(name: Any) -> None:
    engine = Engine("memory:")

    @engine.task
    def report() -> None:
        pass

    with pytest.raises(ConfigError):
        engine.schedule(report.of(), name=name, every=HOUR)


def test_a_task_in_place_of_a_call_is_refused() -> None:
    station = Station()
    with pytest.raises(ConfigError, match=r"train\.of"):
        station.schedule(train)


# clocks


def test_a_clock_that_is_set_forward_and_back_starts_no_slot_twice(opened: Opened) -> None:
    station = Station()
    station.schedule(catch_up="all", overlap="allow")
    bench = begin(opened, station)
    pass_time(bench, 2 * HOUR, HOUR)
    bench.clock.set_wall(3 * 3_600)
    bench.drain()
    assert yard.left == times(1, 2, 3, 4, 5)
    bench.clock.set_wall(-3 * 3_600)
    pass_time(bench, 5 * HOUR, 30 * MINUTE)
    # Time stands still for the store until it is later than what it has seen.
    assert yard.left == times(*range(1, 11))


# retention


@pytest.mark.parametrize("is_run", [False, True])
def test_what_a_schedule_did_goes_after_its_time_and_the_schedule_goes_on(opened: Opened, is_run: bool) -> None:
    station = Station()
    station.schedule((lambda slot: station.tour.of()) if is_run else None, keep=DAY)
    bench = begin(opened, station)
    pass_time(bench, 5 * HOUR, HOUR)
    bench.advance(DAY - HOUR + 30 * MINUTE)
    bench.drain()
    station.clean()
    kept = list(station.slots())
    assert kept == stamps(5, 28)
    if is_run:
        names = sorted(str(run.name) for run in station.engine.runs(RunState.DONE))
        assert names == [f"cron/line/{stamp}" for stamp in kept]
    pass_time(bench, HOUR, HOUR)
    assert yard.left == times(1, 2, 3, 4, 5, 28, 29)


def test_a_run_that_people_started_is_not_forgotten_with_the_slots_of_a_schedule(opened: Opened) -> None:
    station = Station()
    station.schedule(keep=DAY)
    bench = begin(opened, station)
    run = station.engine.start(station.tour.of(), name="cron/line/mine")
    bench.drain()
    bench.advance(3 * DAY)
    station.clean()
    assert run.state is RunState.DONE
