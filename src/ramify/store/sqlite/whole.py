"""Parts that end whole rows and entail nothing else, written together: a few statements for all of them.

In lanes of their own, tasks have a row each, and a commit has a part for each row. Written one by one, as `commits.py`
writes every part, nearly all of the time goes into statements that find nothing.

Does not write anything that could matter to another part of the same commit: children, joins, keys that are released,
marks, waits, staged ranges to publish and values of the context are left to `commits.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import apsw

from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.key import Hold
from ramify.store.sqlite import bulk, rows
from ramify.store.sqlite.db import Db
from ramify.store.sqlite.rows import CommitLog, SqliteSegment

QUIET = (
    "SELECT first FROM carray(?) AS wanted CROSS JOIN span ON first = wanted.value"
    " WHERE joined IS NULL AND (NOT keyed OR hold IN (?, ?))"
)
AWAITED = "SELECT 1 FROM carray(?) AS ended CROSS JOIN waiter ON waiter.task = ended.value LIMIT 1"
DISCARD = (
    "UPDATE segment INDEXED BY fence SET state = 5, owner = NULL, token = NULL"
    " WHERE token IN (SELECT value FROM carray(?)) AND state = 4"
)
DROP = "DELETE FROM segment WHERE id IN (SELECT value FROM carray(?))"

Guarded = Sequence[tuple[SqliteSegment, Part]]


def is_named(row: SqliteSegment, part: Part) -> bool:
    """Whether the part names every task of a row without gaps."""
    return row.left is None and isinstance(part.tasks, range) and part.tasks == range(row.first, row.last + 1)


def quiet_spans(db: Db, batch: Guarded) -> frozenset[int]:
    """Of the spans of these rows, by their first ids, those whose ends matter to no join and release no key."""
    if len(batch) < 2:
        return frozenset()
    wanted = sorted({row.span for row, _ in batch})
    return frozenset(first for (first,) in db.execute(QUIET, (rows.ids(wanted), Hold.LABEL, Hold.ONCE)))


def only_ends(row: SqliteSegment, part: Part) -> bool:
    """Whether the part ends every task of a row at its first attempt, and brings nothing else."""
    more = part.children or part.joins or part.waiters or part.publish or part.discard or part.sets
    if more or row.attempt or not is_named(row, part):
        return False
    return part.statuses.is_end if isinstance(part.statuses, Status) else all(s.is_end for s in part.statuses)


def are_awaited(db: Db, batch: Guarded) -> bool:
    """Whether a join waits for one of these tasks."""
    ended = rows.ids(task for _, part in batch for task in part.tasks)
    return db.execute(AWAITED, (ended,)).fetchone() is not None


def end(db: Db, log: CommitLog, batch: Guarded, process: int) -> None:
    """Write their events, count them, discard what they staged, and let the rows go."""
    tasks: list[int] = []
    statuses: list[Status] = []
    values: list[bytes | None] = []
    took: dict[int, int] = {}
    counts: Counter[tuple[int, str, Status]] = Counter()
    for row, part in batch:
        column = part.status_column()
        log.touched(row.first, row.last, len(column))
        tasks += part.tasks
        statuses += column
        values += part.value_column()
        took |= part.took
        counts.update((row.run, row.kind, status) for status in column)
    bulk.insert_events(db, log.seq, tasks, 1, statuses, values, took)
    for (run, kind, status), many in sorted(counts.items()):
        rows.count(db, run, kind, status, process, many)
    db.execute(DISCARD, (apsw.carray(tuple(part.token for _, part in batch)),))
    db.execute(DROP, (rows.ids(row.id for row, _ in batch),))
