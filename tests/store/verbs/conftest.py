"""Tables for the tests of verbs that need the trip to a backend: real ones, and empty."""

from collections.abc import Iterator

import apsw
import pytest

from ramify.store.sqlite import schema
from ramify.store.sqlite.tables import SqliteTables


@pytest.fixture
def tables() -> Iterator[SqliteTables]:
    """The tables of a new database."""
    db = apsw.Connection(":memory:")
    db.execute(schema.TABLES)
    yield SqliteTables(db)
    db.close()
