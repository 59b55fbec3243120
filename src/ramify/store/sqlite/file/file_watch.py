"""The watch over the files of an open store: whether somebody moved, removed, replaced or overwrote one of them.

SQLite notices none of it, and acknowledges commits that nobody will ever read. So the watch notes, for this process:

    the database, -wal, -shm   device and inode of each. SQLite maps one -shm for all connections of a process, so the
                               note lasts while any of them is open
    the content                time and size of the file. Only checkpoints change them, and a checkpoint also changes
                               numbers in the shared memory. A change without a checkpoint is somebody else's write if
                               the first pages of the file, too, are not what they were

Files that are all in their folder while the folder has another name are only away: that is `StoreUnavailable`. The rest
is `StoreBroken`. Whoever finds the file overwritten leaves a mark beside it, because the log does not fit the file any
more and a later process could not tell.

Not noticed: a copy over the file between two looks of all processes, if a checkpoint or a new start of the log falls
between them, too; one whose first pages are the same; and one made while no process has the store open, if a kill has
left a log beside the file.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn
from weakref import WeakSet

import apsw

from ramify.errors import StoreBroken, StoreRefused, StoreUnavailable
from ramify.store.sqlite.file import raw_file
from ramify.store.sqlite.file.connection import Connection
from ramify.store.sqlite.file.guard import FileId, guard, id_of
from ramify.store.sqlite.file.raw_file import Checkpoints, Memory

#: In nanoseconds: the time of a folder may stay the same through two changes that are not further apart.
_SETTLED = 50_000_000
#: How the mark is called, behind the name of the file. It lies beside that, so that the folder tells of it.
OVERWRITTEN = "-overwritten"


@dataclass(frozen=True, slots=True)
class _Content:
    """The file as it was seen last. The checkpoints were read first, so one that began meanwhile shows later."""

    checkpoints: Checkpoints
    beginning: int
    changed: tuple[int, int]


@dataclass(slots=True)
class _Opened:
    """The files that SQLite has open for one database in this process."""

    files: dict[str, FileId | None]
    users: WeakSet[Connection] = field(default_factory=WeakSet)
    #: Where SQLite has its shared memory, for as long as there are users.
    memory: Memory | None = None
    content: _Content | None = None
    #: The folder when all of the files were in it: device, inode, and when an entry of it last changed.
    folder: tuple[int, int, int] | None = None


#: By database file; changed under the guard's lock.
_opened: dict[FileId, _Opened] = {}


def _open_now(file: FileId) -> _Opened | None:
    """The files that SQLite has open; None when all connections were closed, or are gone with a link nobody closed."""
    opened = _opened.get(file)
    return opened if opened is not None and opened.users else None


class FileWatch:
    """The watch of one link. Any thread may ask it; with a connection, only the thread that uses the connection."""

    def __init__(self, path: Path, file: FileId) -> None:
        self._path, self._parent, self._file = str(path), str(path.parent), file
        self._alone: dict[str, FileId | None] = {self._path: file}
        self._mark = f"{path}{OVERWRITTEN}"
        #: The folder under whatever name. To look a file up in it takes no right to list it.
        self._folder: int | None = None
        with suppress(OSError):
            self._folder = os.open(path.parent, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY)
        #: Whether a file was found missing or changed: then the log must stay as it is when connections are closed.
        self.is_broken = False

    def opened(self, conn: Connection) -> None:
        """Note the files that a connection has just opened, or has in common with others of this process."""
        with guard.lock:
            if _open_now(self._file) is None:
                beside = {path: _id_at(path) for path in (f"{self._path}-wal", f"{self._path}-shm")}
                _opened[self._file] = _Opened(self._alone | beside)
            _opened[self._file].users.add(conn)

    def closing(self, conn: Connection) -> None:
        """Forget a connection before it is closed; SQLite removes -wal and -shm with the last one of all processes."""
        with guard.lock:
            opened = _opened.get(self._file)
            if opened is not None:
                opened.users.discard(conn)
                if not opened.users:
                    del _opened[self._file]

    def check(self, db: apsw.Connection | None = None) -> None:
        """Refuse to go on when a file is not in its place or, as far as a connection can tell, not as it was."""
        self._look(db)
        self._check_mark()

    def check_before_commit(self, db: apsw.Connection) -> None:
        """The same, with as few steps as can be: it comes with every commit, on a connection that is open."""
        folder, opened = _folder_at(self._parent), _opened.get(self._file)
        if opened is None or opened.memory is None or folder is None or folder != opened.folder:
            self.check(db)
            self._note_folder(opened, folder)
            return
        before = raw_file.checkpoints(opened.memory)
        found = os.lstat(self._path)
        self._check_content(db, opened, before, (found.st_mtime_ns, found.st_size))

    def check_committed(self, db: apsw.Connection) -> None:
        """Refuse to acknowledge a commit that others may not find.

        Who makes a new -shm from now on finds it in the log. One that was made before may have written over it.
        """
        folder, opened = _folder_at(self._parent), _opened.get(self._file)
        if opened is not None and opened.memory and opened.content and folder is not None:
            # Nothing in the folder changed, so all files are in their places; without a checkpoint the file did not.
            is_as_it_was = raw_file.checkpoints(opened.memory) == opened.content.checkpoints
            if folder == opened.folder and is_as_it_was:
                return
        # A folder that was moved away has taken the commit along.
        with suppress(StoreUnavailable):
            self._look(db)
            self._note_folder(opened, folder)

    def _note_folder(self, opened: _Opened | None, folder: tuple[int, int, int] | None) -> None:
        """All files were found in their places after the folder was seen like this; while it stays so, they are."""
        if opened is not None and folder is not None and time.time_ns() - folder[2] > _SETTLED:
            opened.folder = folder

    def _check_mark(self) -> None:
        if os.access(self._mark, os.F_OK):
            self._break_off(_overwritten(self._path))

    def _look(self, db: apsw.Connection | None) -> None:
        opened = _open_now(self._file)
        before = (
            raw_file.checkpoints(opened.memory) if opened is not None and opened.memory and db is not None else None
        )
        files = self._alone if opened is None else opened.files
        try:
            found = [os.lstat(path) for path in files]
        except FileNotFoundError:
            found = []
        except OSError as error:
            raise StoreUnavailable(f"{self._path} cannot be reached ({error.strerror})") from error
        if [(each.st_dev, each.st_ino) for each in found] != list(files.values()):
            self._miss(files, opened)
            self._look(db)
        elif opened is not None and db is not None:
            self._check_content(db, opened, before, (found[0].st_mtime_ns, found[0].st_size))

    def close(self) -> None:
        """Let go of the folder."""
        if self._folder is not None:
            os.close(self._folder)

    def _miss(self, files: dict[str, FileId | None], opened: _Opened | None) -> None:
        """Say which file is not in its place, and whether that may pass; return when it is, after all."""
        found = {path: _id_at(path) for path in files}
        lost = [path for path in files if found[path] != files[path]]
        if not lost or _open_now(self._file) is not opened:
            # The last connection was closed meanwhile, and SQLite removed what is beside the file.
            return
        if not any(found[path] for path in lost) and self._has_moved(files):
            raise StoreUnavailable(f"{self._path}: its folder was moved away. Put it back under its name")
        self._break_off(_shm_lost(self._path) if lost == [f"{self._path}-shm"] else _lost(self._path))

    def _has_moved(self, files: dict[str, FileId | None]) -> bool:
        """Return whether the files are all where they were, in a folder that has another name now."""
        folder = self._folder
        return folder is not None and all(
            _id_at(os.path.basename(path), folder) == file for path, file in files.items()
        )

    def _check_content(
        self, db: apsw.Connection, opened: _Opened, before: Checkpoints | None, changed: tuple[int, int]
    ) -> None:
        """Compare the file with what was seen last; `before` was read before the file was found like this."""
        seen = opened.content
        if before is not None and seen is not None and seen.changed == changed:
            if seen.checkpoints != before:
                opened.content = replace(seen, checkpoints=before)
            return
        if opened.memory is None:
            opened.memory = raw_file.shared_memory(db)
            if opened.memory is None:
                return
        now = raw_file.checkpoints(opened.memory)
        if seen is None or now != seen.checkpoints or now.is_half_done:
            beginning, found = raw_file.beginning(db), os.stat(self._path)
            opened.content = _Content(now, beginning, (found.st_mtime_ns, found.st_size))
        elif raw_file.beginning(db) == seen.beginning:
            # Only touched.
            opened.content = replace(seen, changed=changed)
        elif raw_file.checkpoints(opened.memory) == now:
            # CRASH: no mark -> other processes notice by themselves, except for one that is started after this.
            with suppress(OSError):
                os.close(os.open(self._mark, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
            self._break_off(_overwritten(self._path))

    def _break_off(self, why: str) -> NoReturn:
        self.is_broken = True
        raise StoreBroken(why)


def check_not_overwritten(path: Path) -> None:
    """Refuse to open a file that was overwritten while it was open: its log does not fit it."""
    if os.path.lexists(f"{path}{OVERWRITTEN}"):
        raise StoreRefused(_overwritten(str(path)))


def forget_overwritten(path: Path) -> None:
    """Remove the mark: the file is gone and its log, too."""
    with suppress(OSError):
        os.unlink(f"{path}{OVERWRITTEN}")


def _folder_at(path: str) -> tuple[int, int, int] | None:
    """Device and inode of a folder, and when an entry of it was last made, removed or renamed."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _id_at(path: str, folder: int | None = None) -> FileId | None:
    try:
        return id_of(os.stat(path, dir_fd=folder, follow_symlinks=False))
    except OSError:
        return None


def _lost(path: str) -> str:
    return (
        f"{path} or its -wal was moved, replaced or deleted while it was open. Stop all processes that use it and put "
        "the files back, or restore a backup; nothing more is written until then"
    )


def _shm_lost(path: str) -> str:
    return (
        f"{path}-shm was moved, replaced or deleted while it was open, so processes do not see each other's commits. "
        "Stop all processes that use the store, then start them again: SQLite makes the file anew from the -wal"
    )


def _overwritten(path: str) -> str:
    return (
        f"{path} was overwritten while it was open, so its -wal does not fit it. Stop all processes that use it, "
        f"remove {path}-wal, {path}-shm, {path}{OVERWRITTEN} and the folder {path}-live, and copy the backup once "
        "more; nothing is written until then"
    )
