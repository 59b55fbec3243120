"""Where tasks stand: what the log, the live rows and the sweeps say of them in one snapshot, for many at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ramify.model.event import Status
from ramify.model.run import RunState
from ramify.model.task import MAX_ID, Row
from ramify.store.reads import TaskStanding
from ramify.store.sqlite import live, log, rows
from ramify.store.sqlite.db import Db

LAST_EVENT = " LEFT JOIN event e ON e.task = t.id AND e.n = (SELECT max(n) FROM event WHERE task = t.id)"
#: Of each task that is published and not forgotten, its row and its last event.
LOGGED = (
    f"{log.TASK}, e.status, CAST(e.value AS BLOB), e.seq FROM carray(?1) AS wanted"
    " CROSS JOIN span s ON s.first = (SELECT max(first) FROM span WHERE first <= wanted.value)"
    " AND s.last >= wanted.value AND s.published"
    f" CROSS JOIN run r ON r.id = s.run AND r.state <> '{RunState.FORGOTTEN.value}'"
    f" CROSS JOIN task t ON t.id = wanted.value{LAST_EVENT}"
)


def standings(db: Db, tasks: Sequence[int]) -> Iterator[tuple[int, TaskStanding]]:
    """Those of these tasks that there are, with how each ended or where it waits."""
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
