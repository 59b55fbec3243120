"""Keys in the SQLite store: taking, holding, releasing.

Digests are looked up in bulk and written in their own order, so that a batch visits each page of a table once. Keys
that are held for ever have tables of their own, see `once.py`; those that are released or expire are in `key`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import apsw

from ramify.model.event import Status
from ramify.model.key import Hold, digest, digests, kept_until
from ramify.store.sqlite import once
from ramify.store.sqlite.db import Db
from ramify.store.sqlite.rows import SpanRow

HELD = (
    "SELECT key.digest, key.task FROM carray(?) AS offered CROSS JOIN key ON key.digest = offered.value"
    " WHERE (key.expires IS NULL OR key.expires > ?) AND (SELECT state FROM run WHERE id ="
    " (SELECT run FROM span WHERE first <= key.task ORDER BY first DESC LIMIT 1)) IS NOT 'forgotten'"
)
FORGET = "DELETE FROM {} WHERE digest IN (SELECT value FROM carray(?)) AND task BETWEEN ? AND ?"
KEYS_OF_RANGE = "SELECT id, key FROM task WHERE id BETWEEN ? AND ? AND key IS NOT NULL"


class Offer:
    """Keys of one group on offer. A position is kept unless its key is held, or an earlier position has the same."""

    def __init__(self, db: Db, span: SpanRow, keys: Sequence[bytes | None], now: int) -> None:
        self._db, self._span = db, span
        #: The positions that have a key.
        self._keyed = range(len(keys)) if None not in keys else [i for i, key in enumerate(keys) if key is not None]
        self._keys = [key for key in keys if key is not None]
        self.kept: Sequence[int] = range(len(keys))
        if span.hold is Hold.LABEL:
            return
        self._names = digests(span.hold, span.run, span.kind, self._keys)
        #: The first position of each digest: the last one written wins, so they are written from the end.
        self._first = dict(zip(reversed(self._names), reversed(self._keyed), strict=True))
        self._held, self._free = find(db, span.hold, sorted(self._first), now)
        if len(self._free) < len(self._names):
            lost = self._lost()
            self.kept = [i for i in range(len(keys)) if i not in lost]

    def _lost(self) -> set[int]:
        held, first = self._held, self._first
        return {i for i, name in zip(self._keyed, self._names, strict=True) if name in held or first[name] != i}

    def lost(self, placed: Mapping[int, int]) -> dict[int, int]:
        """The positions that were not kept, with the task that holds their key; `placed` are the tasks of the kept."""
        if self._span.hold is Hold.LABEL:
            return {}
        names = dict(zip(self._keyed, self._names, strict=True))
        return {
            i: self._held[names[i]] if names[i] in self._held else placed[self._first[names[i]]]
            for i in sorted(self._lost())
        }

    def take(self, tasks: Sequence[int]) -> None:
        """Give the keys of the kept positions to their tasks, in parallel, and make the tasks findable."""
        placed = dict(zip(self.kept, tasks, strict=True))
        if self._span.hold is not Hold.LABEL:
            owners = [placed[self._first[name]] for name in self._free]
            if self._span.hold is Hold.ONCE:
                once.add(self._db, self._free, owners)
            else:
                taken = zip(self._free, owners, strict=True)
                self._db.executemany("INSERT OR REPLACE INTO key VALUES (?, ?, NULL)", taken)
        if self._span.hold is not Hold.ONCE:
            kept = [(key, placed[i]) for i, key in zip(self._keyed, self._keys, strict=True) if i in placed]
            names = digests(Hold.LABEL, self._span.run, self._span.kind, (key for key, _ in kept))
            labels = sorted(zip(names, (task for _, task in kept), strict=True))
            self._db.executemany("INSERT OR IGNORE INTO label VALUES (?, ?)", labels)


def holders(db: Db, hold: Hold, run: int, kind: str, keys: Iterable[bytes | None], now: int) -> dict[bytes, int]:
    """Which of these keys are held now, and by whom."""
    given = [key for key in keys if key is not None]
    named = dict(zip(digests(hold, run, kind, given), given, strict=True))
    held, _ = find(db, hold, sorted(named), now)
    return {named[name]: task for name, task in held.items()}


def find(db: Db, hold: Hold, names: list[bytes], now: int) -> tuple[dict[bytes, int], list[bytes]]:
    """Of these digests, given in order: those held now, with their tasks, and those that are free, in order."""
    if hold is Hold.ONCE:
        return once.find(db, names)
    held = dict(db.execute(HELD, (apsw.carray(tuple(names)), now)).fetchall()) if names else {}
    return held, [name for name in names if name not in held]


def release(db: Db, span: SpanRow, ended: Iterable[tuple[int, Status]], now: int) -> None:
    """Free the keys of tasks that ended, or let them expire, as their hold says."""
    if not span.keyed or span.hold in (Hold.LABEL, Hold.ONCE):
        return
    for task, status in ended:
        name = _name(db, span, task)
        if name is None:
            continue
        until = kept_until(span.hold, span.keep, status, now)
        if until == now:
            db.execute("DELETE FROM key WHERE digest = ? AND task = ?", (name, task))
        elif until is not None:
            db.execute("UPDATE key SET expires = ? WHERE digest = ? AND task = ?", (until, name, task))


def retake(db: Db, span: SpanRow, task: int, now: int) -> int | None:
    """Take the key again for a reopened task; the other task that holds it now, if any."""
    name = _name(db, span, task) if span.keyed and span.hold is not Hold.LABEL else None
    if name is None:
        return None
    holder = find(db, span.hold, [name], now)[0].get(name)
    if holder is not None and holder != task:
        return holder
    if span.hold is not Hold.ONCE:
        db.execute("INSERT OR REPLACE INTO key VALUES (?, ?, NULL)", (name, task))
    return None


def forget(db: Db, span: SpanRow, first: int, last: int) -> None:
    """Free the keys of neighbouring tasks of a span, whatever holds them, and let nobody find the tasks by them."""
    if not span.keyed:
        return
    keys = [key for _, key in db.execute(KEYS_OF_RANGE, (first, last)).fetchall()]
    if not keys:
        return
    tables = {Hold.LABEL: ("label",), Hold.ONCE: once.TABLES}.get(span.hold, ("label", "key"))
    for table in tables:
        hold = Hold.LABEL if table == "label" else span.hold
        names = apsw.carray(tuple(digests(hold, span.run, span.kind, keys)))
        # One that lost its key has the same digest as the one that holds it.
        db.execute(FORGET.format(table), (names, first, last))
        once.shrink(db, table, db.changes())


def of_tasks(db: Db, span: SpanRow, tasks: Sequence[int], now: int) -> list[int]:
    """Those of neighbouring tasks of a span whose key keeps others from their name now."""
    if not span.keyed or span.hold is Hold.LABEL or not tasks:
        return []
    found = dict(db.execute(KEYS_OF_RANGE, (tasks[0], tasks[-1])).fetchall())
    held = holders(db, span.hold, span.run, span.kind, found.values(), now)
    return [task for task in tasks if task in found and held.get(found[task]) == task]


def _name(db: Db, span: SpanRow, task: int) -> bytes | None:
    row = db.execute("SELECT key FROM task WHERE id = ?", (task,)).fetchone()
    return None if row is None or row[0] is None else digest(span.hold, span.run, span.kind, row[0])
