"""Keys in the SQLite store: taking, holding, releasing.

Digests are looked up in bulk and written in their own order, so that a batch visits each page of a table once. Keys
that are held for ever have tables of their own, see `once.py`; those that are released or expire are in `key`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import apsw

from ramify.model.event import Status
from ramify.model.key import Hold, digest, digester
from ramify.model.policy import SECOND
from ramify.store.sqlite import once
from ramify.store.sqlite.db import Db
from ramify.store.sqlite.rows import SpanRow

HELD = (
    "SELECT key.digest, key.task FROM carray(?) AS offered CROSS JOIN key ON key.digest = offered.value"
    " WHERE key.expires IS NULL OR key.expires > ?"
)


class Offer:
    """Keys of one group on offer. A position is kept unless its key is held, or an earlier position has the same."""

    def __init__(self, db: Db, span: SpanRow, keys: Sequence[bytes | None], now: int) -> None:
        self._db, self._span, self._keys = db, span, keys
        if span.hold is Hold.LABEL:
            self.kept: Sequence[int] = range(len(keys))
            return
        name = digester(span.hold, span.run, span.kind)
        self._names = names = [None if key is None else name(key) for key in keys]
        self._first = first = dict(zip(reversed(names), range(len(names) - 1, -1, -1), strict=True))
        self._held = held = _held(db, span.hold, (n for n in first if n is not None), now)
        self.kept = [i for i, n in enumerate(names) if n is None or (n not in held and first[n] == i)]

    def lost(self, placed: Mapping[int, int]) -> dict[int, int]:
        """The positions that were not kept, with the task that holds their key; `placed` are the tasks of the kept."""
        return {
            i: self._held[name] if name in self._held else placed[self._first[name]]
            for i, name in enumerate(() if self._span.hold is Hold.LABEL else self._names)
            if i not in placed and name is not None
        }

    def take(self, tasks: Sequence[int]) -> None:
        """Give the keys of the kept positions to their tasks, in parallel, and make the tasks findable."""
        if self._span.hold is not Hold.LABEL:
            names = self._names
            rows = sorted(
                (name, task) for i, task in zip(self.kept, tasks, strict=True) if (name := names[i]) is not None
            )
            if self._span.hold is Hold.ONCE:
                once.add(self._db, rows)
            else:
                self._db.executemany("INSERT OR REPLACE INTO key VALUES (?, ?, NULL)", rows)
        if self._span.hold is not Hold.ONCE:
            label = digester(Hold.LABEL, self._span.run, self._span.kind)
            keyed = ((self._keys[i], task) for i, task in zip(self.kept, tasks, strict=True))
            rows = sorted((label(key), task) for key, task in keyed if key is not None)
            self._db.executemany("INSERT OR IGNORE INTO label VALUES (?, ?)", rows)


def holders(db: Db, hold: Hold, run: int, kind: str, keys: Iterable[bytes | None], now: int) -> dict[bytes, int]:
    """Which of these keys are held now, and by whom."""
    name = digester(hold, run, kind)
    named = {name(key): key for key in keys if key is not None}
    return {named[found]: task for found, task in _held(db, hold, named, now).items()}


def _held(db: Db, hold: Hold, names: Iterable[bytes], now: int) -> dict[bytes, int]:
    """Which of these digests are held now, and by which task."""
    if hold is Hold.ONCE:
        return once.find(db, names)
    offered = tuple(sorted(set(names)))
    return dict(db.execute(HELD, (apsw.carray(offered), now))) if offered else {}


def release(db: Db, span: SpanRow, ended: Iterable[tuple[int, Status]], now: int) -> None:
    """Free the keys of tasks that ended, or let them expire, as their hold says."""
    if not span.keyed or span.hold in (Hold.LABEL, Hold.ONCE):
        return
    for task, status in ended:
        name = _name(db, span, task)
        if name is None:
            continue
        if status is not Status.DONE or (span.hold is Hold.UNIQUE and not span.keep):
            db.execute("DELETE FROM key WHERE digest = ? AND task = ?", (name, task))
        elif span.keep:
            until = now + span.keep * SECOND
            db.execute("UPDATE key SET expires = ? WHERE digest = ? AND task = ?", (until, name, task))


def retake(db: Db, span: SpanRow, task: int, now: int) -> int | None:
    """Take the key again for a reopened task; the other task that holds it now, if any."""
    name = _name(db, span, task) if span.keyed and span.hold is not Hold.LABEL else None
    if name is None:
        return None
    holder = _held(db, span.hold, [name], now).get(name)
    if holder is not None and holder != task:
        return holder
    if span.hold is not Hold.ONCE:
        db.execute("INSERT OR REPLACE INTO key VALUES (?, ?, NULL)", (name, task))
    return None


def _name(db: Db, span: SpanRow, task: int) -> bytes | None:
    row = db.execute("SELECT key FROM task WHERE id = ?", (task,)).fetchone()
    return None if row is None or row[0] is None else digest(span.hold, span.run, span.kind, row[0])
