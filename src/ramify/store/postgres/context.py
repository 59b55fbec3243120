"""The context of runs in the PostgreSQL store, as it is read."""

from __future__ import annotations

from ramify.model.context import ContextValue
from ramify.store.postgres.link import Transaction

CONTEXT = "SELECT name, value, task, first_set, last_set FROM @context WHERE run = $1::bigint"


def page(db: Transaction, run: int, after: str, limit: int) -> list[ContextValue]:
    """Values of a run by name that come after one."""
    found = db.ask(f"{CONTEXT} AND name > $2::text ORDER BY name LIMIT $3::bigint", run, after, limit)
    return [ContextValue(*row) for row in found]


def value(db: Transaction, run: int, name: str) -> ContextValue | None:
    """One value, as it is stored."""
    found = db.ask(f"{CONTEXT} AND name = $2::text", run, name)
    return ContextValue(*found[0]) if found else None
