"""Keys in the SQLite store: taking, holding, releasing.

Digests are looked up in bulk and written in their own order, so that a batch visits each page of a table once. Keys that
are held for ever have tables of their own, see `once.py`; those that are released or expire are in `key`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    """Keys of one group on offer: which positions lost theirs to an existing task or to an earlier position."""

    def __init__(self, db: Db, span: SpanRow, keys: Sequence[bytes | None], now: int) -> None:
        self._db, self._span, self._keys = db, span, keys
        self.held: dict[int, int] = {}  #: position -> task that holds its key
        self.repeats: dict[int, int] = {}  #: position -> earlier position with the same key
        if span.hold is Hold.LABEL:
            return
        name = digester(span.hold, span.run, span.kind)
        self._names = [None if key is None else name(key) for key in keys]
        holders = _held(db, span.hold, (name for name in self._names if name is not None), now)
        first: dict[bytes, int] = {}
        for i, digest_ in enumerate(self._names):
            if digest_ is None:
                continue
            if digest_ in holders:
                self.held[i] = holders[digest_]
            elif first.setdefault(digest_, i) != i:
                self.repeats[i] = first[digest_]

    def take(self, tasks: Iterable[tuple[int, int]]) -> None:
        """Give the keys of the kept positions to their tasks, `(position, task)`, and make the tasks findable."""
        kept = [(i, task) for i, task in tasks if self._keys[i] is not None]
        if self._span.hold is not Hold.LABEL:
            rows = sorted((self._names[i] or b"", task) for i, task in kept)
            if self._span.hold is Hold.ONCE:
                once.add(self._db, rows)
            else:
                self._db.executemany("INSERT OR REPLACE INTO key VALUES (?, ?, NULL)", rows)
        if self._span.hold is not Hold.ONCE:
            name = digester(Hold.LABEL, self._span.run, self._span.kind)
            rows = sorted((name(self._keys[i] or b""), task) for i, task in kept)
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
