"""A sensor for writes: sleeps until a file is written to, or until another thread of this process calls.

Where the system tells about writes (Linux), they are heard at once and sleeping costs nothing. Elsewhere, or when the
system has no watch to spare, it notices no writes and hears calls only; its owner then has to look more often.

What it hears is a hint: it does not look into the file, and it may hear nothing of a write that happened.
"""

from __future__ import annotations

import ctypes
import os
import select
from contextlib import suppress

_IN_MODIFY = 2
_ENOUGH = 65_536


class WriteSensor:
    """The ear of one sleeper. Not for several threads at once, except `call`."""

    def __init__(self, path: str) -> None:
        self._in, self._out = os.pipe()
        self._watch = _watch(path)
        self._ends = [self._in, self._out, *([] if self._watch is None else [self._watch])]
        self._poll = select.poll()
        for end in self._ends:
            os.set_blocking(end, False)
            if end != self._out:
                self._poll.register(end, select.POLLIN)

    @property
    def hears_writes(self) -> bool:
        """True if the system tells about writes to the file."""
        return self._watch is not None

    def listen(self, seconds: float) -> bool:
        """Sleep for so long, or until there is something to hear; whether there was."""
        heard = self._poll.poll(seconds * 1000)
        for end, _ in heard:
            with suppress(BlockingIOError):
                os.read(end, _ENOUGH)
        return bool(heard)

    def call(self) -> None:
        """Make whoever listens return, or the next one who does."""
        with suppress(BlockingIOError):
            os.write(self._out, b"!")

    def close(self) -> None:
        """Give the descriptors back. Nobody may listen or call any more."""
        for end in self._ends:
            os.close(end)


def _watch(path: str) -> int | None:
    """A descriptor that can be read when the file was written to; None where there is no such thing."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        watch: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, AttributeError):
        return None
    if watch < 0:
        return None
    if libc.inotify_add_watch(watch, os.fsencode(path), _IN_MODIFY) < 0:
        os.close(watch)
        return None
    return watch
