"""How tasks come in from outside: with a new run, or appended to one. Children come in by commits (`commits.py`).

Both are idempotent: started or appended again, they say what is there and change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ramify.errors import BadPayload
from ramify.model.arrivals import Arrivals
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.moving import begins_at
from ramify.model.run import NewRun, Order, Started, StoredRun, check_takes_tasks
from ramify.model.task import Appended, NewTasks, applied_before, check_outside
from ramify.store.sqlite import adding, joins, rows, runs
from ramify.store.sqlite.db import Db


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
    _check(db, tasks, new, waiters, reserved)
    # Most begin at once: then their tasks need no gate.
    made = runs.create(db, run, now, begins_at(run, tasks, now))
    added = _add(db, made, tasks, new, waiters, 0, now)
    moved = runs.begin(db, made.id, now) if made.round < 0 else None
    there = made if moved is None else replace(made, round=moved.round)
    return Started(there, created=True, added=added)


def append(
    db: Db, run: StoredRun, tasks: Sequence[NewTasks], new: Sequence[NewJoins], waiters: Sequence[NewWaiters], now: int
) -> Appended:
    """Publish tasks in a run that takes them."""
    if applied_before(tasks, lambda first, last: rows.has_any(db, run.id, first, last)):
        return adding.known(db, run, tasks, now)
    check_takes_tasks(run.id, run.state)
    _check(db, tasks, new, waiters, adding.reserved(db))
    round = run.round + 1 if run.order is Order.ROUNDS else 0
    is_single = len(tasks) == 1 and not new and not waiters
    if is_single and adding.extend_tail(db, run, tasks[0], round, now):
        added = Appended(((tasks[0].first,),))
    else:
        added = _add(db, run, tasks, new, waiters, round, now)
    runs.hold_to_caps(db, () if run.max_tasks is None else (run.id,), now)
    return added


def _check(
    db: Db, tasks: Sequence[NewTasks], new: Sequence[NewJoins], waiters: Sequence[NewWaiters], reserved: range
) -> None:
    check_outside(tasks)
    adding.check_room(db, tasks, reserved)
    joins.check(db, tasks, new, waiters)


def _add(
    db: Db,
    run: StoredRun,
    tasks: Sequence[NewTasks],
    new: Sequence[NewJoins],
    waiters: Sequence[NewWaiters],
    round: int,
    now: int,
) -> Appended:
    empty = joins.create(db, run.id, new, round)
    added = adding.add(db, run, tasks, round, 0, now)
    arrivals = [arrival for group in added for arrival in group.arrivals]
    became = {given: task for group in added for given, task in group.moved().items()} if waiters else {}
    arrivals += joins.wait(db, tasks, waiters, became)
    joins.arrive(db, [Arrivals(run.id, round, arrivals)], empty, now)
    taken = frozenset((g, i) for g, group in enumerate(added) for i in group.lost)
    return Appended(tuple(group.ids for group in added), taken)
