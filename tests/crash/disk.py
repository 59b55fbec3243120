"""A disk that fails on command: every change SQLite makes to files below one folder asks a fault first.

While a `Disk` is in use, the functions of SQLite's own file layer that change files (write, sync, truncate, delete,
create, extend shared memory) are replaced by ours. A fault answers each step with "go on", with an error code, or with
"write only so many bytes, then fail". SQLite gets a bare error code, exactly as from a real disk, so an error that it
swallows (in an automatic checkpoint, while closing) stays swallowed; a Python exception could not do that. No compiler
and no hook in the code under test are needed: the structures are those of `sqlite3.h`, a stable interface.

A *dead* disk refuses every change. That is what the files look like to the next process after `kill -9`: complete up
to the last step that was made, and nothing after it.

Real syncs are left out unless asked for: a killed process does not need them, and lost power is told by `power.py`.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import TracebackType

import apsw

_Pointer = ctypes.c_void_p
_FILE_METHODS = (
    "xClose", "xRead", "xWrite", "xTruncate", "xSync", "xFileSize", "xLock", "xUnlock", "xCheckReservedLock",
    "xFileControl", "xSectorSize", "xDeviceCharacteristics", "xShmMap", "xShmLock", "xShmBarrier", "xShmUnmap",
    "xFetch", "xUnfetch",
)  # fmt: skip


class _FileMethods(ctypes.Structure):
    _fields_ = (("iVersion", ctypes.c_int), *((name, _Pointer) for name in _FILE_METHODS))


class _FileLayer(ctypes.Structure):
    _fields_ = (
        ("iVersion", ctypes.c_int),
        ("szOsFile", ctypes.c_int),
        ("mxPathname", ctypes.c_int),
        ("pNext", _Pointer),
        ("zName", ctypes.c_char_p),
        ("pAppData", _Pointer),
        ("xOpen", _Pointer),
        ("xDelete", _Pointer),
    )


_Open = ctypes.CFUNCTYPE(ctypes.c_int, _Pointer, _Pointer, _Pointer, ctypes.c_int, _Pointer)
_Delete = ctypes.CFUNCTYPE(ctypes.c_int, _Pointer, _Pointer, ctypes.c_int)
_Close = ctypes.CFUNCTYPE(ctypes.c_int, _Pointer)
_Write = ctypes.CFUNCTYPE(ctypes.c_int, _Pointer, _Pointer, ctypes.c_int, ctypes.c_int64)
_Truncate = ctypes.CFUNCTYPE(ctypes.c_int, _Pointer, ctypes.c_int64)
_Sync = ctypes.CFUNCTYPE(ctypes.c_int, _Pointer, ctypes.c_int)
_Map = ctypes.CFUNCTYPE(ctypes.c_int, _Pointer, ctypes.c_int, ctypes.c_int, ctypes.c_int, _Pointer)


class Change(Enum):
    """What a step does, with the code SQLite gets when it fails."""

    CREATE = apsw.SQLITE_CANTOPEN
    WRITE = apsw.SQLITE_IOERR_WRITE
    SYNC = apsw.SQLITE_IOERR_FSYNC
    TRUNCATE = apsw.SQLITE_IOERR_TRUNCATE
    DELETE = apsw.SQLITE_IOERR_DELETE
    MAP = apsw.SQLITE_IOERR_SHMSIZE


@dataclass(frozen=True)
class Step:
    """One change: of which file, where, and what. A truncation has its new size as `offset`."""

    change: Change
    path: Path
    offset: int = 0
    content: bytes = b""
    #: A delete that also syncs the folder.
    lasting: bool = False

    @property
    def is_log(self) -> bool:
        """Whether it is about the write-ahead log."""
        return self.path.name.endswith("-wal")


@dataclass(frozen=True)
class Answer:
    """What the disk does with a step: all of it, or `bytes_written` of it and then an error."""

    code: int = apsw.SQLITE_OK
    bytes_written: int = 0


GO = Answer()
Fault = Callable[[Step], Answer]


def let(step: Step) -> Answer:
    """No fault."""
    return GO


def fail(step: Step) -> Answer:
    """The error that a broken disk would give."""
    return Answer(step.change.value)


def tear(step: Step) -> Answer:
    """Half of a write, and the error."""
    return Answer(step.change.value, len(step.content) // 2)


@dataclass(frozen=True)
class _Opened:
    path: Path
    methods: int


class Disk:
    """The files below `folder`, for as long as the `with` block lasts. Only one at a time."""

    def __init__(self, folder: Path, fault: Fault = let, *, really_sync: bool = False) -> None:
        self.folder = folder.resolve()
        self.fault = fault
        self.steps: list[Step] = []
        self.dead = False
        self._really_sync = really_sync
        self._tables: dict[int, tuple[_FileMethods, list[object]]] = {}
        self._files: dict[int, _Opened] = {}

    def __enter__(self) -> Disk:
        self._layer = _unix_layer()
        self._originals = (self._layer.xOpen, self._layer.xDelete)
        self._open_file, self._delete_file = _Open(self._layer.xOpen), _Delete(self._layer.xDelete)
        self._functions = (_Open(self._on_open), _Delete(self._on_delete))
        self._layer.xOpen, self._layer.xDelete = map(_address, self._functions)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._layer.xOpen, self._layer.xDelete = self._originals
        # Whatever is still open (after a failed test, say) gets its own methods back, for ours end here.
        for file, opened in self._files.items():
            _Pointer.from_address(file).value = opened.methods

    def ask(self, step: Step) -> Answer:
        """What becomes of a step; noted, unless it is refused because the disk is dead."""
        if self.dead:
            return fail(step)
        self.steps.append(step)
        return self.fault(step)

    def _path(self, name: int | None) -> Path | None:
        if name is None:
            return None
        path = Path(ctypes.string_at(name).decode())
        return path if path.is_relative_to(self.folder) else None

    def _on_open(self, layer: int, name: int | None, file: int, flags: int, out: int) -> int:
        path = self._path(name)
        if path is None:
            return int(self._open_file(layer, name, file, flags, out))
        if flags & apsw.SQLITE_OPEN_CREATE and not path.exists():
            answer = self.ask(Step(Change.CREATE, path))
            if answer.code:
                # Without methods SQLite knows that there is nothing to close.
                _Pointer.from_address(file).value = None
                return answer.code
        code = self._open_file(layer, name, file, flags, out)
        if code == apsw.SQLITE_OK:
            methods = _Pointer.from_address(file)
            assert methods.value is not None
            self._files[file] = _Opened(path, methods.value)
            methods.value = ctypes.addressof(self._table(methods.value))
        return int(code)

    def _on_delete(self, layer: int, name: int, lasting: int) -> int:
        path = self._path(name)
        if path is not None and path.exists():
            answer = self.ask(Step(Change.DELETE, path, lasting=bool(lasting)))
            if answer.code:
                return answer.code
        return int(self._delete_file(layer, name, lasting))

    def _table(self, address: int) -> _FileMethods:
        """The methods at `address` with ours in the place of those that change files."""
        if address not in self._tables:
            originals = _FileMethods.from_address(address)
            table = _FileMethods.from_buffer_copy(originals)
            ours: list[object] = []
            for name, make, form in (
                ("xClose", self._closing, _Close),
                ("xWrite", self._writing, _Write),
                ("xTruncate", self._truncating, _Truncate),
                ("xSync", self._syncing, _Sync),
                ("xShmMap", self._mapping, _Map),
            ):
                if (original := getattr(originals, name)) is not None:
                    ours.append(make(form(original)))
                    setattr(table, name, _address(ours[-1]))
            self._tables[address] = (table, ours)
        return self._tables[address][0]

    def _closing(self, close: Callable[..., int]) -> object:
        def xClose(file: int) -> int:
            del self._files[file]
            return close(file)

        return _Close(xClose)

    def _writing(self, write: Callable[..., int]) -> object:
        def xWrite(file: int, buffer: int, size: int, offset: int) -> int:
            answer = self.ask(Step(Change.WRITE, self._files[file].path, offset, ctypes.string_at(buffer, size)))
            if not answer.code:
                return write(file, buffer, size, offset)
            if answer.bytes_written:
                write(file, buffer, answer.bytes_written, offset)
            return answer.code

        return _Write(xWrite)

    def _truncating(self, truncate: Callable[..., int]) -> object:
        def xTruncate(file: int, size: int) -> int:
            answer = self.ask(Step(Change.TRUNCATE, self._files[file].path, size))
            return answer.code or truncate(file, size)

        return _Truncate(xTruncate)

    def _syncing(self, sync: Callable[..., int]) -> object:
        def xSync(file: int, flags: int) -> int:
            answer = self.ask(Step(Change.SYNC, self._files[file].path))
            return answer.code or (sync(file, flags) if self._really_sync else apsw.SQLITE_OK)

        return _Sync(xSync)

    def _mapping(self, map_region: Callable[..., int]) -> object:
        def xShmMap(file: int, region: int, size: int, extend: int, out: int) -> int:
            if extend:
                path = self._files[file].path
                answer = self.ask(Step(Change.MAP, path.with_name(f"{path.name}-shm"), region * size))
                if answer.code:
                    return answer.code
            return map_region(file, region, size, extend, out)

        return _Map(xShmMap)


def leave_free(mounted: str, kilobytes: int) -> None:
    """Give a small file system of our own so much free space, and no more."""
    disk = os.statvfs(mounted)
    used = (disk.f_blocks - disk.f_bfree) * disk.f_frsize // 1024
    subprocess.run(["mount", "-o", f"remount,size={used + kilobytes}k", mounted], check=True)


def _unix_layer() -> _FileLayer:
    """SQLite's default file layer, in place."""
    slot = _Pointer()
    with apsw.Connection(":memory:") as connection:
        connection.file_control("main", apsw.SQLITE_FCNTL_VFS_POINTER, ctypes.addressof(slot))
    connection.close()
    assert slot.value is not None
    layer = _FileLayer.from_address(slot.value)
    assert layer.zName == b"unix", layer.zName
    return layer


def _address(function: object) -> int:
    address = ctypes.cast(function, _Pointer).value  # type: ignore[arg-type]
    assert address is not None
    return address
