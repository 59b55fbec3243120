"""The context of runs in the SQLite store. What a set makes of what is there is said by `ramify.model.context`."""

from __future__ import annotations

from collections.abc import Iterable

from ramify.model.context import ContextValue, SetValue, after_set, outrun_by
from ramify.model.event import Status
from ramify.store.sqlite import counters
from ramify.store.sqlite.db import Db
from ramify.store.sqlite.rows import CommitLog, SqliteSegment

VALUES = "SELECT name, CAST(value AS BLOB), task, first_set, last_set FROM context WHERE run = ?"
PUT = "INSERT OR REPLACE INTO context VALUES (?, ?, CAST(? AS TEXT), ?, ?, ?)"
REMOVE = (
    "DELETE FROM context WHERE run = ?1 AND name IN (SELECT name FROM context WHERE run = ?1 ORDER BY name LIMIT ?2)"
)


def write(db: Db, log: CommitLog, row: SqliteSegment, sets: Iterable[SetValue], process: int, now: int) -> None:
    """Set values in order; who comes too late gets an event."""
    for new in sets:
        known = value(db, row.run, new.name)
        after = after_set(known, new, now)
        if after is not known:
            db.execute(PUT, (row.run, after.name, after.value, after.task, after.first_set, after.last_set))
            continue
        log.write(new.task, Status.OUTRUN, outrun_by(after))
        counters.count(db, row.run, row.kind, row.queue, Status.OUTRUN, process, 1)
        # Whoever numbers the end of this task has to look for events before it.
        row.attempt = max(row.attempt, 1)


def value(db: Db, run: int, name: str) -> ContextValue | None:
    """Return what stands under one name of a run."""
    found = db.execute(f"{VALUES} AND name = ?", (run, name)).fetchall()
    return ContextValue(*found[0]) if found else None


def page(db: Db, run: int, after: str, limit: int) -> list[ContextValue]:
    """Return what stands in a run under the names that come after one, in order."""
    found = db.execute(f"{VALUES} AND name > ? ORDER BY name LIMIT ?", (run, after, limit))
    return [ContextValue(*row) for row in found.fetchall()]


def remove(db: Db, run: int, limit: int) -> int:
    """Remove up to so many values of a run; how many went."""
    db.execute(REMOVE, (run, limit))
    return db.changes()
