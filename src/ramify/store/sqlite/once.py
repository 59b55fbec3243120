"""Keys that are held for ever: a set of digests in three levels, small, larger, largest.

A digest lands anywhere among those of its run, so with millions of keys almost every new one would write a page of its
own. Here new digests go to a small table; what gathers there moves on in bulk, at the end a slice of the digests at a
time, so that each page of the largest table is written for many keys at once. Measured at 2 M keys, 4,000 new ones a
commit: 7 times fewer pages written, half the time.

A key is in exactly one level. It is removed only when its run is forgotten, or when its task is replaced: otherwise
nothing in the run may be called the same again.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from ramify.store.sqlite.bulk import CUT, fixed_width, look_up
from ramify.store.sqlite.file.db import Db

TABLES = ("once_0", "once_1", "once_2")
#: How many digests the first and the second level gather before they move on.
FIRST_LIMIT = 20_000
SECOND_LIMIT = 200_000
#: The last move goes in the order of the digests, this many in one transaction.
SLICE = 12_500

#: What comes after every digest.
PAST_ALL = b"\xff"

#: What is found in the largest level need not be looked for in the others.
LARGEST_FIRST = (2, 1, 0)
#: Who holds the offered digest `value`.
HELD = f"SELECT coalesce({', '.join(f'(SELECT task FROM once_{n} WHERE digest = value)' for n in LARGEST_FIRST)})"
ADD = f"INSERT INTO once_0 SELECT value, {CUT} FROM carray(?2)"


def find(db: Db, digests: Sequence[bytes]) -> Sequence[int | None]:
    """The task that holds each of these digests; they come in their order."""
    return look_up(db, HELD, digests)


def add(db: Db, digests: Sequence[bytes], tasks: Sequence[int]) -> None:
    """Hold new digests, which come in their order, each for its task; and move older ones on."""
    if not digests:
        return
    db.execute(ADD, (fixed_width(tasks), apsw.carray(tuple(digests))))
    first, second, at = db.execute("SELECT first, second, at FROM once_sizes").fetchone()
    first += len(digests)
    if first >= FIRST_LIMIT:
        db.execute("INSERT INTO once_1 SELECT * FROM once_0")
        db.execute("DELETE FROM once_0")
        first, second = 0, second + first
    if at or second >= SECOND_LIMIT:
        moved, at = _move_slice(db, at)
        second -= moved
    db.execute("UPDATE once_sizes SET first = ?, second = ?, at = ?", (first, second, at))


def shrink(db: Db, table: str, by: int) -> None:
    """Note that so many digests of a level were removed; the last one has no size, and other tables have none here."""
    if by and table in TABLES[:2]:
        size = ("first", "second")[TABLES.index(table)]
        db.execute(f"UPDATE once_sizes SET {size} = {size} - ?", (by,))


def _move_slice(db: Db, at: bytes) -> tuple[int, bytes]:
    """Move a slice of the digests, from `at` on, to the last level; how many, and where to go on: b"" at the end."""
    rest = "SELECT digest FROM once_1 WHERE digest >= ? ORDER BY digest LIMIT 1 OFFSET ?"
    row = db.execute(rest, (at, SLICE)).fetchone()
    after: bytes = b"" if row is None else row[0]
    bounds = (at, after or PAST_ALL)
    db.execute("INSERT INTO once_2 SELECT * FROM once_1 WHERE digest >= ? AND digest < ?", bounds)
    db.execute("DELETE FROM once_1 WHERE digest >= ? AND digest < ?", bounds)
    return db.changes(), after
