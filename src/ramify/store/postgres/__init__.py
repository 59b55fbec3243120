"""The PostgreSQL store: any number of processes on any number of machines, on one server."""

from ramify.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
