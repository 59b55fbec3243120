"""Rows of the SQLite store as Python values, and the small statements that every verb needs.

Functions here take a connection that is inside a transaction. They decide nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import apsw
import msgspec

from ramify.model.mark import Mark
from ramify.model.run import RunState, StoredRun
from ramify.model.segment import LIVE_STATES, MASK_WIDTH
from ramify.store.rows import SegmentRow, SpanRow
from ramify.store.sqlite.file.db import Db
from ramify.store.tuples import RUN_COLUMNS, SEGMENT_COLUMNS, SPAN_COLUMNS, read_run, segment_row, span_row, unknown

#: The last decision about each.
DECISION = "(SELECT told FROM decision WHERE decision.run = run.id ORDER BY n DESC LIMIT 1)"
RUN = f"SELECT {RUN_COLUMNS}, {DECISION} FROM run"
#: By the token: a process may hold very many rows, and left to itself SQLite looks through all of them.
CLAIMED_UNDER = (
    f"SELECT {SEGMENT_COLUMNS} FROM carray(?) AS given CROSS JOIN segment INDEXED BY fence ON token = given.value"
    " WHERE state = 3"
)
INSERT_SEGMENT = f"INSERT INTO segment ({SEGMENT_COLUMNS.removeprefix('id, ')}) VALUES ({','.join('?' * 18)})"
#: Of rows that stand for published tasks.
IS_LIVE = f"state IN ({','.join(str(int(state)) for state in LIVE_STATES)})"
#: Of rows that must run apart: see `Deaths.packed`.
IS_APART = "deaths & 1"
RUNS_AT = f"SELECT {RUN_COLUMNS}, {DECISION} FROM carray(?) AS wanted CROSS JOIN run ON id = wanted.value"
SPANS_AT = f"SELECT {SPAN_COLUMNS} FROM carray(?) AS wanted CROSS JOIN span ON first = wanted.value"
#: Tasks, each with the first id of the span that holds it.
SPANS_OF = (
    "SELECT wanted.value, first FROM carray(?) AS wanted CROSS JOIN span"
    " ON first = (SELECT max(first) FROM span WHERE first <= wanted.value) AND last >= wanted.value"
)
INSERT_SPAN = f"INSERT INTO span VALUES ({','.join('?' * 21)})"


def ids(numbers: Iterable[int]) -> Any:
    """A column of ids as one bound value, for `carray(?)`. There must be at least one."""
    return apsw.carray(array("q", numbers))


def run_row(db: Db, run: int) -> StoredRun:
    """One run; UnknownRun when there is none."""
    row = db.execute(f"{RUN} WHERE id = ?", (run,)).fetchone()
    if row is None:
        raise unknown(run)
    return read_run(row)


def runs_at(db: Db, numbers: Iterable[int]) -> dict[int, StoredRun]:
    """Return those of these runs that there are, in one statement however many they are."""
    wanted = sorted(set(numbers))
    found = db.execute(RUNS_AT, (ids(wanted),)).fetchall() if wanted else []
    return {row[0]: read_run(row) for row in found}


def spans_at(db: Db, firsts: Iterable[int]) -> dict[int, SpanRow]:
    """The spans that begin there, by their first ids, in one statement however many they are."""
    wanted = sorted(set(firsts))
    found = db.execute(SPANS_AT, (ids(wanted),)).fetchall() if wanted else []
    return {row[0]: span_row(row) for row in found}


def span_of(db: Db, task: int) -> SpanRow | None:
    """The range that holds `task`, published or not."""
    row = db.execute(
        f"SELECT {SPAN_COLUMNS} FROM span WHERE first <= ? ORDER BY first DESC LIMIT 1", (task,)
    ).fetchone()
    return None if row is None or row[1] < task else span_row(row)


def spans_of(db: Db, tasks: Collection[int]) -> dict[int, SpanRow]:
    """The ranges that hold tasks, published or not, by task."""
    found = db.execute(SPANS_OF, (ids(tasks),)).fetchall() if tasks else []
    spans = spans_at(db, (first for _, first in found))
    return {task: spans[first] for task, first in found}


def kept(db: Db, tasks: Collection[int]) -> dict[int, SpanRow]:
    """The same, of those tasks that are published and whose run was not forgotten."""
    there = {task: span for task, span in spans_of(db, tasks).items() if span.published}
    runs = runs_at(db, {span.run for span in there.values()})
    return {task: span for task, span in there.items() if runs[span.run].state is not RunState.FORGOTTEN}


def owner(db: Db, first: int, last: int) -> int | None:
    """The run of the tasks that lie in a range of ids, if any do."""
    row = db.execute("SELECT last, run FROM span WHERE first <= ? ORDER BY first DESC LIMIT 1", (last,)).fetchone()
    return row[1] if row is not None and row[0] >= first else None


def tasks_of(first: int, last: int, mask: bytes | None) -> int:
    """How many unfinished tasks a row stands for."""
    return last - first + 1 if mask is None else int.from_bytes(mask, "little").bit_count()


def segments(db: Db, where: str, values: tuple[object, ...]) -> list[SegmentRow]:
    """Segments that satisfy a fixed condition of ours; `where` never holds anything from outside."""
    return [segment_row(row) for row in db.execute(f"SELECT {SEGMENT_COLUMNS} FROM segment {where}", values)]


def claimed_under(db: Db, tokens: Sequence[bytes]) -> list[SegmentRow]:
    """The rows claimed under these tokens, in their order; a token that is void has none."""
    return list(map(segment_row, db.execute(CLAIMED_UNDER, (apsw.carray(tuple(tokens)),)))) if tokens else []


def covering(db: Db, task: int) -> SegmentRow | None:
    """The live row in whose mask `task` is set: a masked row that begins close by, or the last full row before it."""
    # The nearest first, one at a time: a run that forks much has thousands of narrow rows close by.
    near = db.execute(
        f"SELECT {SEGMENT_COLUMNS} FROM segment"
        f" WHERE first <= ? AND first > ? AND last >= ? AND {IS_LIVE} ORDER BY first DESC",
        (task, task - MASK_WIDTH, task),
    )
    for found in near:
        row = segment_row(found)
        if row.covers(task):
            return row
    wide = segments(db, f"WHERE first <= ? AND mask IS NULL AND {IS_LIVE} ORDER BY first DESC LIMIT 1", (task,))
    return wide[0] if wide and wide[0].covers(task) else None


def add_marks(db: Db, marks: Iterable[Mark]) -> None:
    """Leave marks."""
    db.executemany("INSERT INTO mark VALUES (?,?,?,?,?,?,?)", (msgspec.structs.astuple(mark) for mark in marks))


# The log


def latest(db: Db) -> int:
    """The latest time written down: that of the last commit."""
    row = db.execute("SELECT at FROM commits ORDER BY seq DESC LIMIT 1").fetchone()
    return 0 if row is None else int(row[0])
