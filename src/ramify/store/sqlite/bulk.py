"""Columns into the log, one statement for many rows.

Binding a row at a time costs more than storing it. Here a column of byte strings is handed to SQLite as one array
(`carray`), and the statement's own loop reads it; columns of integers go along as text of fixed width that each row
cuts its piece from, because two arrays cannot be walked side by side. About half the time per row, measured.

Further columns travel in front of the bodies. One that only some tasks have takes the plain way, a binding a row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import repeat

import apsw

from ramify.model.commit import NO_TIMES
from ramify.model.decoder import decoder
from ramify.model.event import Status
from ramify.model.segment import is_unbroken
from ramify.model.task import NewTasks
from ramify.store.sqlite.file.db import Db

#: Digits of a 64-bit id.
WIDTH = 19
#: Digits of the length of a value in front of a body.
LENGTH = 7
#: None in a column of fixed width.
NOBODY = b"0" * WIDTH


def cut(n: int) -> str:
    """The integer of row `rowid` in a column of fixed width, which is the nth value bound."""
    return f"CAST(substr(?{n}, rowid * {WIDTH} - {WIDTH - 1}, {WIDTH}) AS INTEGER)"


#: Ids are positive, so 0 stands for none.
CUT = cut(1)

ONE_TASK = "INSERT INTO task (id, parent, body, key, more, lane) VALUES (?, ?, CAST(? AS TEXT), ?, ?, ?)"
LATE_TASK = "INSERT INTO task (id, parent, body, key, more, lane, added) VALUES (?, ?, CAST(? AS TEXT), ?, ?, ?, ?)"

EVENT = "INSERT INTO event (task, n, seq, status, value)"
RANGE_OF_EVENTS = f"{EVENT} SELECT ?1 + rowid, ?2, ?3, ?4, {{value}} FROM carray(?5)"
EVENTS = f"{EVENT} SELECT {CUT}, ?2, ?3, ?4, {{value}} FROM carray(?5)"
TIMED_EVENT = "INSERT INTO event VALUES (?, ?, ?, ?, CAST(? AS TEXT), ?)"
VALUE = "CAST(value AS TEXT)"
INTEGERS = decoder(list[int | None])
INT32 = apsw.SQLITE_CARRAY_INT32


@dataclass(frozen=True, slots=True)
class TaskColumns:
    """Columns of new tasks as they are bound. Made outside a transaction, so that others do not wait for it."""

    bodies: tuple[bytes, ...]
    parents: bytes | int | None
    keys: Sequence[bytes | None] | None
    details: Sequence[bytes | None] | None
    lanes: Sequence[str] | None
    low_parent: int | None = None
    high_parent: int | None = None

    @classmethod
    def of(cls, tasks: NewTasks, chosen: Sequence[int] | None = None) -> TaskColumns:
        """The columns of all tasks of a group, or of those at the chosen positions."""
        parents, keys, details, lanes = tasks.parents, tasks.keys, tasks.details, tasks.lanes
        bodies = tasks.bodies
        if chosen is not None:
            bodies = [bodies[i] for i in chosen]
            parents = parents if parents is None or isinstance(parents, int) else [parents[i] for i in chosen]
            keys = None if keys is None else [keys[i] for i in chosen]
            details = None if details is None else [details[i] for i in chosen]
            lanes = None if lanes is None else [lanes[i] for i in chosen]
        if parents is None or isinstance(parents, int):
            return cls(tuple(bodies), parents, keys, details, lanes, parents, parents)
        column = fixed_width(parents)
        named = [parent for parent in parents if parent is not None] if NOBODY in column else parents
        low, high = (min(named), max(named)) if named else (None, None)  # type: ignore[type-var]
        # Not all of them have a parent, so they are not all children of any range.
        low = 0 if named and len(named) < len(parents) else low
        return cls(tuple(bodies), column, keys, details, lanes, low, high)


def insert_tasks(db: Db, first: int, columns: TaskColumns) -> None:
    """Task rows with ids from `first` on."""
    lanes = None if columns.lanes is None else tuple(map(str.encode, columns.lanes))
    named = {"key": columns.keys, "more": columns.details, "lane": lanes}
    front = {name: column for name, column in named.items() if column is not None}
    if any(None in column for column in front.values()):
        db.executemany(ONE_TASK, _row_by_row(first, columns))
        return
    values = columns.bodies
    if front:
        packed = (b"%%0%dd" % LENGTH * len(front) + b"%b" * (len(front) + 1)).__mod__
        lengths = (map(len, column) for column in front.values())  # type: ignore[arg-type]
        values = tuple(map(packed, zip(*lengths, *front.values(), columns.bodies, strict=True)))
    statement = _insertion(tuple(front), has_parents=isinstance(columns.parents, bytes))
    db.execute(statement, (columns.parents, first - 1, apsw.carray(values)))


@cache
def _insertion(front: Sequence[str], *, has_parents: bool) -> str:
    """The statement for task rows whose bodies have some columns in front: all lengths, and then the values."""
    at, columns = str(LENGTH * len(front) + 1), {}
    for n, name in enumerate(front):
        length = f"CAST(substr(value, {LENGTH * n + 1}, {LENGTH}) AS INTEGER)"
        columns[name] = f"substr(value, {at}, {length})"
        at += f" + {length}"
    columns["body"] = f"substr(value, {at})" if front else "value"
    columns |= {name: f"CAST({columns[name]} AS TEXT)" for name in ("lane", "body") if name in columns}
    parent = f"nullif({CUT}, 0)" if has_parents else "?1"
    return (
        f"INSERT INTO task (id, parent, {', '.join(columns)})"
        f" SELECT ?2 + rowid, {parent}, {', '.join(columns.values())} FROM carray(?3)"
    )


def insert_late(db: Db, task: int, columns: TaskColumns, now: int) -> None:
    """The row of one task that joins a span which is older, and so tells itself when it was added."""
    db.executemany(LATE_TASK, ((*row, now) for row in _row_by_row(task, columns)))


def insert_all(db: Db, ranges: Iterable[tuple[int, TaskColumns]]) -> None:
    """Task rows of many ranges: those of one task together, for which a statement each would cost most."""
    single: list[tuple[object, ...]] = []
    for first, columns in ranges:
        if len(columns.bodies) == 1:
            single += _row_by_row(first, columns)
        else:
            insert_tasks(db, first, columns)
    db.executemany(ONE_TASK, single)


def _row_by_row(first: int, columns: TaskColumns) -> Iterable[tuple[object, ...]]:
    count = len(columns.bodies)
    parents: Iterable[int | None] = repeat(None) if columns.parents is None else repeat(columns.parents)  # type: ignore[arg-type]
    if isinstance(columns.parents, bytes):
        parents = [int(columns.parents[i * WIDTH : (i + 1) * WIDTH]) or None for i in range(count)]
    return zip(
        range(first, first + count),
        parents,
        columns.bodies,
        columns.keys if columns.keys is not None else repeat(None),
        columns.details if columns.details is not None else repeat(None),
        columns.lanes if columns.lanes is not None else repeat(None),
        strict=False,
    )


def insert_events(
    db: Db,
    seq: int,
    tasks: Sequence[int],
    numbers: int | Sequence[int],
    statuses: Status | Sequence[Status],
    values: Sequence[bytes | None] | None,
    took: Mapping[int, int] = NO_TIMES,
) -> None:
    """One event for each task. Those alike in number, status and having a value go in one statement."""
    if (
        not took
        and isinstance(numbers, int)
        and isinstance(statuses, Status)
        and (values is None or None not in values)
    ):
        _insert_alike(db, seq, tasks, numbers, statuses, values)
        return
    alike: dict[tuple[int, Status, bool], tuple[list[int], list[bytes | None]]] = defaultdict(lambda: ([], []))
    # Attempts that took their time are so few in a second that a binding each is nothing.
    timed: list[tuple[object, ...]] = []
    each_number = repeat(numbers) if isinstance(numbers, int) else numbers
    each_status = repeat(statuses) if isinstance(statuses, Status) else statuses
    for task, n, status, value in zip(tasks, each_number, each_status, values or repeat(None), strict=False):
        if task in took:
            timed.append((task, n, seq, status, value, took[task]))
            continue
        chosen, their = alike[n, status, value is None]
        chosen.append(task)
        their.append(value)
    for (n, status, empty), (chosen, their) in alike.items():
        _insert_alike(db, seq, chosen, n, status, None if empty else their)
    if timed:
        db.executemany(TIMED_EVENT, timed)


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


def look_up(db: Db, statement: str, names: Sequence[bytes], *values: object) -> Sequence[int | None]:
    """Return what a statement finds for each `value` of a column, None for nothing. Best sorted: then a table is walked
    once from front to back.
    """
    if not names:
        return ()
    # All in one row, which is read much quicker than a row for each; an array is walked from front to back.
    found = db.execute(f"SELECT json_group_array(({statement})) FROM carray(?1)", (apsw.carray(tuple(names)), *values))
    return INTEGERS.decode(found.fetchall()[0][0])


def fixed_width(numbers: Sequence[int | None]) -> bytes:
    """A column of ids as one text that `CUT` takes apart."""
    column = tuple(numbers)
    if None in column:
        column = tuple(number or 0 for number in column)
    return (f"%0{WIDTH}d" * len(column) % column).encode()
