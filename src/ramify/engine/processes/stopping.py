"""Stopping by signal: SIGINT and SIGTERM let the work end well, and a second one ends it at once.

Promises: after the first signal no new task starts, those that run finish within the grace period, what they did is
saved, and only then is KeyboardInterrupt (for SIGTERM: Terminated, a SystemExit) raised, or whoever had the signal
before is told. A second signal exits the process on the spot, and loses nothing that was saved. Handlers that were
there before are put back.

Signals reach the main thread only, so elsewhere this does nothing. A handler here takes no lock and starts no thread:
the thread it interrupts may hold the lock, or be starting a thread itself, and Python has one lock for all of those.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from ramify.engine.processes.os_signals import hear
from ramify.errors import Terminated

#: How long a second signal may take to end worker processes.
LAST_WORDS = 1.0
_STOPPED_BY = (signal.SIGINT, signal.SIGTERM)
_STOPPING = "stopping: nothing new starts, what runs is finished and saved; once more to quit at once"


class Stopped:
    """The signal that asked for a stop, if one did."""

    def __init__(
        self,
        stop: Callable[[], None],
        say: Callable[[str], None],
        before_quitting: Callable[[], None],
        words: str = _STOPPING,
    ) -> None:
        self._stop = stop
        self._before_quitting = before_quitting
        self._say = say
        self._words = words
        self.by: int | None = None
        #: What was not finished and saved in time, once the stop is over: tasks, or worker processes that had some.
        self.unfinished: int | None = None
        # Of all that a thread can wait on, this may be given something by whoever interrupts whom.
        self._heard: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Hear a signal."""
        if self.by is not None:
            self._heard.put(lambda: self._quit(number))
            return
        self.by = number
        self._heard.put(self._begin)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Answer what is heard, for as long as this lasts."""
        threading.Thread(target=self._listen, name="ramify-signals", daemon=True).start()
        try:
            yield
        finally:
            self._heard.put(None)

    def _listen(self) -> None:
        while (answer := self._heard.get()) is not None:
            # Each in a thread of its own: stopping takes locks and speaks to people, and must not keep from quitting.
            threading.Thread(target=answer, name="ramify-stop", daemon=True).start()

    def _begin(self) -> None:
        with contextlib.suppress(Exception):
            # The terminal may be gone; the stop begins all the same.
            self._say(self._words)
        self._stop()

    def _quit(self, number: int) -> None:
        # As if the signal had ended it: nobody above can choose a code any more.
        threading.Timer(LAST_WORDS, os._exit, args=(128 + number,)).start()
        with contextlib.suppress(Exception):
            self._before_quitting()
        os._exit(128 + number)

    def was_asked(self) -> bool:
        """Return whether a signal asked for a stop."""
        return self.by is not None

    def raise_it(self) -> None:
        """Pass the signal on, now that everything is saved."""
        if self.by == signal.SIGINT:
            raise KeyboardInterrupt
        if self.by is not None:
            raise Terminated(128 + self.by)

    def pass_on(self) -> None:
        """Let whoever heard signals before hear this one as well, now that it was answered here."""
        if self.by is None:
            return
        before = signal.getsignal(self.by)
        if callable(before):
            before(self.by, None)
        else:
            signal.raise_signal(self.by)


@contextmanager
def stopping_well(
    stop: Callable[[], None],
    say: Callable[[str], None],
    before_quitting: Callable[[], None] = lambda: None,
    words: str = _STOPPING,
) -> Iterator[Stopped]:
    """Call `stop` at the first signal, for as long as the block runs, and `before_quitting` at the second.

    `words` are said at the first.
    """
    stopped = Stopped(stop, say, before_quitting, words)
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    with stopped.listening():
        put_back = hear(_STOPPED_BY, stopped)
        try:
            yield stopped
        finally:
            put_back()
