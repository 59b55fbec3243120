"""The link to a database file: its connections, their settings, and transactions that never say "database is locked".

One connection writes, one reads, one watches for changes; each serves one thread at a time. `write()` is
`BEGIN IMMEDIATE ... COMMIT`, `read()` one snapshot; any exception rolls back and passes on. Trouble of SQLite's own
comes out as `StoreUnavailable` or `StoreBroken` (see `trouble.py`).

After an I/O error, also one in COMMIT, nobody knows what reached the disk. Both connections are then dropped and
opened again at the next use, and what the write-ahead log holds is first brought into the database and synced anew, so
that "already there" is never answered from a cache that the disk does not back.

A link does not survive a fork: in the child it refuses everything, and its connections are left alone for ever,
because closing them there could take the log away from under the parent.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import apsw

from ramify.errors import StoreBroken, StoreError, StoreRefused, StoreUnavailable
from ramify.store.sqlite import forks, trouble
from ramify.store.sqlite.guard import FileId, guard
from ramify.store.sqlite.place import check_place, check_sqlite_version, live_folder
from ramify.store.sqlite.turn import Turn, nap

#: Beyond this size the log is emptied by force. It normally stays at half of it.
WAL_LIMIT = 64 * 1024 * 1024
_CHECKPOINT_PAGES = 8192
#: How long an emptying of the log may hold up writers while it waits for readers, and how long until the next try.
_TRUNCATE_PATIENCE = 0.05
_TRUNCATE_PAUSE = 1.0
_BUSY_NAP = 0.0005
_STATEMENTS = 256

_SETTINGS = {
    "synchronous": "FULL",
    "fullfsync": "ON",
    "foreign_keys": "OFF",
    "trusted_schema": "OFF",
    "cell_size_check": "ON",
    "temp_store": "MEMORY",
    "mmap_size": "0",
    "wal_autocheckpoint": str(_CHECKPOINT_PAGES),
    "journal_size_limit": str(WAL_LIMIT),
}


class _Seat:
    """One connection, and the turn of threads to use it."""

    def __init__(self, purpose: str, **settings: str) -> None:
        self.purpose = purpose
        self.settings = settings
        self.lock = threading.Lock()
        self.owner: int | None = None
        self.since = 0.0
        self.db: apsw.Connection | None = None
        self.stale = False

    def drop(self) -> None:
        """Close the connection; only with the seat's lock."""
        db, self.db, self.stale = self.db, None, False
        if db is not None:
            with suppress(apsw.Error):
                db.close(True)


class Link:
    """The connections of one store to its file."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Literal["power", "process"] = "power",
        busy_timeout: float = 30.0,
        on_first_open: Callable[[apsw.Connection], None] | None = None,
        writing: Callable[[bool], None] | None = None,
        holder: Callable[[], str | None] | None = None,
        vfs: str | None = None,
    ) -> None:
        """Open the file, creating it if it is missing.

        `on_first_open` creates or checks the schema, inside a transaction. `writing` hears when this link has the
        write lock and when it no longer has; `holder` says in words who has it, for the text of a time-out.
        """
        check_sqlite_version(apsw.sqlite_lib_version())
        self.path, self._file = guard.admit(path, check_place)
        self._release = weakref.finalize(self, guard.release, self._file)
        self._busy_timeout = self._patience = busy_timeout
        self._prepare, self._on_writing, self._holder, self._vfs = on_first_open, writing, holder, vfs
        synchronous = "FULL" if durability == "power" else "NORMAL"
        self._writer = _Seat("write", synchronous=synchronous, cache_size="-65536")
        self._reader = _Seat("read", synchronous=synchronous, cache_size="-16384", query_only="ON")
        self._watcher = _Seat("watch", synchronous=synchronous, cache_size="-64", query_only="ON")
        self._turn = Turn(live_folder(self.path) / "turn")
        self._wal: FileId | None = None
        self._doubtful = self._closed = self._orphaned = False
        self._opened = 0
        self._next_truncate = 0.0
        forks.register(self)
        try:
            with self._seated(self._writer):
                pass
        except BaseException:
            self.close()
            raise
