"""Locks that other processes hold on the files of a database, asked of the kernel without taking any.

Only Linux is asked; elsewhere nobody seems to hold a lock. The caller must know that this process has no store open on
the file: closing a descriptor of it drops the locks of the whole process (see `guard.py`).
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys

#: `struct flock` of 64-bit Linux: type, whence, start, length, pid.
_FLOCK = struct.Struct("hhqqi4x")
#: Where every connection to a database in WAL mode keeps a shared lock, in the file and in its -shm.
_IN_FILE, _IN_SHM = (0x40000002, 510), (128, 1)


def user_without_shm(descriptor: int, shm: str) -> int | None:
    """The pid of a process that has the file open while nobody has the present -shm open, or the file has none."""
    found = _holder(descriptor, _IN_FILE)
    if found is None or found[0] != fcntl.F_RDLCK:
        return None
    try:
        beside = os.open(shm, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return found[1]
    try:
        return found[1] if _holder(beside, _IN_SHM) is None else None
    finally:
        os.close(beside)


def _holder(descriptor: int, where: tuple[int, int]) -> tuple[int, int] | None:
    """The type of a lock that another process holds there, and its pid."""
    if sys.platform != "linux":
        return None
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, *where, 0)
    try:
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    except OSError:
        return None
    return None if kind == fcntl.F_UNLCK else (kind, pid)
