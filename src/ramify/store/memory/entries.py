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
from ramify.store.memory.place import Place, RunRow


def start(
    place: Place,
    run: NewRun,
    tasks: Sequence[NewTasks],
    new: Sequence[NewJoins],
    waiters: Sequence[NewWaiters],
    now: int,
) -> Started:
    """Create a run with its first tasks, or say which one has its id or name."""
    known = place.names.get((run.name, run.generation)) if run.name is not None else None
    known = run.id if run.id in place.runs else known
    if known is not None:
        return Started(runs.as_run(place.runs[known]), created=False)
    if not 0 < run.id < place.next_id:
        raise BadPayload(f"run id {run.id} was not reserved from this store")
    _check(place, tasks, new, waiters)
    row = runs.create(place, run, now)
    added = _add(place, row, tasks, new, waiters, 0, now)
    runs.begin(place, row, now)
    return Started(runs.as_run(row), created=True, added=added)


def append(
    place: Place,
    row: RunRow,
    tasks: Sequence[NewTasks],
    new: Sequence[NewJoins],
    waiters: Sequence[NewWaiters],
    now: int,
) -> Appended:
    """Publish tasks in a run that takes them."""
    run = row.new.id
    if applied_before(tasks, lambda first, last: place.has_any(run, first, last)):
        return adding.known(place, run, tasks, now)
    check_takes_tasks(run, row.state)
    _check(place, tasks, new, waiters)
    added = _add(place, row, tasks, new, waiters, row.round + 1 if row.new.order is Order.ROUNDS else 0, now)
    runs.hold_to_caps(place, [run], now)
    return added


def _check(place: Place, tasks: Sequence[NewTasks], new: Sequence[NewJoins], waiters: Sequence[NewWaiters]) -> None:
    check_outside(tasks)
    adding.check_room(place, tasks)
    joins.check(place, tasks, new, waiters)


def _add(
    place: Place,
    row: RunRow,
    tasks: Sequence[NewTasks],
    new: Sequence[NewJoins],
    waiters: Sequence[NewWaiters],
    round: int,
    now: int,
) -> Appended:
    run = row.new.id
    is_alone = len(tasks) == 1 and not new and not waiters
    if is_alone and adding.extend_tail(place, row, tasks[0], round, 0, now):
        return Appended(((tasks[0].first,),))
    empty = joins.create(place, run, new, round)
    added = [adding.add(place, row, group, round, 0, now) for group in tasks]
    arrivals = [arrival for group in added for arrival in group.arrivals]
    became = {given: task for g, group in enumerate(added) for given, task in group.moved(tasks[g]).items()}
    arrivals += joins.wait(place, waiters, became)
    joins.arrive(place, [Arrivals(run, round, arrivals)], empty)
    taken = frozenset((g, i) for g, group in enumerate(added) for i in group.taken)
    return Appended(tuple(group.ids for group in added), taken)
