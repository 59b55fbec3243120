"""The guard of live files: nothing in this process opens a database file that a store has open.

SQLite's locks are POSIX locks, and the kernel drops all of a process's locks on a file when the process closes *any*
descriptor of it. After a copy, a hash or a `sqlite3.connect` of our own file, another process may believe itself alone,
and commits are lost without an error. So Python code that tries is refused, with advice.

A forked child is no better: the SQLite library in it believes to hold locks that only its parent holds. There the
files that were open at the fork cannot be opened again.

Not seen: descriptors opened by C code, by `os.open(..., dir_fd=)`, or through a hard link or a symbolic link with
another name (`sqlite3.connect` through one is seen). Whoever walks over files should skip ours by device and inode.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote_to_bytes

from ramify.errors import StoreRefused
from ramify.store import forks

#: Device and inode: what a file is, under whatever name.
FileId = tuple[int, int]

#: Closing such a descriptor leaves locks alone, and nothing can be read through it.
_HARMLESS = getattr(os, "O_PATH", 0)


class LiveFile(StoreRefused, PermissionError):
    """A file of an open store was about to be opened past it. Also a `PermissionError`, so that file walkers go on."""


class Guard:
    """The files that stores of this process have open, counted, and the audit hook that keeps others off them."""

    def __init__(self) -> None:
        #: Held while a file is checked, registered or released. Whoever opens and closes a file that may be live asks
        #: `is_live` first, and holds it meanwhile.
        self.lock = threading.RLock()
        self._live: Counter[FileId] = Counter()
        self._paths: dict[FileId, str] = {}
        self._inherited: frozenset[FileId] = frozenset()
        # Replaced, never changed, so that the hook can read them without a lock.
        self._tails: tuple[str, ...] = ()
        self._hooked = False
        forks.register(self)

    def admit(
        self, path: str | os.PathLike[str], check: Callable[[str | os.PathLike[str]], Path]
    ) -> tuple[Path, FileId]:
        """Check a path and register the file it names, as one step: no other store opens it in between."""
        with self.lock:
            place = check(path)
            found = id_of(os.lstat(place))
            if found in self._inherited:
                raise StoreRefused(
                    f"{place} was open in the process that this one was forked from, and SQLite cannot open it here "
                    "without losing commits. Start the child with subprocess or multiprocessing's 'spawn', or close "
                    "the store before forking"
                )
            if not self._hooked:
                sys.addaudithook(self._hook())
                self._hooked = True
            self._live[found] += 1
            self._paths[found] = str(place)
            self._retail()
            return place, found

    def release(self, file: FileId) -> None:
        """Forget one registration; call it when the connections are closed, not before."""
        with self.lock:
            # In a forked child nothing is registered any more.
            if file in self._live:
                self._live[file] -= 1
                if not self._live[file]:
                    del self._live[file], self._paths[file]
                self._retail()

    def is_live(self, file: FileId) -> bool:
        """Return whether a store of this process has that file open."""
        return file in self._live

    def orphan(self) -> None:
        """In a forked child: its parent's files are not open here, and must not be."""
        self.lock = threading.RLock()
        self._inherited |= frozenset(self._live)
        self._live.clear()
        self._paths.clear()
        self._tails = ()

    def _retail(self) -> None:
        names = {os.path.basename(path) for path in self._paths.values()}
        self._tails = tuple(names | {f"{name}-shm" for name in names})

    def _hook(self) -> Callable[[str, tuple[object, ...]], None]:
        # Called for every audited event of the program, so the first lines decide for nearly all of them. Names are
        # bound here because a hook may still be called while the interpreter takes its modules apart.
        refuse_open, refuse_connect = self._refuse_open, self._refuse_connect

        def hook(event: str, args: tuple[object, ...]) -> None:
            if event == "open":
                name = args[0]
                if isinstance(name, str):
                    if name.endswith(self._tails):
                        refuse_open(name, args[2])
                elif isinstance(name, bytes) and self._tails:
                    refuse_open(os.fsdecode(name), args[2])
            elif event == "sqlite3.connect" and self._tails:
                refuse_connect(args[0])

        return hook

    def _refuse_open(self, name: str, flags: object) -> None:
        if isinstance(flags, int) and flags & _HARMLESS:
            return
        found = _id_at(name)
        if found is not None and found in self._file_ids():
            raise LiveFile(
                f"open({name!r}): a Ramify store of this process has this file open, and closing a second descriptor "
                "of it would drop the store's locks; read it with run.sql(query), copy it with `ramify backup`, or "
                "open it from another process"
            )

    def _refuse_connect(self, database: object) -> None:
        for name in _names_meant_by(database):
            found = _id_at(name)
            if found is not None and found in self._live:
                raise LiveFile(
                    f"sqlite3.connect({name!r}): a Ramify store of this process has this database open, and closing a "
                    "second connection would drop the store's locks. Use run.sql(query) instead, copy it with "
                    "`ramify backup`, or connect from another process"
                )

    def _file_ids(self) -> set[FileId]:
        # The locks of a database in WAL mode are on its -shm file as well.
        beside = (_id_at(f"{path}-shm") for path in list(self._paths.values()))
        return {*self._live, *(found for found in beside if found is not None)}


def id_of(found: os.stat_result) -> FileId:
    """Return what tells one file from all others."""
    return found.st_dev, found.st_ino


def _id_at(name: str) -> FileId | None:
    try:
        return id_of(os.stat(name))
    except (OSError, ValueError):
        return None


def _names_meant_by(database: object) -> list[str]:
    """The file names that `sqlite3.connect(database)` may open; whether URIs are on is not told, so both readings."""
    if not isinstance(database, str | bytes | os.PathLike):
        return []
    name = os.fsdecode(database)
    if not name.startswith("file:"):
        return [name]
    path = name.removeprefix("file:")
    if path.startswith("//"):
        path = "/" + path[2:].partition("/")[2]
    for end in "?#":
        path = path.partition(end)[0]
    return [name, os.fsdecode(unquote_to_bytes(path))]


#: The only one: locks and audit hooks belong to the process.
guard = Guard()
