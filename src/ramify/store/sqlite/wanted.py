"""Rows that a want covers in the SQLite store: the kinds and queues that have rows, and the rows that fit it."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator

from ramify.model.claim import Want
from ramify.store.sqlite.file.db import Db
from ramify.store.sqlite.rows import IS_APART
from ramify.store.verbs.claim import is_wanted

IS_READY = f"state = 0 AND due IS NULL AND NOT {IS_APART}"
IS_DUE = f"state = 0 AND due IS NOT NULL AND NOT {IS_APART}"
NEXT_PLACE, NEXT_DUE_PLACE = (
    # In two steps, each of which skips what lies in one place: a comparison of both at once walks through it.
    f"SELECT * FROM (SELECT kind, queue FROM segment INDEXED BY {index} WHERE {is_it} AND kind = ?1 AND queue > ?2"
    f" ORDER BY queue LIMIT 1) UNION ALL SELECT * FROM (SELECT kind, queue FROM segment INDEXED BY {index}"
    f" WHERE {is_it} AND kind > ?1 ORDER BY kind, queue LIMIT 1) LIMIT 1"
    for index, is_it in (("ready", IS_READY), ("due", IS_DUE))
)


def places(db: Db, statement: str) -> Iterator[tuple[str, str]]:
    """The kinds with their queues that have rows, found by skipping from one to the next."""
    place = ("", "")
    while found := db.execute(statement, place).fetchall():
        place = found[0]
        yield place


def wanted_places(db: Db, statement: str, want: Want) -> Iterator[tuple[str, str]]:
    """Yield those of them that are wanted. Kinds between two that the want names are passed over in one step."""
    kinds: list[str] = []
    place = ("", "")
    while found := db.execute(statement, place).fetchall():
        place = found[0]
        if place[0] in want.kinds:
            if is_wanted(want, *place):
                yield place
            continue
        kinds = kinds or sorted(want.kinds)
        if (at := bisect(kinds, place[0])) == len(kinds):
            return
        # No queue has an empty name.
        place = (kinds[at], "")
