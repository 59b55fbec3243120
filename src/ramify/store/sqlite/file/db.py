"""A connection as the verbs see it: inside a transaction, with bound values, and nothing else of the driver."""

from __future__ import annotations

from typing import Any, Protocol


class Db(Protocol):
    """A connection inside a transaction. What comes back is as dynamic as SQL is; each caller knows its own columns."""

    def execute(self, statement: str, values: Any = ..., /) -> Any:
        """Run one statement with bound values."""

    def executemany(self, statement: str, values: Any, /) -> Any:
        """Run one statement for each of many values."""

    def changes(self) -> int:
        """How many rows the last statement changed."""

    def last_insert_rowid(self) -> int:
        """The id of the last inserted row."""
