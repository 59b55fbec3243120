"""Keys in the PostgreSQL store: who holds them, and giving a staged range its own.

Nobody takes a key that another holds: both tables have each digest once, so of two who add it at the same time one is
refused, and its verb is done once more with what is there then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ramify.model.key import AFTER_ALL, Hold, digest, digests, end_of, scope
from ramify.model.segment import MASK_WIDTH
from ramify.store.postgres import log
from ramify.store.postgres.link import Transaction
from ramify.store.rows import SpanRow

_GIVEN = "FROM unnest($1::bytea[]) AS g(name)"
#: Who holds the offered digests at a time; keys of a run that was forgotten are free.
HELD = (
    f"SELECT name, k.task {_GIVEN} JOIN @key k ON digest = name AND (expires IS NULL OR expires > $2::bigint)"
    " WHERE (SELECT state FROM @run WHERE id ="
    " (SELECT run FROM @span WHERE first <= k.task ORDER BY first DESC LIMIT 1))"
    " IS DISTINCT FROM 'forgotten'"
)
HELD_ONCE = f"SELECT name, task {_GIVEN} JOIN @once ON digest = name"
ONCE_NAMED = "SELECT task FROM @once WHERE digest = $1::bytea"
NAMED = f"SELECT task FROM @label WHERE digest = $1::bytea AND {log.NOT_REPLACED} ORDER BY task LIMIT $2::bigint"
ADD_ONCE = "INSERT INTO @once (digest, task) SELECT * FROM unnest($1::bytea[], $2::bigint[])"
#: A key that is there may be taken if its time runs, or if its run was forgotten; if one may not be taken after all,
#: none is, and the verb is done once more.
ADD = (
    "WITH added AS (INSERT INTO @key (digest, task, expires) SELECT d, t, NULL FROM unnest($1::bytea[], $2::bigint[])"
    " AS x(d, t) ON CONFLICT (digest) DO UPDATE SET task = excluded.task, expires = NULL"
    " WHERE key.expires IS NOT NULL OR key.task = excluded.task OR (SELECT state FROM @run WHERE id ="
    " (SELECT run FROM @span WHERE first <= key.task ORDER BY first DESC LIMIT 1)) IS NOT DISTINCT FROM 'forgotten'"
    " RETURNING 1) SELECT 1 / (count(*) = cardinality($1::bytea[]))::int FROM added"
)
ADD_LABELS = "INSERT INTO @label (digest, task) SELECT * FROM unnest($1::bytea[], $2::bigint[]) ON CONFLICT DO NOTHING"
FREE = "DELETE FROM @key USING unnest($1::bytea[], $2::bigint[]) AS x(d, t) WHERE digest = x.d AND key.task = x.t"
KEEP = (
    "UPDATE @key SET expires = x.e FROM unnest($1::bigint[], $2::bytea[], $3::bigint[]) AS x(e, d, t)"
    " WHERE digest = x.d AND key.task = x.t"
)
FORGET = "DELETE FROM @{} WHERE digest = ANY($1::bytea[]) AND task BETWEEN $2::bigint AND $3::bigint"
FORGET_RUN = (
    "DELETE FROM @{0} WHERE ctid = ANY(ARRAY(SELECT ctid FROM @{0}"
    " WHERE digest >= $1::bytea AND digest < $2::bytea ORDER BY digest LIMIT $3::bigint))"
)
KEYS_OF_RANGE = "SELECT id, key FROM @task WHERE id BETWEEN $1::bigint AND $2::bigint AND key IS NOT NULL ORDER BY id"
KEYS_OF = "SELECT id, key FROM @task WHERE id = ANY($1::bigint[]) AND key IS NOT NULL"


def find(db: Transaction, hold: Hold, names: Sequence[bytes], at: int) -> dict[bytes, int]:
    """The tasks that hold these digests at a time."""
    if not names:
        return {}
    found = db.ask(HELD_ONCE, names) if hold is Hold.ONCE else db.ask(HELD, names, at)
    return dict(found)


def holder(db: Transaction, kind: str, key: bytes) -> int | None:
    """The unfinished task of a kind that holds a key until it ends."""
    name = digest(Hold.UNIQUE, 0, kind, key)
    return find(db, Hold.UNIQUE, [name], AFTER_ALL).get(name)


def named(db: Transaction, run: int, kind: str, key: bytes, limit: int) -> list[int]:
    """The first tasks of a run and kind with a key."""
    asked = [(ONCE_NAMED, (digest(Hold.ONCE, run, kind, key),)), (NAMED, (digest(Hold.LABEL, run, kind, key), limit))]
    return sorted({task for found in db.trip(asked) for (task,) in found})[:limit]


def take_staged(db: Transaction, span: SpanRow, now: int) -> dict[int, int]:
    """Give the tasks of a staged range their keys, page by page; those that lost theirs, with who holds it."""
    lost: dict[int, int] = {}
    for first in range(span.first, span.last + 1, MASK_WIDTH):
        found = db.ask(KEYS_OF_RANGE, first, min(span.last, first + MASK_WIDTH - 1))
        gone = {} if span.hold is Hold.LABEL else _take(db, span, [(task, key) for task, key in found], now)
        if span.hold is not Hold.ONCE:
            kept = [(task, key) for task, key in found if task not in gone]
            names = digests(Hold.LABEL, span.run, span.kind, (key for _, key in kept))
            add(db, ADD_LABELS, zip(names, (task for task, _ in kept), strict=True))
        lost |= gone
    return lost


def _take(db: Transaction, span: SpanRow, found: Sequence[tuple[int, bytes]], now: int) -> dict[int, int]:
    named = zip(digests(span.hold, span.run, span.kind, (key for _, key in found)), found, strict=True)
    offered = sorted((name, task) for name, (task, _) in named)
    held = find(db, span.hold, [name for name, _ in offered], now)
    taken: dict[bytes, int] = {}
    lost: dict[int, int] = {}
    for name, task in offered:
        if (other := held.get(name, taken.get(name))) is None:
            taken[name] = task
        else:
            lost[task] = other
    add(db, ADD_ONCE if span.hold is Hold.ONCE else ADD, taken.items())
    return dict(sorted(lost.items()))


def add(db: Transaction, statement: str, pairs: Iterable[tuple[bytes, int]]) -> None:
    some = sorted(pairs)
    if some:
        db.later(statement, *map(list, zip(*some, strict=True)))


def free(db: Transaction, span: SpanRow, first: int, last: int) -> None:
    """Free the keys of neighbouring tasks of a span, also those that are held for ever. They stay labels."""
    if span.keyed and span.hold is not Hold.LABEL:
        _remove(db, span, first, last, ("once" if span.hold is Hold.ONCE else "key",))


def forget(db: Transaction, span: SpanRow, first: int, last: int, *, also_in_run: bool) -> None:
    """Free the keys of neighbouring tasks of a span; also those that count only in their run, or just the others."""
    in_run = {Hold.LABEL: ("label",), Hold.ONCE: ("once",)}.get(span.hold, ("label", "key"))
    tables = in_run if also_in_run else tuple(table for table in in_run if table == "key")
    if span.keyed and tables:
        _remove(db, span, first, last, tables)


def _remove(db: Transaction, span: SpanRow, first: int, last: int, tables: Sequence[str]) -> None:
    for low in range(first, last + 1, MASK_WIDTH):
        high = min(last, low + MASK_WIDTH - 1)
        keys = [key for _, key in db.ask(KEYS_OF_RANGE, low, high)]
        for table in tables if keys else ():
            hold = Hold.LABEL if table == "label" else span.hold
            # One that lost its key has the same digest as the one that holds it.
            db.later(FORGET.format(table), digests(hold, span.run, span.kind, keys), low, high)


def forget_run(db: Transaction, run: int, limit: int | None) -> None:
    """Remove so many of the keys that count only in a run, and so many labels, each by one range; None: all."""
    begin = scope(Hold.ONCE, run)
    for table in ("once", "label"):
        db.later(FORGET_RUN.format(table), begin, end_of(begin), limit)


def of_tasks(db: Transaction, span: SpanRow, tasks: Sequence[int], now: int) -> list[int]:
    """Return those of neighbouring tasks of a span whose key keeps others from their name now."""
    if not span.keyed or span.hold is Hold.LABEL or not tasks:
        return []
    found = db.ask(KEYS_OF_RANGE, tasks[0], tasks[-1])
    names = dict(
        zip((task for task, _ in found), digests(span.hold, span.run, span.kind, (k for _, k in found)), strict=True)
    )
    held = find(db, span.hold, sorted(names.values()), now)
    return [task for task in tasks if task in names and held.get(names[task]) == task]
