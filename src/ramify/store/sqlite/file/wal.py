"""The write-ahead log as a file: how large it may be beside its store, how its space is given back, and how it is begun
anew.

SQLite copies the log into the database once it has a certain number of pages, and starts it again at its beginning when
no reader needs it. The file keeps its size, so that number decides how much disk it takes for good. It follows the size
of the store: a log of 32 MB beside a store of 1 MB would fill a small disk by itself.

One reader after another, or one that never ends, lets the log grow without bound. Beyond twice the usual size it is
emptied by force, and so is a log larger than the free space of its disk: emptying it may need as much. That waits for
readers, and writers wait meanwhile, so it is given up soon and tried again later.

After a full disk the log is emptied before anything else is written: what it holds may be most of what fills the disk,
and space that somebody freed must not go to an even longer log.
"""

from __future__ import annotations

import math
import os
import time
from contextlib import suppress

import apsw

from ramify.store.sqlite.file import errors, raw_file
from ramify.store.sqlite.file.connection import Connection

PAGE = 4096
#: The log is copied into the database at as many pages as that has, within these bounds.
FEWEST_PAGES, MOST_PAGES = 1024, 8192
#: Beyond this size the log is emptied by force, however large the store is. It normally stays at half of it.
WAL_LIMIT = 2 * MOST_PAGES * PAGE
#: How often the store and its disk are looked at, in seconds, and after how much growth of the log at the latest.
LOOK_EVERY, LOOK_BYTES = 0.02, 256 * 1024
#: How long an emptying of the log may hold up writers while it waits for readers, and how long until the next try.
_EMPTYING_SECONDS = 0.05
_EMPTYING_PAUSE = 1.0


def renew(db: apsw.Connection) -> None:
    """Bring all that the log holds into the database, and begin a fresh log with a header of its own."""
    db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    db.execute("BEGIN IMMEDIATE")
    db.execute(f"PRAGMA user_version={int(db.pragma('user_version'))}")
    db.execute("COMMIT")


def complete(db: apsw.Connection) -> None:
    """Bring into the database what a kill left in the log: only then every later write to the file is accounted for."""
    memory = raw_file.shared_memory(db)
    if memory is not None and raw_file.checkpoints(memory).is_half_done:
        with suppress(*errors.BUSY):
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)


class Wal:
    """The log of one store, as its writer sees it. Everything here is called by whoever uses that connection."""

    def __init__(self, store: str, limit: int, writer: Connection) -> None:
        self.path = f"{store}-wal"
        self._store, self._limit, self._writer = store, limit, writer
        self._next_look = self._next_emptying = 0.0
        self._looked_at, self._most = 0, 0.0
        #: Whether the disk was full, and the log has not been emptied since.
        self.is_cramped = False

    def bound(self, db: apsw.Connection) -> None:
        """Keep the log in proportion to the store. Called after a commit, which stands whatever this raises."""
        now, size = time.monotonic(), _size_at(self.path)
        if now < self._next_look and size < self._looked_at + LOOK_BYTES and size <= self._most:
            return
        self._next_look, self._looked_at = now + LOOK_EVERY, size
        pages = min(max(_size_at(self._store) // PAGE, FEWEST_PAGES), MOST_PAGES)
        db.wal_autocheckpoint(pages)
        if now < self._next_emptying:
            return
        self._most = min(self._limit, 2 * pages * PAGE, _free_at(self._store))
        if size > self._most:
            self._empty(db)

    def make_room(self, db: apsw.Connection) -> None:
        """After a full disk, give the space of the log back. Called before a transaction; without effect while there is
        too little room for it, or somebody reads.
        """
        if self.is_cramped:
            try:
                self._empty(db)
            except (apsw.FullError, *errors.BUSY):
                return

    def _empty(self, db: apsw.Connection) -> None:
        handler = self._writer.busy_handler
        patience, handler.seconds = handler.seconds, _EMPTYING_SECONDS
        try:
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self.is_cramped, self._looked_at = False, 0
        except apsw.Error:
            self._next_emptying = time.monotonic() + _EMPTYING_PAUSE
            raise
        finally:
            handler.seconds = patience


def _free_at(path: str) -> float:
    """The free space of the disk in bytes, endless where nobody says."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return math.inf
    return disk.f_bavail * disk.f_frsize


def _size_at(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
