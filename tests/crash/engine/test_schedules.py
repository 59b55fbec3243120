"""Schedules under `kill -9`: at each crash point, in the middle of each verb, and at any moment with several workers.

Which slots there are is known beforehand, and each begun slot is a line of a file that outlives its process. Every slot
is started once, whichever worker was killed at it: its job or its run is in the log exactly once.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from ramify import JobState
from ramify.model.event import Status
from ramify.model.key import key_text
from ramify.model.run import RunState
from ramify.shapes.cron.declaration import clock_kind, slot_kind
from ramify.shapes.cron.slot_start import stamp_of
from ramify.store.sqlite import SqliteStore
from ramify.testing import oracle
from ramify.testing.clock import FakeClock
from tests.crash.clients import LIMIT, STORE, WITNESS, Client, Clients
from tests.crash.engine.hunting import Hunt
from tests.crash.engine.schedule_program import EVERY, NAMES, SLOTS, START, engine, open_at, times_from

PROGRAM = "tests.crash.engine.schedule_program"
#: Points that a program comes past, by how often at least.
POINTS = {
    "before-append": 5, "after-append": 5, "before-start": 5, "after-start": 5, "before-reserve": 1, "after-reserve": 1,
    "entered": 1, "before-claim": 3, "after-claim": 3, "leased": 10, "before-attempt": 10, "after-attempt": 10,
    "before-commit": 10, "after-commit": 10, "before-advance": 2, "after-advance": 2, "before-leave": 1,
    "after-leave": 1,
}  # fmt: skip
#: The most kills of one store.
MOST_KILLS = 8


def prepare(folder: Path, ahead: int) -> None:
    """Declare both schedules right before their first slot; so many slots come before anybody works on them."""
    folder.mkdir(exist_ok=True)
    start = time.time_ns() // 1_000 - ahead * EVERY
    (folder / START).write_text(str(start))
    open_at(folder / STORE)
    engine._runtime.use(SqliteStore(folder / STORE, durability="process", clock=FakeClock(start - 1)))
    engine._runtime.declare_schedules()
    engine.close()


@pytest.fixture
def hunt(clients: Clients) -> Hunt:
    return Hunt(clients, "beat", verdict)


def verdict(folder: Path, seed: int, kills: int) -> list[str]:
    """What is wrong with slots that were all started after so many kills."""
    open_at(folder / STORE)
    try:
        begun = Counter((folder / WITNESS).read_text().splitlines())
        times = times_from(int((folder / START).read_text()))
        slots = list(times.between(0, 2**62))
        assert len(slots) == SLOTS
        found = oracle.check(engine._runtime.store)
        for name in NAMES:
            moments = [times.datetime_of(at) for at in slots]
            found += _of_schedule(name, [stamp_of(at) for at in slots])
            found += _of_witness(name, moments, begun, kills)
        return found + _of_jobs([times.datetime_of(at) for at in slots]) + _of_runs([stamp_of(at) for at in slots])
    finally:
        engine.close()


def _of_schedule(name: str, stamps: list[str]) -> list[str]:
    """What is wrong with the tasks of a schedule: one for each slot, done, and no clock is left."""
    reads = engine._runtime.store.reads
    run = engine.find(f"cron/{name}")
    assert run is not None
    rows = reads.tasks(run.id, limit=10_000).rows
    ends = reads.standings([row.id for row in rows])
    slots = Counter(key_text(row.key) for row in rows if row.kind == slot_kind(name))
    found = [f"{name}: slot {stamp} has {slots[stamp]} tasks" for stamp in stamps if slots[stamp] != 1]
    found += [f"{name}: slot {stamp} never was" for stamp in slots.keys() - set(stamps)]
    for row in rows:
        ended = ends[row.id].ended
        # A worker that begins while the clock is held declares the schedule once more, and that changes nothing.
        if ended is not Status.DONE:
            what = "clock" if row.kind == clock_kind(name) else f"slot {key_text(row.key)}"
            found.append(f"{name}: {what} {row.id} ended as {ended}")
    return found


def _of_witness(name: str, moments: list[datetime], begun: Counter[str], kills: int) -> list[str]:
    times = {moment: begun[f"{name} {moment.isoformat()}"] for moment in moments}
    return [f"{name}: {at} was begun {many} times" for at, many in times.items() if not 1 <= many <= 1 + kills]


def _of_jobs(moments: list[datetime]) -> list[str]:
    """What is wrong with the jobs: one for each slot, done."""
    jobs = list(engine.jobs())
    found = [f"job {job.id} is {job.state}" for job in jobs if job.state is not JobState.DONE]
    gave = Counter(job.result(0) for job in jobs if job.state is JobState.DONE)
    return found + [f"slot {at} has {gave[at.isoformat()]} jobs" for at in moments if gave[at.isoformat()] != 1]


def _of_runs(stamps: list[str]) -> list[str]:
    """What is wrong with the runs: one for each slot, done."""
    runs = {run.name: run.state for run in engine.runs() if str(run.name).startswith("cron/runs/")}
    names = [f"cron/runs/{stamp}" for stamp in stamps]
    found = [f"{name} is {runs.get(name)}" for name in names if runs.get(name) is not RunState.DONE]
    many = sum(str(run.name).startswith("cron/runs/") for run in engine.runs())
    return found + ([f"{many} runs for {len(names)} slots"] if many != len(names) else [])


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_loses_no_slot_and_doubles_none(point: str, tmp_path: Path, hunt: Hunt) -> None:
    prepare(tmp_path / "store", ahead=SLOTS // 2)
    hunt.kill_at(tmp_path / "store", point, (POINTS[point] + 1) // 2)


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_at_any_time_loses_no_slot_and_doubles_none(point: str, tmp_path: Path, hunt: Hunt) -> None:
    for at in range(1, POINTS[point] + 1):
        prepare(tmp_path / f"{at}", ahead=SLOTS // 2)
    hunt.kill_at_each(tmp_path, point, POINTS[point])


def kill_workers(folder: Path, hunt: Hunt, chance: random.Random) -> int:
    """Let two or three workers share the slots, kill one after the other at random, and look; how many were killed."""
    prepare(folder, ahead=0)
    kills, most = 0, chance.randint(2, MOST_KILLS)
    workers: list[Client] = []
    size = chance.choice((2, 3))
    while kills < most:
        while len(workers) < size:
            workers.append(hunt.begin(folder, 0, f"threads={chance.choice((0, 1, 2))}"))
        worker = workers.pop(chance.randrange(len(workers)))
        if worker.ends_within(chance.uniform(0.01, 0.2)):
            break
        worker.kill()
        kills += 1
    workers = workers or [hunt.begin(folder)]
    for worker in workers:
        assert worker.ends_within(LIMIT)
    assert verdict(folder, 0, kills) == []
    return kills


def test_every_slot_is_started_once_however_many_workers_are_killed(
    tmp_path: Path, hunt: Hunt, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    record_property("kills", sum(kill_workers(tmp_path / f"{at}", hunt, seed) for at in range(2)))


@pytest.mark.full
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("batch", range(5))
def test_every_slot_is_started_once_however_often_workers_are_killed(
    batch: int, tmp_path: Path, hunt: Hunt, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    record_property("kills", sum(kill_workers(tmp_path / f"{at}", hunt, seed) for at in range(20)))
