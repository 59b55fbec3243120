"""Parts that end whole narrow rows, written together: a few statements for all of them.

In lanes of their own, tasks have a row each, and of many small runs each has one; a commit has a part for each row.
Written one by one, as `commits.py` writes every part, nearly all of the time goes into statements that find nothing.

Does not write anything that could matter to another part of the same commit: new joins, keys that are taken or
released, marks, staged ranges to publish and values of the context are left to `commits.py`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain

import apsw

from ramify.model.arrivals import Arrivals, Slot
from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.key import Hold
from ramify.store.sqlite import bulk, counters, joins, rows
from ramify.store.sqlite.counters import Counted
from ramify.store.sqlite.db import Db
from ramify.store.sqlite.rows import CommitLog, SqliteSegment, SqliteSpan

#: The most ids of a row that is written together with others: the columns of a wider one are worth statements of their
#: own.
NARROW = 16
DISCARD = (
    "UPDATE segment INDEXED BY fence SET state = 5, owner = NULL, token = NULL"
    " WHERE token IN (SELECT value FROM carray(?)) AND state = 4"
)
DROP = "DELETE FROM segment WHERE id IN (SELECT value FROM carray(?))"

Batch = Sequence[tuple[SqliteSegment, SqliteSpan, Part]]


def is_named(row: SqliteSegment, part: Part) -> bool:
    """Return whether the part names every task of a row without gaps."""
    return row.left is None and isinstance(part.tasks, range) and part.tasks == range(row.first, row.last + 1)


def is_simple(row: SqliteSegment, span: SqliteSpan, part: Part) -> bool:
    """Return whether the part ends every task of a narrow row at its first attempt, and brings nothing but plain
    children.
    """
    if row.attempt or row.last - row.first >= NARROW or not is_named(row, part):
        return False
    if part.joins or part.waiters or part.publish or part.discard or part.heirs or part.sets:
        return False
    if span.keyed and span.hold not in (Hold.LABEL, Hold.ONCE):
        return False
    ends = part.statuses.is_end if isinstance(part.statuses, Status) else all(s.is_end for s in part.statuses)
    return ends and all(tasks.keys is None for tasks in part.children)


def end(db: Db, log: CommitLog, batch: Batch, process: int) -> None:
    """Write their events, count them, discard what they staged, and let the rows go."""
    tasks: list[int] = []
    statuses: list[Status] = []
    values: list[bytes | None] = []
    took: dict[int, int] = {}
    counts: Counter[Counted] = Counter()
    for row, _, part in batch:
        column = part.status_column()
        log.touched(row.first, row.last, len(column))
        tasks += part.tasks
        statuses += column
        values += part.value_column()
        took |= part.took
        counts.update((row.run, row.kind, row.queue, status) for status in column)
    one_for_all = statuses[0] if statuses.count(statuses[0]) == len(statuses) else statuses
    any_values = values if values.count(None) < len(values) else None
    bulk.insert_events(db, log.seq, tasks, 1, one_for_all, any_values, took)
    counters.count_all(db, counts, process)
    db.execute(DISCARD, (apsw.carray(tuple(part.token for _, _, part in batch)),))
    db.execute(DROP, (rows.ids(row.id for row, _, _ in batch),))


def arrivals(db: Db, batch: Batch) -> Iterator[Arrivals]:
    """Yield what the ends of these tasks mean to joins: their groups' slots, and whoever waits for them."""
    waiting: dict[int, list[Slot]] = defaultdict(list)
    for task, join, slot in joins.waiters_of(db, [task for _, _, part in batch for task in part.tasks]):
        waiting[task].append((join, slot))
    matters = [(row, span, part) for row, span, part in batch if span.join or not waiting.keys().isdisjoint(part.tasks)]
    ends = (zip(part.tasks, part.status_column(), strict=True) for _, _, part in matters)
    status_of = joins.arriving(db, dict(chain.from_iterable(ends)))
    for row, span, part in matters:
        members = [(join, slot, status_of[task]) for task in part.tasks for join, slot in waiting.get(task, ())]
        if span.join is not None:
            members += ((span.join, task + span.shift, status_of[task]) for task in part.tasks)
        yield Arrivals(row.run, row.round + 1, members)
