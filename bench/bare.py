"""Bare durable transactions: what one small row costs when it is committed alone, and nothing else is done.

The settings of the connection are read off one that the store's own link has opened on the same file, so that both pay
for the same fsync. Opening is off the clock.

A file that is `warm` has a write-ahead log of its full size, which is written from its beginning again, as that of a
program that has run for a while: what a file costs that grows is off the clock then.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from ramify.store.sqlite.file.link import Link

#: What is written to warm the log: more than it holds before it is emptied into the file.
WARMING = 40 * 1024 * 1024

#: What decides about the price of a commit.
SETTINGS = ("synchronous", "fullfsync", "wal_autocheckpoint", "journal_size_limit", "cache_size", "temp_store")


def run(path: Path, count: int, warm: bool = False) -> float:
    """The seconds for so many transactions."""
    with opened(path) as db:
        if warm:
            db.execute("INSERT INTO bare VALUES (-1, zeroblob(?))", (WARMING,))
            db.execute("DELETE FROM bare")
        began = time.monotonic()
        for number in range(count):
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT INTO bare VALUES (?, ?)", (number, b"[1,4]"))
            db.execute("COMMIT")
        seconds = time.monotonic() - began
        ((kept,),) = db.execute("SELECT count(*) FROM bare").fetchall()
    if kept != count:
        raise AssertionError(f"{kept} rows of {count} transactions")
    return seconds


@contextmanager
def opened(path: Path) -> Iterator[apsw.Connection]:
    """A connection to a new file with one table, with the settings of the store's writer."""
    link = Link(path)
    try:
        with link.write() as writer:
            settings = {name: writer.execute(f"PRAGMA {name}").fetchall()[0][0] for name in SETTINGS}
            writer.execute("CREATE TABLE bare (id INTEGER PRIMARY KEY, body BLOB)")
    finally:
        link.close()
    db = apsw.Connection(str(path))
    try:
        for name, value in settings.items():
            db.execute(f"PRAGMA {name}={value}").fetchall()
        yield db
    finally:
        db.close()
