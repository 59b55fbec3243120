"""The log as it is read: the columns of a task, events and sweeps from their rows, and how a task ended."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping

from ramify.model.decoder import decoder
from ramify.model.event import ENDS as ENDINGS
from ramify.model.event import Event, Status
from ramify.model.segment import unpack
from ramify.store.error_groups import GROUP_SCAN
from ramify.store.reads import Sweep
from ramify.store.sqlite import rows
from ramify.store.sqlite.file.db import Db

TASK = (
    "SELECT t.id, s.run, s.round, s.kind, s.queue, ifnull(t.lane, s.lane), s.priority, s.due, t.parent,"
    " CAST(t.body AS BLOB), t.key, t.more, ifnull(t.added, s.added)"
)
#: The statuses that end a life, for `IN (...)`.
ENDS = ", ".join(str(int(status)) for status in ENDINGS)
#: Of a row with a `task`: nothing has taken its place.
NOT_REPLACED = f"NOT EXISTS (SELECT 1 FROM event WHERE event.task = label.task AND status = {Status.REPLACED:d})"
#: The last event of each.
LAST = (
    "SELECT wanted.value, status, seq FROM carray(?) AS wanted"
    " LEFT JOIN event ON task = wanted.value AND n = (SELECT max(n) FROM event WHERE task = wanted.value)"
)
EVENT = "SELECT task, n, status, CAST(value AS BLOB), seq, took FROM event"


def events(found: Iterable[tuple[int, int, int, bytes | None, int, int | None]]) -> Iterator[Event]:
    """Rows as events."""
    return (Event(task, n, Status(status), value, seq, took) for task, n, status, value, seq, took in found)


_ranges = decoder(list[tuple[int, int]])


def events_of(db: Db, seq: int, ranges: str) -> list[Event]:
    """The events of one commit, found by the ranges it wrote down."""
    found: dict[tuple[int, int], Event] = {}
    for first, last in _ranges.decode(ranges):
        written = db.execute(f"{EVENT} WHERE task BETWEEN ? AND ? AND seq = ?", (first, last, seq))
        found.update(((event.task, event.n), event) for event in events(written))
    return [found[name] for name in sorted(found)]


def sweeps(db: Db, where: str, values: tuple[int, ...]) -> list[Sweep]:
    """Return what cancels of runs ended in one stroke."""
    found = db.execute(f"SELECT run, first, last, mask, seq FROM sweep WHERE {where}", values)
    return [Sweep(run, first, last, unpack(mask), seq) for run, first, last, mask, seq in found]


def swept(db: Db, run: int, since: Mapping[int, int]) -> dict[int, int]:
    """Return those of some tasks of a run that a sweep ended, with its commit. A sweep ends the life that was present
    then: `since` tells of each task in which commit its last event was.
    """
    tasks = sorted(since)
    ended: dict[int, int] = {}
    for sweep in sweeps(db, "run = ? AND first <= ? AND last >= ?", (run, tasks[-1], tasks[0])):
        near = tasks[bisect_left(tasks, sweep.first) : bisect_right(tasks, sweep.last)]
        covered = near if sweep.left is None else filter(sweep.covers, near)
        ended.update((task, sweep.seq) for task in covered if sweep.seq > since[task])
    return ended


#: Tasks that failed last: of a run by its spans, and of all runs by themselves, each with its span.
_FAILED_OF_RUN = (
    "span s CROSS JOIN event e INDEXED BY event_failed ON e.task BETWEEN s.first AND s.last AND e.status IN (2, 5)"
    " CROSS JOIN commits c ON c.seq = e.seq WHERE s.run = ?2"
)
_FAILED = (
    "event e INDEXED BY event_failed CROSS JOIN span s"
    " ON s.first = (SELECT max(first) FROM span WHERE first <= e.task) AND s.last >= e.task"
    " CROSS JOIN commits c ON c.seq = e.seq"
    " WHERE e.status IN (2, 5) AND (SELECT state FROM run WHERE id = s.run) <> 'forgotten'"
)


def failures(db: Db, run: int | None) -> Iterator[tuple[int, str, bytes | None, int]]:
    """Failed and quarantined tasks of a run, or of all that were not forgotten, the newest first: what groups take."""
    found, order = (_FAILED, "") if run is None else (_FAILED_OF_RUN, "s.first DESC, ")
    failed: Iterator[tuple[int, str, bytes | None, int]] = db.execute(
        f"SELECT e.task, s.kind, CAST(e.value AS BLOB), c.at FROM {found}"
        " AND s.published AND e.n = (SELECT max(n) FROM event WHERE task = e.task)"
        f" ORDER BY {order}e.task DESC LIMIT ?1",
        (GROUP_SCAN + 1,) if run is None else (GROUP_SCAN + 1, run),
    )
    return failed


def endings(db: Db, tasks: Collection[int]) -> dict[int, Status]:
    """How those of some tasks ended that did, sweeps included."""
    found = db.execute(LAST, (rows.ids(tasks),)).fetchall() if tasks else []
    ended = {task: Status(status) for task, status, _ in found if status in ENDINGS}
    open_since = {task: seq or 0 for task, _, seq in found if task not in ended}
    by_run: dict[int, dict[int, int]] = {}
    for task, span in rows.spans_of(db, open_since).items():
        by_run.setdefault(span.run, {})[task] = open_since[task]
    for run, since in by_run.items():
        ended.update(dict.fromkeys(swept(db, run, since), Status.CANCELLED))
    return ended
