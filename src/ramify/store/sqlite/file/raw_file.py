"""The database file as it is on the disk, and how far its write-ahead log was copied into it.

Both are read through SQLite's own descriptors: closing a second descriptor of the file would drop SQLite's locks (see
`guard.py`). The caller must be the only user of the connection, and the connection must have read something before.
"""

from __future__ import annotations

import ctypes
import zlib
from typing import Any, ClassVar, NamedTuple, TypeAlias

import apsw

#: How much of the file `beginning` reads. The root pages of all tables are in it: they are made with the file.
_BEGINNING = 256 * 1024
#: One region of SQLite's shared memory, and where in the first one the numbers are: the log's salts, how many frames
#: were copied, and how many a checkpoint has begun to copy. The layout is part of SQLite's file format.
_REGION = 32 * 1024
_SALTS, _COPIED, _BEGUN = slice(32, 40), slice(96, 100), slice(128, 132)

#: The beginning of the shared memory, as it is at each moment.
Memory: TypeAlias = "ctypes.Array[ctypes.c_char]"
_Head = ctypes.c_char * _BEGUN.stop
_Pointer = ctypes.c_void_p
_Read = ctypes.CFUNCTYPE(ctypes.c_int, _Pointer, _Pointer, ctypes.c_int, ctypes.c_int64)
_Map = ctypes.CFUNCTYPE(ctypes.c_int, _Pointer, ctypes.c_int, ctypes.c_int, ctypes.c_int, _Pointer)


class _Methods(ctypes.Structure):
    """`sqlite3_io_methods`, as far as it is used here."""

    _fields_: ClassVar[list[Any]] = [
        ("version", ctypes.c_int),
        ("close", _Pointer),
        ("read", _Read),
        ("others", _Pointer * 10),
        ("shm_map", _Map),
    ]


class Checkpoints(NamedTuple):
    """The bytes that every checkpoint of any process changes, before it writes to the file and after."""

    salts: bytes
    copied: bytes
    begun: bytes

    @property
    def is_half_done(self) -> bool:
        """True if a checkpoint is at work, or was killed at it, or the log has just been recovered."""
        return self.copied != self.begun


def shared_memory(db: apsw.Connection) -> Memory | None:
    """The shared memory, the same for all connections of a process while any of them is open, and gone after that."""
    file, methods = _file(db)
    found = _Pointer()
    if methods.version < 2 or methods.shm_map(file, 0, _REGION, 0, ctypes.addressof(found)) != apsw.SQLITE_OK:
        return None
    return None if found.value is None else _Head.from_address(found.value)


def checkpoints(memory: Memory) -> Checkpoints:
    """How far the log was copied into the file, as the shared memory says. It costs no call of the system."""
    head = memory.raw
    return Checkpoints(head[_SALTS], head[_COPIED], head[_BEGUN])


def beginning(db: apsw.Connection) -> int:
    """A checksum of the first pages of the file, without what the log holds."""
    file, methods = _file(db)
    content = ctypes.create_string_buffer(_BEGINNING)
    # A shorter file is filled up with zeros, and an error that leaves zeros is no reason to call the file the same.
    methods.read(file, ctypes.addressof(content), _BEGINNING, 0)
    return zlib.crc32(content)


def _file(db: apsw.Connection) -> tuple[int, _Methods]:
    slot = _Pointer()
    db.file_control("main", apsw.SQLITE_FCNTL_FILE_POINTER, ctypes.addressof(slot))
    assert slot.value is not None
    methods = _Pointer.from_address(slot.value).value
    assert methods is not None
    return slot.value, _Methods.from_address(methods)
