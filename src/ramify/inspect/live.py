"""Unfinished work of a run, counted by what keeps its tasks from being done; and passes over live rows.

The store counts, up to a bound beyond which the numbers are lower bounds, and `complete` says so. A pass over rows ends
after `ROWS` of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import merge

import msgspec

from ramify.model.decision import in_words as said_in_words
from ramify.model.gate import GATE
from ramify.model.policy import PARKED
from ramify.model.process import Process
from ramify.model.run import Order, StoredRun
from ramify.model.segment import LIVE_STATES, Segment, SegmentState
from ramify.store.reads import Reads

ROWS = 50_000
_PAGE = 5_000


class Amounts(msgspec.Struct, frozen=True):
    """Unfinished tasks by what they wait for.

    `stranded` are held by the dead until somebody reaps them, `later` are due at a time to come, `asking` are gates
    that wait for an answer, `suspect` must run apart, `limited` wait for a place of a limit.
    """

    held: int = 0
    stranded: int = 0
    ready: int = 0
    later: int = 0
    asking: int = 0
    suspect: int = 0
    limited: int = 0
    gated: int = 0
    joining: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return sum(msgspec.structs.astuple(self))


class Live(msgspec.Struct, frozen=True):
    """The unfinished tasks of a run: in all, and in the rounds that must end before the next one opens."""

    run: Amounts
    round: Amounts
    workers: int = 0
    next_due: int | None = None
    complete: bool = True


def rows_of(reads: Reads, run: int | None = None, *, owner: int | None = None, limit: int = ROWS) -> Iterator[Segment]:
    """Rows of the segment table, of one run or of all, or those that a process has claimed, at most `limit`."""
    after, more, seen = 0, True, 0
    while more and seen < limit:
        page = reads.segments(run=run, owner=owner, after=after, limit=min(_PAGE, limit - seen))
        yield from page.rows
        after, more, seen = page.after, page.more, seen + len(page.rows)


def unfinished(reads: Reads, run: int, kind: str | None, after: int) -> Iterator[int]:
    """Tasks of a run that have not ended, by id, from the live rows: the log of what is done is not looked at."""
    rows = [
        row for row in rows_of(reads, run) if row.state in LIVE_STATES and kind in (None, row.kind) and row.last > after
    ]
    return (task for task in merge(*(row.tasks for row in rows)) if task > after)


def width(row: Segment) -> int:
    """How many unfinished tasks a row stands for."""
    return row.last - row.first + 1 if row.left is None else row.left.bit_count()


def wait_of(row: Segment, now: int) -> str | None:
    """The field of `Amounts` that counts a row; None for rows that are not published."""
    if row.state not in LIVE_STATES:
        return None
    return _wait(row.state, row.kind, apart=row.deaths.apart, later=row.due is not None and row.due > now)


def _wait(state: SegmentState, kind: str, *, apart: bool, later: bool) -> str:
    match state:
        case SegmentState.GATED:
            return "gated"
        case SegmentState.WAITING:
            return "joining"
        case SegmentState.CLAIMED:
            return "held"
        case SegmentState.LIMITED:
            return "limited"
        case _ if apart:
            return "suspect"
        case _ if later:
            return "asking" if kind == GATE else "later"
        case _:
            return "ready"


def workers(reads: Reads) -> list[Process]:
    """The live processes that may do tasks; one that said it knows no kinds, such as a command, does none."""
    return at_work(reads.processes())


def at_work(processes: Sequence[Process]) -> list[Process]:
    """Return those of these that are alive and may do tasks."""
    return [process for process in processes if process.is_alive and process.kinds != ()]


def in_words(process: Process) -> str:
    """A process by its number, and where it is."""
    where = f" on {process.host}" if process.host else ""
    return f"process {process.id:x} (pid {process.pid}{where})"


def drained_in_words(process: Process) -> str:
    """Describe a draining process, with the person who asked for it."""
    said = process.draining
    return "" if said is None else f"draining{said_in_words(said.by, said.reason)}"


def look(reads: Reads, run: StoredRun, now: int, working: Sequence[Process]) -> Live:
    """Count what is left of a run, on whose store these work. The store counts; no rows are read for it."""
    alive = {process.id for process in working}
    all_of_it: Counter[str] = Counter()
    this_round: Counter[str] = Counter()
    dues: list[int] = []
    found = reads.live_counts(run.id, now)
    for some in found.counts:
        wait = _wait(some.state, some.kind, apart=some.apart, later=some.later)
        if wait == "held" and some.owner not in alive:
            wait = "stranded"
        all_of_it[wait] += some.tasks
        if wait == "later" and some.next_due is not None and some.next_due < PARKED:
            dues.append(some.next_due)
        if wait != "joining" and (run.order is not Order.ROUNDS or not some.ahead):
            this_round[wait] += some.tasks
    next_due = min(dues, default=None)
    return Live(Amounts(**all_of_it), Amounts(**this_round), len(working), next_due, found.complete)
