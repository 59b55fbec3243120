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
import itertools
import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal, TypeVar

import apsw

from ramify.errors import StoreError, StoreRefused, StoreUnavailable
from ramify.store import forks
from ramify.store.sqlite.file import errors, founding, wal
from ramify.store.sqlite.file.connection import Connection
from ramify.store.sqlite.file.db import Db
from ramify.store.sqlite.file.file_watch import FileWatch
from ramify.store.sqlite.file.guard import FileId, guard
from ramify.store.sqlite.file.location import check_live_folder, check_location, check_sqlite_version, make_live_folder
from ramify.store.sqlite.file.read_only import can_write, check_to_read, read_only_name
from ramify.store.sqlite.file.wal import FEWEST_PAGES, WAL_LIMIT, Wal
from ramify.store.sqlite.file.write_queue import BusyHandler, WriteQueue, nap

T = TypeVar("T")

_STATEMENTS = 256
_FLAGS = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
_LOOKING = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOFOLLOW | apsw.SQLITE_OPEN_URI

_SETTINGS = {
    "fullfsync": "ON",
    "foreign_keys": "OFF",
    "trusted_schema": "OFF",
    "cell_size_check": "ON",
    "temp_store": "MEMORY",
    "mmap_size": "0",
    "wal_autocheckpoint": str(FEWEST_PAGES),
}


class Link:
    """The connections of one store to its file."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Literal["power", "process"] = "power",
        busy_timeout: float = 30.0,
        on_first_open: Callable[[apsw.Connection], None] | None = None,
        wal_limit: int = WAL_LIMIT,
        vfs: str | None = None,
        reading: bool = False,
    ) -> None:
        """Open the file, creating it if it is missing. `on_first_open` makes or checks the schema, in a transaction.

        For `reading` a file must exist, and may be where nothing can be written.
        """
        check_sqlite_version(apsw.sqlite_lib_version())
        #: Hears when this link gets the write lock (True) and when it lets it go (False).
        self.on_writing: Callable[[bool], None] | None = None
        #: Those who hear why nothing can be written, and None when something was.
        self.on_outcome: list[Callable[[str | None], None]] = []
        #: Says in words who is writing, for the text of a time-out.
        self.holder: Callable[[], str | None] | None = None
        self._prepare, self._vfs = on_first_open, vfs
        self._busy_timeout = busy_timeout
        self._doubtful = self._closed = self._orphaned = False
        self.path, self._file = guard.admit(path, check_to_read if reading else check_location)
        self._only_looks = reading and not can_write(self.path)
        self._watch = FileWatch(self.path, self._file)
        self._write_queue = WriteQueue(f"{self.path}-live/turn")
        self._let_go = weakref.finalize(self, _let_go, self._file, self._watch, self._write_queue)
        kept = _SETTINGS | {
            "synchronous": "FULL" if durability == "power" else "NORMAL",
            "journal_size_limit": str(wal_limit),
        }
        reads_only = kept | {"query_only": "ON"}
        self._writer = Connection(
            "write", BusyHandler(busy_timeout, self._write_queue), kept | {"cache_size": "-65536"}
        )
        self._reader = Connection("read", BusyHandler(busy_timeout), reads_only | {"cache_size": "-16384"})
        self._watcher = Connection("watch", BusyHandler(busy_timeout), reads_only | {"cache_size": "-64"})
        self._copier = Connection("copy", BusyHandler(busy_timeout), reads_only)
        self._wal = Wal(str(self.path), wal_limit, self._writer)
        self._conns = (self._watcher, self._copier, self._reader, self._writer)
        forks.register(self)
        try:
            check_live_folder(self.path)
            with self._using(self._reader if self._only_looks else self._writer):
                pass
            if not self._only_looks:
                # Only now: beside a file that is refused, nothing of ours is left.
                make_live_folder(self.path)
        except BaseException:  # whatever it is, an interrupt too: nobody else could close what is half open
            self.close()
            raise

    @contextmanager
    def write(self) -> Iterator[Db]:
        """One write transaction: committed when the block ends, rolled back when it raises.

        A crash inside leaves nothing of it; a crash after the COMMIT began leaves all or nothing.
        """
        with self._using(self._writer) as db:
            try:
                self._begin(db)
                yield db
                self._commit(db)
                self._tell_outcome(None)
            except BaseException:  # also what the block raised: our transaction must not outlive it
                self._roll_back(db)
                raise
            finally:
                if self.on_writing is not None and not self._orphaned:
                    self.on_writing(False)
            self._bound_wal(db)

    @contextmanager
    def read(self) -> Iterator[Db]:
        """One snapshot, which sees nothing of later commits. Keep it short: the log cannot shrink below it."""
        with self._reading(self._reader) as db:
            yield db

    @contextmanager
    def snapshot(self) -> Iterator[apsw.Connection]:
        """One snapshot on a connection of its own, for what takes long: reads go on beside it."""
        with self._reading(self._copier) as db:
            db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
            yield db
            self._copier.stale = True

    @contextmanager
    def _reading(self, conn: Connection) -> Iterator[apsw.Connection]:
        with self._using(conn) as db:
            try:
                db.execute("BEGIN DEFERRED")
                yield db
            finally:
                self._roll_back(db)

    def changed(self) -> int:
        """A token that differs from an earlier one when any connection has committed since. Cheap enough to poll."""
        with self._using(self._watcher) as db:
            (version,) = db.execute("PRAGMA data_version").fetchall()[0]
        assert isinstance(version, int)
        return (self._watcher.opens << 32) + version

    def close(self) -> None:
        """Close the connections, once threads that use them are done. What is committed stays committed."""
        self._closed = True
        if self._orphaned:
            return
        for conn in self._conns:
            if not conn.is_mine() and conn.lock.acquire(timeout=self._busy_timeout):
                try:
                    self._drop(conn)
                finally:
                    conn.lock.release()
        self._finish_closing()

    def orphan(self) -> None:
        """In a forked child: refuse everything from now on, and never close what the parent uses."""
        self._orphaned = True
        self._let_go.detach()
        # Not even when the interpreter ends: references that nobody gives back. The driver closes all connections when
        # its module is freed, so that one is kept as well.
        for kept in (apsw, *(conn.db for conn in self._conns)):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))

    # connections: one thread at a time on each connection

    @contextmanager
    def _using(self, conn: Connection) -> Iterator[apsw.Connection]:
        self._check_usable()
        if conn.is_mine():
            raise RuntimeError(f"{conn.purpose}() inside {conn.purpose}() of the same store and thread")
        # Ctrl-C strikes the main thread anywhere, also right after it got the lock; so it is got inside of the `try`.
        try:
            self._acquire(conn)
            yield self._opened(conn)
        except apsw.Error as error:
            raise self._explain(conn, error) from error
        finally:
            try:
                if conn.is_mine():
                    self._give_back(conn)
            finally:
                # The first call of its block: nothing can strike before it is done.
                try:  # noqa: SIM105  `suppress` would be a call before it
                    conn.lock.release()
                except RuntimeError:
                    pass  # it was not got

    def _acquire(self, conn: Connection) -> None:
        if not conn.lock.acquire(timeout=self._busy_timeout):
            seconds = time.monotonic() - conn.since
            raise StoreUnavailable(
                f"{self.path}: another thread of this process has kept its {conn.purpose} connection for {seconds:.0f} "
                "s; nothing was changed, try again"
            )
        self._check_usable()

    def _opened(self, conn: Connection) -> apsw.Connection:
        conn.since = time.monotonic()
        if conn.stale:
            self._drop(conn)
        if conn.db is None:
            self._open(conn)
        assert conn.db is not None
        return conn.db

    def _give_back(self, conn: Connection) -> None:
        if self._orphaned:
            return
        # A statement left half read would keep its snapshot, and with it the log, for as long as somebody refers to it.
        if self._closed or conn.stale or (conn.db is not None and conn.db.txn_state() != apsw.SQLITE_TXN_NONE):
            self._drop(conn)
        if self._closed:
            self._finish_closing()

    def _drop(self, conn: Connection) -> None:
        if conn.db is not None:
            # The last to close a file that is not ours any more must not write to it.
            with suppress(StoreError, apsw.Error):
                self._watch.check(conn.db)
        self._watch.closing(conn)
        conn.drop(keep_log=self._watch.is_broken)

    def _finish_closing(self) -> None:
        if all(conn.db is None for conn in self._conns):
            self._let_go()

    def _check_usable(self) -> None:
        if self._orphaned:
            raise StoreRefused(
                f"{self.path} was opened before this process was forked, and SQLite does not survive a fork. Start the "
                "child with subprocess or multiprocessing's 'spawn', or close the store before forking and open it "
                "again in the child"
            )
        if self._closed:
            raise StoreRefused(f"{self.path}: this store was closed. Open it again")

    # opening

    def _open(self, conn: Connection) -> None:
        self._watch.check()
        # Two processes that create one file get in each other's way where SQLite asks no busy handler.
        conn.db = self._patiently(lambda: self._connect(conn))
        conn.opens += 1
        if not self._only_looks:
            self._watch.opened(conn)
            self._watch.check(conn.db)

    def _connect(self, conn: Connection) -> apsw.Connection:
        if self._only_looks and conn is self._writer:
            raise StoreRefused(f"{self.path} was opened to look at it only, and cannot be changed here")
        name, flags = (read_only_name(self.path), _LOOKING) if self._only_looks else (str(self.path), _FLAGS)
        db = apsw.Connection(name, flags=flags, vfs=self._vfs, statementcachesize=_STATEMENTS)
        try:
            db.set_busy_handler(conn.busy_handler)
            db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
            # Otherwise SQLite prepares some statements anew whenever other values are bound.
            db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            for name, value in conn.settings.items():
                db.execute(f"PRAGMA {name}={value}").fetchall()
            if self._only_looks:
                founding.check(db, self._prepare)
            elif self._writer.opens == 0:
                founding.found(db, self.path, self._prepare)
            # The log is opened by whoever reads first.
            db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
            if conn is self._writer:
                self._settle(db)
        except BaseException:  # whatever it is, an interrupt too: nobody else knows this connection
            db.close(True)
            raise
        return db

    def _settle(self, db: apsw.Connection) -> None:
        """Make sure of the log: after an I/O error that the disk has it."""
        self._watch.check(db)
        if self._doubtful:
            # After a failed sync the system may take unwritten pages for written, so a second sync of the same log
            # proves nothing. Its content goes to the database, and a fresh log with a header of its own replaces it.
            wal.renew(db)
            self._doubtful = False

    def check_in_place(self) -> None:
        """Refuse to go on when the store's files were moved, replaced or overwritten; without a transaction."""
        with self._using(self._watcher) as db:
            self._watch.check(db)

    # transactions

    def _begin(self, db: apsw.Connection) -> None:
        self._wal.make_room(db)
        with self._write_queue.held():
            db.execute("BEGIN IMMEDIATE")
        if self.on_writing is not None:
            self.on_writing(True)

    def _commit(self, db: apsw.Connection) -> None:
        self._check_usable()
        if not db.in_transaction:
            raise StoreUnavailable(f"{self.path}: SQLite gave the transaction up; nothing was changed, try again")
        self._watch.check_before_commit(db)
        self._patiently(lambda: db.execute("COMMIT"))
        self._watch.check_committed(db)

    def _roll_back(self, db: apsw.Connection) -> None:
        if self._orphaned:
            return
        try:
            # After a full disk and some other errors SQLite has rolled back by itself.
            if db.in_transaction:
                db.execute("ROLLBACK")
        except apsw.Error:
            self._writer.stale = self._reader.stale = True

    def _bound_wal(self, db: apsw.Connection) -> None:
        try:
            self._wal.bound(db)
        except apsw.Error as error:
            # The commit stands, so this is nobody's error but the disk's.
            self._doubt(error)

    # trouble

    def _patiently(self, do: Callable[[], T]) -> T:
        end = time.monotonic() + self._busy_timeout
        for tries in itertools.count():
            try:
                return do()
            except errors.BUSY:
                if time.monotonic() > end:
                    raise
            nap(tries)
        raise AssertionError

    def _doubt(self, error: apsw.Error) -> None:
        if errors.is_doubtful(error):
            for conn in self._conns:
                conn.stale = True
            self._doubtful |= isinstance(error, apsw.IOError)

    def _explain(self, conn: Connection, error: apsw.Error) -> StoreError:
        self._doubt(error)
        if conn.db is not None and isinstance(error, apsw.CorruptError | apsw.NotADBError):
            try:
                self._watch.check(conn.db)
            except StoreError as cause:
                return cause
        if conn is not self._writer and getattr(error, "extendedresult", None) == apsw.SQLITE_READONLY:
            return StoreRefused(f"{self.path}: this is a read, and nothing can be changed in it")
        waited = self._waited() if isinstance(error, errors.BUSY) else ""
        number = conn.db.system_errno if conn.db is not None else 0
        told = errors.explain(error, self.path, number, waited)
        if conn is self._writer:
            self._wal.is_cramped |= errors.is_full(error, number)
            self._tell_outcome(str(told).removeprefix(f"{self.path}").lstrip(": "))
        return told

    def _tell_outcome(self, why: str | None) -> None:
        for hear in () if self._orphaned else self.on_outcome:
            hear(why)

    def _waited(self) -> str:
        who = None
        if self.holder is not None:
            with suppress(StoreError):
                who = self.holder()
        return f"waited {self._busy_timeout:g} s for its turn to write, but {who or 'another process is writing'}"


def _let_go(file: FileId, watch: FileWatch, queue: WriteQueue) -> None:
    queue.close()
    watch.close()
    guard.release(file)
