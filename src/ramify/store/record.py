"""The record: what one process runs right now, in a file that outlives it, for whoever buries it.

Each worker has a slot in a mapped file, so that noting a task is one store into memory and the file is complete
whatever ends the process. A slot names the task from before its arguments are decoded until after its result is
encoded, with the deadline of the attempt and the `max_crashes` of its kind. One word says that the process was asked to
stop: then nobody is to blame for its end. Beside it, `faulthandler` writes what a fatal signal finds, unless the
program uses it for itself.

It is a help and no more: without a folder, or without room on the disk, the same is noted in memory and is gone with
the process. Nothing here is flushed to disk, so nothing of it is believed after the machine was restarted.
"""

from __future__ import annotations

import contextlib
import faulthandler
import mmap
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ramify.model.death import NOBODYS_FAULT, Death
from ramify.store import forks

#: The file is an array of 64-bit words: a header, then the slots. Never reuse a version for another layout.
_WORD = 8
_VERSION = 1
_HEADER, _VERSION_AT, _STOPPING_AT = 4, 0, 1
#: A slot: the task (0: none), its deadline in microseconds of the monotonic clock (0: none), and `max_crashes` (0: the
#: task is never to blame).
_SLOT, DEADLINE, MOST = 3, 1, 2
SECOND = 1_000_000

RECORD, FAULT = ".record", ".fault"


class Record:
    """The slots of one kernel's workers. `words[slot]` is the task; a worker writes to no slot but its own."""

    def __init__(self, slots: int = 1) -> None:
        # The last slot is nobody's: who finds none free writes there, and nobody reads it.
        self._size = (_HEADER + (slots + 1) * _SLOT) * _WORD
        self._spare = _HEADER + slots * _SLOT
        self._free = [_HEADER + number * _SLOT for number in range(slots)]
        self._path: Path | None = None
        self._fault: IO[bytes] | None = None
        self.words = self._in_memory()
        forks.register(self)

    def begin(self, folder: Path | None, process: int) -> None:
        """Keep the record of an incarnation from now on. Slots that are in use go on being used."""
        self.end()
        if folder is None:
            return
        path = folder / f"{process:016x}{RECORD}"
        with contextlib.suppress(OSError):
            words = _map(path, self._size)
            words[_VERSION_AT] = _VERSION
            self._path, self.words = path, words
            self._fault = _listen(path.with_suffix(FAULT))

    def end(self) -> None:
        """The incarnation left, or was declared dead: what it ran is nobody's business any more."""
        if self._fault is not None:
            faulthandler.disable()
            self._fault.close()
            self._fault = None
        if self._path is not None:
            remove(self._path.parent, int(self._path.stem, 16))
            self._path = None
        self.words = self._in_memory()

    @property
    def running(self) -> list[int]:
        """The tasks that run at this moment."""
        return [self.words[at] for at in _slots(self.words) if self.words[at]]

    def stopping(self) -> None:
        """This process was asked to stop: whatever ends it now is nobody's fault."""
        self.words[_STOPPING_AT] = 1

    def take(self) -> int:
        """A slot for one worker."""
        return self._free.pop() if self._free else self._spare

    def give(self, slot: int) -> None:
        """The worker is done with its slot."""
        if slot != self._spare:
            self._free.append(slot)

    def orphan(self) -> None:
        """In a forked child: what it runs is not what its parent runs, and its crash is not its parent's."""
        if self._fault is not None:
            faulthandler.disable()
            self._fault = None
        self._path = None
        self.words = self._in_memory()

    def _in_memory(self) -> memoryview:
        return memoryview(bytearray(self._size)).cast("q")


def death_of(folder: Path, process: int, *, evidence: bool = False) -> Death:
    """Return what the record of a dead process tells. `evidence`: its parent saw that it died of its own doing."""
    words = _read(folder, process)
    return NOBODYS_FAULT if words is None else told(words, evidence or _size(folder, process, FAULT) > 0)


def told(words: memoryview, evidence: bool) -> Death:
    """Return what the words of a record tell of a death."""
    if words[_STOPPING_AT]:
        return NOBODYS_FAULT
    return Death({words[at]: words[at + MOST] or None for at in _slots(words) if words[at]}, evidence=evidence)


def running(folder: Path, process: int) -> list[int]:
    """The tasks that a process runs at this moment."""
    words = _read(folder, process)
    return [] if words is None else [words[at] for at in _slots(words) if words[at]]


def is_stopping(folder: Path, process: int) -> bool:
    """Return whether a process was asked to stop, and has not left yet."""
    words = _read(folder, process)
    return words is not None and bool(words[_STOPPING_AT])


def overdue(folder: Path, process: int, beyond: float) -> int | None:
    """A task that a process has been running for `beyond` seconds beyond its time limit; None when there is none."""
    words = _read(folder, process)
    limit = (time.monotonic() - beyond) * SECOND
    late = (words[at] for at in _slots(words) if words[at] and 0 < words[at + DEADLINE] < limit) if words else ()
    return next(iter(late), None)


def excuse(folder: Path, process: int) -> None:
    """Note in the record of another process that it was asked to stop, for it may not get to it."""
    with contextlib.suppress(OSError), open(folder / f"{process:016x}{RECORD}", "r+b", buffering=0) as file:
        file.seek(_STOPPING_AT * _WORD)
        file.write((1).to_bytes(_WORD, sys.byteorder))


def remove(folder: Path, process: int) -> None:
    """Remove what a process left."""
    for suffix in (RECORD, FAULT):
        with contextlib.suppress(OSError):
            os.unlink(folder / f"{process:016x}{suffix}")


def _map(path: Path, size: int) -> memoryview:
    file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        # In full, and now: a store into a hole is a fatal signal when the disk is full.
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file, 0, size)
        else:
            os.write(file, bytes(size))
        return memoryview(mmap.mmap(file, size)).cast("q")
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(file)


def _listen(path: Path) -> IO[bytes] | None:
    """Have fatal signals noted. There is one such place in a process, and whoever has it keeps it."""
    if faulthandler.is_enabled():
        return None
    file = open(path, "xb", buffering=0)  # noqa: SIM115 - it stays open for as long as the process may crash
    faulthandler.enable(file, all_threads=False)
    return file


def _read(folder: Path, process: int) -> memoryview | None:
    try:
        content = (folder / f"{process:016x}{RECORD}").read_bytes()
    except OSError:
        return None
    words = memoryview(content[: len(content) // _WORD * _WORD]).cast("q")
    return words if len(words) >= _HEADER and words[_VERSION_AT] == _VERSION else None


def _slots(words: memoryview) -> Iterator[int]:
    return iter(range(_HEADER, len(words) - 2 * _SLOT + 1, _SLOT))


def _size(folder: Path, process: int, suffix: str) -> int:
    try:
        return (folder / f"{process:016x}{suffix}").stat().st_size
    except OSError:
        return 0
