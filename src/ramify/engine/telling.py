"""Telling people what the kernel signals: a store that is away, a worker that was replaced, a stop on its way.

What is worth telling is put into words here, with the facts that are in them (`Told`). A `Teller` says the words to
whoever waits: only what somebody who waits would want to know, and changes of concurrency go to the log. A `Log` writes
all of it, the ends of attempts too, as lines for people or for programs.

Whoever wants every signal listens: `engine.listen(print)`.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from ramify.inspect.show import event_text, failure_text
from ramify.inspect.unknown import unknown_in_words
from ramify.inspect.words import SECOND, stamp
from ramify.kernel.signals import (
    Adapted,
    Buried,
    Drained,
    Ended,
    Entered,
    Moved,
    NobodyKnows,
    Replaced,
    Saved,
    Signal,
    Stopping,
    StoreAway,
    StoreBack,
)
from ramify.model.event import Event, Status
from ramify.model.outcome import Failure
from ramify.model.run import RunState

Form = Literal["text", "json"]

_log = logging.getLogger("ramify")
#: How many kinds that nobody knows are named.
_NAMED = 5
#: How loud the ends of attempts are told; those of others for who looks closely.
_LEVELS = {
    Status.RETRYING: logging.WARNING,
    Status.FAILED: logging.ERROR,
    Status.QUARANTINED: logging.ERROR,
}


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """Something worth telling, in words, and as facts for programs. `process` is its number as people type it."""

    level: int = logging.INFO
    event: str
    text: str
    run: int | None = None
    kind: str | None = None
    task: int | None = None
    attempt: int | None = None
    process: str | None = None
    seconds: float | None = None
    error: str | None = None


def told(signal: Signal, level: int = logging.INFO) -> Iterator[Told]:
    """What a signal tells from a level on, as far as it costs something to find out."""
    match signal:
        case StoreAway(why):
            text = f"the store does not answer ({why}); work waits and goes on by itself"
            yield Told(level=logging.WARNING, event="store-away", text=text, error=why)
        case StoreBack(after):
            yield Told(event="store-back", text=f"the store answers again, after {after:.1f} s", seconds=after)
        case NobodyKnows(kinds):
            for kind, count in kinds[:_NAMED]:
                text = unknown_in_words(kind, count)
                yield Told(level=logging.WARNING, event="unknown-kind", text=text, kind=kind)
            if len(kinds) > _NAMED:
                text = f"and so do tasks of {len(kinds) - _NAMED} more kinds; `ramify doctor` names them"
                yield Told(level=logging.WARNING, event="unknown-kind", text=text)
        case Buried(processes, tasks):
            dead = "a dead process" if len(processes) == 1 else f"{len(processes)} dead processes"
            text = f"found {dead}; what it held ({tasks:,} tasks) is offered again"
            yield Told(event="buried", text=text, process=" ".join(f"{each:x}" for each in processes))
        case Replaced(what, why):
            yield Told(event="replaced", text=f"a worker {what} was replaced: {why}", error=why)
        case Drained(process):
            text = f"process {process:x} was asked to drain: it finishes what it runs and leaves"
            yield Told(event="drained", text=text, process=f"{process:x}")
        case Adapted(of, before, now, why):
            yield Told(event="adapted", text=f"{of}: {before} -> {now}, because {why}")
        case Entered(process, again):
            text = f"working as process {process:x}" + (", after it had been declared dead" if again else "")
            yield Told(level=logging.WARNING if again else logging.INFO, event="entered", text=text)
        case Moved(run, state, round):
            text = f"run {run} goes on with round {round}" if state is RunState.OPEN else f"run {run} is {state}"
            yield Told(event="run-ended" if state.is_end else "run-moved", text=text, run=run)
        case Saved():
            yield from map(_end, signal.ends(level <= logging.DEBUG))
        case _:
            pass


def _end(ended: Ended) -> Told:
    status, event = ended.status, Event(ended.task, 0, ended.status, ended.value, took=ended.took)
    return Told(
        level=_LEVELS.get(status, logging.DEBUG),
        event=f"task-{status.name.lower()}",
        text=f"{ended.kind} {ended.task} of run {ended.run}: {event_text(event, ended.attempt)}",
        run=ended.run,
        kind=ended.kind,
        task=ended.task,
        attempt=ended.attempt or None,
        seconds=(ended.took or 0) / SECOND if ended.attempt else None,
        error=failure_text(Failure.decode(ended.value)) if status in _LEVELS else None,
    )


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
            case StoreAway() | NobodyKnows() | StoreBack() | Buried() | Replaced() | Drained():
                for each in told(signal):
                    (self._warn if each.level >= logging.WARNING else self._say)(each.text)
            case Adapted():
                for each in told(signal):
                    _log.info(each.text)
            case _:
                pass


class Log:
    """A listener that writes a line for everything worth telling, from `level` on, and for what is said in words."""

    def __init__(self, write: Callable[[str], None], form: Form, level: int = logging.INFO) -> None:
        self._write = write
        self._form = form
        self._level = level
        #: The process whose signals these are, once it has entered.
        self._process: str | None = None

    def __call__(self, signal: Signal) -> None:
        """Hear a signal."""
        if isinstance(signal, Entered):
            self._process = f"{signal.process:x}"
        for each in told(signal, self._level):
            self.tell(each)

    def say(self, text: str) -> None:
        """Write what somebody says in words."""
        self.tell(Told(event="said", text=text))

    def tell(self, told: Told) -> None:
        """Write one line, if it is loud enough."""
        if told.level < self._level:
            return
        now, level = stamp(time.time_ns() // 1_000), logging.getLevelName(told.level).lower()
        process = told.process or self._process
        if self._form == "text":
            self._write(f"{now} {level:7} {process or '-':16} {told.event}: {told.text}")
            return
        facts = msgspec.structs.asdict(told) | {"level": level, "process": process}
        # ASCII, so that nothing in it is obeyed by a terminal, or ends the line.
        self._write(json.dumps({"time": now, **facts}, ensure_ascii=True))


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
        case _ if running:
            return "done, though not everything is saved: what is missing runs again with the same command"
        case _:
            return "done: everything is saved, and the same command goes on"
