"""Housekeeping: a thread beside each kernel that works for long, in which the listeners run that read and clean up.

Promises: the thread that hands out work waits for none of them. A kernel that works for less than `FIRST`, and always
finds something to do, has no such thread. A stop waits `LAST` for a step that has begun, and no longer; also with
`threads=0`, where tasks run in the calling thread, housekeeping stays beside it.

Listeners hear the latest claim or commit, at most ten a second, and nothing of those between.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ramify.kernel.machine import HERE, Machine
from ramify.kernel.signals import Listener, Saved, Signal, Signals, Took

#: Seconds until it begins: a program that ends sooner has better things to do.
FIRST = 1.0
#: The shortest time between two signals that are passed on.
PAUSE = 0.1
#: How long a stop waits for a step that has begun.
LAST = 0.5


class Housekeeping:
    """A listener to a kernel's signals that passes claims and commits on to others, in a thread of its own."""

    def __init__(self, machine: Machine = HERE, clock: Callable[[], float] = time.monotonic) -> None:
        self._machine = machine
        self._clock = clock
        self._begins = clock() + FIRST
        self._inner = Signals()
        self._latest: Signal | None = None
        self._has_news, self._over = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def listen(self, listener: Listener) -> None:
        """Pass signals on to one more."""
        self._inner.listen(listener)

    def __call__(self, signal: Signal) -> None:
        """Hear a signal, in the thread that hands out work."""
        if not isinstance(signal, Took | Saved):
            return
        self._latest = signal
        self._has_news.set()
        if self._thread is None and (self._clock() >= self._begins or _is_idle(signal)):
            self._thread = self._machine.thread(self._run, "ramify-housekeeping")
            self._thread.start()

    def stop(self) -> None:
        """End it, and wait a moment for that."""
        self._over.set()
        self._has_news.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(LAST)

    def _run(self) -> None:
        while self._has_news.wait():
            self._has_news.clear()
            is_over = self._over.is_set()
            news, self._latest = self._latest, None
            # Why nothing could be claimed is told even if that ends the process: it may be a kind that nobody knows.
            if news is not None and (not is_over or _is_idle(news)):
                self._inner.send(news)
            if is_over:
                return
            # If it is over by then, the last news is told all the same.
            self._over.wait(PAUSE)


def _is_idle(signal: Signal) -> bool:
    return isinstance(signal, Took) and signal.tasks == 0
