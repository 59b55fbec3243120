"""Claims of processes in the PostgreSQL store, with all that goes along.

Reads only, and all at once: each statement finds what it needs by way of the tokens, so that nothing waits for the
answer of another and all of it can travel with the commit that grants the claims.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from ramify.model.claim import Claim, Details
from ramify.model.event import Event, History, Status, fold
from ramify.model.join import MOST_BROUGHT, Rule
from ramify.model.mark import Mark, Scope
from ramify.model.run import RunState, seconds_left
from ramify.model.task import MAX_ID
from ramify.store.postgres import rows
from ramify.store.postgres.joins import ends_of
from ramify.store.postgres.pipe import Asked, Rows
from ramify.store.tuples import segment_row

_HELD = "@segment s WHERE s.token = ANY($1::bytea[]) AND s.state = 3"
_RUNS = f"SELECT s.run FROM {_HELD}"
_WITH = "FROM @segment s JOIN {} WHERE s.token = ANY($1::bytea[]) AND s.state = 3"
ROWS = f"{rows.SEGMENT} s WHERE s.token = ANY($1::bytea[]) AND s.state = 3 ORDER BY array_position($1::bytea[], token)"
SHARED = (
    "SELECT first, laned, awaited OR joined IS NOT NULL FROM @span"
    f" WHERE first = ANY(ARRAY(SELECT s.span FROM {_HELD}))"
)
TASKS = (
    "SELECT t.id, t.parent, t.body, t.lane, t.key, t.more"
    f" {_WITH.format('@task t ON t.id BETWEEN s.first AND s.last')} ORDER BY t.id"
)
JOINS = (
    "SELECT j.id, rule, brings, size, arrived, failed, skipped, cancelled"
    f" {_WITH.format('@joins j ON j.id BETWEEN s.first AND s.last')}"
)
_LAST_VALUE = (
    f"(SELECT e.value FROM @event e WHERE e.task = {{task}} AND e.status = {Status.DONE:d} ORDER BY n DESC LIMIT 1)"
)
#: What the members of small joins came to, each with a number: in a slot the largest counts. Waiters win over tasks of
#: a group, which lost their key or have an heir. One that was replaced since counts here as it ended.
RESULTS = (
    f"WITH j AS MATERIALIZED (SELECT j.id {_WITH.format('@joins j ON j.id BETWEEN s.first AND s.last')}"
    " AND j.brings AND j.size > 0 AND j.failed = 0 AND j.skipped = 0 AND j.cancelled = 0)"
    f" SELECT w.id, w.slot, w.task | {MAX_ID}, {_LAST_VALUE.format(task='w.task')} FROM j JOIN @waiter w ON w.id = j.id"
    f" UNION ALL SELECT joined, t.id + shift, t.id, {_LAST_VALUE.format(task='t.id')} FROM j JOIN @span p"
    " ON p.joined = j.id AND published JOIN @task t ON t.id BETWEEN p.first AND p.last"
)
HISTORY = (
    "SELECT e.task, e.n, e.status"
    f" {_WITH.format('@event e ON e.task BETWEEN s.first AND s.last')} AND s.attempt > 0 ORDER BY e.task, e.n"
)
MARK = "SELECT run, scope, task, status, reason, value, who FROM @mark"
MARKS = f"{MARK} WHERE run = ANY(ARRAY({_RUNS})) ORDER BY id"
MARKS_OF = f"{MARK} WHERE run = ANY($1::bigint[]) ORDER BY id"
#: Tasks and their parents, from those of claims up, where a mark lies on all below a task.
ABOVE = (
    "WITH RECURSIVE up(id, parent) AS (SELECT t.id, t.parent"
    f" {_WITH.format('@task t ON t.id BETWEEN s.first AND s.last')} AND EXISTS"
    f" (SELECT 1 FROM @mark m WHERE m.run = s.run AND m.scope = {Scope.SUBTREE:d})"
    " UNION SELECT p.id, p.parent FROM up JOIN @task p ON p.id = up.parent) SELECT id, parent FROM up"
)
_TIMED = "SELECT id, deadline, becomes FROM @run WHERE deadline IS NOT NULL AND state = 'open' AND id = ANY({})"
TIMED = _TIMED.format(f"ARRAY({_RUNS})")
_IS_HELD = "EXISTS (SELECT 1 FROM @segment s WHERE s.state = 3 AND s.owner = $1::bigint AND s.run = {run})"
#: By way of what is told, which is little, and not of what is held, which may be thousands of small runs.
HELD_IN = (
    "SELECT id, reason FROM @run WHERE ended IS NULL AND state = $2::text"
    f" AND {_IS_HELD.format(run='run.id')} ORDER BY id"
)
MARKED = f"{MARK} WHERE {_IS_HELD.format(run='mark.run')} ORDER BY id"
TIMED_HELD = _TIMED.format("ARRAY(SELECT s.run FROM @segment s WHERE s.state = 3 AND s.owner = $1::bigint)")
RULES = tuple(Rule)
NO_DETAILS = Details()


def asked(tokens: Sequence[bytes]) -> list[Asked]:
    """Return what finds the claims under tokens, and the time that is left of their runs."""
    texts = (ROWS, SHARED, TASKS, JOINS, RESULTS, HISTORY, MARKS, ABOVE, TIMED)
    return [(text, (tokens,)) for text in texts]


def read(found: Sequence[Rows]) -> Iterator[Claim]:
    """The claims that are still held, in their order, with everything that goes along."""
    held, shared, tasks, joins, results, events, marks, above, _ = found
    spans = {first: alike for first, *alike in shared}
    columns = {row[0]: row for row in tasks}
    known = {row[0]: row[1:] for row in joins}
    brought = _results(results, known)
    histories = _histories(events)
    marked = marks_by_run(marks)
    parents: dict[int, int | None] = dict(above)
    told = cache(lambda bits: Details(members=ends_of(bits[2:]), rule=RULES[bits[0]]))
    for row in map(segment_row, held):
        laned, awaited = spans[row.span]
        here = [columns[task] for task in row.tasks]
        details: dict[int, Details] = {}
        for task, _, _, _, key, more in here:
            bits = known.get(task) if known else None
            if bits is not None:
                just = told(bits)
                results_of = brought.get(task)
                plain = key is None and more is None and results_of is None
                details[task] = just if plain else Details(key, more, just.members, just.rule, results_of)
            elif key is not None or more is not None:
                details[task] = Details(key, more)
        assert row.token is not None
        yield Claim(
            token=row.token,
            run=row.run,
            round=row.round,
            kind=row.kind,
            queue=row.queue,
            lane=row.lane,
            tasks=row.tasks,
            bodies=tuple(each[2] for each in here),
            parents=tuple(each[1] for each in here),
            details=details,
            history={task: histories[task] for task in row.tasks if task in histories} if row.attempt else {},
            marks=_marked(marked.get(row.run, ()), row.tasks, parents),
            deaths=row.deaths,
            awaited=bool(awaited),
            lanes=[each[3] for each in here] if laned and row.lane is None else None,
            limited=row.line is not None,
        )


def time_left(timed: Rows, now: int) -> tuple[tuple[int, float], ...]:
    """The open runs that have a deadline, and the seconds until it."""
    left = ((run, seconds_left(deadline, RunState(becomes), now)) for run, deadline, becomes in timed)
    return tuple(sorted((run, seconds) for run, seconds in left if seconds is not None))


def _results(found: Rows, known: Mapping[int, tuple[Any, ...]]) -> dict[int, tuple[bytes | None, ...]]:
    """Return the results of members, by slot, of small joins that bring them along and of which all ended well.

    If it is too much for all of them together, as many bring theirs along as there is room for.
    """
    by_join: dict[int, dict[int, tuple[int, bytes | None]]] = defaultdict(dict)
    room = MOST_BROUGHT
    for join, slot, number, value in sorted(found, key=lambda row: row[0]) if found else ():
        if value is not None and (room := room - len(value)) < 0:
            del by_join[join]
            break
        slots = by_join[join]
        if slot not in slots or slots[slot][0] < number:
            slots[slot] = number, value
    return {
        join: tuple(slots[slot][1] for slot in sorted(slots))
        for join, slots in by_join.items()
        if len(slots) == known[join][2]
    }


def _histories(found: Rows) -> dict[int, History]:
    """Return what the events of tasks add up to."""
    events: dict[int, list[Event]] = {}
    for task, n, status in found:
        events.setdefault(task, []).append(Event(task, n, Status(status)))
    return {task: fold(some) for task, some in events.items()}


def mark_of(row: Sequence[Any]) -> Mark:
    """A mark from a row of `MARK`."""
    run, scope, task, status, reason, value, who = row
    return Mark(run, Scope(scope), task, Status(status), rows.text(reason) or "", value, rows.text(who) or "")


def marks_by_run(found: Rows) -> dict[int, list[Mark]]:
    """Marks, oldest first."""
    by_run: dict[int, list[Mark]] = {}
    for mark in map(mark_of, found):
        by_run.setdefault(mark.run, []).append(mark)
    return by_run


def _marked(marks: Sequence[Mark], tasks: Iterable[int], parents: Mapping[int, int | None]) -> dict[int, Mark]:
    """The marks of a run that lie on these tasks."""
    if not marks:
        return {}
    single = {mark.task: mark for mark in marks if mark.scope is Scope.TASK}
    trees: dict[int | None, Mark] = {mark.task: mark for mark in marks if mark.scope is Scope.SUBTREE}
    known: dict[int | None, Mark | None] = {None: None}
    found = {task: single.get(task) or _above(trees, task, known, parents) for task in tasks}
    return {task: mark for task, mark in found.items() if mark is not None}


def _above(
    trees: Mapping[int | None, Mark],
    task: int | None,
    known: dict[int | None, Mark | None],
    parents: Mapping[int, int | None],
) -> Mark | None:
    """The mark on the task or on one of its ancestors; siblings share the walk."""
    path: list[int | None] = []
    while trees and task is not None and task not in known and task not in trees:
        path.append(task)
        task = parents.get(task)
    mark = trees.get(task) or known.get(task)
    known.update(dict.fromkeys(path, mark))
    return mark


def told_asked(process: int) -> list[Asked]:
    """Return what finds the marks that a process is told."""
    return [(HELD_IN, (process, RunState.DRAINING.value)), (MARKED, (process,))]


def told(found: Sequence[Rows]) -> tuple[Mark, ...]:
    """The marks that a process is told, of the runs it holds claims of."""
    draining, marked = found
    by_run = {run: [Mark(run, Scope.RUN, None, Status.CANCELLED, rows.text(reason) or "")] for run, reason in draining}
    for run, marks in marks_by_run(marked).items():
        # That a task ran out of time concerns its next claim alone.
        by_run.setdefault(run, []).extend(mark for mark in marks if mark.status is not Status.RETRYING)
    return tuple(mark for _, marks in sorted(by_run.items()) for mark in marks)
