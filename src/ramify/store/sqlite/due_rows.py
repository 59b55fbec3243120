"""Rows with a due time in the SQLite store: which of them are due now, and when the next one is.

A claim starts from the rows that are due by now, oldest due time first. Rows that are not due yet cost nothing,
however many kinds they have. When more rows are due than `DUE_WINDOW`, the claim reads them kind by kind instead, so
that rows the process cannot take never hide a row that it can. Both ways give the same rows in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any

from ramify.model.claim import Rooms, Want
from ramify.model.policy import PARKED, SECOND
from ramify.store import tuples
from ramify.store.rows import SegmentRow
from ramify.store.sqlite import rows
from ramify.store.sqlite.file.db import Db
from ramify.store.sqlite.wanted import IS_DUE, NEXT_DUE_PLACE, wanted_places
from ramify.store.tuples import SEGMENT_COLUMNS
from ramify.store.verbs.claim import fits, is_wanted, may_fit

#: The most rows that a claim reads by due time alone, and the most of one kind and queue that it puts in order of rank.
DUE_WINDOW = 256
#: The most rows that are looked at to find out when the next one is due.
NEXT_WINDOW = 64
MORE_DUE = f"SELECT 1 FROM segment INDEXED BY due_at WHERE {IS_DUE} AND due <= ? LIMIT 1 OFFSET ?"
ALL_DUE = f"SELECT {SEGMENT_COLUMNS} FROM segment INDEXED BY due_at WHERE {IS_DUE} AND due <= ? ORDER BY due"
DUE_OF_PLACE = (
    f"SELECT {SEGMENT_COLUMNS} FROM segment INDEXED BY due"
    f" WHERE {IS_DUE} AND kind = ? AND queue = ? AND due <= ? ORDER BY due"
)
LEFT_DUE = (
    "SELECT kind, queue, run, lane, first, last, mask FROM segment INDEXED BY due_at"
    f" WHERE {IS_DUE} AND due <= ? ORDER BY due"
)
LEFT_OF_PLACE = (
    "SELECT run, lane, first, last, mask FROM segment INDEXED BY due"
    f" WHERE {IS_DUE} AND kind = ? AND queue = ? AND due <= ? LIMIT ?"
)
NEXT_DUE = (
    "SELECT due, kind, queue, run, lane FROM segment INDEXED BY due_at"
    f" WHERE {IS_DUE} AND due > ? AND due < {PARKED} ORDER BY due LIMIT ?"
)
DUE_SUSPECTS = (
    "SELECT due, kind, queue, run, lane FROM segment INDEXED BY suspect"
    f" WHERE state = 0 AND {rows.IS_APART} AND due > ? AND due < {PARKED}"
)
_KIND, _QUEUE = (SEGMENT_COLUMNS.split(", ").index(name) for name in ("kind", "queue"))


def due_now(db: Db, want: Want, rooms: Rooms, now: int) -> list[SegmentRow]:
    """Return the rows that are due and fit, best first; of one kind and queue those that have been due longest."""
    found: list[SegmentRow] = []
    for some in _by_place(db, want, now) if _are_many(db, now) else [_all(db, want, now)]:
        found += islice((row for row in map(tuples.segment_row, some) if fits(row, want, rooms)), DUE_WINDOW)
    return sorted(found, key=attrgetter("place"))


def _are_many(db: Db, now: int) -> bool:
    """Return whether more rows are due, of any kind, than the window holds."""
    return db.execute(MORE_DUE, (now, DUE_WINDOW)).fetchone() is not None


def _all(db: Db, want: Want, now: int) -> Iterator[tuple[Any, ...]]:
    return (row for row in db.execute(ALL_DUE, (now,)) if is_wanted(want, row[_KIND], row[_QUEUE]))


def _by_place(db: Db, want: Want, now: int) -> Iterator[Iterator[tuple[Any, ...]]]:
    return (iter(db.execute(DUE_OF_PLACE, (*place, now))) for place in wanted_places(db, NEXT_DUE_PLACE, want))


def due_tasks(db: Db, want: Want, now: int, limit: int) -> Sequence[tuple[int, str | None, int, int, bytes | None]]:
    """Return run, lane and tasks of the first rows that are due, of the first wanted kind and queue that has any."""
    if _are_many(db, now):
        at_places = wanted_places(db, NEXT_DUE_PLACE, want)
        each = (db.execute(LEFT_OF_PLACE, (*place, now, limit)).fetchall() for place in at_places)
        return next(filter(None, each), [])
    found = [row for row in db.execute(LEFT_DUE, (now,)) if is_wanted(want, *row[:2])]
    first = min((row[:2] for row in found), default=None)
    return [row[2:] for row in found if row[:2] == first][:limit]


def next_due(db: Db, want: Want, looked: int, now: int) -> float | None:
    """Return the seconds until the next row is due that a claim which looked at `looked` could take; None without one.

    When the first `NEXT_WINDOW` rows are not wanted, the last of them counts: the process then looks again too early
    rather than too late.
    """
    dues = [due for due, *row in db.execute(DUE_SUSPECTS, (looked,)) if may_fit(want, *row)]
    for seen, (due, *row) in enumerate(db.execute(NEXT_DUE, (looked, NEXT_WINDOW)), 1):
        if may_fit(want, *row) or seen == NEXT_WINDOW:
            dues.append(due)
            break
    return max(0, min(dues) - now) / SECOND if dues else None
