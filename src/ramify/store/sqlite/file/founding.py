"""The first connection to a file: it gets its tables, or is told to be a store of ours.

A new file is in write-ahead mode before its first table, and has its tables in itself before anybody uses it: what is
copied or moved without its log is then still a store, and not a file that looks new. A file of another program is
refused before anything of it is changed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import apsw

from ramify.errors import StoreRefused
from ramify.store.sqlite.file import wal
from ramify.store.sqlite.file.errors import BUSY


def found(db: apsw.Connection, path: Path, prepare: Callable[[apsw.Connection], None] | None) -> None:
    """Make the file a store, or check that it is one; `prepare` makes or checks the tables, in a transaction."""
    if db.pragma("page_count") == 0:
        # Only possible before the first page is written.
        db.execute("PRAGMA page_size=4096")
        db.execute("PRAGMA auto_vacuum=INCREMENTAL")
        _use_wal(db, path)
    is_new = not db.pragma("user_version")
    if prepare is not None:
        # A file that has its tables is only read, so that it opens also while somebody writes for long.
        db.execute("BEGIN IMMEDIATE" if is_new else "BEGIN DEFERRED")
        try:
            prepare(db)
            db.execute("COMMIT")
        except BaseException:  # whatever it is, an interrupt too: our transaction must not stay open
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
    _use_wal(db, path)
    if is_new:
        # CRASH: tables that are only in the log -> the log is beside the file, as after any kill.
        with suppress(*BUSY):
            wal.renew(db)
    else:
        wal.complete(db)


def check(db: apsw.Connection, prepare: Callable[[apsw.Connection], None] | None) -> None:
    """Check that the file is a store, where nothing can be written."""
    if prepare is not None:
        db.execute("BEGIN DEFERRED")
        try:
            prepare(db)
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")


def _use_wal(db: apsw.Connection, path: Path) -> None:
    mode = db.pragma("journal_mode", "wal")
    if mode != "wal":
        raise StoreRefused(f"{path}: SQLite cannot keep a write-ahead log here (it answers {mode!r})")
