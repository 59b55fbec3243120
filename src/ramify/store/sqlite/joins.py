"""Joins in the SQLite store: how the values that `model/arrivals.py` works on are kept.

A small join has its bits in its own row; a larger one in rows of `join_part`, and in its own row only how many of its
members ended in which way. Everything is read and written for many joins at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, NamedTuple

from ramify.model.arrivals import Arrival, Arrivals, Bits, Slot, Standing, created, dues, settle, skipped_as
from ramify.model.event import Status
from ramify.model.join import SMALL, Ends, NewJoins, NewWaiters
from ramify.model.links import Needs, check_links, older_tasks
from ramify.model.run import StoredRun
from ramify.model.segment import SegmentState, bounds, full, is_unbroken, mask_of, trim, unpack
from ramify.model.task import NewTasks
from ramify.store.sqlite import bulk, log, rows
from ramify.store.sqlite.db import Db

#: `size` is that of the bits in the row itself, and NULL where they are in parts.
JOINS_AT = (
    "SELECT id, run, rule, brings, needs, parts, filled, instance, fired, size, arrived, failed, skipped, cancelled"
    " FROM carray(?) AS wanted CROSS JOIN joins ON joins.id = wanted.value"
)
INSERT_JOIN = "INSERT INTO joins VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
#: The size of each is one byte of a column, as a character.
INSERT_SMALL = (
    "INSERT INTO joins SELECT value, ?2, ?3, ?4, size, 1, 0, 1, 0, size, 0, 0, 0, 0 FROM"
    " (SELECT value, unicode(substr(?5, rowid, 1)) AS size FROM carray(?1))"
)
UPDATE_JOIN = (
    "UPDATE joins SET filled = ?, instance = ?, fired = ?, size = ?, arrived = ?, failed = ?, skipped = ?,"
    " cancelled = ? WHERE id = ?"
)
SETTLE = "UPDATE joins SET filled = ?, fired = ?, arrived = ?"
#: Members that are done arrive at small joins in one statement. What it cannot settle it names: `others`.
IS_OTHER = "size IS NULL"
IS_FULL = f"NOT {IS_OTHER} AND joins.arrived | slots = (1 << size) - 1"
ARRIVE = (
    "WITH here (id, slots) AS MATERIALIZED (SELECT id, sum(DISTINCT 1 << slot) FROM {tasks} GROUP BY id)"
    f" UPDATE joins SET arrived = iif({IS_OTHER}, arrived, arrived | slots),"
    f" filled = iif({IS_OTHER}, filled, {IS_FULL}), fired = {IS_FULL}"
    f" FROM here WHERE joins.id = here.id AND NOT fired RETURNING id, fired, {IS_OTHER}"
)
PART = "SELECT size, arrived, failed, skipped, cancelled FROM join_part WHERE id = ? AND number = ?"
WRITE_PART = "INSERT OR REPLACE INTO join_part VALUES (?,?,?,?,?,?,?)"
NEEDS_AT = "SELECT id, needs FROM carray(?) AS wanted CROSS JOIN joins ON id = wanted.value"
RANGE = "waiter WHERE task BETWEEN ? AND ?"
LISTED = "carray(?) AS ended CROSS JOIN waiter ON task = ended.value"
WAITERS_OF_RANGE = f"SELECT task, id, slot FROM {RANGE}"
SLOTS_OF_RANGE = f"SELECT id, slot FROM {RANGE}"
WAITERS_OF = f"SELECT task, id, slot FROM {LISTED}"
INSERT_WAITER = "INSERT OR IGNORE INTO waiter VALUES (?,?,?)"
INSERT_WAITERS = f"INSERT OR IGNORE INTO waiter SELECT {bulk.CUT}, value, {bulk.cut(2)} FROM carray(?3)"
#: Fewer rows than this are written one by one: a statement for all of them at once pays only for more.
FEW = 8
#: A range is read whole when at least this share of it is wanted.
DENSE = 0.25
NOBODY = Bits(0)


def check(db: Db, groups: Sequence[NewTasks], new_joins: Sequence[NewJoins], waiters: Sequence[NewWaiters]) -> None:
    """Refuse links that do not fit."""

    def stored(joins: Collection[int]) -> Needs:
        return dict(db.execute(NEEDS_AT, (rows.ids(sorted(joins)),)).fetchall()) if joins else {}

    def missing(tasks: Collection[int]) -> Collection[int]:
        return [task for task in tasks if rows.kept_span(db, task) is None]

    check_links(groups, new_joins, waiters, stored=stored, missing=missing)


# rows


def create(db: Db, run: int, joins: Iterable[NewJoins], round: int) -> dict[int, tuple[int, int]]:
    """Write join rows; those that wait for nobody, with the run and round they were made in."""
    empty: dict[int, tuple[int, int]] = {}
    for new in joins:
        # All alike and without parts, as in most graphs: they need not be made first.
        if new.needs and 0 < min(new.needs) <= max(new.needs) <= SMALL:
            db.execute(INSERT_SMALL, (rows.ids(new.ids), run, new.rule, new.brings, bytes(new.needs)))
            continue
        for join in created(run, new):
            db.execute(INSERT_JOIN, _columns(join))
            if not join.needs:
                empty[join.id] = (run, round)
            if not _is_small(join):
                _write_parts(db, join)
    return empty


def _is_small(join: Standing) -> bool:
    return join.needs <= SMALL


def _columns(join: Standing) -> tuple[object, ...]:
    return (join.id, join.run, join.rule, join.brings, join.needs, join.total, *_changing(join))


def _changing(join: Standing) -> tuple[object, ...]:
    """Return what changes: of a small join its bits, of a large one how many of its members ended in which way."""
    state = (join.full, join.instance, join.fired)
    if not _is_small(join):
        ends = join.ends
        return (*state, None, ends.all, ends.failed, ends.skipped, ends.cancelled)
    bits = join.parts.get(0) or NOBODY
    return (*state, bits.size, bits.arrived, bits.failed, bits.skipped, bits.cancelled)


def _write_parts(db: Db, join: Standing) -> None:
    db.executemany(
        WRITE_PART,
        (
            (join.id, number, b.size, _blob(b.arrived), _blob(b.failed), _blob(b.skipped), _blob(b.cancelled))
            for number, b in join.parts.items()
        ),
    )


def _blob(mask: int) -> bytes:
    return mask.to_bytes((mask.bit_length() + 7) // 8 or 1, "little")


def load(db: Db, wanted: Mapping[int, Collection[int]]) -> dict[int, Standing]:
    """Joins by id, with the parts that are named; those that do not exist are left out."""
    found: dict[int, Standing] = {}
    for row in db.execute(JOINS_AT, (rows.ids(sorted(wanted)),)).fetchall() if wanted else ():
        join = found[row[0]] = Standing(*row[:9])
        if row[9] is None:
            join.parts = dict(_parts(db, join.id, wanted[join.id]))
            join.elsewhere = ends_of(row[9:]) - sum((bits.ends for bits in join.parts.values()), Ends())
        elif row[9]:
            # `size` is 0 for a join that waits for nobody, and has no part.
            join.parts = {0: Bits(*row[9:])}
    return found


def _parts(db: Db, join: int, numbers: Collection[int]) -> Iterator[tuple[int, Bits]]:
    for number in numbers:
        row = db.execute(PART, (join, number)).fetchone()
        if row is not None:
            yield number, Bits(row[0], *(unpack(mask) or 0 for mask in row[1:]))


def save(db: Db, changed: Sequence[Standing]) -> None:
    """Write joins back, and those of their parts that were loaded."""
    db.executemany(UPDATE_JOIN, ((*_changing(join), join.id) for join in changed))
    for join in changed:
        if not _is_small(join):
            _write_parts(db, join)


def _save_settled(db: Db, changed: Sequence[Standing]) -> None:
    """Write joins back after arrivals. Most have few slots, all of whose members are done, so that many look alike."""
    alike: dict[tuple[int, bool, int], list[int]] = defaultdict(list)
    others: list[Standing] = []
    for join in changed:
        bits = join.parts.get(0)
        if bits is None or not _is_small(join) or bits.failed or bits.skipped or bits.cancelled:
            others.append(join)
        else:
            alike[join.full, join.fired, bits.arrived].append(join.id)
    few: list[tuple[int, bool, int, int]] = []
    for state, some in alike.items():
        if len(some) < FEW:
            few += ((*state, join) for join in some)
        else:
            db.execute(f"{SETTLE} FROM carray(?) AS settled WHERE id = settled.value", (*state, rows.ids(sorted(some))))
    db.executemany(f"{SETTLE} WHERE id = ?", few)
    save(db, others)


def ends_of(bits: Sequence[Any]) -> Ends:
    """How the members of a join ended, from `size, arrived, failed, skipped, cancelled` of its row."""
    size, arrived, failed, skipped, cancelled = bits
    if size is not None:
        arrived = arrived.bit_count()
        if not (failed or skipped or cancelled):
            return Ends(arrived)
        failed, skipped, cancelled = failed.bit_count(), skipped.bit_count(), cancelled.bit_count()
    return Ends(arrived - failed - skipped - cancelled, failed, skipped, cancelled)


def runs_of(db: Db, joins: Collection[int]) -> dict[int, int]:
    """The runs of those joins that exist."""
    statement = "SELECT id, run FROM carray(?) AS wanted CROSS JOIN joins ON id = wanted.value"
    return dict(db.execute(statement, (rows.ids(sorted(joins)),)).fetchall()) if joins else {}


# arrivals


def wait_for(db: Db, task: int, join: int, slot: int) -> list[Arrival]:
    """Make the end of `task` an arrival; if it has ended, that is the arrival now."""
    return wait(db, (), [NewWaiters.one(task, join, slot)], {})


def wait(db: Db, new: Iterable[NewTasks], waiters: Sequence[NewWaiters], became: Mapping[int, int]) -> list[Arrival]:
    """Make the ends of tasks arrivals; those of tasks that have ended, which `new` ones cannot have, are the answer."""
    if not waiters:
        return []
    older = older_tasks(new, waiters) | set(became.values())
    ended = arriving(db, {task: status for task in older if (status := log.ending(db, task)) is not None})
    arrivals: list[Arrival] = []
    for some in waiters:
        tasks = [became.get(task, task) for task in some.tasks] if became else some.tasks
        if len(tasks) < FEW:
            db.executemany(INSERT_WAITER, zip(tasks, some.joins, some.slots, strict=True))
        else:
            db.execute(INSERT_WAITERS, (bulk.fixed_width(tasks), bulk.fixed_width(some.slots), rows.ids(some.joins)))
        if ended:
            arrivals += (
                (join, slot, ended[task])
                for task, join, slot in zip(tasks, some.joins, some.slots, strict=True)
                if task in ended
            )
    return arrivals


def arriving(db: Db, ended: dict[int, Status]) -> dict[int, Status]:
    """How tasks arrive that ended like this."""
    if skipped := [task for task, status in ended.items() if status is Status.SKIPPED]:
        own = load(db, dict.fromkeys(skipped, ()))
        ended.update((task, skipped_as(own.get(task))) for task in skipped)
    return ended


def waiters_of(db: Db, tasks: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return who waits for these tasks: the task, the join and the slot of each."""
    if not tasks:
        return []
    first, last = bounds(tasks)
    found: list[tuple[int, int, int]]
    if len(tasks) >= DENSE * (last - first + 1):
        found = db.execute(WAITERS_OF_RANGE, (first, last)).fetchall()
        if found and len(tasks) <= last - first:
            chosen = set(tasks)
            found = [each for each in found if each[0] in chosen]
    else:
        found = db.execute(WAITERS_OF, (rows.ids(tasks),)).fetchall()
    return found


def memberships(db: Db, span: rows.SqliteSpan, tasks: Sequence[int]) -> list[tuple[int, int, int]]:
    """The join slots that the ends of tasks of one span fill: the task, the join and the slot of each."""
    own = [] if span.join is None else [(task, span.join, task + span.shift) for task in tasks]
    return own + waiters_of(db, tasks)


def slots_of(db: Db, span: rows.SqliteSpan, tasks: Sequence[int]) -> list[Slot]:
    """The join slots that the ends of tasks of one span fill."""
    if not tasks or not is_unbroken(tasks):
        return [(join, slot) for _, join, slot in memberships(db, span, tasks)]
    found: list[Slot] = db.execute(SLOTS_OF_RANGE, bounds(tasks)).fetchall()
    return found if span.join is None else [(span.join, task + span.shift) for task in tasks] + found


class DoneTasks(NamedTuple):
    """Tasks of one span that are done. What fires because of them goes to round `round` of `run`."""

    run: int
    round: int
    span: rows.SqliteSpan
    tasks: Sequence[int]


def arrive(
    db: Db,
    arrivals: Sequence[Arrivals],
    empty: Mapping[int, tuple[int, int]],
    now: int,
    done: Sequence[DoneTasks] = (),
    runs: Mapping[int, StoredRun] = {},
) -> None:
    """Settle arrivals, and publish the tasks of the joins that fired; `runs` are those that were read already."""
    arrivals = [some for some in arrivals if some.members or some.done]
    fired: dict[int, tuple[int, int]] = {}
    joins: Mapping[int, Standing] = {}
    # When nobody else arrives, it does not matter who is first.
    are_alone = not arrivals and not empty and all(some.span.join is None for some in done)
    for run, round, span, tasks in sorted(done, key=itemgetter(0, 1)):
        slots = _arrive_at_small(db, tasks, (run, round), fired) if are_alone else slots_of(db, span, tasks)
        if slots:
            arrivals.append(Arrivals(run, round, done=slots))
    if arrivals or empty:
        settled = settle(arrivals, empty, lambda wanted: load(db, wanted))
        _save_settled(db, settled.changed)
        fired.update(settled.fired)
        joins = settled.joins
    _publish(db, fired, joins, runs, now)


def _arrive_at_small(
    db: Db, tasks: Sequence[int], at: tuple[int, int], fired: dict[int, tuple[int, int]]
) -> list[Slot]:
    """Let tasks that are done arrive at small joins, and add those that fire. What is left are slots of other joins."""
    if fired:
        # The latest of those that arrive decides.
        fired.update((join, at) for _, join, _ in waiters_of(db, tasks) if join in fired)
    chosen, bound = (RANGE, bounds(tasks)) if is_unbroken(tasks) else (LISTED, (rows.ids(tasks),))
    # For most tasks nobody waits, and to ask that costs little.
    if db.execute(f"SELECT 1 FROM {chosen} LIMIT 1", bound).fetchone() is None:
        return []
    found = db.execute(ARRIVE.format(tasks=chosen), bound).fetchall()
    fired.update((join, at) for join, is_full, _ in found if is_full)
    others = {join for join, _, is_other in found if is_other}
    return [(join, slot) for _, join, slot in waiters_of(db, tasks) if join in others] if others else []


def _publish(
    db: Db,
    fired: Mapping[int, tuple[int, int]],
    joins: Mapping[int, Standing],
    runs: Mapping[int, StoredRun],
    now: int,
) -> None:
    """Offer tasks that waited. What lies in one row and was fired in one round is offered in one row."""
    #: By row and round; without a round, what another run fired waits for the next one of its own.
    alike: dict[tuple[int, int | None], list[int]] = {}
    found: dict[int, rows.SqliteSegment] = {}
    #: Those in which tasks further on may lie.
    near: list[rows.SqliteSegment] = []
    row: rows.SqliteSegment | None = None
    at: tuple[int, int] | None = None
    members: list[int] = []
    for task in sorted(fired):
        # Neighbours mostly lie in one row and fire in one round.
        if row is None or fired[task] != at or not row.covers(task):
            near = [known for known in near if known.last >= task]
            row = next((known for known in near if known.covers(task)), None) or rows.covering(db, task)
            at = run, round = fired[task]
            members = []
            if row is not None and row.state is SegmentState.WAITING:
                if row.id not in found:
                    found[row.id] = row
                    near.append(row)
                members = alike.setdefault((row.id, round if row.run == run else None), members)
        members.append(task)
    runs = {**runs, **rows.runs_at(db, {row.run for row in found.values()} - runs.keys())}
    offered = []
    for (number, fired_in), members in alike.items():
        row = found[number]
        its = runs[row.run]
        round = its.round + 1 if fired_in is None else fired_in
        take_out(db, row, members)
        state = rows.state_for(its, round)
        for due, some in dues(
            members, row.due, now, lambda join: joins.get(join) or load(db, {join: (0,)})[join]
        ).items():
            first, last, left = trim(row.first, mask_of(some, row.first))
            offered.append(replace(row, round=round, first=first, last=last, left=left, due=due, state=state))
    db.executemany(rows.INSERT_SEGMENT, (each.column_values() for each in offered))


def take_out(db: Db, row: rows.SqliteSegment, tasks: list[int]) -> None:
    """Clear the bits of `tasks`; the row goes when nothing is left of it."""
    left = full(row.last - row.first + 1) if row.left is None else row.left
    rows.set_left(db, row, left & ~mask_of(tasks, row.first))
