"""Waiting for commits: sleep until some connection has committed, or until another thread of this process calls.

SQLite tells nobody about commits. So this asks, and listens for writes to the log to know when asking is worth its
while: a write is heard before its commit can be seen, so after it this asks often, and then less and less. Where
writes cannot be heard, it asks all the time.

It is a hint. It tells neither what changed nor who did it, and the commits of its own process wake it as well, once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import RLock

from ramify.store import forks
from ramify.store.sqlite.write_sensor import WriteSensor

#: How long after it heard something it asks how often; a commit is seen when the disk is done with it.
EAGER_FOR, EAGER_SECONDS = 0.05, 0.002
ALERT_FOR, ALERT_SECONDS = 1.0, 0.01
#: How often it asks when it has heard nothing for long, and can hear.
QUIET_SECONDS = 0.1


class CommitWait:
    """What `wait` of one store sleeps on. `changed` gives a token that differs once anybody has committed."""

    def __init__(self, changed: Callable[[], int], log: str) -> None:
        self._changed, self._log = changed, log
        # Taken twice by one thread when a signal handler calls while its thread is here.
        self._lock = RLock()
        self._sensor: WriteSensor | None = None
        # A sensor serves one sleeper. Others, who are few, get one of their own for as long as they sleep.
        self._more_sensors: set[WriteSensor] = set()
        self._waiting = 0
        self._closed = False
        self._seen = -1
        self._calls = self._heard = 0
        self._last_heard = float("-inf")
        forks.register(self)

    def wait(self, seconds: float) -> bool:
        """Sleep until something was committed or called since the last wait; False when `seconds` passed without."""
        end = time.monotonic() + seconds
        seen, heard = self._seen, self._heard
        sensor = self._acquire()
        try:
            while True:
                self._seen, self._heard = self._changed(), self._calls
                now = time.monotonic()
                if (self._seen, self._heard) != (seen, heard):
                    self._last_heard = now
                    return True
                if now >= end:
                    return False
                if sensor.listen(min(self._pause(now, sensor), end - now)):
                    self._last_heard = time.monotonic()
        finally:
            self._give_back(sensor)

    def ring(self) -> None:
        """End the waits in progress, or the next one if there is none."""
        with self._lock:
            self._calls += 1
            for sensor in (self._sensor, *self._more_sensors):
                if sensor is not None:
                    sensor.call()

    def close(self) -> None:
        """Let go of what it listens with, once nobody does."""
        with self._lock:
            self._closed = True
            self._let_go()

    def orphan(self) -> None:
        """In a forked child: another thread may have held the lock, and it is not there to let it go."""
        self._lock = RLock()

    def _pause(self, now: float, sensor: WriteSensor) -> float:
        quiet = now - self._last_heard
        if quiet < EAGER_FOR:
            return EAGER_SECONDS
        return ALERT_SECONDS if quiet < ALERT_FOR or not sensor.hears_writes else QUIET_SECONDS

    def _acquire(self) -> WriteSensor:
        with self._lock:
            if self._waiting:
                sensor = WriteSensor(self._log)
                self._more_sensors.add(sensor)
                return sensor
            # A store that never waits never listens.
            self._sensor = self._sensor or WriteSensor(self._log)
            self._waiting = 1
            return self._sensor

    def _give_back(self, sensor: WriteSensor) -> None:
        with self._lock:
            if sensor in self._more_sensors:
                self._more_sensors.remove(sensor)
                sensor.close()
            else:
                self._waiting = 0
                self._let_go()

    def _let_go(self) -> None:
        if self._closed and not self._waiting and self._sensor is not None:
            self._sensor.close()
            self._sensor = None
