"""How tasks come in from outside: with a new run, or appended to one. Children come in by commits (`commits.py`).

Both are idempotent: started or appended again, they say what is there and change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from ramify.errors import BadPayload
from ramify.model.arrivals import Arrivals
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.run import NewRun, Order, Started, check_takes_tasks
from ramify.model.task import Appended, NewTasks, applied_before, check_outside
from ramify.store.memory import adding, joins, runs
from ramify.store.memory.tables import RunRow, Tables


def start(
    tables: Tables,
    run: NewRun,
    tasks: Sequence[NewTasks],
    new: Sequence[NewJoins],
    waiters: Sequence[NewWaiters],
    now: int,
) -> Started:
    """Create a run with its first tasks, or say which one has its id or name."""
    known = tables.names.get((run.name, run.generation)) if run.name is not None else None
    known = run.id if run.id in tables.runs else known
    if known is not None:
        return Started(runs.as_run(tables.runs[known]), created=False)
    if not 0 < run.id < tables.next_id:
        raise BadPayload(f"run id {run.id} was not reserved from this store")
    _check(tables, tasks, new, waiters)
    row = runs.create(tables, run, now)
    added = _add(tables, row, tasks, new, waiters, 0, now)
    runs.begin(tables, row, now)
    return Started(runs.as_run(row), created=True, added=added)


def append(
    tables: Tables,
    row: RunRow,
    tasks: Sequence[NewTasks],
    new: Sequence[NewJoins],
    waiters: Sequence[NewWaiters],
    now: int,
) -> Appended:
    """Publish tasks in a run that takes them."""
    run = row.new.id
    if applied_before(tasks, lambda first, last: tables.has_any(run, first, last)):
        return adding.known(tables, run, tasks, now)
    check_takes_tasks(run, row.state)
    _check(tables, tasks, new, waiters)
    added = _add(tables, row, tasks, new, waiters, row.round + 1 if row.new.order is Order.ROUNDS else 0, now)
    runs.hold_to_caps(tables, [run], now)
    return added


def _check(tables: Tables, tasks: Sequence[NewTasks], new: Sequence[NewJoins], waiters: Sequence[NewWaiters]) -> None:
    check_outside(tasks)
    adding.check_room(tables, tasks)
    joins.check(tables, tasks, new, waiters)


def _add(
    tables: Tables,
    row: RunRow,
    tasks: Sequence[NewTasks],
    new: Sequence[NewJoins],
    waiters: Sequence[NewWaiters],
    round: int,
    now: int,
) -> Appended:
    run = row.new.id
    is_alone = len(tasks) == 1 and not new and not waiters
    if is_alone and adding.extend_tail(tables, row, tasks[0], round, 0, now):
        return Appended(((tasks[0].first,),))
    empty = joins.create(tables, run, new, round)
    added = [adding.add(tables, row, group, round, 0, now) for group in tasks]
    arrivals = [arrival for group in added for arrival in group.arrivals]
    became = {given: task for g, group in enumerate(added) for given, task in group.moved(tasks[g]).items()}
    arrivals += joins.wait(tables, waiters, became)
    joins.arrive(tables, [Arrivals(run, round, arrivals)], empty, now)
    taken = frozenset((g, i) for g, group in enumerate(added) for i in group.taken)
    return Appended(tuple(group.ids for group in added), taken)
