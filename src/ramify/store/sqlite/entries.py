"""How tasks come in from outside: with a new run, or appended to one. Children come in by commits (`commits.py`).

Both are idempotent: started or appended again, they say what is there and change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from ramify.errors import BadPayload
from ramify.model.addition import Addition, applied_before
from ramify.model.arrivals import Arrivals
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.moving import begins_at
from ramify.model.run import NewRun, Order, Started, StoredRun, check_takes_tasks
from ramify.model.task import Appended, NewTasks, check_tasks
from ramify.store.sqlite import adding, joins, rows, runs
from ramify.store.sqlite.db import Db

#: A run, what comes into it, and the round that it comes into.
_Into = tuple[StoredRun, Addition, int]


def start(
    db: Db,
    run: NewRun,
    tasks: Sequence[NewTasks],
    new: Sequence[NewJoins],
    waiters: Sequence[NewWaiters],
    now: int,
) -> Started:
    """Create a run with its first tasks, or say which one has its id or name."""
    known = db.execute(
        f"{rows.RUN} WHERE id = ?1 OR (name = ?2 AND generation = ?3) ORDER BY id = ?1 DESC",
        (run.id, run.name, run.generation),
    ).fetchone()
    if known is not None:
        return Started(rows.read_run(known), created=False)
    reserved = adding.reserved(db)
    if run.id not in reserved:
        raise BadPayload(f"run id {run.id} was not reserved from this store")
    first = Addition(run.id, tasks, new, waiters)
    _check(db, [first], reserved)
    # Most begin at once: then their tasks need no gate.
    made = runs.create(db, run, now, begins_at(run, tasks, now))
    (added,) = _add(db, [(made, first, 0)], now)
    moved = runs.begin(db, made.id, now) if made.round < 0 else None
    there = made if moved is None else replace(made, round=moved.round)
    return Started(there, created=True, added=added)


def append(db: Db, additions: Sequence[Addition], now: int) -> list[Appended]:
    """Publish tasks in runs that take them."""
    into = [rows.run_row(db, each.run) for each in additions]
    if applied_before(additions, partial(rows.has_any, db)):
        return [adding.known(db, run, each.tasks, now) for run, each in zip(into, additions, strict=True)]
    for run in into:
        check_takes_tasks(run.id, run.state)
    _check(db, additions, adding.reserved(db))
    rounds = [run.round + 1 if run.order is Order.ROUNDS else 0 for run in into]
    added = _add(db, list(zip(into, additions, rounds, strict=True)), now)
    runs.hold_to_caps(db, {run.id for run in into if run.max_tasks is not None}, now)
    return added


def _check(db: Db, new: Sequence[Addition], reserved: range) -> None:
    tasks = [group for each in new for group in each.tasks]
    for group in tasks:
        check_tasks(group)
    adding.check_room(db, tasks, reserved)
    links = [some for each in new for some in each.joins], [some for each in new for some in each.waiters]
    joins.check(db, tasks, *links)


def _add(db: Db, new: Sequence[_Into], now: int) -> list[Appended]:
    """Write them: first their joins, then their tasks, then who waits for them, so that each may name any other."""
    empty: dict[int, tuple[int, int]] = {}
    for run, each, round in new:
        empty |= joins.create(db, run.id, each.joins, round)
    added = [_tasks(db, run, each, round, now) for run, each, round in new]
    groups = [group for _, each, _ in new for group in each.tasks]
    became = {given: task for mine in added for group in mine for given, task in group.moved().items()}
    arrivals: list[Arrivals] = []
    for (run, each, round), mine in zip(new, added, strict=True):
        arrived = [arrival for group in mine for arrival in group.arrivals]
        arrived += joins.wait(db, groups, each.waiters, became)
        arrivals.append(Arrivals(run.id, round, arrived))
    joins.arrive(db, arrivals, empty, now)
    return [_answer(mine) for mine in added]


def _answer(added: Sequence[adding.SqliteAdded]) -> Appended:
    taken = frozenset((g, i) for g, group in enumerate(added) for i in group.lost)
    return Appended(tuple(group.ids for group in added), taken)


def _tasks(db: Db, run: StoredRun, new: Addition, round: int, now: int) -> Sequence[adding.SqliteAdded]:
    # Behind the id of its run there is the first task, which follows on none.
    is_single = len(new.tasks) == 1 and not new.joins and not new.waiters and new.tasks[0].first - 1 != run.id
    if is_single and adding.extend_tail(db, run, new.tasks[0], round, now):
        return [adding.SqliteAdded(new.tasks[0])]
    return adding.add(db, run, new.tasks, round, 0, now)
