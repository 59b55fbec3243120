"""The segment table as people see it, and where tasks stand: rows by id, those that come first in line, tasks with a
due time, what is left of a run, and what the log, the live rows and the sweeps say of tasks in one snapshot.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from ramify.model.death import Deaths
from ramify.model.event import ENDS, Status
from ramify.model.segment import MASK_WIDTH, Segment, SegmentState, in_order, unpack
from ramify.model.task import MAX_ID, Row
from ramify.store.postgres import log, rows
from ramify.store.postgres.candidates import IS_DUE, IS_READY
from ramify.store.postgres.link import Transaction
from ramify.store.postgres.tables import COVERING
from ramify.store.reads import LiveCount, LiveCounts, TaskStanding
from ramify.store.tuples import STATES

_COLUMNS = (
    "id, run, round, kind, queue, lane, first, last, mask, rank, due, attempt, owner, state, deaths, awaits, line"
)
SEGMENT = f"SELECT {_COLUMNS} FROM @segment"
ROWS_COVERING = f"{SEGMENT} WHERE id = ANY(ARRAY({COVERING})) ORDER BY id"
AFTER = (
    f"{SEGMENT} WHERE id > $1::bigint AND ($2::bigint IS NULL OR run = $2::bigint)"
    " {mine} ORDER BY id LIMIT $3::bigint"
)
OWNED = "AND state = 3 AND owner = $4::bigint"
#: Of each kind and queue the first rows: those that can be taken now by rank, the others by the time they are due.
_PLACES = (
    "WITH RECURSIVE place AS ((SELECT kind, queue FROM @segment WHERE {is_it} ORDER BY kind, queue LIMIT 1) UNION ALL"
    " SELECT n.kind, n.queue FROM place CROSS JOIN LATERAL (SELECT s.kind, s.queue FROM @segment s WHERE {is_it}"
    " AND (s.kind, s.queue) > (place.kind, place.queue) ORDER BY s.kind, s.queue LIMIT 1) n)"
)
FIRST_READY, FIRST_DUE = (
    f"{_PLACES.format(is_it=is_it)} SELECT c.* FROM place CROSS JOIN LATERAL ({SEGMENT} WHERE {is_it}"
    f" AND kind = place.kind AND queue = place.queue ORDER BY {order}, id LIMIT $1::bigint) c"
    for is_it, order in ((IS_READY, "rank"), (IS_DUE, "due"))
)
FIRST_SUSPECTS = f"{SEGMENT} WHERE state = 0 AND {rows.IS_APART} ORDER BY rank, id LIMIT $1::bigint"
#: Rows of a kind that have a due time and that nobody holds, beyond a task and behind a row.
TIMED = (
    f"{SEGMENT} WHERE state IN (0, 1) AND kind = $1::text AND due IS NOT NULL AND last > $2::bigint"
    " AND (first, id) > ($3::bigint, $4::bigint) AND ($5::bigint IS NULL OR run = $5::bigint)"
    " ORDER BY first, id LIMIT $6::bigint"
)
#: What rows are counted by: the columns of `LiveCount` up to the number of tasks.
_ALIKE = (
    f"state, kind, owner, {rows.IS_APART} AS apart, coalesce(due > $2::bigint, false) AS later,"
    " round > (SELECT round FROM @run WHERE id = $1::bigint) AS ahead"
)
COUNT = (
    "SELECT state, kind, owner, apart, later, ahead, sum(many)::bigint, min(due) FILTER (WHERE later), count(*) FROM"
    f" (SELECT {_ALIKE}, due, coalesce(bit_count(mask), last - first + 1) AS many FROM @segment"
    f" WHERE run = $1::bigint AND {rows.IS_LIVE} LIMIT $3::bigint) AS s GROUP BY 1, 2, 3, 4, 5, 6"
)

#: Of each task that is published and not forgotten, its row and its last event.
LOGGED = (
    f"{log.TASK}, e.status, e.value, e.seq FROM unnest($1::bigint[]) AS wanted(task) CROSS JOIN LATERAL"
    " (SELECT * FROM @span WHERE first <= wanted.task ORDER BY first DESC LIMIT 1) s"
    " JOIN @run r ON r.id = s.run AND r.state <> 'forgotten'"
    f" JOIN @task t ON t.id = wanted.task{log.LAST_EVENT} WHERE s.last >= wanted.task AND s.published ORDER BY t.id"
)
#: The last end of those linked to joins, of those in groups of them, and the last reopening of their tasks.
_ENDED = f"e.status IN ({log.ENDS})"
FIRED_AT = (
    "SELECT task, at FROM (SELECT task, max(seq) AS last FROM ("
    f"SELECT w.id AS task, e.seq FROM @waiter w JOIN @event e ON e.task = w.task AND {_ENDED}"
    " WHERE w.id = ANY($1::bigint[]) UNION ALL"
    f" SELECT s.joined, e.seq FROM @span s JOIN @event e ON e.task BETWEEN s.first AND s.last AND {_ENDED}"
    " WHERE s.joined = ANY($1::bigint[]) AND s.published UNION ALL"
    f" SELECT e.task, e.seq FROM @event e WHERE e.task = ANY($1::bigint[]) AND e.status = {Status.REOPENED:d}"
    ") AS ends GROUP BY task) AS latest JOIN @commits ON seq = last"
)


def covering(db: Transaction, tasks: Collection[int]) -> Iterator[tuple[int, Segment]]:
    """The live rows in which these tasks are set."""
    wanted = sorted(set(tasks))
    found = (
        sorted(map(segment_of, db.ask(ROWS_COVERING, wanted, MASK_WIDTH)), key=lambda row: row.first) if wanted else []
    )
    near: list[Segment] = []
    behind = iter(found)
    coming = next(behind, None)
    for task in wanted:
        while coming is not None and coming.first <= task:
            near.append(coming)
            coming = next(behind, None)
        near = [row for row in near if row.last >= task]
        yield from ((task, row) for row in near if row.left is None or row.left >> (task - row.first) & 1)


def rows_after(db: Transaction, run: int | None, owner: int | None, after: int, size: int) -> Iterator[Segment]:
    """Rows by id, of one run or process or of all."""
    if owner is None:
        return map(segment_of, db.ask(AFTER.format(mine=""), after, run, size))
    return map(segment_of, db.ask(AFTER.format(mine=OWNED), after, run, size, owner))


def in_line(db: Transaction, limit: int) -> list[Segment]:
    """The ready rows that come first: `limit` by rank and `limit` by due time of each kind and queue, and suspects."""
    found = db.trip([(text, (limit,)) for text in (FIRST_SUSPECTS, FIRST_READY, FIRST_DUE)])
    return sorted((segment_of(row) for some in found for row in some), key=lambda row: (row.rank, row.id))


def due_tasks(db: Transaction, kind: str, run: int | None, after: int, size: int) -> Iterator[TaskStanding]:
    """The first `size` tasks of a kind beyond an id that have a due time and that nobody holds."""
    found = list(islice(in_order(_timed(db, kind, run, after, size), after), size))
    told = db.ask(LOGGED, [task for task, _ in found]) if found else ()
    logged = {columns[0]: Row(*columns) for *columns, _, _, _ in told}
    return (TaskStanding(logged[task], segment=segment) for task, segment in found)


def _timed(db: Transaction, kind: str, run: int | None, after: int, size: int) -> Iterator[Segment]:
    # Mostly so many rows are enough. Of a row that was worked on, the last tasks may be gone.
    place = (0, 0)
    while True:
        found = db.ask(TIMED, kind, after, *place, run, size)
        yield from map(segment_of, found)
        if len(found) < size:
            return
        place = (found[-1][6], found[-1][0])


def counts(db: Transaction, run: int, now: int, limit: int) -> LiveCounts:
    """Unfinished tasks of a run, counted by the server."""
    tasks: Counter[tuple[Any, ...]] = Counter()
    dues: dict[tuple[Any, ...], int] = {}
    many = 0
    for *alike, width, due, some in db.ask(COUNT, run, now, limit):
        tasks[tuple(alike)] += width
        many += some
        if due is not None:
            dues[tuple(alike)] = due
    found = [
        LiveCount(STATES[state], kind, owner, apart, later, ahead, width, dues.get(name))
        for name, width in sorted(tasks.items(), key=lambda each: (*each[0][:2], each[0][2] or 0, *each[0][3:]))
        for state, kind, owner, apart, later, ahead in [name]
    ]
    return LiveCounts(found, many < limit)


def segment_of(row: tuple[Any, ...]) -> Segment:
    """A row of the table as a value."""
    deaths, awaits, line = row[14:]
    return Segment(
        *(
            *row[:8],
            unpack(row[8]),
            *row[9:12],
            Deaths.unpack(deaths),
            row[12],
            SegmentState(row[13]),
            awaits,
            line or None,
        )
    )


def fired_at(db: Transaction, tasks: Sequence[int]) -> dict[int, int]:
    """When the joins of tasks fired, or the tasks were reopened after that."""
    wanted = possible(tasks)
    return dict(db.ask(FIRED_AT, wanted)) if wanted else {}


def possible(tasks: Iterable[int]) -> list[int]:
    """The ids of these that a task may have, each once and in order."""
    return sorted({task for task in tasks if 0 < task <= MAX_ID})


def standings(db: Transaction, tasks: Sequence[int]) -> Iterator[tuple[int, TaskStanding]]:
    """Yield those of these tasks that there are, with how each ended or where it waits."""
    wanted = possible(tasks)
    open_rows: dict[int, Row] = {}
    since: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for *columns, status, value, seq in db.ask(LOGGED, wanted) if wanted else ():
        row = Row(*columns)
        if status in ENDS:
            yield row.id, TaskStanding(row, Status(status), value, seq)
        else:
            open_rows[row.id] = row
            since[row.run][row.id] = seq or 0
    for run, lives in since.items():
        for task, seq in log.swept(db, run, lives).items():
            yield task, TaskStanding(open_rows.pop(task), Status.CANCELLED, seq=seq)
    for task, segment in covering(db, open_rows):
        yield task, TaskStanding(open_rows[task], segment=segment)
