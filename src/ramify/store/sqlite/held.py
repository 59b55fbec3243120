"""Claims of processes in the SQLite store, with all that goes along.

Reads only. A claim may be of very many rows of one task each, so what rows need is read for all of them at once; a wide
row has statements of its own, because a range is read faster than the ids in it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, islice
from operator import itemgetter
from typing import Any

from ramify.model.claim import Claim, Details
from ramify.model.event import Event, History, Status, fold
from ramify.model.join import MOST_BROUGHT, Rule
from ramify.model.mark import Mark, Scope
from ramify.model.run import RunState, seconds_left
from ramify.model.segment import tasks_in
from ramify.model.task import MAX_ID
from ramify.store.rows import SegmentRow
from ramify.store.sqlite import joins, rows
from ramify.store.sqlite.file.db import Db

NO_DETAILS = Details()
NO_JOINS: Mapping[int, tuple[Any, ...]] = {}
#: By their numbers: claims are read by the thousand.
RULES = tuple(Rule)
#: Column by column: to turn all of them at once makes an iterator of each row, for the garbage collector to visit.
_PARENT, _BODY = itemgetter(0), itemgetter(1)
#: The most ids of a row that is read together with others.
NARROW = 16
SHARED = (
    "SELECT first, NOT keyed AND NOT extra, laned, awaited OR joined IS NOT NULL FROM carray(?) AS wanted"
    " CROSS JOIN span ON first = wanted.value"
)
TASKS_AT = (
    "SELECT parent, CAST(body AS BLOB), lane, key, more FROM carray(?) AS wanted"
    " CROSS JOIN task ON task.id = wanted.value"
)
RANGE_OF_TASKS = "SELECT parent, CAST(body AS BLOB){} FROM task WHERE id BETWEEN ? AND ?"
JOIN = "SELECT id, rule, brings, size, arrived, failed, skipped, cancelled FROM"
JOINS_AT = f"{JOIN} carray(?) AS wanted CROSS JOIN joins ON joins.id = wanted.value"
_LAST_VALUE = (
    "(SELECT CAST(e.value AS BLOB) FROM event e"
    f" WHERE e.task = {{task}} AND e.status = {Status.DONE:d} ORDER BY n DESC LIMIT 1)"
)
#: What the members of small joins came to, each with a number: in a slot the largest counts. Waiters win over tasks of
#: a group, which lost their key or have an heir. One that was replaced since counts here as it ended.
RESULTS = (
    f"SELECT id, slot, task | {MAX_ID}, {_LAST_VALUE.format(task='waiter.task')}"
    " FROM carray(?1) AS w CROSS JOIN waiter ON id = w.value"
    f" UNION ALL SELECT joined, task.id + shift, task.id, {_LAST_VALUE.format(task='task.id')}"
    " FROM carray(?1) AS w CROSS JOIN span ON joined = w.value AND published"
    " CROSS JOIN task ON task.id BETWEEN first AND last"
)
RANGE_OF_JOINS = f"{JOIN} joins WHERE id BETWEEN ? AND ?"

MARKS_OF = (
    "SELECT run, scope, task, status, reason, mark.value, who FROM carray(?) AS wanted"
    " CROSS JOIN mark ON run = wanted.value ORDER BY mark.rowid"
)
IS_HELD = (
    "EXISTS (SELECT 1 FROM segment INDEXED BY held WHERE segment.state = 3 AND owner = ? AND segment.run = run.id)"
)
#: By way of what is told, which is little, and not of what is held, which may be thousands of small runs.
HELD_IN = f"SELECT id, reason FROM run INDEXED BY run_open WHERE ended IS NULL AND state = ? AND {IS_HELD} ORDER BY id"
MARKED = (
    "WITH RECURSIVE marked(id) AS (SELECT min(run) FROM mark UNION ALL"
    " SELECT (SELECT min(run) FROM mark WHERE run > id) FROM marked WHERE id IS NOT NULL)"
    f" SELECT id FROM marked AS run WHERE id IS NOT NULL AND {IS_HELD}"
)
HELD_RUNS = "SELECT DISTINCT run FROM segment INDEXED BY held WHERE state = 3 AND owner = ?"
TIMED = (
    "SELECT id, deadline, becomes FROM carray(?) AS wanted CROSS JOIN run ON run.id = wanted.value"
    " WHERE deadline IS NOT NULL AND state = 'open'"
)


def read(db: Db, tokens: Sequence[bytes]) -> Iterator[Claim]:
    """The claims under these tokens that are still held, with everything that goes along."""
    held = rows.claimed_under(db, tokens)
    firsts = sorted({row.span for row in held})
    spans = {first: shared for first, *shared in db.execute(SHARED, (rows.ids(firsts),))} if firsts else {}
    marks = marks_of(db, {row.run for row in held})
    tasks_of = [tasks_in(row.first, row.last, row.left) for row in held]
    near = [task for row, tasks in zip(held, tasks_of, strict=True) if _is_narrow(row) for task in tasks]
    columns_of_near = iter(db.execute(TASKS_AT, (rows.ids(near),)).fetchall() if near else ())
    joins_of_near = {row[0]: row[1:] for row in db.execute(JOINS_AT, (rows.ids(near),)).fetchall()} if near else {}
    joins_of = [
        _joins_in(tasks, joins_of_near) if _is_narrow(row) else _joins_of_wide(db, row)
        for row, tasks in zip(held, tasks_of, strict=True)
    ]
    results = _results(db, chain.from_iterable(known.items() for known in joins_of))
    # Most say the same as many others.
    told = cache(_told)
    for row, tasks, known in zip(held, tasks_of, joins_of, strict=True):
        plain, laned, awaited = spans[row.span]
        if _is_narrow(row):
            found = list(islice(columns_of_near, len(tasks)))
        else:
            more = ", lane" * laned + ", key, more" * (not plain)
            found = db.execute(RANGE_OF_TASKS.format(more), (row.first, row.last)).fetchall()
            if row.left is not None:
                found = [found[task - row.first] for task in tasks]
        details = (
            {}
            if plain
            else {
                t: Details(k, m) for t, (*_, k, m) in zip(tasks, found, strict=True) if k is not None or m is not None
            }
        )
        assert row.token is not None
        yield Claim(
            token=row.token,
            run=row.run,
            round=row.round,
            kind=row.kind,
            queue=row.queue,
            lane=row.lane,
            tasks=tasks,
            bodies=tuple(map(_BODY, found)),
            parents=tuple(map(_PARENT, found)),
            details=_join_details(told, known, results, details) if known else details,
            history=_histories(db, row, tasks) if row.attempt else {},
            marks=_marked(db, marks.get(row.run, ()), tasks),
            deaths=row.deaths,
            awaited=bool(awaited),
            lanes=[lane for _, _, lane, *_ in found] if laned and row.lane is None else None,
            limited=row.line is not None,
        )


def _is_narrow(row: SegmentRow) -> bool:
    return row.last - row.first < NARROW


def _joins_in(tasks: Sequence[int], joined: Mapping[int, tuple[Any, ...]]) -> Mapping[int, tuple[Any, ...]]:
    """The joins that published tasks, of those that published any of a claim."""
    return {task: joined[task] for task in tasks if task in joined} if joined else NO_JOINS


def _joins_of_wide(db: Db, row: SegmentRow) -> Mapping[int, tuple[Any, ...]]:
    """The joins that published the tasks of a wide row."""
    found = db.execute(RANGE_OF_JOINS, (row.first, row.last)).fetchall()
    return {join[0]: join[1:] for join in found if row.covers(join[0])}


def _told(bits: tuple[Any, ...]) -> Details:
    """Return what a join says that published a task."""
    return Details(members=joins.ends_of(bits[2:]), rule=RULES[bits[0]])


def _join_details(
    told: Callable[[tuple[Any, ...]], Details],
    known: Mapping[int, tuple[Any, ...]],
    results: Mapping[int, tuple[bytes | None, ...]],
    details: dict[int, Details],
) -> dict[int, Details]:
    """Return what goes along with the tasks of a row, with what the joins that published them say."""
    found = dict(details)
    for task, bits in known.items():
        just = found[task] = told(bits)
        if task in results or task in details:
            other = details.get(task, NO_DETAILS)
            found[task] = Details(other.key, other.extra, just.members, just.rule, results.get(task))
    return found


def _results(db: Db, known: Iterable[tuple[int, tuple[Any, ...]]]) -> dict[int, tuple[bytes | None, ...]]:
    """Return the results of members, by slot, of small joins that bring them along and of which all ended well.

    If it is too much for all of them together, as many bring theirs along as there is room for.
    """
    sizes = {join: size for join, (_, brings, size, _, *broken) in known if brings and size and not any(broken)}
    found: dict[int, dict[int, tuple[int, bytes | None]]] = {join: {} for join in sizes}
    room = MOST_BROUGHT
    for join, slot, number, value in db.execute(RESULTS, (rows.ids(sorted(sizes)),)) if sizes else ():
        if value is not None and (room := room - len(value)) < 0:
            del found[join]
            break
        slots = found[join]
        if slot not in slots or slots[slot][0] < number:
            slots[slot] = number, value
    return {
        join: tuple(slots[slot][1] for slot in sorted(slots))
        for join, slots in found.items()
        if len(slots) == sizes[join]
    }


def _histories(db: Db, row: SegmentRow, tasks: Iterable[int]) -> dict[int, History]:
    """Return what the events of the tasks of a row add up to, for those that have any."""
    found: dict[int, list[Event]] = {}
    events = db.execute(
        "SELECT task, n, status FROM event WHERE task BETWEEN ? AND ? ORDER BY task, n", (row.first, row.last)
    )
    for task, n, status in events:
        found.setdefault(task, []).append(Event(task, n, Status(status)))
    return {task: fold(found[task]) for task in tasks if task in found}


def marks_of(db: Db, runs: Collection[int]) -> dict[int, list[Mark]]:
    """The marks of those of these runs that have any, oldest first."""
    found: dict[int, list[Mark]] = {}
    for run, scope, task, status, *rest in db.execute(MARKS_OF, (rows.ids(runs),)) if runs else ():
        found.setdefault(run, []).append(Mark(run, Scope(scope), task, Status(status), *rest))
    return found


def _marked(db: Db, marks: Sequence[Mark], tasks: Iterable[int]) -> dict[int, Mark]:
    """The marks of a run that lie on these tasks."""
    if not marks:
        return {}
    single = {mark.task: mark for mark in marks if mark.scope is Scope.TASK}
    trees = {mark.task: mark for mark in marks if mark.scope is Scope.SUBTREE}
    known: dict[int | None, Mark | None] = {None: None}
    found = {task: single.get(task) or _above(db, trees, task, known) for task in tasks}
    return {task: mark for task, mark in found.items() if mark is not None}


def _above(
    db: Db, trees: dict[int | None, Mark], task: int | None, known: dict[int | None, Mark | None]
) -> Mark | None:
    """The mark on the task or on one of its ancestors; siblings share the walk."""
    path: list[int | None] = []
    while trees and task not in known and task not in trees:
        path.append(task)
        row = db.execute("SELECT parent FROM task WHERE id = ?", (task,)).fetchone()
        task = row[0] if row is not None else None
    mark = trees.get(task) or known.get(task)
    known.update(dict.fromkeys(path, mark))
    return mark


def paused_for(db: Db, process: int) -> tuple[int, ...]:
    """The paused runs that a process holds claims of."""
    return tuple(run for run, _ in db.execute(HELD_IN, (RunState.PAUSED.value, process)))


def marks_for(db: Db, process: int) -> tuple[Mark, ...]:
    """The marks that a process is told, of the runs it holds claims of."""
    draining = db.execute(HELD_IN, (RunState.DRAINING.value, process)).fetchall()
    found = {run: [Mark(run, Scope.RUN, None, Status.CANCELLED, reason or "")] for run, reason in draining}
    for run, marks in marks_of(db, [run for (run,) in db.execute(MARKED, (process,)).fetchall()]).items():
        # That a task ran out of time concerns its next claim alone.
        found.setdefault(run, []).extend(mark for mark in marks if mark.status is not Status.RETRYING)
    return tuple(mark for _, marks in sorted(found.items()) for mark in marks)


def time_left(db: Db, runs: Collection[int], now: int) -> tuple[tuple[int, float], ...]:
    """The open ones of these runs that have a deadline, and the seconds until it."""
    found = db.execute(TIMED, (rows.ids(sorted(runs)),)) if runs else ()
    left = ((run, seconds_left(deadline, RunState(becomes), now)) for run, deadline, becomes in found)
    return tuple((run, seconds) for run, seconds in left if seconds is not None)


def time_left_for(db: Db, process: int, now: int) -> tuple[tuple[int, float], ...]:
    """The same for the runs that a process holds claims of."""
    return time_left(db, {run for (run,) in db.execute(HELD_RUNS, (process,)).fetchall()}, now)
