"""Keys in the SQLite store: taking, holding, releasing.

Digests are looked up in bulk and written in their own order, so that a batch visits each page of a table once. Keys
that are held for ever have tables of their own, see `once.py`; those that are released or expire are in `key`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, compress, filterfalse, repeat
from operator import and_, is_, ne
from typing import TypeVar

import apsw

from ramify.model.event import Status
from ramify.model.key import Hold, digests, end_of, kept_until, looked_at, scope
from ramify.model.segment import MASK_WIDTH
from ramify.store.sqlite import bulk, once, rows
from ramify.store.sqlite.db import Db
from ramify.store.sqlite.rows import SqliteSpan

T = TypeVar("T")

#: Who holds the offered digest `value` now.
HELD = (
    "SELECT task FROM key WHERE digest = value AND (expires IS NULL OR expires > ?2) AND (SELECT state FROM run WHERE"
    " id = (SELECT run FROM span WHERE first <= key.task ORDER BY first DESC LIMIT 1)) IS NOT 'forgotten'"
)
FORGET = "DELETE FROM {} WHERE digest IN (SELECT value FROM carray(?)) AND task BETWEEN ? AND ?"
FORGET_RUN = (
    "DELETE FROM {0} WHERE digest IN (SELECT digest FROM {0} WHERE digest >= ? AND digest < ? ORDER BY digest LIMIT ?)"
)
KEYS_OF_RANGE = "SELECT id, key FROM task WHERE id BETWEEN ? AND ? AND key IS NOT NULL"
KEYS_OF = "SELECT id, key FROM carray(?) AS ended CROSS JOIN task ON task.id = ended.value WHERE key IS NOT NULL"
FREE = "DELETE FROM key WHERE digest = ? AND task = ?"
EXPIRE = "UPDATE key SET expires = ? WHERE digest = ? AND task = ?"


class Offer:
    """Keys of one group on offer. A position is kept unless its key is held, or an earlier position has the same.

    Everything goes by positions in the order of the digests: equal ones are neighbours there, the earlier one first.
    """

    def __init__(
        self, db: Db, span: SqliteSpan, keys: Sequence[bytes | None], now: int, *, again: bool = False
    ) -> None:
        self._db, self._span, self._keys = db, span, keys
        self.kept: Sequence[int] = range(len(keys))
        self._order: Sequence[int] = ()
        self._held: Sequence[int | None] = ()
        if span.hold is Hold.LABEL:
            return
        self._names = names = self._digests(span.hold)
        self._order = order = _in_order(names)
        ordered = _chosen(names, order)
        self._held = find(db, span.hold, ordered, looked_at(now, again=again))
        # Of equal ones, which are neighbours, the first.
        first = map(ne, ordered, chain((b"",), ordered))
        self._free = list(compress(order, map(and_, first, map(is_, self._held, repeat(None)))))
        if len(self._free) < len(order):
            lost = set(order).difference(self._free)
            self.kept = list(filterfalse(lost.__contains__, range(len(keys))))

    def _digests(self, hold: Hold) -> Sequence[bytes]:
        """The digest of each position, b"" without a key."""
        given = [key for key in self._keys if key is not None]
        found = digests(hold, self._span.run, self._span.kind, given)
        if len(given) == len(self._keys):
            return found
        each = iter(found)
        return [b"" if key is None else next(each) for key in self._keys]

    def lost(self, placed: Mapping[int, int]) -> dict[int, int]:
        """The positions that were not kept, with the task that holds their key; `placed` are the tasks of the kept."""
        lost: dict[int, int] = {}
        holder = 0
        for i, held in zip(self._order, self._held, strict=True):
            if i in placed:
                holder = placed[i]
            else:
                lost[i] = holder = holder if held is None else held
        return dict(sorted(lost.items()))

    def take(self, tasks: Sequence[int]) -> None:
        """Give the keys of the kept positions to their tasks, in parallel, and make the tasks findable."""
        hold, db = self._span.hold, self._db
        task_of = dict(zip(self.kept, tasks, strict=True))
        if hold is not Hold.LABEL:
            taken, theirs = _chosen(self._names, self._free), _chosen(task_of, self._free)
            if hold is Hold.ONCE:
                once.add(db, taken, theirs)
                return
            db.executemany("INSERT OR REPLACE INTO key VALUES (?, ?, NULL)", zip(taken, theirs, strict=True))
        labels = self._digests(Hold.LABEL)
        named = ((labels[i], task_of[i]) for i in _in_order(labels) if i in task_of)
        db.executemany("INSERT OR IGNORE INTO label VALUES (?, ?)", named)


def _in_order(names: Sequence[bytes]) -> list[int]:
    """The positions that have a digest, in the order of the digests."""
    return sorted(filter(names.__getitem__, range(len(names))), key=names.__getitem__)


def _chosen(column: Mapping[int, T] | Sequence[T], positions: Sequence[int]) -> list[T]:
    """Return what a column has at these positions."""
    return list(map(column.__getitem__, positions))


def holders(db: Db, hold: Hold, run: int, kind: str, keys: Iterable[bytes | None], now: int) -> dict[bytes, int]:
    """Which of these keys are held now, and by whom."""
    given = [key for key in keys if key is not None]
    key_of = dict(zip(digests(hold, run, kind, given), given, strict=True))
    names = sorted(key_of)
    found = zip(names, find(db, hold, names, now), strict=True)
    return {key_of[name]: task for name, task in found if task is not None}


def find(db: Db, hold: Hold, names: Sequence[bytes], now: int) -> Sequence[int | None]:
    """The task that holds each of these digests now; they come in their order."""
    return once.find(db, names) if hold is Hold.ONCE else bulk.look_up(db, HELD, names, now)


def release(db: Db, span: SqliteSpan, ended: Iterable[tuple[int, Status]], now: int) -> None:
    """Free the keys of tasks that ended, or let them expire, as their hold says."""
    if not span.keyed or span.hold in (Hold.LABEL, Hold.ONCE):
        return
    if not (status_of := dict(ended)):
        return
    found = db.execute(KEYS_OF, (rows.ids(sorted(status_of)),)).fetchall()
    names = digests(span.hold, span.run, span.kind, (key for _, key in found))
    until = [kept_until(span.keep, status_of[task], now) for task, _ in found]
    theirs = sorted((name, task, end) for name, (task, _), end in zip(names, found, until, strict=True))
    db.executemany(FREE, ((name, task) for name, task, end in theirs if end == now))
    db.executemany(EXPIRE, ((end, name, task) for name, task, end in theirs if end != now))


def taken_by(db: Db, span: SqliteSpan, tasks: Sequence[int], now: int) -> dict[int, int]:
    """Return those of some tasks of a span whose key another task holds now, with that one."""
    if not span.keyed or span.hold is Hold.LABEL:
        return {}
    found = db.execute(KEYS_OF, (rows.ids(tasks),)).fetchall()
    held = holders(db, span.hold, span.run, span.kind, (key for _, key in found), now)
    return {task: held[key] for task, key in found if held.get(key, task) != task}


def retake(db: Db, span: SqliteSpan, tasks: Sequence[int]) -> None:
    """Take the keys again for reopened tasks of a span."""
    if span.keyed and span.hold not in (Hold.LABEL, Hold.ONCE):
        found = db.execute(KEYS_OF, (rows.ids(tasks),)).fetchall()
        names = digests(span.hold, span.run, span.kind, (key for _, key in found))
        theirs = sorted(zip(names, (task for task, _ in found), strict=True))
        db.executemany("INSERT OR REPLACE INTO key VALUES (?, ?, NULL)", theirs)


def free(db: Db, span: SqliteSpan, first: int, last: int) -> None:
    """Free the keys of neighbouring tasks of a span, also those that are held for ever. They stay labels."""
    if span.keyed and span.hold is not Hold.LABEL:
        for low in range(first, last + 1, MASK_WIDTH):
            _remove(db, span, low, min(last, low + MASK_WIDTH - 1), once.TABLES if span.hold is Hold.ONCE else ("key",))


def forget(db: Db, span: SqliteSpan, first: int, last: int, *, also_in_run: bool) -> None:
    """Free the keys of neighbouring tasks of a span; also those that count only in their run, or just the others."""
    in_run = {Hold.LABEL: ("label",), Hold.ONCE: once.TABLES}.get(span.hold, ("label", "key"))
    tables = in_run if also_in_run else tuple(table for table in in_run if table == "key")
    if span.keyed and tables:
        _remove(db, span, first, last, tables)


def _remove(db: Db, span: SqliteSpan, first: int, last: int, tables: Sequence[str]) -> None:
    keys = [key for _, key in db.execute(KEYS_OF_RANGE, (first, last)).fetchall()]
    if not keys:
        return
    for table in tables:
        hold = Hold.LABEL if table == "label" else span.hold
        names = apsw.carray(tuple(digests(hold, span.run, span.kind, keys)))
        # One that lost its key has the same digest as the one that holds it.
        db.execute(FORGET.format(table), (names, first, last))
        once.shrink(db, table, db.changes())


def forget_run(db: Db, run: int, limit: int) -> None:
    """Remove so many of the keys that count only in a run, and so many labels, each table by one range; -1: all."""
    begin = scope(Hold.ONCE, run)
    for tables in (once.TABLES, ("label",)):
        left = limit
        for table in tables:
            db.execute(FORGET_RUN.format(table), (begin, end_of(begin), left))
            removed = db.changes()
            once.shrink(db, table, removed)
            left -= removed if limit > 0 else 0


def of_tasks(db: Db, span: SqliteSpan, tasks: Sequence[int], now: int) -> list[int]:
    """Return those of neighbouring tasks of a span whose key keeps others from their name now."""
    if not span.keyed or span.hold is Hold.LABEL or not tasks:
        return []
    found = dict(db.execute(KEYS_OF_RANGE, (tasks[0], tasks[-1])).fetchall())
    held = holders(db, span.hold, span.run, span.kind, found.values(), now)
    return [task for task in tasks if task in found and held.get(found[task]) == task]
