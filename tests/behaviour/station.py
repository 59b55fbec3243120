"""A station: an engine with schedules on a store of a test, and what can be seen of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from ramify import Call, Defer, Engine, Run, Slot, Tasks, current
from ramify.engine.jobs.retention import Janitor
from ramify.kernel.signals import Took
from ramify.model.event import Status
from ramify.model.key import key_text
from ramify.shapes.cron.declaration import clock_kind, late_kind, slot_kind
from ramify.shapes.cron.declaring import backfill, to_fill, trigger
from ramify.testing.clock import SECOND
from ramify.testing.using import Workbench

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
#: How long a train that is held looks away.
LOOK = timedelta(seconds=30)


class Yard:
    """What the trains of a test have done, and what they are to do."""

    def __init__(self) -> None:
        #: The slots of the trains that wanted to leave, and of those that left, in order.
        self.tried: list[datetime | None] = []
        self.left: list[datetime | None] = []
        #: The slots that others knew, by their names, in order.
        self.seen: list[tuple[str, Slot | None]] = []
        #: Whether trains stay, and whether they break down.
        self.held = self.broken = False

    def clear(self) -> None:
        """Forget all of it."""
        self.tried.clear()
        self.left.clear()
        self.seen.clear()
        self.held = self.broken = False


yard = Yard()
rolling = Tasks()


@rolling.task(retries=0)
def train() -> None:
    """Leave, and say at which slot."""
    slot = current().slot
    yard.tried.append(None if slot is None else slot.at)
    if yard.held:
        raise Defer(LOOK)
    yard.left.append(None if slot is None else slot.at)
    if yard.broken:
        raise ConnectionError("no power")


@rolling.task
def node(name: str, *before: str) -> str:
    """Say which slot it knows."""
    yard.seen.append((name, current().slot))
    return name


@rolling.task
def load(day: str) -> str:
    """Begin a pipeline."""
    yard.seen.append((f"load {day}", current().slot))
    return day


@rolling.task
def save(day: str) -> str:
    """End it."""
    yard.seen.append((f"save {day}", current().slot))
    return day


@rolling.task
def branch() -> Iterator[Call[Any]]:
    """Have a child."""
    yard.seen.append(("branch", current().slot))
    yield node.of("leaf")


class Station:
    """An engine with trains."""

    def __init__(self, *include: Tasks) -> None:
        self.engine = Engine("memory:", include=[rolling, *include])
        #: A train as the one node of a DAG.
        self.tour = self.engine.dag("tour")
        self.tour.add(train.of())

    def schedule(self, what: object = None, *, name: str = "line", **options: Any) -> None:
        """Let trains leave, every hour unless something else is said."""
        if not {"cron", "every"} & options.keys():
            options["every"] = HOUR
        self.engine.schedule(train.of() if what is None else what, name=name, **options)  # type: ignore[arg-type]

    # what is there

    @property
    def store(self) -> Any:
        """The store it is on."""
        return self.engine._runtime.store

    def line(self, name: str = "line") -> Run[Any]:
        """The run that a schedule is."""
        found = self.engine.find(f"cron/{name}")
        assert found is not None
        return found

    def tasks(self, kind: str, name: str = "line") -> list[tuple[str | None, Status | None]]:
        """The tasks of a kind that a schedule has, by id: their keys and how they ended."""
        reads = self.store.reads
        rows = [row for row in reads.tasks(self.line(name).id, limit=10_000).rows if row.kind == kind]
        ends = reads.standings([row.id for row in rows])
        return [(key_text(row.key), ends[row.id].ended) for row in rows]

    def slots(self, name: str = "line") -> dict[str, str]:
        """How the tasks of slots ended, by the time of the slot."""
        ends = self.tasks(slot_kind(name), name)
        assert len({key for key, _ in ends}) == len(ends), f"a slot has two tasks: {ends}"
        return {str(key): "open" if end is None else end.name.lower() for key, end in ends}

    def clocks(self, name: str = "line") -> int:
        """How many clocks of a schedule wait."""
        return sum(end is None for _, end in self.tasks(clock_kind(name), name))

    def complaints(self, name: str = "line") -> list[str]:
        """What a schedule told of slots that were late."""
        found = [error.failure.text for error in self.line(name).errors() if error.kind == late_kind(name)]
        return [text or "" for text in found]

    def failures(self, name: str = "line") -> list[str]:
        """Why slots of a schedule failed."""
        found = [error.failure.text for error in self.line(name).errors() if error.kind == slot_kind(name)]
        return [text or "" for text in found]

    # what people do

    def trigger(self, name: str = "line") -> int:
        """Start a slot by hand."""
        return trigger(self.store, name, self.line(name)._stored, self.engine._runtime.reserve_ids)

    def backfill(self, low: datetime, high: datetime, parallel: int = 1, name: str = "line") -> int:
        """Fill in the slots from one time to another; how many that are."""
        run, until = self.line(name)._stored, round(high.timestamp() * SECOND)
        slots = to_fill(self.store, name, run, round(low.timestamp() * SECOND), until)
        backfill(self.store, name, run, slots, parallel, self.engine._runtime.reserve_ids)
        return len(slots)

    def clean(self) -> None:
        """Forget what is old."""
        now = 0.0
        janitor = Janitor(self.store, self.engine._runtime.keeps, lambda: now, lambda: 0.0)
        now = 3_600.0
        janitor(Took(0))


def pass_time(bench: Workbench, length: timedelta, step: timedelta) -> None:
    """Let time pass in steps, with a worker there all the while."""
    for _ in range(length // step):
        bench.advance(step)
        bench.drain(raising=False)


def stamps(*hours: int, first: datetime = NOON) -> list[str]:
    """The names of slots so many hours after the first."""
    return [f"{first + each * HOUR:%Y-%m-%dT%H:%M:%SZ}" for each in hours]


def times(*hours: int) -> list[datetime]:
    """Moments so many hours after noon."""
    return [NOON + each * HOUR for each in hours]


Opened = Callable[[Station], Workbench]
