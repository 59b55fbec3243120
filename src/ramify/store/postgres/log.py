"""The log as it is read: the columns of a task, events and sweeps from their rows, and how a task ended."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ramify.model.decoder import decoder
from ramify.model.event import ENDS as ENDINGS
from ramify.model.event import Event, Status
from ramify.model.segment import unpack
from ramify.store.error_groups import GROUP_SCAN
from ramify.store.postgres import rows
from ramify.store.postgres.link import Transaction
from ramify.store.postgres.schema import HORIZON
from ramify.store.reads import Result, Sweep

TASK = (
    "SELECT t.id, s.run, s.round, s.kind, s.queue, coalesce(t.lane, s.lane), s.priority, s.due, t.parent,"
    " t.body, t.key, t.more, coalesce(t.added, s.added)"
)
#: The statuses that end a life, for `IN (...)`.
ENDS = ", ".join(str(int(status)) for status in ENDINGS)
#: Of a row with a `task`: nothing has taken its place.
NOT_REPLACED = f"NOT EXISTS (SELECT 1 FROM @event e WHERE e.task = label.task AND status = {Status.REPLACED:d})"
#: The last event of each task of a table that is called `t`.
LAST_EVENT = " LEFT JOIN LATERAL (SELECT * FROM @event WHERE task = t.id ORDER BY n DESC LIMIT 1) e ON true"
LAST = f"SELECT t.id, e.status, e.seq FROM unnest($1::bigint[]) AS t(id){LAST_EVENT}"
EVENT = "SELECT task, n, status, value, seq, took FROM @event"
SWEEP = "SELECT run, first, last, mask, seq FROM @sweep"
ranges = decoder(list[tuple[int, int]]).decode

#: Tasks that failed last: of a run by its spans, and of all runs by themselves, each with its span.
_FAILED_OF_RUN = (
    "@span s JOIN @event e ON e.task BETWEEN s.first AND s.last AND e.status IN (2, 5)"
    " JOIN @commits c ON c.seq = e.seq WHERE s.run = $1::bigint"
)
_FAILED = (
    "@event e CROSS JOIN LATERAL (SELECT * FROM @span WHERE first <= e.task ORDER BY first DESC LIMIT 1) s"
    " JOIN @commits c ON c.seq = e.seq JOIN @run r ON r.id = s.run"
    " WHERE $1::bigint IS NULL AND e.status IN (2, 5) AND s.last >= e.task AND r.state <> 'forgotten'"
)

#: The tail: commits below the oldest transaction in flight, and all that they wrote.
COMMITS = (
    "SELECT seq, process, n, at, events, ranges FROM @commits"
    f" WHERE seq > $1::bigint AND seq < {HORIZON} ORDER BY seq LIMIT $2::bigint"
)
HEAD = f"SELECT coalesce(max(seq), 0) FROM @commits WHERE seq < {HORIZON}"
EVENTS_OF = (
    "SELECT DISTINCT e.task, e.n, e.status, e.value, e.seq, e.took"
    " FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS r(f, l, s)"
    " JOIN @event e ON e.task BETWEEN r.f AND r.l AND e.seq = r.s"
)
STARTS = "SELECT id, since + 1 FROM @run WHERE since BETWEEN $1::bigint - 1 AND $2::bigint - 1 ORDER BY since, id"
DECIDED = "SELECT run, seq, told FROM @decision WHERE seq BETWEEN $1::bigint AND $2::bigint ORDER BY seq, run, n"


def events(found: Iterable[tuple[Any, ...]]) -> Iterator[Event]:
    """Rows as events."""
    return (Event(task, n, Status(status), value, seq, took) for task, n, status, value, seq, took in found)


def sweep_of(row: tuple[Any, ...]) -> Sweep:
    """A sweep from a row."""
    run, first, last, mask, seq = row
    return Sweep(run, first, last, unpack(mask), seq)


def swept(db: Transaction, run: int, since: Mapping[int, int]) -> dict[int, int]:
    """Return those of some tasks of a run that a sweep ended, with its commit. A sweep ends the life that was present
    then: `since` tells of each task in which commit its last event was.
    """
    tasks = sorted(since)
    where = "run = $1::bigint AND first <= $2::bigint AND last >= $3::bigint"
    ended: dict[int, int] = {}
    for sweep in map(sweep_of, db.ask(f"{SWEEP} WHERE {where}", run, tasks[-1], tasks[0])):
        near = tasks[bisect_left(tasks, sweep.first) : bisect_right(tasks, sweep.last)]
        covered = near if sweep.left is None else filter(sweep.covers, near)
        ended.update((task, sweep.seq) for task in covered if sweep.seq > since[task])
    return ended


def failures(db: Transaction, run: int | None) -> Iterator[tuple[int, str, bytes | None, int]]:
    """Failed and quarantined tasks of a run, or of all that were not forgotten, the newest first: what groups take."""
    found, order = (_FAILED, "") if run is None else (_FAILED_OF_RUN, "s.first DESC, ")
    failed = db.ask(
        f"SELECT e.task, s.kind, e.value, c.at FROM {found}"
        " AND s.published AND e.n = (SELECT max(n) FROM @event l WHERE l.task = e.task)"
        f" ORDER BY {order}e.task DESC LIMIT {GROUP_SCAN + 1}",
        run,
    )
    return iter(failed)


def endings(db: Transaction, tasks: Collection[int]) -> dict[int, Status]:
    """How those of some tasks ended that did, sweeps included."""
    found = db.ask(LAST, sorted(set(tasks))) if tasks else []
    ended = {task: Status(status) for task, status, _ in found if status in ENDINGS}
    open_since = {task: seq or 0 for task, _, seq in found if task not in ended}
    by_run: dict[int, dict[int, int]] = {}
    for task, span in rows.spans_of(db, open_since).items():
        by_run.setdefault(span.run, {})[task] = open_since[task]
    for run, since in by_run.items():
        ended.update(dict.fromkeys(swept(db, run, since), Status.CANCELLED))
    return ended


def ended(db: Transaction, run: int, some: Sequence[tuple[Any, ...]], status: Status) -> Iterator[Result]:
    """Yield those of some tasks of a run that ended as wanted, by an event or by a sweep, in order."""
    since = {task: seq or 0 for task, _, last, seq in some if last != status}
    over = swept(db, run, since) if since else {}
    for task, value, last, _ in some:
        if last == status or task in over:
            yield Result(task, status, value if last == status else None)
