"""Columns into the log: one statement for many rows, each column packed as one array."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

from ramify.model.event import Status
from ramify.model.segment import bounds, is_unbroken
from ramify.store.changes import Events, Placed
from ramify.store.postgres.link import Transaction

#: More tasks than this are worth a statement of their own.
FEW = 16
_TASK = "INSERT INTO @task (id, parent, body, key, more, lane, added)"
RANGE_OF_TASKS = (
    f"{_TASK} SELECT $1::bigint + n, coalesce(p, $2::bigint), b, k, m, l, NULL FROM unnest($3::bigint[], $4::bytea[],"
    " $5::bytea[], $6::bytea[], $7::text[]) WITH ORDINALITY AS t(p, b, k, m, l, n)"
)
TASKS = (
    f"{_TASK} SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[], $5::bytea[], $6::text[],"
    " $7::bigint[])"
)
_EVENT = "INSERT INTO @event (task, n, seq, status, value, took)"
RANGE_OF_EVENTS = (
    f"{_EVENT} SELECT t, $3::int, $4::bigint, $5::smallint, NULL, NULL"
    " FROM generate_series($1::bigint, $2::bigint) AS t"
)
EVENTS_ALIKE = (
    f"{_EVENT} SELECT t, $1::int, $2::bigint, $3::smallint, v, NULL FROM unnest($4::bigint[], $5::bytea[]) AS x(t, v)"
)
EVENTS = (
    f"{_EVENT} SELECT t, n, $1::bigint, s, v, k FROM unnest($2::bigint[], $3::int[], $4::smallint[], $5::bytea[],"
    " $6::bigint[]) AS x(t, n, s, v, k)"
)


def insert_tasks(db: Transaction, placed: Iterable[Placed], added: int | None = None) -> None:
    """Task rows; those of wide groups by themselves, the others together."""
    few: list[tuple[Any, ...]] = []
    for first, tasks, chosen in placed:
        parents, columns = tasks.parents, (tasks.bodies, tasks.keys, tasks.details, tasks.lanes)
        if chosen is not None:
            columns = tuple(None if some is None else [some[i] for i in chosen] for some in columns)  # type: ignore[assignment]
            parents = parents if parents is None or isinstance(parents, int) else [parents[i] for i in chosen]
        bodies = columns[0]
        one = parents if parents is None or isinstance(parents, int) else None
        each = None if one is parents else parents
        if len(bodies) > FEW and added is None:
            db.later(RANGE_OF_TASKS, first - 1, one, each, *columns)
            continue
        ids = range(first, first + len(bodies))
        full = (repeat(None) if some is None else some for some in columns[1:])
        few += zip(ids, repeat(one) if each is None else each, bodies, *full, repeat(added), strict=False)  # type: ignore[arg-type]
    if few:
        db.later(TASKS, *map(list, zip(*few, strict=True)))


def insert_events(db: Transaction, seq: int, events: Events) -> None:
    """One event for each task."""
    tasks, numbers, statuses, values, took = events
    if isinstance(numbers, int) and isinstance(statuses, Status) and not took:
        if values is None and is_unbroken(tasks):
            db.later(RANGE_OF_EVENTS, *bounds(tasks), numbers, seq, statuses)
        else:
            db.later(EVENTS_ALIKE, numbers, seq, statuses, tasks, _column(values, None, tasks))
        return
    db.later(
        EVENTS,
        seq,
        tasks,
        _column(numbers, numbers, tasks),
        _column(statuses, statuses, tasks),
        _column(values, None, tasks),
        _times(took, tasks),
    )


def _times(took: Mapping[int, int], tasks: Sequence[int]) -> list[int | None]:
    return [took.get(task) for task in tasks] if took else [None] * len(tasks)


def _column(given: Any, one: Any, tasks: Sequence[int]) -> Any:
    """A column as it is, or the same value for all."""
    return [one] * len(tasks) if given is None or isinstance(given, int) else given
