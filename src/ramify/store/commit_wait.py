"""Waiting for commits: threads sleep until some connection has committed, or until another thread calls.

One of those who wait listens, for all of them, and asks whether something was committed when it has heard something.
What is heard of a file is a write, which comes before its commit can be seen, so after it this asks often, and then
less and less; where writes cannot be heard, it asks all the time. A server tells of commits, so that this asks rarely.
Commits of this store itself are announced, so that nobody in its process waits for the next question. When the one who
listens leaves, another takes its place.

It is a hint. It tells neither what changed nor who did it, and commits of its own process end a wait as well, once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Condition, RLock, get_ident
from typing import Protocol

from ramify.errors import StoreUnavailable
from ramify.store import forks

#: How long after it heard something it asks how often; a commit is seen when the disk is done with it.
EAGER_FOR, EAGER_SECONDS = 0.05, 0.002
ALERT_FOR, ALERT_SECONDS = 1.0, 0.01
#: How often it asks when it has heard nothing for long, and can hear.
QUIET_SECONDS = 0.1


class Sensor(Protocol):
    """The ear of one sleeper. Not for several threads at once, except `call`."""

    @property
    def hears_writes(self) -> bool:
        """True if there is something to hear."""

    def listen(self, seconds: float) -> bool:
        """Sleep for so long, or until there is something to hear; whether there was."""

    def call(self) -> None:
        """Make whoever listens return, or the next one who does."""

    def close(self) -> None:
        """Let go. Nobody may listen or call any more."""


class CommitWait:
    """The place where waits of one store sleep. `changed` gives a token that differs after any commit.

    `told`: what is heard are commits, and so often it asks all the same.
    """

    def __init__(self, changed: Callable[[], int], sense: Callable[[], Sensor], told: float | None = None) -> None:
        self._changed, self._make, self._often = changed, sense, told
        self._sensor: Sensor | None = None
        self._closed = False
        #: What there is to see, and the last token that counted for it.
        self._news, self._token = 1, -1
        self._last_heard = float("-inf")
        self._stand_alone()
        forks.register(self)

    def wait(self, seconds: float, seen: int) -> int:
        """Sleep until there is something to see but `seen`; the same again when `seconds` passed without."""
        end = time.monotonic() + seconds
        try:
            if self._is_next(end, seen):
                self._listen(end, seen)
            return self._news
        finally:
            self._leave()

    def prepare(self) -> None:
        """Open everything that waits need: once a task has used up the descriptors of this process, nothing opens."""
        self._changed()
        with self._lock:
            self._sense()

    def ring(self) -> None:
        """End the waits in progress, and the next one of whoever is not in one."""
        with self._lock:
            self._news += 1
            self._told.notify_all()
            self._call()

    def outcome(self, trouble: str | None) -> None:
        """This process has committed, or could not; costs nothing when nobody waits."""
        # Asked without the lock: whoever begins to listen after this asks for the token only then.
        if trouble is None and self._listener is not None:
            with self._lock:
                self._call()

    def close(self) -> None:
        """Let go of what it listens with, once nobody does."""
        with self._lock:
            self._closed = True
            self._let_go()

    def orphan(self) -> None:
        """In a forked child: the threads that held the lock or listened are not there."""
        self._stand_alone()

    def _stand_alone(self) -> None:
        # Taken twice by one thread when a signal handler calls while its thread is here.
        self._lock = RLock()
        self._told = Condition(self._lock)
        #: The thread that listens for all.
        self._listener: int | None = None

    def _is_next(self, end: float, seen: int) -> bool:
        """Sleep as long as another listens; whether nobody does, so that the caller has to."""
        with self._lock:
            # Its own name is there when an interrupt tore it out of here at a bad moment.
            while self._listener not in (None, get_ident()):
                left = end - time.monotonic()
                if self._news != seen or left <= 0:
                    return False
                self._told.wait(left)
            self._listener = get_ident()
            return True

    def _listen(self, end: float, seen: int) -> None:
        while True:
            token, now = self._changed(), time.monotonic()
            if token != self._token:
                self._last_heard = now
                with self._lock:
                    self._token = token
                    self._news += 1
                    self._told.notify_all()
            if self._news != seen or now >= end:
                return
            if self._sensor is None:
                # Only who sleeps needs one. A write before it is there is not heard, so ask once more.
                self._sense()
            elif self._sensor.listen(min(self._pause(now, self._sensor), end - now)):
                self._last_heard = time.monotonic()

    def _sense(self) -> None:
        if self._sensor is None and not self._closed:
            try:
                self._sensor = self._make()
            except OSError as error:
                raise StoreUnavailable(f"nothing can listen for changes of the store ({error.strerror})") from error

    def _pause(self, now: float, sensor: Sensor) -> float:
        if self._often is not None:
            return self._often
        quiet = now - self._last_heard
        if quiet < EAGER_FOR:
            return EAGER_SECONDS
        return ALERT_SECONDS if quiet < ALERT_FOR or not sensor.hears_writes else QUIET_SECONDS

    def _leave(self) -> None:
        with self._lock:
            if self._listener == get_ident():
                self._listener = None
            if self._listener is None:
                # Also by one who did not listen: it may be the one who was told to, and had no time left for it.
                self._told.notify()
            self._let_go()

    def _call(self) -> None:
        if self._listener is not None and self._sensor is not None:
            self._sensor.call()

    def _let_go(self) -> None:
        if self._closed and self._listener is None and self._sensor is not None:
            self._sensor.close()
            self._sensor = None
