"""Notes: log lines of tasks on their way into the store, and the records that carry where they came from.

Lines are kept in memory and written now and then by the loop; a crash loses the last second of them. Each attempt may
leave so many lines; what is beyond that is counted and said once. What it says of its progress comes beside that,
however much it logged: the last word is written each time, and the very last one before the attempt's end is.

Standard `logging` records made inside an attempt get `run`, `kind`, `task` and `attempt` as attributes, whoever handles
them, and go to the handler of a worker's log if there is one. A program that never set up its logging still sees its
warnings, made inside of attempts or outside. Records of a child that an attempt forked are not kept.

The level of the root is the program's word on its own output, and stays as it is. What a logger says in an attempt is
heard from the engine's level on, also below that of the root; such records go to the captures and to nobody else. A
level on the logger itself or on one between it and the root counts, as do `propagate=False` and `logging.disable`.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from ramify.kernel.tuning import LINES_AT_ONCE, MOST_LINES, NOTES_EVERY
from ramify.model.log import LogLine
from ramify.model.policy import SECOND
from ramify.store import forks

PROGRESS = "ramify.progress"
TASK_LOGGER = "ramify.task"


class Whose(Protocol):
    """The attempt a record belongs to."""

    @property
    def _notes(self) -> Notes:
        """Where its lines go."""

    @property
    def run_id(self) -> int:
        """Its run."""

    @property
    def kind(self) -> str:
        """Its kind."""

    @property
    def task(self) -> int:
        """Its task."""

    @property
    def attempt(self) -> int:
        """Its number."""


class Notes:
    """Lines that wait to be stored."""

    def __init__(self, per_attempt: int) -> None:
        self._per_attempt = per_attempt
        self._lines: deque[LogLine] = deque(maxlen=MOST_LINES)
        #: How far each task said it is, if that was not written since.
        self._progress: dict[int, LogLine] = {}
        self._n = 0
        self._lock = threading.Lock()
        self._counts: dict[tuple[int, int], int] = {}
        self._written_at = 0.0
        self._depth = forks.depth

    @property
    def are_kept(self) -> bool:
        """True if anybody will store them; not in a forked child, where the lock may be held for ever besides."""
        return self._depth == forks.depth

    def add(self, whose: Whose, level: int, logger: str, text: str) -> None:
        """Keep one line."""
        if not self.are_kept:
            return
        with self._lock:
            over = 0 if logger == PROGRESS else self._over(whose)
            if over > 1:
                return
            if over:
                text = f"(more than {self._per_attempt} lines in one attempt; the rest is not kept)"
            self._n += 1
            now = time.time_ns() * SECOND // 1_000_000_000
            line = LogLine(self._n, now, whose.run_id, whose.task, whose.attempt, level, logger, text)
            if logger == PROGRESS:
                self._progress[whose.task] = line
            else:
                self._lines.append(line)

    def _over(self, whose: Whose) -> int:
        """Count one more line of an attempt; how many it has by now beyond those it may leave."""
        where = (whose.task, whose.attempt)
        if len(self._counts) > MOST_LINES:
            self._counts.clear()
        self._counts[where] = count = self._counts.get(where, 0) + 1
        return max(0, count - self._per_attempt)

    def count_anew(self, tasks: Iterable[int]) -> None:
        """Let the present attempts of these tasks leave as many lines as if they had not begun."""
        again = frozenset(tasks)
        with self._lock:
            self._counts = {where: count for where, count in self._counts.items() if where[0] not in again}

    def have_progress_of(self, tasks: Iterable[int]) -> bool:
        """Return whether progress of one of these waits; costs nothing when none has reported any."""
        if not self._progress:
            return False
        with self._lock:
            return any(task in self._progress for task in tasks)

    def due(self, now: float, *, early: bool = False) -> list[LogLine]:
        """Lines to write now: none until enough came together or enough time passed, unless it is to be early."""
        waiting = len(self._lines) + len(self._progress)
        if not waiting or (waiting < LINES_AT_ONCE and now - self._written_at < NOTES_EVERY and not early):
            return []
        self._written_at = now
        return self._take(LINES_AT_ONCE)

    def rest(self) -> list[LogLine]:
        """Everything that is left, at the end."""
        return self._take(MOST_LINES)

    def _take(self, most: int) -> list[LogLine]:
        """So many lines, and beside them whatever was said of progress, in the order in which they came."""
        with self._lock:
            lines = [self._lines.popleft() for _ in range(min(most, len(self._lines)))]
            lines += self._progress.values()
            self._progress.clear()
        return sorted(lines, key=lambda line: line.n)


class Capture(logging.Handler):
    """Keeps the records that are made inside attempts, and gives them to another handler, if there is one."""

    def __init__(
        self, notes: Notes, whose: Callable[[], Whose | None], level: int, also: logging.Handler | None = None
    ) -> None:
        super().__init__(level)
        self._notes = notes
        self.whose = whose
        self._also = also

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one record; being here keeps Python's handler of last resort from one that nobody else handles."""
        handlers = list(_handlers_of(record.name))
        # Who keeps it, or else the first of several, calls that handler in its place.
        is_mine = self.keep(record) or (not self._is_kept_elsewhere() and handlers[0] is self)
        last = logging.lastResort
        alone = all(isinstance(each, Capture) for each in handlers)
        if last is not None and alone and is_mine and record.levelno >= last.level:
            last.handle(record)

    def _is_kept_elsewhere(self) -> bool:
        """Return whether another kernel of this process, perhaps on another store, keeps what is logged here."""
        whose = self.whose()
        return whose is not None and whose._notes.are_kept and whose._notes is not self._notes

    def keep(self, record: logging.LogRecord) -> bool:
        """Keep a record if it is of an attempt of this kernel; one that cannot be put into words is said to be so."""
        whose = self.whose()
        if whose is None or whose._notes is not self._notes or not self._notes.are_kept:
            return False
        try:
            text = self.format(record)
        except Exception as trouble:  # noqa: BLE001 - a record that cannot be formatted must not fail its task
            text = f"({record.msg!r} could not be put into words: {type(trouble).__name__})"
        self._notes.add(whose, record.levelno, record.name, text)
        if self._also is not None and record.levelno >= self._also.level:
            self._also.handle(record)
        return True


def _handlers_of(name: str) -> Iterator[logging.Handler]:
    """Yield the handlers for the records of a logger, its own first and those of the root last."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        yield from logger.handlers
        logger = logger.parent if logger.propagate else None


class Tap:
    """The change to `logging` while kernels work: once for all kernels of a process, and put back by the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._captures: list[Capture] = []
        self._lowest = logging.CRITICAL
        self._put_back: Callable[[], None] = lambda: None

    def open(self, capture: Capture) -> None:
        """Let one more capture hear what is logged."""
        with self._lock:
            if not self._captures:
                self._put_back = _put_back_all(_mark_records(capture.whose), _widen(self, capture.whose))
            self._captures.append(capture)
            logging.getLogger().addHandler(capture)
            self._set_level()

    def close(self, capture: Capture) -> None:
        """Let it hear nothing more."""
        with self._lock:
            self._captures.remove(capture)
            logging.getLogger().removeHandler(capture)
            if self._captures:
                self._set_level()
            else:
                self._put_back()

    def wants(self, logger: logging.Logger, level: int) -> bool:
        """Return whether a record of that level is heard here, though not by the program, if made in an attempt."""
        return level >= self._lowest and logger.manager.disable < level and _is_left_to_the_root(logger)

    def hear(self, record: logging.LogRecord) -> None:
        """Give the captures a record that nobody else is to see."""
        for capture in tuple(self._captures):
            if record.levelno >= capture.level:
                capture.keep(record)

    def _set_level(self) -> None:
        self._lowest = min(capture.level for capture in self._captures)
        logging.getLogger(TASK_LOGGER).setLevel(self._lowest)


_tap = Tap()


def _mark_records(whose: Callable[[], Whose | None]) -> Callable[[], None]:
    """Let every record that is made in an attempt say where it came from; the answer puts `logging` back."""
    own = logging.getLogger(TASK_LOGGER)
    factory, level = logging.getLogRecordFactory(), own.level

    def made(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = factory(*args, **kwargs)
        attempt = whose()
        if attempt is not None:
            record.run, record.kind = attempt.run_id, attempt.kind
            record.task, record.attempt = attempt.task, attempt.attempt
        return record

    def put_back() -> None:
        own.setLevel(level)
        # Somebody may have put a factory of theirs on top of ours; then ours stays below it, and is harmless.
        if logging.getLogRecordFactory() is made:
            logging.setLogRecordFactory(factory)

    logging.setLogRecordFactory(made)
    return put_back


def _widen(tap: Tap, whose: Callable[[], Whose | None]) -> Callable[[], None]:
    """Let loggers speak in attempts below the level of the root, to the captures alone; the answer puts it back.

    Loggers remember which levels are on, so neither a level nor a handler that differs by thread would do; what they
    ask is put in place of it, and everywhere else answers as ever.
    """
    enabled, handle = logging.Logger.isEnabledFor, logging.Logger.handle

    def is_enabled_for(self: logging.Logger, level: int) -> bool:
        return enabled(self, level) or (not self.disabled and whose() is not None and tap.wants(self, level))

    def handle_one(self: logging.Logger, record: logging.LogRecord) -> None:
        if whose() is None or enabled(self, record.levelno) or not tap.wants(self, record.levelno):
            handle(self, record)
        elif not self.disabled and (passed := self.filter(record)):
            tap.hear(passed if isinstance(passed, logging.LogRecord) else record)

    def put_back() -> None:
        # As with the factory: under somebody else's, ours stays, and is harmless.
        if logging.Logger.isEnabledFor is is_enabled_for:
            logging.Logger.isEnabledFor = enabled  # type: ignore[method-assign]
        if logging.Logger.handle is handle_one:
            logging.Logger.handle = handle  # type: ignore[method-assign]

    logging.Logger.isEnabledFor = is_enabled_for  # type: ignore[method-assign]
    logging.Logger.handle = handle_one  # type: ignore[method-assign]
    return put_back


def _is_left_to_the_root(logger: logging.Logger) -> bool:
    """Return whether only the root says from which level on this logger speaks, and what it says gets there."""
    at = logger
    while at.parent is not None:
        if at.level or not at.propagate:
            return False
        at = at.parent
    return True


def _put_back_all(*steps: Callable[[], None]) -> Callable[[], None]:
    def all_of_them() -> None:
        for step in steps:
            step()

    return all_of_them


@contextlib.contextmanager
def capturing(
    notes: Notes, whose: Callable[[], Whose | None], level: int, also: logging.Handler | None = None
) -> Iterator[None]:
    """Capture records while this lasts, and let every record made in an attempt say where it came from."""
    capture = Capture(notes, whose, level, also)
    _tap.open(capture)
    try:
        yield
    finally:
        _tap.close(capture)
