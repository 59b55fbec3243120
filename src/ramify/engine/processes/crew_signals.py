"""Signals of a crew: news from several worker processes, told to people once.

A worker process has nobody to tell but its crew, so signals that people should hear of, and what it did, cross the pipe
as words. When the store goes away, every worker notices, and when it comes back too; one line for each is enough.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Any

import msgspec

from ramify.kernel.signals import (
    Buried,
    Drained,
    Listener,
    NobodyKnows,
    Replaced,
    Signal,
    StoreAway,
    StoreBack,
    Worked,
)
from ramify.model.decoder import converter

_SHARED: dict[str, Callable[[object], Any]] = {
    each.__name__: converter(each) for each in (StoreAway, StoreBack, Buried, Replaced, NobodyKnows, Drained, Worked)
}
#: The same from another worker within so many seconds is not told again; a worker itself repeats it each minute.
_ECHO = 50.0


def words_of(signal: Signal) -> str | None:
    """A signal as words for the crew; None for one that nobody else needs to hear."""
    name = type(signal).__name__
    return msgspec.json.encode([name, signal]).decode() if name in _SHARED else None


class CrewSignals:
    """The signals of the workers of one crew, on their way to `send`."""

    def __init__(self, send: Listener, clock: Callable[[], float] = time.monotonic) -> None:
        self._send = send
        self._clock = clock
        self._lock = threading.Lock()
        self._away: set[Hashable] = set()
        #: When kinds that nobody knows were last told, whatever their numbers were.
        self._unknown: dict[frozenset[str], float] = {}

    def hear(self, worker: Hashable, words: str) -> None:
        """Pass on what a worker tells, unless another one has just told the same."""
        name, body = msgspec.json.decode(words)
        signal: Signal = _SHARED[name](body)
        with self._lock:
            is_news = self._is_news(worker, signal)
        if is_news:
            self._send(signal)

    def forget(self, worker: Hashable) -> None:
        """A worker has ended; whether it found the store again is nothing to wait for."""
        with self._lock:
            self._away.discard(worker)

    def _is_news(self, worker: Hashable, signal: Signal) -> bool:
        match signal:
            case StoreAway():
                self._away.add(worker)
                return len(self._away) == 1
            case StoreBack():
                self._away.discard(worker)
                return not self._away
            case NobodyKnows():
                kinds, now = frozenset(kind for kind, _ in signal.kinds), self._clock()
                is_echo = now - self._unknown.get(kinds, -_ECHO) < _ECHO
                if not is_echo:
                    self._unknown[kinds] = now
                return not is_echo
            case _:
                return True
