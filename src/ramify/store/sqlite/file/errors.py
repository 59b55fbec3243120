"""Trouble: what SQLite's errors mean to whoever called a verb.

    StoreUnavailable   busy, disk full, an I/O error: the outcome may be unknown; send the same verb again
    StoreBroken        damage, a file taken away under us, or a bug: a person is needed

No exception of the driver crosses the seam. The texts say what happened to the work and what to do.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import apsw

from ramify.errors import StoreBroken, StoreError, StoreUnavailable

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

#: Another process or thread is in the way; the same statement may work in a moment.
BUSY = (apsw.BusyError, apsw.LockedError, apsw.ProtocolError)


def is_doubtful(error: apsw.Error) -> bool:
    """Return whether the connection cannot be trusted after this error: what it wrote may or may not be on the disk."""
    return isinstance(error, apsw.IOError | apsw.CorruptError | apsw.NotADBError | apsw.NoMemError)


def is_full(error: apsw.Error, system_errno: int = 0) -> bool:
    """Return whether the disk is full."""
    return isinstance(error, apsw.FullError) or (isinstance(error, apsw.IOError) and system_errno in _NO_ROOM)


def explain(error: apsw.Error, place: Path, system_errno: int = 0, waited: str = "") -> StoreError:
    """The exception to raise instead of `error`."""
    cause = f" ({os.strerror(system_errno)})" if system_errno else ""
    match error:
        case apsw.BusyError() | apsw.LockedError() | apsw.ProtocolError():
            return StoreUnavailable(
                f"{place}: {waited or 'another process is writing'}; nothing was changed, try again"
            )
        case _ if is_full(error, system_errno):
            return _full(place)
        case apsw.IOError():
            return StoreUnavailable(
                f"{place}: the disk reported an error{cause}: {error}. Whether the last transaction was written is not "
                "known, so send the same verb again; if it goes on, look at the disk (dmesg)"
            )
        case apsw.CorruptError() | apsw.NotADBError():
            return StoreBroken(
                f"{place} is damaged: {error}. Stop all processes, copy the file together with its -wal away, and "
                "restore a backup; `ramify doctor --full` says what is damaged"
            )
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return StoreUnavailable(
                f"{place} can no longer be written: {error}. Look at the permissions of the file and of its "
                "folder, and whether the file system is mounted read-only"
            )
        case apsw.CantOpenError():
            return StoreUnavailable(f"{place} cannot be opened{cause}: {error}")
        case apsw.NoMemError():
            return StoreUnavailable(f"{place}: out of memory; nothing was changed, try again")
        case apsw.InterruptError():
            return StoreUnavailable(f"{place}: interrupted; nothing was changed, try again")
        case _:
            # A statement of ours that does not fit this file: a bug, or a schema somebody changed.
            return StoreBroken(f"{place}: {type(error).__name__}: {error}. This should not happen: please report it")


def _full(place: Path) -> StoreUnavailable:
    return StoreUnavailable(
        f"{place}: the disk is full. Free some space; what was saved is safe, and work continues when there is room"
    )
