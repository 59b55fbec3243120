"""Limits in the SQLite store: what is claimed at their places, and who waits in their lines."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ramify.model.limit import LIMITS, Limits, Place, read_limits
from ramify.store.rows import SegmentRow
from ramify.store.sqlite import rows
from ramify.store.sqlite.file.db import Db
from ramify.store.sqlite.rows import SEGMENT_COLUMNS

STORED = "SELECT CAST(value AS BLOB) FROM value WHERE space = ? ORDER BY name"
RUNNING = "SELECT first, last, mask FROM segment INDEXED BY running WHERE state = 3 AND kind = ?"
IN_LANE = f"{RUNNING} AND lane IS ?"
#: Of a limit that covers queues: claimed rows are few beside those that wait.
CLAIMED = "SELECT kind, queue, lane, first, last, mask FROM segment INDEXED BY running WHERE state = 3"
_IN_LINE = f"SELECT {SEGMENT_COLUMNS} FROM segment INDEXED BY line WHERE line = ?1 AND state = 6"
#: In two steps, as for rows that are ready: the next queue of a kind, else the next kind.
NEXT_GROUP = (
    f"SELECT * FROM ({_IN_LINE} AND kind = ?2 AND queue > ?3 ORDER BY queue, rank, id LIMIT 1) UNION ALL"
    f" SELECT * FROM ({_IN_LINE} AND kind > ?2 ORDER BY kind, queue, rank, id LIMIT 1) LIMIT 1"
)
OF_GROUP = f"{_IN_LINE} AND kind = ?2 AND queue = ?3 ORDER BY rank, id"
HEAD = "SELECT 1 FROM segment INDEXED BY line WHERE line = ? AND state = 0 AND kind = ? AND queue = ? LIMIT 1"
HEADED_BY = "SELECT DISTINCT line FROM segment INDEXED BY segment_run WHERE run = ? AND state = 0 AND line IS NOT NULL"


def limits(db: Db) -> Limits:
    """All limits of the store."""
    return read_limits(tuple(value for (value,) in db.execute(STORED, (LIMITS,)).fetchall()))


def running(db: Db, place: Place) -> int:
    """How many tasks are claimed that take a place."""
    limit = place.limit.limit
    if limit.queues:
        return sum(rows.tasks_of(*row[3:]) for row in db.execute(CLAIMED) if place.counts(*row[:3]))
    statement, lane = (IN_LANE, (place.lane,)) if limit.per_lane else (RUNNING, ())
    return sum(rows.tasks_of(*row) for kind in limit.kinds for row in db.execute(statement, (kind, *lane)))


def heads(db: Db, line: str) -> Iterator[SegmentRow]:
    """The first limited row of each kind and queue that has no ready one."""
    group = ("", "")
    while (found := db.execute(NEXT_GROUP, (line, *group)).fetchone()) is not None:
        row = rows.segment_row(found)
        group = (row.kind, row.queue)
        if not has_head(db, line, *group):
            yield row


def has_head(db: Db, line: str, kind: str, queue: str) -> bool:
    """Return whether a row is ready as the head of a line."""
    return db.execute(HEAD, (line, kind, queue)).fetchone() is not None


def in_line(db: Db, line: str, kind: str, queue: str) -> Iterator[SegmentRow]:
    """The limited rows of a kind and queue, in their order."""
    return map(rows.segment_row, db.execute(OF_GROUP, (line, kind, queue)))


def headed_by(db: Db, run: int) -> Collection[str]:
    """The lines that have a row of a run as a head."""
    return [line for (line,) in db.execute(HEADED_BY, (run,)).fetchall()]
