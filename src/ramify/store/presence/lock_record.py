"""The content of a lock file: one record of fixed size, written in place by its process and read by everybody.

It has a checksum, because it may be read while it is written; then it is read again. In place and of fixed size, so
that a full disk does not keep a process from saying that the disk is full.
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

#: beat, since, writing since (-1: not writing), pid, boot id, away since (-1: not away), why, number, durability.
_RECORD = struct.Struct("<qqqq40sq200sq8s")
_CHECK = struct.Struct("<I")
_READS = 8


@dataclass(frozen=True, slots=True)
class Alive:
    """The lock is held. `beat` is when its process last said so, `since` when its beats last had a gap.

    `writing` is since when it writes, and `away` since when it cannot, with the reason. `number` is that of its last
    verb that was committed, `durability` what its commits survive. Times are monotonic, so only this machine can
    compare them.
    """

    beat: int
    since: int
    boot_id: str
    pid: int = 0
    writing: int | None = None
    away: int | None = None
    why: str = ""
    number: int = 0
    durability: str = ""

    def encode(self) -> bytes:
        """As it is written."""
        record = _RECORD.pack(
            self.beat,
            self.since,
            -1 if self.writing is None else self.writing,
            self.pid,
            self.boot_id.encode()[:40],
            -1 if self.away is None else self.away,
            self.why.encode("utf-8", "replace")[:200],
            self.number,
            self.durability.encode()[:8],
        )
        return record + _CHECK.pack(zlib.crc32(record))


def read(file: int) -> Alive | None:
    """Return what an open lock file says; None when it says nothing that makes sense."""
    for _ in range(_READS):
        content = os.pread(file, _RECORD.size + _CHECK.size, 0)
        record, check = content[: _RECORD.size], content[_RECORD.size :]
        if len(check) == _CHECK.size and _CHECK.unpack(check)[0] == zlib.crc32(record):
            beat, since, writing, pid, boot_id, away, why, number, durability = _RECORD.unpack(record)
            return Alive(
                beat,
                since,
                boot_id.rstrip(b"\0").decode(),
                pid,
                None if writing < 0 else writing,
                None if away < 0 else away,
                why.rstrip(b"\0").decode("utf-8", "ignore"),
                number,
                durability.rstrip(b"\0").decode(),
            )
    return None


def beat_for(path: Path, now: int) -> None:
    """Write a beat in place of the process that holds a lock file; nothing where nobody holds it.

    If that process writes at this very moment, one of the two records stays, and both say that it lives.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        told = read(file)
        if told is not None:
            with suppress(OSError):
                os.pwrite(file, replace(told, beat=now).encode(), 0)
    except OSError:
        # Nobody can tell whether it is held.
        return
    finally:
        os.close(file)
