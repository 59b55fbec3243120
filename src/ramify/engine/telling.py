"""Telling people what the kernel signals: a store that is away, a worker that was replaced, a stop on its way.

What keeps the work from going on is a warning; the rest is said for those who look.

Only what somebody who waits would want to know is said; changes of concurrency go to the log. Whoever wants every
signal listens: `engine.listen(print)`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

from ramify.inspect.unknown import unknown_in_words
from ramify.kernel.signals import (
    Adapted,
    Buried,
    Drained,
    NobodyKnows,
    Replaced,
    Signal,
    Stopping,
    StoreAway,
    StoreBack,
)

_log = logging.getLogger("ramify")
#: How many kinds that nobody knows are named.
_NAMED = 5


def say(text: str, level: int = logging.INFO) -> None:
    """Log it, and show it to a person if one is there. A warning is seen also where nobody has set up logging."""
    _log.log(level, text)
    is_shown = level >= logging.WARNING and not _log.hasHandlers()
    if sys.stderr is not None and sys.stderr.isatty() and not is_shown:
        sys.stderr.write(f"ramify: {text}\n")


class Teller:
    """A listener that puts signals into words."""

    def __init__(self, say: Callable[[str], None], warn: Callable[[str], None]) -> None:
        self._say = say
        self._warn = warn

    def __call__(self, signal: Signal) -> None:
        """Hear a signal."""
        match signal:
            case StoreAway(why):
                self._warn(f"the store does not answer ({why}); work waits and goes on by itself")
            case NobodyKnows(kinds):
                for kind, count in kinds[:_NAMED]:
                    self._warn(unknown_in_words(kind, count))
                if len(kinds) > _NAMED:
                    self._warn(f"and so do tasks of {len(kinds) - _NAMED} more kinds; `ramify doctor` names them")
            case StoreBack(after):
                self._say(f"the store answers again, after {after:.1f} s")
            case Buried(processes, tasks):
                dead = "a dead process" if len(processes) == 1 else f"{len(processes)} dead processes"
                self._say(f"found {dead}; what it held ({tasks:,} tasks) is offered again")
            case Replaced(what, why):
                self._say(f"a worker {what} was replaced: {why}")
            case Drained(process):
                self._say(f"process {process:x} was asked to drain: it finishes what it runs and leaves")
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
