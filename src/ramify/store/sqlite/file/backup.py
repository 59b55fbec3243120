"""A copy of a store's file, taken while others work on it.

The pages are read within one snapshot, so the copy is the store as it was at one moment. It is written under another
name, made safe on the disk, and only then given its own: a copy that has its name is whole.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import apsw

from ramify.errors import StoreRefused, StoreUnavailable

#: Pages at a time; between two times a signal is heard.
_PAGES = 4096


def copy(
    db: apsw.Connection, path: str | os.PathLike[str], change: Callable[[apsw.Connection], None] | None = None
) -> None:
    """Copy what a connection sees in its transaction to a new file; `change` alters it before it has its name."""
    target = os.path.abspath(os.fspath(path))
    if os.path.lexists(target):
        raise _exists(target)
    # Not ending in anything of ours or SQLite's, and unlike any other copy that is being made.
    unnamed = f"{target}.{secrets.token_hex(4)}.part"
    with _in_words(target):
        try:
            os.close(os.open(unnamed, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            # CRASH: a `.part` file, perhaps with a log -> it is nobody's store, and a person may remove it.
            _write(db, unnamed, change)
            _sync(unnamed)
            _give_name(unnamed, target)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(unnamed)
        _sync(os.path.dirname(target))


def _write(db: apsw.Connection, path: str, change: Callable[[apsw.Connection], None] | None) -> None:
    copy = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        # The file is nobody's yet: there is nothing to roll back, and it is made safe once, at the end.
        for setting in ("journal_mode=OFF", "synchronous=OFF"):
            copy.execute(f"PRAGMA {setting}").fetchall()
        with copy.backup("main", db, "main") as backup:
            while not backup.done:
                backup.step(_PAGES)
        if change is not None:
            change(copy)
    finally:
        copy.close(True)


def _give_name(unnamed: str, target: str) -> None:
    """Name a finished copy; FileExistsError if somebody has taken the name meanwhile."""
    try:
        os.link(unnamed, target)
    except FileExistsError:
        raise
    except OSError:
        # A file system without links: take the name first.
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        # CRASH: an empty file of that name -> not a store yet, and plainly not a copy.
        os.replace(unnamed, target)


def _sync(path: str) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


@contextmanager
def _in_words(target: str) -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        raise _exists(target) from error
    except OSError as error:
        raise StoreUnavailable(
            f"{target}: the copy could not be written ({error.strerror}); nothing of it was left, and the store itself "
            "is as it was"
        ) from error
    except (apsw.FullError, apsw.IOError, apsw.CantOpenError) as error:
        # Most likely the target's disk; what is wrong with the store's own is found by its next verb.
        raise StoreUnavailable(f"{target}: the copy could not be written ({error}); nothing of it was left") from error


def _exists(target: str) -> StoreRefused:
    return StoreRefused(f"{target} exists, and a copy never overwrites a file. Give it another name")
