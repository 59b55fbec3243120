"""Log lines of tasks: a table of its own, in order of arrival. Nothing of the work is decided by it.

There is one writer at a time, so rows appear in the order of their numbers and whoever follows them misses none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ramify.model.log import LogLine, StoredLine
from ramify.store.sqlite.file.db import Db

INSERT = (
    "INSERT INTO note (process, n, at, run, task, attempt, level, logger, text) SELECT ?1,?2,?3,?4,?5,?6,?7,?8,?9"
    # A line that is ignored by its index would use a number up.
    " WHERE NOT EXISTS (SELECT 1 FROM note WHERE process = ?1 AND n = ?2)"
    " AND NOT EXISTS (SELECT 1 FROM run WHERE id = ?4 AND state = 'forgotten')"
)
LINE = "SELECT seq, process, n, at, run, task, attempt, level, logger, text FROM note"


def add(db: Db, process: int, lines: Sequence[LogLine]) -> None:
    """Keep the lines of a process that are not here yet; of a run that was forgotten, none."""
    db.executemany(
        INSERT,
        (
            (process, line.n, line.at, line.run, line.task, line.attempt, line.level, line.logger, line.text)
            for line in lines
        ),
    )


def lines(db: Db, run: int, task: int | None, level: int, after: int) -> Iterator[StoredLine]:
    """The lines of a run, or of one task of it, after a cursor."""
    if task is None:
        found = db.execute(
            f"{LINE} INDEXED BY note_run WHERE run = ? AND seq > ? AND level >= ? ORDER BY seq", (run, after, level)
        )
    else:
        found = db.execute(
            f"{LINE} INDEXED BY note_task WHERE task = ? AND run = ? AND seq > ? AND level >= ? ORDER BY seq",
            (task, run, after, level),
        )
    return (StoredLine(seq, process, LogLine(*line)) for seq, process, *line in found)
