"""Values in the SQLite store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ramify.model.value import Key, StoredValue
from ramify.store.sqlite.file.db import Db

VALUES = "SELECT space, name, CAST(value AS BLOB), version, expires FROM value"
PUT = "INSERT OR REPLACE INTO value VALUES (?, ?, CAST(? AS TEXT), ?, ?)"
DELETE = "DELETE FROM value WHERE space = ? AND name = ?"
EXPIRED = (
    "DELETE FROM value WHERE rowid IN"
    " (SELECT rowid FROM value WHERE expires <= ? ORDER BY expires, space, name LIMIT ?)"
)


def load(db: Db, keys: Iterable[Key]) -> dict[Key, StoredValue]:
    """The values that there are of some."""
    found = ((key, one(db, *key)) for key in keys)
    return {key: value for key, value in found if value is not None}


def one(db: Db, space: str, name: str) -> StoredValue | None:
    """One value, as it is stored."""
    found = db.execute(f"{VALUES} WHERE space = ? AND name = ?", (space, name)).fetchall()
    return StoredValue(*found[0]) if found else None


def page(db: Db, space: str | None, after: Key, limit: int) -> list[StoredValue]:
    """Values by space and name that come after a key."""
    where, bound = "(space, name) > (?, ?)", (*after, limit)
    if space is not None:
        where, bound = "space = ? AND name > ?", (space, after[1] if after[0] == space else "", limit)
    found = db.execute(f"{VALUES} WHERE {where} ORDER BY space, name LIMIT ?", bound)
    return [StoredValue(*row) for row in found.fetchall()]


def write(db: Db, changed: Mapping[Key, StoredValue | None]) -> None:
    """Write values, and remove those that are deleted."""
    kept = [(*key, value.value, value.version, value.expires) for key, value in changed.items() if value is not None]
    db.executemany(PUT, kept)
    db.executemany(DELETE, [key for key, value in changed.items() if value is None])


def remove_expired(db: Db, now: int, limit: int) -> int:
    """Remove up to so many values that have expired; how many went."""
    db.execute(EXPIRED, (now, limit))
    return db.changes()
