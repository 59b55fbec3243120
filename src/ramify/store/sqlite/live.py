"""The segment table as people see it: rows by id, those of one process, and those that come first in line.

Each is a few index seeks, or a page in the order of an index: the price grows with what is asked for, not with how many
rows there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ramify.model.death import Deaths
from ramify.model.segment import Segment, SegmentState, unpack
from ramify.store.sqlite import rows
from ramify.store.sqlite.claims import IS_DUE, IS_READY, NEXT_DUE_PLACE, NEXT_PLACE, places
from ramify.store.sqlite.db import Db

SEGMENT = (
    "SELECT id, run, round, kind, queue, lane, first, last, mask, rank, due, attempt, owner, state,"
    " ran, held, silent, apart, alone, awaits FROM segment"
)
#: Of each place the first rows: those that can be taken now by rank, the others by the time they are due.
FIRST_READY, FIRST_DUE = (
    f"{SEGMENT} INDEXED BY {index} WHERE {is_it} AND kind = ? AND queue = ? ORDER BY {order}, id LIMIT ?"
    for index, is_it, order in (("ready", IS_READY, "rank"), ("due", IS_DUE, "due"))
)
FIRST_SUSPECTS = f"{SEGMENT} INDEXED BY suspect WHERE state = 0 AND apart ORDER BY rank, id LIMIT ?"


def covering(db: Db, tasks: Iterable[int]) -> Iterator[tuple[int, Segment]]:
    """The live rows in which these tasks are set. Neighbours often share one: it is looked for once."""
    row: rows.SqliteSegment | None = None
    for task in tasks:
        if row is None or not row.covers(task):
            row = rows.covering(db, task)
            found = db.execute(f"{SEGMENT} WHERE id = ?", (row.id,)).fetchall() if row is not None else []
        yield from ((task, segment_of(each)) for each in found)


def rows_after(db: Db, run: int | None, owner: int | None, after: int) -> Iterator[Segment]:
    """Rows by id, of one run or process or of all."""
    index = "" if owner is None else " INDEXED BY held"
    mine = "(?3 IS NULL OR run = ?3)" if owner is None else "state = 3 AND owner = ?2 AND (?3 IS NULL OR run = ?3)"
    return map(segment_of, db.execute(f"{SEGMENT}{index} WHERE id > ?1 AND {mine} ORDER BY id", (after, owner, run)))


def in_line(db: Db, limit: int) -> list[Segment]:
    """The ready rows that come first: `limit` by rank and `limit` by due time of each kind and queue, and suspects."""
    found = db.execute(FIRST_SUSPECTS, (limit,)).fetchall()
    for first, statement in ((FIRST_READY, NEXT_PLACE), (FIRST_DUE, NEXT_DUE_PLACE)):
        for place in places(db, statement):
            found += db.execute(first, (*place, limit)).fetchall()
    return sorted(map(segment_of, found), key=lambda row: (row.rank, row.id))


def segment_of(row: tuple[Any, ...]) -> Segment:
    """A row of the table as a value."""
    ran, held, silent, apart, alone, awaits = row[14:]
    deaths = Deaths(ran, held, silent, bool(apart), bool(alone))
    return Segment(*(*row[:8], unpack(row[8]), *row[9:12], deaths, row[12], SegmentState(row[13]), awaits))
