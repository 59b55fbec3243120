"""Telling people what the kernel signals: a store that is away, a worker that was replaced, a stop on its way.

Only what somebody who waits would want to know is said; changes of concurrency go to the log. Whoever wants every
signal listens: `engine.listen(print)`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

from ramify.kernel.signals import Adapted, Buried, Replaced, Signal, Stopping, StoreAway, StoreBack

_log = logging.getLogger("ramify")


def say(text: str) -> None:
    """Log it, and show it to a person if one is there."""
    _log.info(text)
    if sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write(f"ramify: {text}\n")


class Teller:
    """A listener that puts signals into words."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def __call__(self, signal: Signal) -> None:
        """Hear a signal."""
        match signal:
            case StoreAway(why):
                self._say(f"the store does not answer ({why}); work waits and goes on by itself")
            case StoreBack(after):
                self._say(f"the store answers again, after {after:.1f} s")
            case Buried(processes, tasks):
                dead = "a dead process" if len(processes) == 1 else f"{len(processes)} dead processes"
                self._say(f"found {dead}; what it held ({tasks:,} tasks) is offered again")
            case Replaced(what, why):
                self._say(f"a worker {what} was replaced: {why}")
            case Adapted(of, before, now, why):
                _log.info("%s: %d -> %d, because %s", of, before, now, why)
            case _:
                pass


class StopTeller:
    """A listener that goes through the phases of a stop, if somebody asked for one: every end is a stop inside."""

    def __init__(self, say: Callable[[str], None], was_asked: Callable[[], bool]) -> None:
        self._say = say
        self._was_asked = was_asked

    def __call__(self, signal: Signal) -> None:
        """Hear a signal."""
        if isinstance(signal, Stopping) and self._was_asked():
            self._say(_stop_in_words(signal.phase, signal.running))


def _stop_in_words(phase: str, running: int) -> str:
    match phase:
        case "draining":
            return f"draining: {running:,} still at work" if running else "draining: nothing is at work"
        case "saving":
            return "saving what is finished"
        case _:
            return "done: everything is saved, and the same command goes on"
