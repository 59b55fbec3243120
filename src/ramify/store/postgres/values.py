"""Values in the PostgreSQL store, as they are read."""

from __future__ import annotations

from ramify.model.value import Key, StoredValue
from ramify.store.postgres.link import Transaction

VALUES = "SELECT space, name, value, version, expires FROM @value"


def one(db: Transaction, key: Key) -> StoredValue | None:
    """One value, as it is stored."""
    found = db.ask(f"{VALUES} WHERE space = $1::text AND name = $2::text", *key)
    return StoredValue(*found[0]) if found else None


def page(db: Transaction, space: str | None, after: Key, limit: int) -> list[StoredValue]:
    """Values by space and name that come after a key."""
    where, bound = "(space, name) > ($1::text, $2::text)", after
    if space is not None:
        where, bound = "space = $1::text AND name > $2::text", (space, after[1] if after[0] == space else "")
    found = db.ask(f"{VALUES} WHERE {where} ORDER BY space, name LIMIT $3::bigint", *bound, limit)
    return [StoredValue(*row) for row in found]
