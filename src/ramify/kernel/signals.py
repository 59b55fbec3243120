"""Signals: what the kernel tells whoever listens. It never logs and never prints.

A signal is a value. Listeners are called in the kernel's threads and must be quick; one that raises is taken off the
list, so that a broken display can never harm the work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ramify.model.event import Status
from ramify.model.run import RunState


@dataclass(frozen=True, slots=True)
class Entered:
    """This program now works as process `process`; `again` after it had been declared dead."""

    process: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class Took:
    """A claim brought tasks."""

    tasks: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of an attempt. Attempt 0 is that of a task which ended without one; `value` is an error or a reason, as
    it is stored, and `took` how long it was in microseconds, None for a quick one. `name` is that of the run.
    """

    run: int
    kind: str
    task: int
    attempt: int
    status: Status
    value: bytes | None = None
    took: int | None = None
    queue: str = ""
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Saved:
    """A commit was answered: outcomes it held, children it added, parts that were refused.

    `ends(True)` are the outcomes one by one, for who wants to look at each; `ends(False)` those that are not done.
    """

    outcomes: int
    children: int
    refused: int
    seconds: float
    ends: Callable[[bool], Iterable[Ended]] = field(default=lambda done: (), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Attempts:
    """Attempts of one kind in one queue: how many came to what, by the name of the status, and how long they took.

    `seconds` is the time of all of them together, `times` how many took up to each of `BOUNDS`, and beyond the last.
    """

    kind: str
    queue: str
    outcomes: tuple[tuple[str, int], ...]
    seconds: float
    times: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Worked:
    """The work of a process since its last beat: tasks it claimed, its commits and their seconds, parts of
    them that were refused, and what came of attempts.
    """

    claimed: int
    commits: int
    seconds: float
    refused: int
    attempts: tuple[Attempts, ...]


@dataclass(frozen=True, slots=True)
class Moved:
    """A run opened a round or ended; `name` is its own, if it has one."""

    run: int
    state: RunState
    round: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Adapted:
    """The number of tasks at a time was changed, and why."""

    of: str
    before: int
    now: int
    why: str


@dataclass(frozen=True, slots=True)
class StoreAway:
    """The store does not answer; work waits and goes on by itself."""

    why: str


@dataclass(frozen=True, slots=True)
class StoreBack:
    """The store answers again."""

    after: float


@dataclass(frozen=True, slots=True)
class Buried:
    """Dead processes were found and their work was offered again."""

    processes: tuple[int, ...]
    tasks: int


@dataclass(frozen=True, slots=True)
class Replaced:
    """A worker thread, event loop or process was given up and replaced; `planned` for one that was recycled."""

    what: str
    why: str
    planned: bool = False


@dataclass(frozen=True, slots=True)
class NobodyKnows:
    """Tasks of these kinds, each with how many, wait although work goes on: no live process has a task of that name."""

    kinds: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Drained:
    """Somebody asked this process to finish what it runs and leave; a stop follows."""

    process: int


@dataclass(frozen=True, slots=True)
class Stopping:
    """A stop goes through its phases: draining (tasks still running), saving, done (those that did not finish in time,
    which run again).
    """

    phase: str
    running: int = 0


Signal = (
    Entered
    | Took
    | Saved
    | Worked
    | Moved
    | Adapted
    | StoreAway
    | StoreBack
    | Buried
    | Replaced
    | NobodyKnows
    | Drained
    | Stopping
)
Listener = Callable[[Signal], None]


class Signals:
    """A list of listeners."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()
        self._lock = threading.Lock()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Hear every signal from now on; the answer takes the listener off again."""
        with self._lock:
            self._listeners = (*self._listeners, listener)
        return lambda: self._drop(listener)

    def send(self, signal: Signal) -> None:
        """Tell everybody."""
        for listener in self._listeners:
            try:
                listener(signal)
            except Exception:  # noqa: BLE001 - a listener is not ours; the work goes on without it
                self._drop(listener)

    def _drop(self, listener: Listener) -> None:
        with self._lock:
            self._listeners = tuple(each for each in self._listeners if each is not listener)
