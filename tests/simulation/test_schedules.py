"""Two years of schedules in six zones, on three workers that are killed at random: every slot is started once.

Time is simulated, and so are deaths: a worker dies before or after a verb of its store and says nothing (see
`tests/behaviour/mortal.py`); another one finds what it held. Clocks go forward and back in these zones, at different
days and by different lengths, so that slots are skipped and doubled by the wall.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ramify.engine.jobs import retention
from ramify.model.event import Status
from ramify.model.key import key_text
from ramify.model.task import Row
from ramify.shapes.cron.declaration import slot_kind
from ramify.shapes.cron.slot_start import stamp_of
from ramify.shapes.cron.timetable import Timetable
from ramify.testing import oracle
from ramify.testing.clock import SECOND
from tests.behaviour.mortal import Depot, Program
from tests.behaviour.station import NOON, train, yard

#: Zones with and without daylight saving, north and south, with a change of half an hour, and one before midnight.
ZONES = {
    "Europe/Berlin": "30 2 * * *",
    "America/New_York": "30 1 * * mon-fri",
    "Australia/Lord_Howe": "45 1 * * *",
    "Asia/Kathmandu": "15 6 * * *",
    "America/Santiago": "0 0 * * *",
    "UTC": "0 12 29,30,31 * *",
}
WORKERS = 3
YEARS = timedelta(days=731)
#: One visit of a worker in so many is its last.
DEATHS = 12


class Crew:
    """Workers that come in turn, and die."""

    def __init__(self, depot: Depot, chance: random.Random) -> None:
        self._depot, self._chance = depot, chance
        self.deaths = 0
        self._workers = [self._hired() for _ in range(WORKERS)]

    def _hired(self) -> Program:
        left = [self._chance.randrange(1, 60 * DEATHS)]

        def reach(point: str) -> bool:
            left[0] -= 1
            return left[0] == 0

        worker = self._depot.program(1, reach)
        for zone, cron in ZONES.items():
            worker.engine.schedule(
                train.of(), name=zone.replace("/", "-"), cron=cron, tz=zone, catch_up="all", overlap="allow",
            )  # fmt: skip
        return worker

    def work(self) -> None:
        """Let one of them do all that can be done now; after a death, another one, until one lives."""
        while True:
            at = self._chance.randrange(WORKERS)
            if self._workers[at].work():
                return
            self.deaths += 1
            self._workers[at] = self._hired()
            self._depot.bury()

    @property
    def first(self) -> Program:
        """One of them."""
        return self._workers[0]


def live(depot: Depot, chance: random.Random, length: timedelta) -> int:
    """Let so much time pass, from slot to slot, sometimes late; how many workers died."""
    yard.clear()
    crew = Crew(depot, chance)
    crew.work()
    tables = [Timetable.of(cron, tz=zone) for zone, cron in ZONES.items()]
    end = depot.clock.now() + length // timedelta(microseconds=1)
    while depot.clock.now() < end:
        now = depot.clock.now()
        following = min(at for table in tables if (at := table.after(now)) is not None)
        late = chance.choice((0, 0, 1, chance.randrange(3 * 86_400)))
        depot.clock.advance((following - now) / SECOND + late)
        crew.work()
    check(crew.first, depot.clock.now())
    return crew.deaths


def check(worker: Program, now: int) -> None:
    """Every slot up to now was started once, and nothing else."""
    reads = worker.store.reads
    first = round(NOON.timestamp() * SECOND)
    # In an hour that comes twice, times of different zones are never equal.
    left = {at.astimezone(UTC) for at in yard.left if at is not None}
    many = 0
    for zone, cron in ZONES.items():
        name, table = zone.replace("/", "-"), Timetable.of(cron, tz=zone)
        expected = [stamp_of(at) for at in table.between(first, now)]
        rows = [row for row in every_task(worker, name) if row.kind == slot_kind(name)]
        ends = {row.id: reads.history(row.id).ended for row in rows}
        assert set(ends.values()) == {Status.DONE}
        assert sorted(str(key_text(row.key)) for row in rows) == expected
        assert worker.clocks(name) == 1
        assert {datetime.fromisoformat(stamp) for stamp in expected} <= left
        many += len(expected)
    assert len(list(worker.engine.jobs())) == many
    assert oracle.check(worker.store) == []


def every_task(worker: Program, name: str) -> list[Row]:
    """All tasks of a schedule."""
    found: list[Row] = []
    after, more = 0, True
    while more:
        page = worker.store.reads.tasks(worker.line(name).id, after=after, limit=1_000)
        found += page.rows
        after, more = page.after, page.more
    return found


@pytest.fixture(autouse=True)
def nothing_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep jobs of simulated years, of which a worker that lives for a real second would think that they are old."""
    monkeypatch.setattr(retention, "FIRST", math.inf)


def test_every_slot_of_a_month_is_started_once_by_workers_that_are_killed(
    tmp_path: Path, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    depot = Depot(tmp_path / "month")
    record_property("kills", live(depot, seed, timedelta(days=31)))
    depot.close()


@pytest.mark.full
@pytest.mark.timeout(900)
def test_every_slot_of_two_years_in_six_zones_is_started_once_by_workers_that_are_killed(
    tmp_path: Path, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    depot = Depot(tmp_path / "years")
    record_property("kills", live(depot, seed, YEARS))
    depot.close()
