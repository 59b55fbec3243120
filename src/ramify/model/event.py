"""Events: the immutable facts about a task, and how they fold into what is true now.

An event is never changed, and goes only when its task is forgotten. What a task is (how many attempts it used, which
life it is in, whether it ended) is always derived by `fold`, so no store keeps a status column that could disagree with
the log.

This module does not know about live segments: whether an unfinished task is ready, waiting or claimed is told by the
segment that covers it (see `segment.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum

import msgspec

#: In microseconds: of an attempt that took no longer it is not said how long it took.
UNTIMED = 1_000


class Status(IntEnum):
    """The meaning of one event. The numbers are stored; never reuse one. 9 is a `Tally`; counters count both.

    DECIDED says who decided how the task is to end, and why; the end itself follows. OUTRUN says that another task was
    first to set a context value that this one set; its own end follows. REPLACED is a final end, and may follow another
    end: the task that made it makes others instead.
    """

    DONE = 1
    FAILED = 2
    CANCELLED = 3
    SKIPPED = 4
    QUARANTINED = 5
    RETRYING = 6
    DEFERRED = 7
    REOPENED = 8
    DECIDED = 10
    OUTRUN = 11
    REPLACED = 12

    def __str__(self) -> str:
        return self.name.lower()

    def __format__(self, spec: str) -> str:
        return format(int(self), spec) if spec else str(self)

    @property
    def is_end(self) -> bool:
        """True if the task's present life ends with this event."""
        return self <= Status.QUARANTINED or self is Status.REPLACED


#: What stores write by themselves, and no process reports.
UNREPORTED = frozenset({Status.REOPENED, Status.DECIDED, Status.OUTRUN, Status.REPLACED})
#: What an attempt comes to.
ATTEMPTED = frozenset({Status.DONE, Status.FAILED, Status.RETRYING, Status.DEFERRED})
ENDS = (
    Status.DONE,
    Status.FAILED,
    Status.CANCELLED,
    Status.SKIPPED,
    Status.QUARANTINED,
    Status.REPLACED,
)


class Tally(IntEnum):
    """Counts besides the statuses: tasks added, and children dropped because their key was taken."""

    ADDED = 0
    DUPLICATE = 9


def pending_of(counters: Mapping[int, int]) -> int:
    """How many tasks have not ended, by the counters of their kind."""
    return counters.get(Tally.ADDED, 0) - sum(counters.get(status, 0) for status in ENDS)


class Event(msgspec.Struct, frozen=True, gc=False):
    """One fact. `n` numbers the events of a task from 1; `seq` names the commit that wrote it.

    `took` is how long the attempt was that it tells about, in microseconds; None for up to `UNTIMED`, or for none.
    """

    task: int
    n: int
    status: Status
    value: bytes | None = None
    seq: int = 0
    took: int | None = None


class History(msgspec.Struct, frozen=True):
    """The sum of the events of one task."""

    events: int = 0
    attempts: int = 0  #: failed attempts in this life; the next attempt is number `attempts + 1`
    life: int = 1
    revivals: int = 0  #: times a task that had succeeded was run again on purpose
    ended: Status | None = None
    deferrals: int = 0  #: how often it was put off in this life


UNTRIED = History()


def fold(events: Iterable[Event]) -> History:
    """The history of one task from its events in order of `n`."""
    count = attempts = revivals = deferrals = 0
    life = 1
    ended: Status | None = None
    for event in events:
        count += 1
        match event.status:
            case Status.RETRYING:
                attempts += 1
            case Status.DEFERRED:
                deferrals += 1
            case Status.DECIDED | Status.OUTRUN:
                pass
            case Status.REOPENED:
                revivals += ended is Status.DONE
                life += 1
                attempts = deferrals = 0
                ended = None
            case _:
                attempts += event.status is Status.FAILED
                ended = event.status
    return History(count, attempts, life, revivals, ended, deferrals)
