"""Joins in the PostgreSQL store: how the values that `model/arrivals.py` works on are kept.

As in the SQLite store a small join has its bits in its own row, and a larger one in rows of `join_part`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ramify.model.arrivals import Bits, Standing, created
from ramify.model.join import SMALL, Ends, NewJoins
from ramify.model.segment import bounds, is_unbroken, stretches, unpack
from ramify.store.changes import Waiters
from ramify.store.postgres.link import Transaction
from ramify.store.postgres.pipe import Asked

_COLUMNS = "id, run, rule, brings, needs, parts, filled, instance, fired, size, arrived, failed, skipped, cancelled"
JOINS_AT = f"SELECT {_COLUMNS} FROM @joins WHERE id = ANY($1::bigint[]) ORDER BY id"
PARTS = (
    "SELECT id, number, size, arrived, failed, skipped, cancelled FROM"
    " (SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS w(i, n)) w JOIN @join_part ON id = i AND number = n"
)
INSERT = (
    f"INSERT INTO @joins ({_COLUMNS}) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::bool[],"
    " $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bool[], $10::int[], $11::bigint[], $12::bigint[],"
    " $13::bigint[], $14::bigint[])"
)
UPDATE = (
    "UPDATE @joins SET filled = x.f, instance = x.i, fired = x.d, size = x.s, arrived = x.a, failed = x.e,"
    " skipped = x.k, cancelled = x.c FROM unnest($1::bigint[], $2::bigint[], $3::bool[], $4::int[], $5::bigint[],"
    " $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[]) AS x(f, i, d, s, a, e, k, c, id) WHERE joins.id = x.id"
)
WRITE_PARTS = (
    "INSERT INTO @join_part (id, number, size, arrived, failed, skipped, cancelled) SELECT * FROM unnest($1::bigint[],"
    " $2::int[], $3::int[], $4::bytea[], $5::bytea[], $6::bytea[], $7::bytea[]) ON CONFLICT (id, number) DO UPDATE SET"
    " size = excluded.size, arrived = excluded.arrived, failed = excluded.failed, skipped = excluded.skipped,"
    " cancelled = excluded.cancelled"
)
#: Ranges that lie side by side; of each who waits.
WAITERS_IN = (
    "SELECT w.task, w.id, w.slot FROM unnest($1::bigint[], $2::bigint[]) AS r(f, l)"
    " CROSS JOIN LATERAL (SELECT task, id, slot FROM @waiter WHERE task BETWEEN r.f AND r.l) w"
)
#: Of slots that are the own of tasks, each given as task, join, slot: who was named for it after the task.
HEIRS = (
    "SELECT g.t, waiter.task, waiter.id, slot FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS g(t, j, s)"
    " JOIN @waiter ON waiter.id = g.j AND slot = g.s AND waiter.task > g.t"
)
#: Whoever comes behind one of these tasks has their rows until the end, and so is alone with what is last in them.
LOCK_BEHIND = (
    "INSERT INTO @behind (task, last) SELECT t, t FROM unnest($1::bigint[]) AS x(t) ORDER BY t"
    " ON CONFLICT (task) DO UPDATE SET last = behind.last"
)
#: The last task behind each of some. Those of a run that was forgotten are nobody's concern.
LAST_BEHIND = (
    "SELECT task, last FROM @behind JOIN @joins j ON j.id = last JOIN @run r ON r.id = j.run"
    " WHERE task = ANY($1::bigint[]) AND r.state <> 'forgotten'"
)
PUT_BEHIND = "UPDATE @behind SET last = x.l FROM unnest($1::bigint[], $2::bigint[]) AS x(t, l) WHERE task = x.t"
INSERT_WAITERS = (
    "INSERT INTO @waiter (task, id, slot) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[])"
    " ON CONFLICT DO NOTHING"
)
#: A range is read whole when at least this share of it is wanted.
DENSE = 0.25
NOBODY = Bits(0)


def create(db: Transaction, run: int, new: NewJoins) -> None:
    """Write new joins of a run."""
    made = list(created(run, new))
    head = [(join.id, join.run, join.rule, join.brings, join.needs, join.total, *_changing(join)) for join in made]
    if head:
        db.later(INSERT, *map(list, zip(*head, strict=True)))
    _write_parts(db, made)


def _is_small(join: Standing) -> bool:
    return join.needs <= SMALL


def _changing(join: Standing) -> tuple[Any, ...]:
    """Return what changes: of a small join its bits, of a large one how many of its members ended in which way."""
    state = (join.full, join.instance, join.fired)
    if not _is_small(join):
        ends = join.ends
        return (*state, None, ends.all, ends.failed, ends.skipped, ends.cancelled)
    bits = join.parts.get(0) or NOBODY
    return (*state, bits.size, bits.arrived, bits.failed, bits.skipped, bits.cancelled)


def _write_parts(db: Transaction, joins: Iterable[Standing]) -> None:
    parts = [
        (join.id, number, b.size, _blob(b.arrived), _blob(b.failed), _blob(b.skipped), _blob(b.cancelled))
        for join in joins
        if not _is_small(join)
        for number, b in join.parts.items()
    ]
    if parts:
        db.later(WRITE_PARTS, *map(list, zip(*sorted(parts), strict=True)))


def _blob(mask: int) -> bytes:
    return mask.to_bytes((mask.bit_length() + 7) // 8 or 1, "little")


def asked(wanted: Mapping[int, Collection[int]], *, lock: bool) -> list[Asked]:
    """Return what finds joins, with the parts that are named."""
    parts = [(join, number) for join, numbers in sorted(wanted.items()) for number in sorted(numbers)]
    ids, numbers = ([list(column) for column in zip(*parts, strict=True)]) if parts else ([], [])
    joins = f"{JOINS_AT} FOR NO KEY UPDATE" if lock else JOINS_AT
    return [(joins, (sorted(wanted),)), (PARTS, (ids, numbers))]


def read(found: Iterable[tuple[Any, ...]], parts: Iterable[tuple[Any, ...]]) -> dict[int, Standing]:
    """Joins by id, from what was found."""
    of: dict[int, dict[int, Bits]] = defaultdict(dict)
    for join, number, size, *masks in parts:
        of[join][number] = Bits(size, *(unpack(mask) or 0 for mask in masks))
    joins: dict[int, Standing] = {}
    for row in found:
        join = joins[row[0]] = Standing(*row[:9])
        if row[9] is None:
            join.parts = of[join.id]
            join.elsewhere = ends_of(row[9:]) - sum((bits.ends for bits in join.parts.values()), Ends())
        elif row[9]:
            # `size` is 0 for a join that waits for nobody, and has no part.
            join.parts = {0: Bits(*row[9:])}
    return joins


def save(db: Transaction, changed: Iterable[Standing]) -> None:
    """Write joins back, and those of their parts that were loaded."""
    some = sorted(changed, key=lambda join: join.id)
    if some:
        db.later(UPDATE, *map(list, zip(*((*_changing(join), join.id) for join in some), strict=True)))
        _write_parts(db, some)


def ends_of(bits: Sequence[Any]) -> Ends:
    """How the members of a join ended, from `size, arrived, failed, skipped, cancelled` of its row."""
    size, arrived, failed, skipped, cancelled = bits
    if size is not None:
        arrived, failed, skipped, cancelled = (each.bit_count() for each in (arrived, failed, skipped, cancelled))
    return Ends(arrived - failed - skipped - cancelled, failed, skipped, cancelled)


def write_waiters(db: Transaction, waiters: Sequence[Waiters]) -> None:
    """Make the ends of tasks arrivals."""
    for tasks, joins, slots in waiters:
        if len(tasks):
            db.later(INSERT_WAITERS, tasks, joins, slots)


def last_behind(db: Transaction, tasks: Collection[int]) -> dict[int, int]:
    """The last task behind each of these."""
    wanted = sorted(tasks)
    db.later(LOCK_BEHIND, wanted)
    return dict(db.ask(LAST_BEHIND, wanted))


def waiters_asked(ended: Iterable[Sequence[int]]) -> Asked:
    """Return what finds who waits for tasks, and perhaps for some beside them."""
    ranges = [each for tasks in ended if tasks for each in _ranges(tasks)]
    return WAITERS_IN, ([first for first, _ in ranges], [last for _, last in ranges])


def _ranges(tasks: Sequence[int]) -> Iterable[tuple[int, int]]:
    first, last = bounds(tasks)
    if is_unbroken(tasks) or len(tasks) >= DENSE * (last - first + 1):
        return [(first, last)]
    return [(stretch[0], stretch[-1]) for stretch in stretches(sorted(tasks))]


def waiters_of(db: Transaction, tasks: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return who waits for these tasks: the task, the join and the slot of each."""
    if not tasks:
        return []
    text, values = waiters_asked([tasks])
    found = db.ask(text, *values)
    return found if is_unbroken(tasks) else among(found, [tasks])  # type: ignore[return-value]


def among(found: Iterable[tuple[Any, ...]], ended: Iterable[Sequence[int]]) -> list[tuple[int, int, int]]:
    chosen = {task for tasks in ended for task in tasks} if found else set()
    return [(task, join, slot) for task, join, slot in found if task in chosen]
