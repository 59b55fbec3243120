"""Keys in the SQLite store: taking, holding, releasing.

Digests are looked up in bulk and written in their own order, so that a batch visits each page of a table once. Keys
that are held for ever have tables of their own, see `once.py`; those that are released or expire are in `key`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import apsw

from ramify.model.key import AFTER_ALL, Hold, digest, digests, end_of, scope
from ramify.model.segment import MASK_WIDTH
from ramify.store.rows import SpanRow
from ramify.store.sqlite import bulk, once, rows
from ramify.store.sqlite.file.db import Db

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


class Keyed(Protocol):
    """The properties of a span that say how the keys of its tasks are held."""

    @property
    def run(self) -> int:
        """The run of its tasks."""

    @property
    def kind(self) -> str:
        """Their kind."""

    @property
    def hold(self) -> Hold:
        """How long their keys exclude others."""

    @property
    def keyed(self) -> int:
        """True if they have keys."""


def take_staged(db: Db, span: SpanRow, now: int) -> dict[int, int]:
    """Give the tasks of a staged range their keys, page by page; those that lost theirs, with who holds it."""
    lost: dict[int, int] = {}
    for first in range(span.first, span.last + 1, MASK_WIDTH):
        found = db.execute(KEYS_OF_RANGE, (first, min(span.last, first + MASK_WIDTH - 1))).fetchall()
        gone = {} if span.hold is Hold.LABEL else _take(db, span, found, now)
        if span.hold is not Hold.ONCE:
            kept = [(task, key) for task, key in found if task not in gone]
            names = digests(Hold.LABEL, span.run, span.kind, (key for _, key in kept))
            labels = sorted(zip(names, (task for task, _ in kept), strict=True))
            db.executemany("INSERT OR IGNORE INTO label VALUES (?, ?)", labels)
        lost |= gone
    return lost


def _take(db: Db, span: SpanRow, found: Sequence[tuple[int, bytes]], now: int) -> dict[int, int]:
    named = zip(digests(span.hold, span.run, span.kind, (key for _, key in found)), found, strict=True)
    offered = sorted((name, task) for name, (task, _) in named)
    names = [name for name, _ in offered]
    taken: list[tuple[bytes, int]] = []
    lost: dict[int, int] = {}
    for (name, task), holder in zip(offered, find(db, span.hold, names, now), strict=True):
        # Equal ones are neighbours, the earlier one first.
        other = taken[-1][1] if holder is None and taken and taken[-1][0] == name else holder
        if other is None:
            taken.append((name, task))
        else:
            lost[task] = other
    if span.hold is Hold.ONCE:
        once.add(db, [name for name, _ in taken], [task for _, task in taken])
    else:
        db.executemany("INSERT OR REPLACE INTO key VALUES (?, ?, NULL)", taken)
    return dict(sorted(lost.items()))


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


def holder(db: Db, kind: str, key: bytes) -> int | None:
    """The unfinished task of a kind that holds a key until it ends."""
    return find(db, Hold.UNIQUE, [digest(Hold.UNIQUE, 0, kind, key)], AFTER_ALL)[0]


def free(db: Db, span: Keyed, first: int, last: int) -> None:
    """Free the keys of neighbouring tasks of a span, also those that are held for ever. They stay labels."""
    if span.keyed and span.hold is not Hold.LABEL:
        for low in range(first, last + 1, MASK_WIDTH):
            _remove(db, span, low, min(last, low + MASK_WIDTH - 1), once.TABLES if span.hold is Hold.ONCE else ("key",))


def forget(db: Db, span: Keyed, first: int, last: int, *, also_in_run: bool) -> None:
    """Free the keys of neighbouring tasks of a span; also those that count only in their run, or just the others."""
    in_run = {Hold.LABEL: ("label",), Hold.ONCE: once.TABLES}.get(span.hold, ("label", "key"))
    tables = in_run if also_in_run else tuple(table for table in in_run if table == "key")
    if span.keyed and tables:
        _remove(db, span, first, last, tables)


def _remove(db: Db, span: Keyed, first: int, last: int, tables: Sequence[str]) -> None:
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


def of_tasks(db: Db, span: Keyed, tasks: Sequence[int], now: int) -> list[int]:
    """Return those of some tasks, alike to those of a span, whose key keeps others from their name now."""
    if not span.keyed or span.hold is Hold.LABEL or not tasks:
        return []
    found = dict(db.execute(KEYS_OF, (rows.ids(tasks),)).fetchall())
    held = holders(db, span.hold, span.run, span.kind, found.values(), now)
    return [task for task in tasks if task in found and held.get(found[task]) == task]
