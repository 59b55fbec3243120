"""Wake-ups: let threads of this program sleep until one of its kernels has saved something.

Promises: a change that a kernel of this process makes is noticed at once; what other processes do is noticed when the
sleep is over, so sleeps are short. A change between two sleeps is not missed.

Does not tell what changed: whoever wakes up looks.
"""

from __future__ import annotations

import threading

from ramify.kernel.signals import Moved, Saved, Signal

#: Sleeps grow from the first to the longest while nothing changes, in seconds.
FIRST, LONGEST, GROWTH = 0.001, 0.05, 1.5


class Wakeups:
    """What the waits of one engine sleep on; a listener to the signals of its kernels."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._count = 0

    def __call__(self, signal: Signal) -> None:
        """Hear a signal."""
        if isinstance(signal, Saved | Moved):
            with self._condition:
                self._count += 1
                self._condition.notify_all()

    @property
    def count(self) -> int:
        """How often something has changed; look at it before looking at the store."""
        return self._count

    def sleep(self, seen: int, seconds: float) -> bool:
        """Sleep until something changes after `seen`, at most `seconds`; whether it did."""
        with self._condition:
            return self._condition.wait_for(lambda: self._count != seen, seconds)


class Naps:
    """The sleeps of one waiter: short at first, longer while nothing happens."""

    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups
        self._pause = FIRST
        self._seen = wakeups.count

    def sleep(self, at_most: float = LONGEST) -> None:
        """Sleep a little, or until something changes that had not at the last sleep."""
        if self._wakeups.sleep(self._seen, min(self._pause, at_most)):
            self._pause = FIRST
        else:
            self._pause = min(GROWTH * self._pause, LONGEST)
        self._seen = self._wakeups.count
