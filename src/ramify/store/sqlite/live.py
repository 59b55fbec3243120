"""The segment table as people see it: rows by id, those of one process, those that come first in line, tasks of a kind
that have a due time, and what is left of a run, counted.

Each is a few index seeks, a page in the order of an index, or one pass over rows of a kind or run inside SQLite.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from ramify.model.death import Deaths
from ramify.model.segment import Segment, SegmentState, in_order, unpack
from ramify.store import tuples
from ramify.store.reads import LiveCount, LiveCounts
from ramify.store.rows import SegmentRow
from ramify.store.sqlite import rows
from ramify.store.sqlite.file.db import Db
from ramify.store.sqlite.wanted import IS_DUE, IS_READY, NEXT_DUE_PLACE, NEXT_PLACE, places

SEGMENT = (
    "SELECT id, run, round, kind, queue, lane, first, last, mask, rank, due, attempt, owner, state,"
    " deaths, awaits, line FROM segment"
)
#: Of each place the first rows: those that can be taken now by rank, the others by the time they are due.
FIRST_READY, FIRST_DUE = (
    f"{SEGMENT} INDEXED BY {index} WHERE {is_it} AND kind = ? AND queue = ? ORDER BY {order}, id LIMIT ?"
    for index, is_it, order in (("ready", IS_READY, "rank"), ("due", IS_DUE, "due"))
)
FIRST_SUSPECTS = f"{SEGMENT} INDEXED BY suspect WHERE state = 0 AND {rows.IS_APART} ORDER BY rank, id LIMIT ?"


#: Rows of a kind that have a due time and that nobody holds, beyond a task and behind a row: those of all runs by the
#: indexes that hold such rows, and those of one run.
_IS_TIMED = "kind = ?1 AND due IS NOT NULL AND last > ?2 AND (first, id) > (?3, ?4)"
TIMED = " UNION ALL ".join(
    f"{SEGMENT} INDEXED BY {index} WHERE {is_it} AND {_IS_TIMED}"
    for index, is_it in (("due", IS_DUE), ("suspect", f"state = 0 AND {rows.IS_APART}"), ("gated", "state = 1"))
)
TIMED_OF_RUN = f"{SEGMENT} INDEXED BY segment_run WHERE run = ?6 AND state IN (0, 1) AND {_IS_TIMED}"
IN_ORDER = " ORDER BY first, id LIMIT ?5"

#: What rows are counted by: the columns of `LiveCount` up to the number of tasks.
_ALIKE = (
    f"state, kind, owner, {rows.IS_APART} AS apart, ifnull(due > ?2, 0) AS later,"
    " round > (SELECT round FROM run WHERE id = ?1) AS ahead"
)
_LEFT = f"FROM segment INDEXED BY segment_run WHERE run = ?1 AND {rows.IS_LIVE} AND mask IS"
COUNT_FULL = (
    "SELECT state, kind, owner, apart, later, ahead, sum(width), min(iif(later, due, NULL)), count(*)"
    f" FROM (SELECT {_ALIKE}, due, last - first + 1 AS width {_LEFT} NULL LIMIT ?3) GROUP BY 1, 2, 3, 4, 5, 6"
)
MASKED = f"SELECT {_ALIKE}, due, mask {_LEFT} NOT NULL LIMIT ?3"


def covering(db: Db, tasks: Iterable[int]) -> Iterator[tuple[int, Segment]]:
    """The live rows in which these tasks are set. Neighbours often share one: it is looked for once."""
    row: SegmentRow | None = None
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


def due_tasks(db: Db, kind: str, run: int | None, after: int, size: int) -> list[tuple[int, Segment]]:
    """The first `size` tasks of a kind beyond an id that have a due time and that nobody holds, with their rows."""
    return list(islice(in_order(_timed(db, kind, run, after, size), after), size))


def _timed(db: Db, kind: str, run: int | None, after: int, size: int) -> Iterator[Segment]:
    # Mostly so many rows are enough. Of a row that was worked on, the last tasks may be gone.
    statement, of = (TIMED, ()) if run is None else (TIMED_OF_RUN, (run,))
    place = (0, 0)
    while True:
        found = db.execute(f"{statement}{IN_ORDER}", (kind, after, *place, size, *of)).fetchall()
        yield from map(segment_of, found)
        if len(found) < size:
            return
        place = (found[-1][6], found[-1][0])


def counts(db: Db, run: int, now: int, limit: int) -> LiveCounts:
    """Unfinished tasks of a run, counted by SQLite; only masks are looked at one by one."""
    full = db.execute(COUNT_FULL, (run, now, limit)).fetchall()
    masked = db.execute(MASKED, (run, now, limit)).fetchall()
    tasks: Counter[tuple[Any, ...]] = Counter()
    dues: dict[tuple[Any, ...], int] = {}
    for *alike, width, due, _ in full:
        tasks[tuple(alike)] = width
        if due is not None:
            dues[tuple(alike)] = due
    for *alike, due, mask in masked:
        name = tuple(alike)
        tasks[name] += int.from_bytes(mask, "little").bit_count()
        if alike[4]:
            dues[name] = min(due, dues.get(name, due))
    found = [
        LiveCount(tuples.STATES[state], kind, owner, bool(apart), bool(later), bool(ahead), many, dues.get(name))
        for name, many in sorted(tasks.items(), key=lambda each: (*each[0][:2], each[0][2] or 0, *each[0][3:]))
        for state, kind, owner, apart, later, ahead in [name]
    ]
    return LiveCounts(found, sum(row[-1] for row in full) < limit and len(masked) < limit)


def segment_of(row: tuple[Any, ...]) -> Segment:
    """A row of the table as a value."""
    deaths, awaits, line = row[14:]
    return Segment(
        *(
            *row[:8],
            unpack(row[8]),
            *row[9:12],
            Deaths.unpack(deaths),
            row[12],
            SegmentState(row[13]),
            awaits,
            line or None,
        )
    )
