"""The queue of writers: how processes that all want to write queue up instead of starving each other.

SQLite gives its write lock to whoever asks at the right moment, so a process that writes again at once shuts the others
out for seconds. Here a process first takes the head of the queue (a `flock` file), then waits for the write lock, and
gives the head up once it has it: whoever waits is the head, so whoever just wrote has to queue up behind.

It is only courtesy. A queue that does not move soon (its holder may be frozen) is not waited for, and a missing or
unusable file means no queue; safety rests on SQLite's own lock.
"""

from __future__ import annotations

import fcntl
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ramify.store import forks

#: Seconds after which a process no longer queues and asks for the write lock regardless.
QUEUE_SECONDS = 1.0
_FIRST_NAP = 0.0001
_LONGEST_NAP = 0.001
#: Only the head of the queue sleeps this way, so it may look often: the sleep is what a hand-over costs.
_LONGEST_BUSY_NAP = 0.0005


def nap(tries: int, longest: float = _LONGEST_NAP) -> None:
    """Sleep a little before the next try: longer each time, never exactly as long as the others sleep."""
    time.sleep(min(_FIRST_NAP * 2 ** min(tries, 10), longest) * random.uniform(0.5, 1.5))


class BusyHandler:
    """A busy handler for SQLite: short naps until the time is up. It knows no link, so that it keeps none alive."""

    def __init__(self, seconds: float, queue: WriteQueue | None = None) -> None:
        self.seconds = seconds
        self._queue = queue
        self._until = 0.0

    def __call__(self, tries: int) -> bool:
        now = time.monotonic()
        if tries == 0:
            self._until = now + self.seconds
        if now >= self._until:
            return False
        if self._queue is not None:
            self._queue.contended = True
        nap(tries, _LONGEST_BUSY_NAP)
        return True


class WriteQueue:
    """This link's place in the queue of writers."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: int | None = None
        #: Whether somebody else wanted to write lately: then let them go first.
        self.contended = False
        forks.register(self)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be the head of the queue, or go without it after `QUEUE_SECONDS` seconds."""
        try:
            self._acquire()
            yield
        finally:
            # Also without it: an interrupt can strike between getting it and knowing so.
            if self._file is not None:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def _acquire(self) -> None:
        if not self._open():
            return
        assert self._file is not None
        if self.contended:
            # Others sleep between their tries; without this, whoever just wrote would be first again.
            nap(10)
        self.contended = False
        end = time.monotonic() + QUEUE_SECONDS
        tries = 0
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                self.contended = True
            except OSError:
                return
            if time.monotonic() > end:
                return
            nap(tries)
            tries += 1

    def _open(self) -> bool:
        if self._file is None:
            try:
                self._file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
            except OSError:
                return False
        return True

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def orphan(self) -> None:
        """In a forked child: close without unlocking, for the lock is shared with the parent."""
        self.close()
