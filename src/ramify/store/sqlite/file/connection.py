"""A connection, and the lock by which one thread at a time uses it. See `link.py` for when it is opened and dropped."""

from __future__ import annotations

import threading
from contextlib import suppress

import apsw

from ramify.store.sqlite.file.write_queue import BusyHandler


class Connection:
    """A connection that one thread uses at a time; everything but the lock itself is touched only with the lock."""

    def __init__(self, purpose: str, busy_handler: BusyHandler, settings: dict[str, str]) -> None:
        self.purpose = purpose
        self.busy_handler = busy_handler
        self.settings = settings
        #: It knows its thread, so that an interrupted one can tell whether it got it.
        self.lock = threading.RLock()
        self.since = 0.0
        #: How often it was opened.
        self.opens = 0
        self.db: apsw.Connection | None = None
        #: To be dropped by its next user; the only field that others set.
        self.stale = False

    def is_mine(self) -> bool:
        """Return whether this thread has the lock."""
        mine: bool = self.lock._is_owned()  # type: ignore[attr-defined]  # what conditions ask a lock; not in its types
        return mine

    def drop(self, *, keep_log: bool = False) -> None:
        """Close the connection. The last of all processes copies the log into the file, unless it is to be kept."""
        db, self.db, self.stale = self.db, None, False
        if db is not None:
            with suppress(apsw.Error):
                if keep_log:
                    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                db.close(True)
