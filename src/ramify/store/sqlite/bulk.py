"""Columns into the log, one statement for many rows.

Binding a row at a time costs more than storing it. Here a column of byte strings is handed to SQLite as one array
(`carray`), and the statement's own loop reads it; columns of integers go along as text of fixed width that each row
cuts its piece from, because two arrays cannot be walked side by side. About half the time per row, measured.

Columns that do not fit this form (keys, extras) take the plain way, one binding a row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import repeat

import apsw

from ramify.model.event import Status
from ramify.model.segment import is_unbroken
from ramify.store.sqlite.db import Db

#: Digits of a 64-bit id.
WIDTH = 19
#: The integer of row `rowid` in a column of fixed width; ids are positive, so 0 stands for none.
CUT = f"CAST(substr(?1, rowid * {WIDTH} - {WIDTH - 1}, {WIDTH}) AS INTEGER)"

TASKS_OF_ONE = "INSERT INTO task (id, parent, body) SELECT ?2 + rowid, ?1, CAST(value AS TEXT) FROM carray(?3)"
TASKS = f"INSERT INTO task (id, parent, body) SELECT ?2 + rowid, nullif({CUT}, 0), CAST(value AS TEXT) FROM carray(?3)"
TASKS_ROW_BY_ROW = "INSERT INTO task VALUES (?, ?, CAST(? AS TEXT), ?, ?)"

RANGE_OF_EVENTS = "INSERT INTO event SELECT ?1 + rowid, ?2, ?3, ?4, {value} FROM carray(?5)"
EVENTS = f"INSERT INTO event SELECT {CUT}, ?2, ?3, ?4, {{value}} FROM carray(?5)"
VALUE = "CAST(value AS TEXT)"
INT32 = apsw.SQLITE_CARRAY_INT32


def insert_tasks(
    db: Db,
    first: int,
    bodies: Sequence[bytes],
    parents: Sequence[int | None] | int | None,
    keys: Sequence[bytes | None] | None = None,
    mores: Sequence[bytes | None] | None = None,
) -> None:
    """Task rows with ids from `first` on."""
    if keys is not None or mores is not None:
        ids = range(first, first + len(bodies))
        column = repeat(parents) if parents is None or isinstance(parents, int) else parents
        rows = zip(ids, column, bodies, keys or repeat(None), mores or repeat(None), strict=False)
        db.executemany(TASKS_ROW_BY_ROW, rows)
    elif parents is None or isinstance(parents, int):
        db.execute(TASKS_OF_ONE, (parents, first - 1, apsw.carray(tuple(bodies))))
    else:
        db.execute(TASKS, (fixed_width(parents), first - 1, apsw.carray(tuple(bodies))))


def insert_events(
    db: Db,
    seq: int,
    tasks: Sequence[int],
    numbers: int | Sequence[int],
    statuses: Status | Sequence[Status],
    values: Sequence[bytes | None] | None,
) -> None:
    """One event for each task. Those alike in number, status and having a value go in one statement."""
    if isinstance(numbers, int) and isinstance(statuses, Status) and (values is None or None not in values):
        _insert_alike(db, seq, tasks, numbers, statuses, values)
        return
    alike: dict[tuple[int, Status, bool], tuple[list[int], list[bytes | None]]] = defaultdict(lambda: ([], []))
    each_number = repeat(numbers) if isinstance(numbers, int) else numbers
    each_status = repeat(statuses) if isinstance(statuses, Status) else statuses
    for task, n, status, value in zip(tasks, each_number, each_status, values or repeat(None), strict=False):
        chosen, their = alike[n, status, value is None]
        chosen.append(task)
        their.append(value)
    for (n, status, empty), (chosen, their) in alike.items():
        _insert_alike(db, seq, chosen, n, status, None if empty else their)


def _insert_alike(
    db: Db, seq: int, tasks: Sequence[int], n: int, status: Status, values: Sequence[bytes | None] | None
) -> None:
    # Without values any array of the right length will do: the statement only counts its rows.
    column = apsw.carray(tuple(values)) if values is not None else apsw.carray(bytes(4 * len(tasks)), flags=INT32)
    value = VALUE if values is not None else "NULL"
    if is_unbroken(tasks):
        db.execute(RANGE_OF_EVENTS.format(value=value), (tasks[0] - 1, n, seq, status, column))
    else:
        db.execute(EVENTS.format(value=value), (fixed_width(tasks), n, seq, status, column))


def fixed_width(numbers: Sequence[int | None]) -> bytes:
    """A column of ids as one text that `CUT` takes apart."""
    column = tuple(numbers)
    if None in column:
        column = tuple(number or 0 for number in column)
    return (f"%0{WIDTH}d" * len(column) % column).encode()
