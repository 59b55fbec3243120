"""How tasks come in from outside: with a new run, or appended to one. Children come in by commits (`commits.py`).

Both are idempotent: started or appended again, they say what is there and change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ramify.errors import BadPayload
from ramify.model.addition import Addition, applied_before, opened
from ramify.model.arrivals import Arrivals
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.run import NewRun, Order, Started, StoredRun, check_takes_tasks
from ramify.model.task import Appended, NewTasks, check_tasks
from ramify.store.memory import adding, joins, runs
from ramify.store.memory.tables import MemoryTables, RunRow

#: A run, what comes into it, and the round that it comes into.
_Into = tuple[RunRow, Addition, int]


def start(
    tables: MemoryTables,
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
    first = Addition(run.id, tasks, new, waiters)
    check(tables, [first])
    if run.follows is not None:
        tables.run(run.follows.run)
    row = runs.create(tables, run, tables.new_commit(0, 0, now) - 1, now)
    (added,) = add(tables, [(row, first, 0)], now)
    runs.begin(tables, row, now)
    return Started(runs.as_run(row), created=True, added=added)


def append(tables: MemoryTables, additions: Sequence[Addition], now: int) -> list[Appended]:
    """Publish tasks in runs that take them."""
    named = [tables.run(each.run) for each in additions if each.opens is None]
    if applied_before(additions, tables.owner):
        return [_known(tables, each, now) for each in additions]
    for row in named:
        check_takes_tasks(row.new.id, row.state)
    # Before anything is written, because here nothing can be taken back.
    check(tables, additions)
    check_opening(tables, additions)
    since, before = len(tables.commits), runs.bounded(tables)
    into = [tables.run(each.run) if each.opens is None else opened_for(tables, each, since, now) for each in additions]
    if any(row.since == since for row in into):
        # One that was there before has its start in the log.
        tables.new_commit(0, 0, now)
    rounds = [row.round + 1 if row.new.order is Order.ROUNDS else 0 for row in into]
    added = add(tables, list(zip(into, additions, rounds, strict=True)), now)
    runs.hold_to_caps(tables, before, now)
    return added


def _known(tables: MemoryTables, new: Addition, now: int) -> Appended:
    owners = (tables.owner(tasks.first, tasks.last) for tasks in new.tasks)
    run = next((number for number in owners if number is not None), None)
    if run is None:
        newest = _newest(tables, new)
        run = new.run if newest is None else newest.id
    return adding.known(tables, run, new.tasks, now)


def check_opening(tables: MemoryTables, additions: Iterable[Addition]) -> None:
    """Refuse what would open a run that cannot be."""
    for new in additions:
        if new.opens is None or opened(new.opens, _newest(tables, new)) is None:
            continue
        if not 0 < new.opens.id < tables.next_id:
            raise BadPayload(f"run id {new.opens.id} was not reserved from this store")
        if new.opens.id in tables.runs:
            raise BadPayload(f"run id {new.opens.id} is that of a run already; reserve another one")


def opened_for(tables: MemoryTables, new: Addition, since: int, now: int) -> RunRow:
    """The run by its name that an addition goes into, opened if need be."""
    assert new.opens is not None
    newest = _newest(tables, new)
    begun = opened(new.opens, newest)
    if begun is None:
        assert newest is not None
        return tables.run(newest.id)
    row = runs.create(tables, begun, since, now)
    row.round = 0
    return row


def queue(tables: MemoryTables, additions: Iterable[Addition], since: int, process: int, now: int) -> bool:
    """Add tasks to queues along with other work; whether one of them begins with it, right after `since` in the log."""
    into = [(opened_for(tables, each, since, now), each.tasks) for each in additions]
    for row, groups in into:
        for tasks in groups:
            adding.add(tables, row, tasks, 0, process, now)
    return any(row.since == since for row, _ in into)


def _newest(tables: MemoryTables, new: Addition) -> StoredRun | None:
    generations = [generation for name, generation in tables.names if new.opens and name == new.opens.name]
    if not generations or new.opens is None:
        return None
    return runs.as_run(tables.runs[tables.names[new.opens.name or "", max(generations)]])


def check(tables: MemoryTables, new: Sequence[Addition]) -> None:
    """Refuse what does not fit, before anything is written."""
    tasks = [group for each in new for group in each.tasks]
    for group in tasks:
        check_tasks(group)
    adding.check_room(tables, tasks)
    links = [some for each in new for some in each.joins], [some for each in new for some in each.waiters]
    joins.check(tables, tasks, *links)


def add(tables: MemoryTables, new: Sequence[_Into], now: int) -> list[Appended]:
    """Write them: first their joins, then their tasks, then who waits for them, so that each may name any other."""
    empty: dict[int, tuple[int, int]] = {}
    for row, each, round in new:
        empty |= joins.create(tables, row.new.id, each.joins, round)
    added = [_tasks(tables, row, each, round, now) for row, each, round in new]
    became: dict[int, int] = {}
    for (_, each, _), mine in zip(new, added, strict=True):
        for tasks, group in zip(each.tasks, mine, strict=True):
            became |= group.moved(tasks)
    arrivals: list[Arrivals] = []
    for (row, each, round), mine in zip(new, added, strict=True):
        arrived = [arrival for group in mine for arrival in group.arrivals]
        arrived += joins.wait(tables, each.waiters, became)
        arrivals.append(Arrivals(row.new.id, round, arrived))
    joins.arrive(tables, arrivals, empty, now)
    return [_answer(row.new.id, mine) for (row, _, _), mine in zip(new, added, strict=True)]


def _answer(run: int, added: Sequence[adding.MemoryAdded]) -> Appended:
    taken = frozenset((g, i) for g, group in enumerate(added) for i in group.taken)
    return Appended(tuple(group.ids for group in added), taken, run=run)


def _tasks(tables: MemoryTables, row: RunRow, new: Addition, round: int, now: int) -> Sequence[adding.MemoryAdded]:
    is_single = len(new.tasks) == 1 and not new.joins and not new.waiters
    if is_single and adding.extend_tail(tables, row, new.tasks[0], round, 0, now):
        return [adding.MemoryAdded((new.tasks[0].first,), (), [])]
    return [adding.add(tables, row, group, round, 0, now) for group in new.tasks]
