"""The SQLite store, the default. Start with `schema.py` (the tables), then `claims.py` and `commits.py`."""

from ramify.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
