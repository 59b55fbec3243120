"""How tasks come in from outside: with a new run, or appended to one. Children come in by commits (`commits.py`).

Both are idempotent: started or appended again, they say what is there and change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from ramify.errors import BadPayload, RunEnded
from ramify.model.join import NewJoin, NewWaiter
from ramify.model.run import NewRun, Order, Run, RunState, Started
from ramify.model.task import Appended, NewTasks, applied_before, check_tasks
from ramify.store.sqlite import adding, joins, rows, runs
from ramify.store.sqlite.db import Db


def start(db: Db, run: NewRun, tasks: Sequence[NewTasks], new: Sequence[NewJoin], now: int) -> Started:
    """Create a run with its first tasks, or say which one has its id or name."""
    known = db.execute(
        f"{rows.RUN} WHERE id = ?1 OR (name = ?2 AND generation = ?3) ORDER BY id = ?1 DESC",
        (run.id, run.name, run.generation),
    ).fetchone()
    if known is not None:
        return Started(rows.read_run(known), created=False)
    (next_id,) = db.execute("SELECT next FROM ids").fetchall()[0]
    if not 0 < run.id < next_id:
        raise BadPayload(f"run id {run.id} was not reserved from this store")
    _check(db, tasks, new, ())
    added = _add(db, runs.create(db, run, now), tasks, new, (), 0, now)
    runs.advance(db, rows.run_row(db, run.id), -1, now)
    return Started(rows.run_row(db, run.id), created=True, added=added)


def append(
    db: Db, run: Run, tasks: Sequence[NewTasks], new: Sequence[NewJoin], waiters: Sequence[NewWaiter], now: int
) -> Appended:
    """Publish tasks in a run that takes them."""
    if applied_before(tasks, lambda first, last: rows.has_any(db, run.id, first, last)):
        return adding.known(db, run.id, tasks, now)
    if run.state.is_end or run.state is RunState.DRAINING:
        raise RunEnded(f"run {run.id} is {run.state.value} and takes no more tasks; reopen its tasks or start another")
    _check(db, tasks, new, waiters)
    return _add(db, run, tasks, new, waiters, run.round + 1 if run.order is Order.ROUNDS else 0, now)


def _check(db: Db, tasks: Sequence[NewTasks], new: Sequence[NewJoin], waiters: Sequence[NewWaiter]) -> None:
    for group in tasks:
        check_tasks(group)
        if group.join is not None and group.slot is None:
            raise BadPayload("only a member that has not arrived may add slots to a join, in its own commit")
    adding.check_room(db, tasks)
    joins.check(db, tasks, new, waiters)


def _add(
    db: Db,
    run: Run,
    tasks: Sequence[NewTasks],
    new: Sequence[NewJoin],
    waiters: Sequence[NewWaiter],
    round: int,
    now: int,
) -> Appended:
    if len(tasks) == 1 and not new and not waiters and adding.extend_tail(db, run, tasks[0], round, now):
        return Appended(((tasks[0].first,),))
    joins.create(db, run.id, new)
    added = adding.add(db, run, tasks, round, 0, now)
    arrivals = [arrival for group in added for arrival in group.arrivals]
    became = {given: task for group in added for given, task in group.moved().items()} if waiters else {}
    for waiter in waiters:
        arrivals += joins.wait_for(db, became.get(waiter.task, waiter.task), waiter.join, waiter.slot)
    joins.settle(db, arrivals, new, run.id, round)
    taken = frozenset((g, i) for g, group in enumerate(added) for i in group.lost)
    return Appended(tuple(group.ids for group in added), taken)
