"""How tasks come in from outside: with a new run, or appended to one. Children come in by commits.

Both are idempotent: started or appended again, they say what is there and change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ramify.errors import BadPayload, UnknownRun
from ramify.model.addition import Addition, applied_before
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.key import Hold
from ramify.model.run import NewRun, Order, RunState, Started, StoredRun, check_takes_tasks
from ramify.model.task import Appended, NewTasks, check_apart, check_tasks
from ramify.store.changes import Believed, Changes
from ramify.store.tables import Ask, Loaded, Tables
from ramify.store.verbs import adding, advancing, telling
from ramify.store.verbs.adding import AddedGroup, Adding, may_extend
from ramify.store.verbs.arriving import Arriving
from ramify.store.verbs.beliefs import Beliefs
from ramify.store.verbs.commit import overgrown
from ramify.store.verbs.keys import Keys, holders
from ramify.store.verbs.opening import OpeningRuns, may_open, new_run


def start(
    tables: Tables,
    new: NewRun,
    tasks: Sequence[NewTasks],
    joins: Sequence[NewJoins],
    waiters: Sequence[NewWaiters],
    now: int,
) -> Started:
    """Create a run with its first tasks, or say which one has its id or name."""
    leader = () if new.follows is None else (new.follows.run,)
    loaded = tables.load(Ask(now, new=adding.ranges(tasks), runs=leader, start=new))
    if loaded.known is not None:
        return Started(loaded.known, created=False)
    if not 0 < new.id < loaded.reserved:
        raise BadPayload(f"run id {new.id} was not reserved from this store")
    first = Addition(new.id, tasks, joins, waiters)
    _check(tables, loaded, [first])
    if leader and leader[0] not in loaded.runs:
        raise UnknownRun(f"there is no run {leader[0]} in this store")
    made, changes = new_run(new, tasks, now), Changes(0, 0, now)
    changes.begin(made)
    (added,) = add(tables, changes, {new.id: made}, [(made, first, 0)])
    made = replace(made, since=tables.write(changes) - 1)
    if made.round < 0 and (moved := advancing.begin(tables, made.id, now)) is not None:
        made = replace(made, round=moved.round)
    return Started(made, created=True, added=added)


def append(tables: Tables, additions: Sequence[Addition], now: int, beliefs: Beliefs) -> Sequence[Appended]:
    """Publish tasks in runs that take them, or that they open."""
    if (believed := beliefs.about(additions)) is not None:
        changes = Changes(0, 0, now)
        if (added := _append_at_once(tables, changes, additions, believed, now)) is not None:
            beliefs.follow(believed.run, changes)
            return added
        beliefs.forget(believed)
    groups = [tasks for each in additions for tasks in each.tasks]
    by_id = {each.run for each in additions if each.opens is None}
    loaded = tables.load(Ask(now, new=adding.ranges(groups), runs=by_id, grows=True, opens=may_open(additions)))
    for run in sorted(by_id):
        if run not in loaded.runs:
            raise UnknownRun(f"there is no run {run} in this store")
    if loaded.taken and applied_before(additions, tables.owner):
        return [_known(tables, loaded, each, now) for each in additions]
    for run in sorted(by_id):
        check_takes_tasks(run, loaded.runs[run].state)
    _check(tables, loaded, additions)
    changes = Changes(0, 0, now)
    opening = OpeningRuns(loaded, changes)
    into = [(loaded.runs[each.run] if each.opens is None else opening.run(each), each) for each in additions]
    rounds = [(run, each, run.round + 1 if run.order is Order.ROUNDS else 0) for run, each in into]
    added = add(tables, changes, {run.id: run for run, _ in into}, rounds)
    tables.write(changes)
    if halted := overgrown(loaded, changes):
        telling.tell_ends(tables, advancing.halt(tables, halted, now), now)
    beliefs.learn([run for run, each in into if each.opens is not None], changes)
    return added


def _append_at_once(
    tables: Tables, changes: Changes, additions: Sequence[Addition], believed: Believed, now: int
) -> Sequence[Appended] | None:
    """Publish tasks in a run that is known from before; None when it is not as it was, and nothing was written."""
    run = believed.run
    _check_groups(additions)
    added = add(tables, changes, {run.id: run}, [(run, each, 0) for each in additions], extends=False)
    # A task that lost its key extends no row.
    if believed.tail is not None and not (changes.spans and may_extend(believed.tail, run, changes.spans[0], now)):
        believed = believed._replace(tail=None)
    return added if tables.write_if(changes, believed) else None


def _check_groups(new: Sequence[Addition]) -> Sequence[NewTasks]:
    groups = [tasks for each in new for tasks in each.tasks]
    for tasks in groups:
        check_tasks(tasks)
    check_apart(groups)
    return groups


def _check(tables: Tables, loaded: Loaded, new: Sequence[Addition]) -> None:
    groups = _check_groups(new)
    adding.check_room(loaded, groups)
    check_links(tables, new)


def check_links(tables: Tables, new: Sequence[Addition]) -> None:
    """Refuse joins and waiters that do not fit."""
    groups = [tasks for each in new for tasks in each.tasks]
    links = [some for each in new for some in each.joins], [some for each in new for some in each.waiters]
    adding.check_joins(tables, groups, *links)


def add(
    tables: Tables,
    changes: Changes,
    runs: Mapping[int, StoredRun],
    new: Sequence[tuple[StoredRun, Addition, int]],
    *,
    extends: bool = True,
) -> list[Appended]:
    """Add what comes into each run at a round: first all joins, then all tasks, then who waits for them, so that each
    may name any other. A single task `extends` the row before it, if there is one.
    """
    arriving = Arriving(tables, changes, runs)
    groups = [(run.id, tasks) for run, each, _ in new for tasks in each.tasks]
    putting = Adding(changes, Keys(tables, changes, groups), arriving)
    for run, each, round in new:
        arriving.create(run.id, each.joins, round)
    added = [_tasks(tables if extends else None, putting, run, each, round) for run, each, round in new]
    became = {given: task for mine in added for group in mine for given, task in group.moved().items()}
    for (run, each, round), mine in zip(new, added, strict=True):
        arrived = [arrival for group in mine for arrival in group.arrivals]
        arriving.arrive(run.id, round, arrived + arriving.wait([t for _, t in groups], each.waiters, became))
    arriving.settle()
    return [_answer(run.id, mine) for (run, _, _), mine in zip(new, added, strict=True)]


def _tasks(tables: Tables | None, putting: Adding, run: StoredRun, new: Addition, round: int) -> Sequence[AddedGroup]:
    # Behind the id of its run there is the first task, which follows on none.
    is_single = len(new.tasks) == 1 and not new.joins and not new.waiters and new.tasks[0].first - 1 != run.id
    if tables is not None and is_single and putting.extend_tail(tables, run, new.tasks[0], round):
        return [AddedGroup(new.tasks[0])]
    return [putting.add(run, tasks, round) for tasks in new.tasks]


def _answer(run: int, added: Sequence[AddedGroup]) -> Appended:
    taken = frozenset((g, i) for g, group in enumerate(added) for i in group.lost)
    return Appended(tuple(group.ids for group in added), taken, run=run)


def _known(tables: Tables, loaded: Loaded, new: Addition, now: int) -> Appended:
    """The answer to an append that was applied before: the ids its tasks have, or lost their keys to.

    An addition that lost all of its tasks tells no run by them: then it went into the newest of its name.
    """
    groups = new.tasks
    owners = (tables.owner(tasks.first, tasks.last) for tasks in groups)
    owner = next((number for number in owners if number is not None), None)
    if owner is None:
        owner = new.run if new.opens is None else loaded.newest[new.opens.name or ""].id
    run = tables.runs([owner])[owner]
    ids: list[tuple[int, ...]] = []
    taken: set[tuple[int, int]] = set()
    for g, tasks in enumerate(groups):
        there = tables.keys_at(tasks.first, tasks.last)
        # Keys that count only in a run are free once it is forgotten, although they go page by page.
        is_free = run.state is RunState.FORGOTTEN and tasks.hold is Hold.ONCE
        held = {} if is_free else holders(tables, tasks.hold, run.id, tasks.kind, tasks.keys or (), now)
        task, found = tasks.first, []
        for i in range(len(tasks.bodies)):
            key = tasks.keys[i] if tasks.keys is not None else None
            task = tasks.first + i if tasks.join is not None or tasks.waits else task
            if task in there and there[task] == key:
                found.append(task)
                task += 1
            else:
                found.append(held.get(key or b"", 0))
                taken.add((g, i))
        ids.append(tuple(found))
    return Appended(tuple(ids), frozenset(taken), already=True, run=run.id)
