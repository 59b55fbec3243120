"""Questions in SQL from people: read only, on one snapshot, whatever they write.

Tables are those of the store's schema. A statement that would write is refused by the server, and a mistake in the SQL
is the asker's, not the store's.
"""

from __future__ import annotations

import re
from typing import Any

import psycopg

from ramify.errors import BadPayload, StoreUnavailable
from ramify.store.postgres.link import ServerLink
from ramify.store.reads import Table

_NAMED = re.compile(r"('(?:[^']|'')*'|::)|:([A-Za-z_]\w*)")


def ask(link: ServerLink, query: str, values: dict[str, Any]) -> Table:
    """The answer to one SELECT, in which `:name` stands for a value."""
    text = _NAMED.sub(lambda found: found[1] or f"%({found[2]})s", query.replace("%", "%%"))
    try:
        with psycopg.connect(link.address, autocommit=True) as db:
            db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            db.execute(f'SET LOCAL search_path = "{link.schema}"')
            found = db.execute(text.encode(), values)
            columns = tuple(column.name for column in found.description or ())
            return Table(columns, found.fetchall() if columns else [])
    except psycopg.OperationalError as error:
        raise StoreUnavailable(f"{link.place}: {error}; try again") from error
    except (psycopg.Error, KeyError) as error:
        raise BadPayload(f"sql: {error}. Give one SELECT; nothing can be changed this way") from None
