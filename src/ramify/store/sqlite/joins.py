"""Joins in the SQLite store: how the values that `model/arrivals.py` works on are kept.

A small join has its bits in its own row; a larger one in rows of `join_part`, and in its own row only how many of its
members ended in which way. Everything is read and written for many joins at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ramify.model.arrivals import Bits, Standing, created
from ramify.model.join import SMALL, Ends, NewJoins
from ramify.model.segment import bounds, unpack
from ramify.store.changes import Waiters
from ramify.store.sqlite import bulk, rows
from ramify.store.sqlite.file.db import Db

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
#: At which slots of joins that have not fired members arrive that are done; without a size where a join is large.
SLOTS = (
    "SELECT joins.id, slots, arrived, size FROM (SELECT id, sum(DISTINCT 1 << slot) AS slots FROM {tasks} GROUP BY id)"
    " AS here CROSS JOIN joins ON joins.id = here.id WHERE NOT fired"
)
PART = "SELECT size, arrived, failed, skipped, cancelled FROM join_part WHERE id = ? AND number = ?"
WRITE_PART = "INSERT OR REPLACE INTO join_part VALUES (?,?,?,?,?,?,?)"
NEEDS_AT = "SELECT id, needs FROM carray(?) AS wanted CROSS JOIN joins ON id = wanted.value"
RANGE = "waiter WHERE task BETWEEN ? AND ?"
LISTED = "carray(?) AS ended CROSS JOIN waiter ON task = ended.value"
WAITERS_OF_RANGE = f"SELECT task, id, slot FROM {RANGE}"
WAITERS_OF = f"SELECT task, id, slot FROM {LISTED}"
#: Of slots that are the own of tasks, each given as `[task, join, slot]`: who was named for it after the task.
HEIRS = (
    "SELECT given.value ->> 0, waiter.task, waiter.id, slot FROM json_each(?) AS given"
    " CROSS JOIN waiter INDEXED BY waiter_join"
    " ON waiter.id = given.value ->> 1 AND slot = given.value ->> 2 AND waiter.task > given.value ->> 0"
)
#: The last task behind each of some. Those of a run that was forgotten are nobody's concern.
LAST_BEHIND = (
    "SELECT task, last FROM carray(?) AS wanted CROSS JOIN behind ON task = wanted.value"
    " CROSS JOIN joins ON joins.id = last WHERE (SELECT state FROM run WHERE id = joins.run) <> 'forgotten'"
)
PUT_BEHIND = "INSERT INTO behind VALUES (?,?) ON CONFLICT (task) DO UPDATE SET last = excluded.last"
INSERT_WAITER = "INSERT OR IGNORE INTO waiter VALUES (?,?,?)"
INSERT_WAITERS = f"INSERT OR IGNORE INTO waiter SELECT {bulk.CUT}, value, {bulk.cut(2)} FROM carray(?3)"
#: Fewer rows than this are written one by one: a statement for all of them at once pays only for more.
FEW = 8
#: A range is read whole when at least this share of it is wanted.
DENSE = 0.25
NOBODY = Bits(0)


def create(db: Db, run: int, new: NewJoins) -> None:
    """Write new joins of a run."""
    # All alike and without parts, as in most graphs: they need not be made first.
    if new.needs and 0 < min(new.needs) <= max(new.needs) <= SMALL:
        db.execute(INSERT_SMALL, (rows.ids(new.ids), run, new.rule, new.brings, bytes(new.needs)))
        return
    for join in created(run, new):
        db.execute(INSERT_JOIN, _columns(join))
        if not _is_small(join):
            _write_parts(db, join)


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


def save_settled(db: Db, changed: Sequence[Standing]) -> None:
    """Write joins back after arrivals. Most have few slots, all of whose members are done, so that many look alike."""
    alike: dict[tuple[int, bool, int], list[int]] = defaultdict(list)
    others: list[Standing] = []
    for join in changed:
        bits = join.parts.get(0)
        if bits is None or not _is_small(join) or bits.failed or bits.skipped or bits.cancelled:
            others.append(join)
        else:
            alike[join.full, join.fired, bits.arrived].append(join.id)
    _save_alike(db, alike)
    save(db, others)


def save_small(db: Db, settled: Sequence[tuple[int, int, bool]]) -> None:
    """Write back small joins, all of whose members are done: who has arrived, and whether they fired."""
    alike: dict[tuple[int, bool, int], list[int]] = defaultdict(list)
    for join, arrived, fired in settled:
        alike[int(fired), fired, arrived].append(join)
    _save_alike(db, alike)


def _save_alike(db: Db, alike: Mapping[tuple[int, bool, int], Sequence[int]]) -> None:
    few: list[tuple[int, bool, int, int]] = []
    for state, some in alike.items():
        if len(some) < FEW:
            few += ((*state, join) for join in some)
        else:
            db.execute(f"{SETTLE} FROM carray(?) AS settled WHERE id = settled.value", (*state, rows.ids(sorted(some))))
    db.executemany(f"{SETTLE} WHERE id = ?", few)


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


def write_waiters(db: Db, waiters: Sequence[Waiters]) -> None:
    """Make the ends of tasks arrivals."""
    for tasks, joins, slots in waiters:
        if len(tasks) < FEW:
            db.executemany(INSERT_WAITER, zip(tasks, joins, slots, strict=True))
        else:
            db.execute(INSERT_WAITERS, (bulk.fixed_width(tasks), bulk.fixed_width(slots), rows.ids(joins)))


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


def last_behind(db: Db, tasks: Collection[int]) -> dict[int, int]:
    """The last task behind each of these."""
    return dict(db.execute(LAST_BEHIND, (rows.ids(sorted(tasks)),)).fetchall())


def heirs(db: Db, slots: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int, int]]:
    """The tasks that were named for the slots of others after these, which come as task, join and slot."""
    return db.execute(HEIRS, (msgspec.json.encode(slots).decode(),)).fetchall() if slots else []
