"""The bell: sleep until some connection has committed, or until another thread of this process calls.

SQLite tells nobody about commits. So the bell asks, and listens for writes to the log to know when asking is worth its
while: a write is heard before its commit can be seen, so after it the bell asks often, and then less and less. Where
writes cannot be heard, it asks all the time.

It is a hint. It tells neither what changed nor who did it, and the commits of its own process ring it as well, once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import RLock

from ramify.store import forks
from ramify.store.sqlite.ear import Ear

#: How long after it heard something the bell asks how often; a commit is seen when the disk is done with it.
EAGER_FOR, EAGER_SECONDS = 0.05, 0.002
ALERT_FOR, ALERT_SECONDS = 1.0, 0.01
#: How often it asks when it has heard nothing for long, and can hear.
QUIET_SECONDS = 0.1


class Bell:
    """What `wait` of one store sleeps on. `changed` gives a token that differs once anybody has committed."""

    def __init__(self, changed: Callable[[], int], log: str) -> None:
        self._changed, self._log = changed, log
        # Taken twice by one thread when a signal handler calls while its thread is here.
        self._lock = RLock()
        self._ear: Ear | None = None
        # An ear serves one sleeper. Others, who are few, get one of their own for as long as they sleep.
        self._more_ears: set[Ear] = set()
        self._waiting = 0
        self._closed = False
        self._seen = -1
        self._calls = self._heard = 0
        self._stirred = float("-inf")
        forks.register(self)

    def wait(self, seconds: float) -> bool:
        """Sleep until something was committed or called since the last wait; False when `seconds` passed without."""
        end = time.monotonic() + seconds
        seen, heard = self._seen, self._heard
        ear = self._sit_down()
        try:
            while True:
                self._seen, self._heard = self._changed(), self._calls
                now = time.monotonic()
                if (self._seen, self._heard) != (seen, heard):
                    self._stirred = now
                    return True
                if now >= end:
                    return False
                if ear.listen(min(self._pause(now, ear), end - now)):
                    self._stirred = time.monotonic()
        finally:
            self._stand_up(ear)

    def ring(self) -> None:
        """End the waits in progress, or the next one if there is none."""
        with self._lock:
            self._calls += 1
            for ear in (self._ear, *self._more_ears):
                if ear is not None:
                    ear.call()

    def close(self) -> None:
        """Let go of what it listens with, once nobody does."""
        with self._lock:
            self._closed = True
            self._let_go()

    def orphan(self) -> None:
        """In a forked child: another thread may have held the lock, and it is not there to let it go."""
        self._lock = RLock()

    def _pause(self, now: float, ear: Ear) -> float:
        quiet = now - self._stirred
        if quiet < EAGER_FOR:
            return EAGER_SECONDS
        return ALERT_SECONDS if quiet < ALERT_FOR or not ear.hears_writes else QUIET_SECONDS

    def _sit_down(self) -> Ear:
        with self._lock:
            if self._waiting:
                ear = Ear(self._log)
                self._more_ears.add(ear)
                return ear
            # A store that never waits never listens.
            self._ear = self._ear or Ear(self._log)
            self._waiting = 1
            return self._ear

    def _stand_up(self, ear: Ear) -> None:
        with self._lock:
            if ear in self._more_ears:
                self._more_ears.remove(ear)
                ear.close()
            else:
                self._waiting = 0
                self._let_go()

    def _let_go(self) -> None:
        if self._closed and not self._waiting and self._ear is not None:
            self._ear.close()
            self._ear = None
