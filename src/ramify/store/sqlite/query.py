"""Questions in SQL from people: read only, on one snapshot, whatever they write.

Promises: nothing but reading. A statement that would write, attach a file or change a setting is refused before it
runs, and a mistake in the SQL is the asker's, not the store's.

Does not page: what is asked for is held in memory, so ask for totals or use LIMIT.
"""

from __future__ import annotations

from typing import Any

import apsw

from ramify.errors import BadPayload
from ramify.store.reads import Table
from ramify.store.sqlite.file.link import Link

_READING = (apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE)


def ask(link: Link, query: str, values: dict[str, Any]) -> Table:
    """The answer to one SELECT, in which `:name` stands for a value."""
    with link.read() as db:
        assert isinstance(db, apsw.Connection)
        db.authorizer = _only_reading
        columns: list[str] = []

        def note_columns(cursor: apsw.Cursor, *_: object) -> bool:
            columns[:] = [name for name, *_ in cursor.get_description()]
            return True

        try:
            cursor = db.cursor()
            cursor.exec_trace = note_columns
            rows = cursor.execute(query, values).fetchall()
        except (apsw.SQLError, apsw.AuthError, apsw.BindingsError, apsw.MismatchError) as error:
            raise BadPayload(f"sql: {error}. Give one SELECT; nothing can be changed this way") from None
        finally:
            db.authorizer = None
    return Table(tuple(columns), rows)


def _only_reading(action: int, *_: str | None) -> int:
    return apsw.SQLITE_OK if action in _READING else apsw.SQLITE_DENY
