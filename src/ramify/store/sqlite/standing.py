"""Where tasks stand, for many at once: what the log, the live rows and the sweeps say of them in one snapshot, and when
those that waited were let go on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ramify.model.event import ENDS, Status
from ramify.model.run import RunState
from ramify.model.task import MAX_ID, Row
from ramify.store.reads import TaskStanding
from ramify.store.sqlite import live, log, rows
from ramify.store.sqlite.file.db import Db

LAST_EVENT = " LEFT JOIN event e ON e.task = t.id AND e.n = (SELECT max(n) FROM event WHERE task = t.id)"
#: Of each task that is published and not forgotten, its row and its last event.
LOGGED = (
    f"{log.TASK}, e.status, CAST(e.value AS BLOB), e.seq FROM carray(?1) AS wanted"
    " CROSS JOIN span s ON s.first = (SELECT max(first) FROM span WHERE first <= wanted.value)"
    " AND s.last >= wanted.value AND s.published"
    f" CROSS JOIN run r ON r.id = s.run AND r.state <> '{RunState.FORGOTTEN.value}'"
    f" CROSS JOIN task t ON t.id = wanted.value{LAST_EVENT}"
)


#: The last end of those linked to joins, of those in groups of them, and the last reopening of their tasks.
_ENDED = f"e.status IN ({', '.join(str(int(status)) for status in ENDS)})"
FIRED_AT = (
    "SELECT task, at FROM (SELECT task, max(seq) AS last FROM ("
    "SELECT w.id AS task, e.seq FROM carray(?1) AS wanted CROSS JOIN waiter w INDEXED BY waiter_join"
    f" ON w.id = wanted.value CROSS JOIN event e ON e.task = w.task AND {_ENDED}"
    " UNION ALL SELECT s.joined, e.seq FROM carray(?2) AS wanted CROSS JOIN span s INDEXED BY span_join"
    f" ON s.joined = wanted.value AND s.published CROSS JOIN event e ON e.task BETWEEN s.first AND s.last AND {_ENDED}"
    " UNION ALL SELECT e.task, e.seq FROM carray(?3) AS wanted CROSS JOIN event e"
    f" ON e.task = wanted.value AND e.status = {int(Status.REOPENED)}"
    ") GROUP BY task) CROSS JOIN commits ON seq = last"
)


def due_tasks(db: Db, kind: str, run: int | None, after: int, size: int) -> Iterator[TaskStanding]:
    """The first `size` tasks of a kind beyond an id that have a due time and that nobody holds."""
    found = live.due_tasks(db, kind, run, after, size)
    wanted = [task for task, _ in found]
    told = db.execute(LOGGED, (rows.ids(wanted),)) if wanted else ()
    logged = {columns[0]: Row(*columns) for *columns, _, _, _ in told}
    return (TaskStanding(logged[task], segment=segment) for task, segment in found)


def fired_at(db: Db, tasks: Sequence[int]) -> dict[int, int]:
    """When the joins of tasks fired, or the tasks were reopened after that."""
    wanted = sorted({task for task in tasks if 0 < task <= MAX_ID})
    return dict(db.execute(FIRED_AT, [rows.ids(wanted) for _ in range(3)]).fetchall()) if wanted else {}


def standings(db: Db, tasks: Sequence[int]) -> Iterator[tuple[int, TaskStanding]]:
    """Yield those of these tasks that there are, with how each ended or where it waits."""
    wanted = sorted({task for task in tasks if 0 < task <= MAX_ID})
    open_rows: dict[int, Row] = {}
    since: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for *columns, status, value, seq in db.execute(LOGGED, (rows.ids(wanted),)) if wanted else ():
        row = Row(*columns)
        if status is not None and Status(status).is_end:
            yield row.id, TaskStanding(row, Status(status), value, seq)
        else:
            open_rows[row.id] = row
            since[row.run][row.id] = seq or 0
    for run, lives in since.items():
        for task, seq in log.swept(db, run, lives).items():
            yield task, TaskStanding(open_rows.pop(task), Status.CANCELLED, seq=seq)
    for task, segment in live.covering(db, open_rows):
        yield task, TaskStanding(open_rows[task], segment=segment)
