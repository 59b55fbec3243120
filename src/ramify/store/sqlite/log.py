"""The log as it is read: events and sweeps from their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from ramify.model.event import Event, Status
from ramify.model.segment import unpack
from ramify.store.reads import Sweep
from ramify.store.sqlite.db import Db

EVENT = "SELECT task, n, status, CAST(value AS BLOB), seq, took FROM event"


def events(found: Iterable[tuple[int, int, int, bytes | None, int, int | None]]) -> Iterator[Event]:
    """Rows as events."""
    return (Event(task, n, Status(status), value, seq, took) for task, n, status, value, seq, took in found)


def events_of(db: Db, seq: int, ranges: str) -> list[Event]:
    """The events of one commit, found by the ranges it wrote down."""
    found: dict[tuple[int, int], Event] = {}
    for first, last in msgspec.json.decode(ranges, type=list[tuple[int, int]]):
        written = db.execute(f"{EVENT} WHERE task BETWEEN ? AND ? AND seq = ?", (first, last, seq))
        found.update(((event.task, event.n), event) for event in events(written))
    return [found[name] for name in sorted(found)]


def sweeps(db: Db, where: str, values: tuple[int, ...]) -> list[Sweep]:
    """What cancels of runs ended in one stroke."""
    found = db.execute(f"SELECT run, first, last, mask, seq FROM sweep WHERE {where}", values)
    return [Sweep(run, first, last, unpack(mask), seq) for run, first, last, mask, seq in found]
