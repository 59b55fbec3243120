"""Telling people what the kernel signals: a store that is away, a worker that was replaced, a stop on its way.

What is worth telling is put into words here, with the facts that are in them (`Told`). A `Teller` says the words to
whoever waits: only what somebody who waits would want to know, and changes of concurrency go to the log. A `Log` writes
all of it, the ends of attempts too, as lines for people or for programs. `LogLines` puts what is logged in tasks, and
elsewhere in the program, between them in the same form.

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

from ramify.engine.processes.stopping import Stopped
from ramify.errors import RamifyError
from ramify.inspect.show import event_text, failure_text, traceback_of
from ramify.inspect.unknown import unknown_in_words
from ramify.inspect.words import SECOND, plural, stamp
from ramify.kernel.attempts.current import Current, current_or_none
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
#: Marks records that are in the log. Other handlers may show what is added to a record, unless it begins like this.
_IN_LOG = "_is_in_log"
#: How loud the ends of attempts are told; those of others for who looks closely.
_LEVELS = {
    Status.RETRYING: logging.WARNING,
    Status.FAILED: logging.ERROR,
    Status.QUARANTINED: logging.ERROR,
}


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """Something worth telling, in words, and as facts for programs.

    `process` is its number as people type it, `name` that of the run, `logger` the one of a line that a program logged.
    """

    level: int = logging.INFO
    event: str
    text: str
    run: int | None = None
    name: str | None = None
    kind: str | None = None
    queue: str | None = None
    task: int | None = None
    attempt: int | None = None
    process: str | None = None
    seconds: float | None = None
    error: str | None = None
    traceback: str | None = None
    logger: str | None = None


def told(signal: Signal, level: int = logging.INFO) -> Iterator[Told]:
    """Yield what a signal tells from a level on, as far as it costs something to find out."""
    match signal:
        case StoreAway(why):
            text = f"the store does not answer ({why}); work waits and continues by itself"
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
            held = plural(tasks, "task") + ", offered again" if tasks else "no tasks"
            text = f"found {dead} that held {held}"
            yield Told(
                level=logging.WARNING, event="buried", text=text, process=" ".join(f"{each:x}" for each in processes)
            )
        case Replaced(what, why, planned):
            level = logging.INFO if planned else logging.WARNING
            yield Told(level=level, event="replaced", text=f"a worker {what} was replaced: {why}", error=why)
        case Drained(process):
            text = f"process {process:x} was asked to drain: it finishes what it runs and leaves"
            yield Told(event="drained", text=text, process=f"{process:x}")
        case Adapted(of, before, now, why):
            yield Told(event="adapted", text=f"{of}: {before} -> {now}, because {why}")
        case Entered(process, again):
            text = f"working as process {process:x}" + (", after it had been declared dead" if again else "")
            yield Told(level=logging.WARNING if again else logging.INFO, event="entered", text=text)
        case Moved(run, state, round, name):
            title = _title(run, name)
            text = f"{title} continues with round {round}" if state is RunState.OPEN else f"{title} is {state}"
            yield Told(event="run-ended" if state.is_end else "run-moved", text=text, run=run, name=name)
        case Saved():
            yield from map(_end, signal.ends(level <= logging.DEBUG))
        case _:
            pass


def _end(ended: Ended) -> Told:
    status, event = ended.status, Event(ended.task, 0, ended.status, ended.value, took=ended.took)
    return Told(
        level=_LEVELS.get(status, logging.DEBUG),
        event=f"task-{status.name.lower()}",
        text=f"{ended.kind} {ended.task} of {_title(ended.run, ended.name)}: {event_text(event, ended.attempt)}",
        run=ended.run,
        name=ended.name,
        kind=ended.kind,
        queue=ended.queue,
        task=ended.task,
        attempt=ended.attempt or None,
        seconds=(ended.took or 0) / SECOND if ended.attempt else None,
        error=failure_text(Failure.decode(ended.value)) if status in _LEVELS else None,
        traceback=traceback_of(event) or None,
    )


def _title(run: int, name: str | None) -> str:
    return f"run {run}" if name is None else f"run {run} ({name})"


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
        self.level = level
        #: The process whose signals these are, once it has entered.
        self._process: str | None = None

    def __call__(self, signal: Signal) -> None:
        """Hear a signal."""
        if isinstance(signal, Entered):
            self._process = f"{signal.process:x}"
        for each in told(signal, self.level):
            self.tell(each)

    def say(self, text: str, level: int = logging.INFO) -> None:
        """Write what somebody says in words."""
        self.tell(Told(level=level, event="said", text=text))

    def tell(self, told: Told) -> None:
        """Write one line, if it is loud enough."""
        if told.level < self.level:
            return
        now, level = stamp(time.time_ns() // 1_000), logging.getLevelName(told.level).lower()
        process = told.process or self._process
        if self._form == "text":
            self._write(f"{now} {level:7} {process or '-':16} {told.event}: {told.text}")
            return
        facts = msgspec.structs.asdict(told) | {"level": level, "process": process}
        # ASCII, so that nothing in it is obeyed by a terminal, or ends the line.
        self._write(json.dumps({"time": now, **facts}, ensure_ascii=True))


class LogLines(logging.Handler):
    """Writes what a program and its tasks log with `logging` as lines of a log, each record once."""

    def __init__(self, log: Log) -> None:
        super().__init__(log.level)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record. One of a task comes from its kernel as well, and perhaps by way of several loggers."""
        if hasattr(record, _IN_LOG):
            return
        setattr(record, _IN_LOG, True)
        try:
            text = self.format(record)
        except Exception as trouble:  # noqa: BLE001 - a record that cannot be formatted must not fail who logs it
            text = f"({record.msg!r} could not be put into words: {type(trouble).__name__})"
        line = Told(level=record.levelno, event="log", text=text, logger=record.name)
        attempt = current_or_none()
        if attempt is not None:
            line = msgspec.structs.replace(
                line,
                run=attempt.run_id,
                name=_name_of(attempt),
                kind=attempt.kind,
                queue=attempt.queue,
                task=attempt.task,
                attempt=attempt.attempt,
            )
        self._log.tell(line)

    def take_over(self) -> Callable[[], None]:
        """Take the place of handlers that write to standard error; the answer puts them back."""
        root = logging.getLogger()
        loggers = [root, *(each for each in root.manager.loggerDict.values() if isinstance(each, logging.Logger))]
        found = [(each, handler) for each in loggers for handler in each.handlers if _writes_to_stderr(handler)]
        heads = {root, *(logger for logger, _ in found if not logger.propagate)}
        for logger, handler in found:
            logger.removeHandler(handler)
        for logger in heads:
            logger.addHandler(self)

        def put_back() -> None:
            for logger in heads:
                logger.removeHandler(self)
            for logger, handler in found:
                logger.addHandler(handler)

        return put_back


def _name_of(attempt: Current) -> str | None:
    """The name of its run; none while the store is away."""
    try:
        return attempt.run.name
    except RamifyError:
        return None


def _writes_to_stderr(handler: logging.Handler) -> bool:
    return isinstance(handler, logging.StreamHandler) and handler.stream in (sys.stderr, sys.__stderr__)


class StopTeller:
    """A listener that goes through the phases of a stop, if somebody asked for one: every end is a stop inside."""

    def __init__(self, say: Callable[[str], None], stopped: Stopped) -> None:
        self._say = say
        self._stopped = stopped

    def __call__(self, signal: Signal) -> None:
        """Hear a signal."""
        if isinstance(signal, Stopping) and self._stopped.was_asked():
            if signal.phase == "done":
                self._stopped.unfinished = signal.running
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
            return "done: everything is saved, and the same command continues"
