"""Counters in the SQLite store: how many tasks of a run came to what, and totals that only rise.

A run's counters tell about the tasks it has, so they fall when a task is forgotten, begins a new life or is replaced.
Totals never fall. A total is the sum of the counters of the runs that have not ended, and of its row in `total`. That
row holds the counters of the runs that have ended, and all that open runs were lowered by. So a commit writes nothing
but its counters, and a read of the totals costs the same however many runs there ever were.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from ramify.model.event import Status, Tally, pending_of
from ramify.model.process import counter_slot
from ramify.store.changes import Counted
from ramify.store.reads import KindTotals, Totals
from ramify.store.sqlite.file.db import Db

COUNT = "INSERT INTO counter VALUES (?,?,?,?,?,?) ON CONFLICT DO UPDATE SET value = value + excluded.value"
OF_OPEN_RUNS = "run IN (SELECT id FROM run INDEXED BY run_open WHERE ended IS NULL)"
_ADD = "ON CONFLICT DO UPDATE SET value = value + excluded.value"
#: What an open run is lowered by stays in the totals. Those of a run that has ended are there as they were at its end.
LOWERED = f"INSERT INTO total SELECT ?2, ?3, ?4, -?5 FROM run WHERE id = ?1 AND ended IS NULL {_ADD}"
ENDED = (
    "INSERT INTO total SELECT kind, queue, what, ?1 * sum(value) FROM counter"
    f" WHERE run IN (SELECT value FROM carray(?2)) GROUP BY kind, queue, what {_ADD}"
)
TOTALS = (
    f"SELECT 1, kind, queue, what, sum(value) FROM counter WHERE {OF_OPEN_RUNS} GROUP BY kind, queue, what"
    " UNION ALL SELECT 0, kind, queue, what, value FROM total"
)


def count(db: Db, run: int, kind: str, queue: str, what: Status | Tally, process: int, by: int) -> None:
    """Move a counter."""
    count_all(db, {(run, kind, queue, what): by}, process)


def count_all(db: Db, counts: Mapping[Counted, int], process: int) -> None:
    """Move many counters, each by so much."""
    slot = counter_slot(process)
    moved = [(*counter, slot, by) for counter, by in sorted(counts.items()) if by]
    db.executemany(COUNT, moved)
    if lowered := [(*counter, by) for *counter, _, by in moved if by < 0]:
        db.executemany(LOWERED, lowered)


def close(db: Db, runs: object) -> None:
    """Runs, a column of ids, have ended: their counters go into the totals."""
    db.execute(ENDED, (1, runs))


def reopen(db: Db, runs: object) -> None:
    """Runs that had ended are open again: their counters are summed with those of the other open runs."""
    db.execute(ENDED, (-1, runs))


def died(db: Db, tasks: int) -> None:
    """A worker died, and so many tasks are offered again."""
    db.execute("UPDATE store SET deaths = deaths + 1, redelivered = redelivered + ?", (tasks,))


def read(db: Db, run: int | None) -> dict[str, dict[int, int]]:
    """The counters of a run by kind; with None, those of all runs that have not ended."""
    chosen, values = ("run = ?", (run,)) if run is not None else (OF_OPEN_RUNS, ())
    found: dict[str, dict[int, int]] = {}
    for kind, what, value in db.execute(
        f"SELECT kind, what, sum(value) FROM counter WHERE {chosen} GROUP BY kind, what ORDER BY kind, what", values
    ):
        counts = found.setdefault(kind, {})
        if value:
            counts[what] = value
    return found


def totals(db: Db) -> Totals:
    """All that ever happened; see the contract."""
    ever: dict[tuple[str, str], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    now: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    for is_open, kind, queue, what, value in db.execute(TOTALS):
        ever[kind, queue][what] += value
        if is_open:
            now[kind, queue][what] = value
    kinds = [
        KindTotals(*each, {what: value for what, value in sorted(by.items()) if value}, pending_of(now[each]))
        for each, by in sorted(ever.items())
    ]
    refused = "SELECT starts, deaths, redelivered, (SELECT count(*) FROM refusal) FROM store"
    return Totals(kinds, *db.execute(refused).fetchall()[0])
