"""The context of runs in the SQLite store. What a set makes of what is there is said by `ramify.model.context`."""

from __future__ import annotations

from ramify.model.context import ContextValue
from ramify.store.sqlite.file.db import Db

VALUES = "SELECT name, CAST(value AS BLOB), task, first_set, last_set FROM context WHERE run = ?"
PUT = "INSERT OR REPLACE INTO context VALUES (?, ?, CAST(? AS TEXT), ?, ?, ?)"
REMOVE = (
    "DELETE FROM context WHERE run = ?1 AND name IN (SELECT name FROM context WHERE run = ?1 ORDER BY name LIMIT ?2)"
)


def value(db: Db, run: int, name: str) -> ContextValue | None:
    """Return what stands under one name of a run."""
    found = db.execute(f"{VALUES} AND name = ?", (run, name)).fetchall()
    return ContextValue(*found[0]) if found else None


def page(db: Db, run: int, after: str, limit: int) -> list[ContextValue]:
    """Return what stands in a run under the names that come after one, in order."""
    found = db.execute(f"{VALUES} AND name > ? ORDER BY name LIMIT ?", (run, after, limit))
    return [ContextValue(*row) for row in found.fetchall()]


def remove(db: Db, run: int, limit: int) -> int:
    """Remove up to so many values of a run; how many went."""
    db.execute(REMOVE, (run, limit))
    return db.changes()
