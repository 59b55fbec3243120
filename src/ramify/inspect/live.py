"""The live rows of a run, counted by what keeps their tasks from being done, and a few of the tasks by name.

One bounded pass over the segment table, which stays small while the log grows. Beyond `ROWS` rows the numbers are
lower bounds, and `complete` says so.
"""

from __future__ import annotations

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
#: How many tasks are named.
NAMED = 3


class Amounts(msgspec.Struct, frozen=True):
    """Unfinished tasks by what they wait for.

    `stranded` are held by the dead until somebody reaps them, `later` are due at a time to come, `asking` are gates
    that wait for an answer, `suspect` must run apart.
    """

    held: int = 0
    stranded: int = 0
    ready: int = 0
    later: int = 0
    asking: int = 0
    suspect: int = 0
    gated: int = 0
    joining: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return sum(msgspec.structs.astuple(self))


class Live(msgspec.Struct, frozen=True):
    """What is left of a run: in all, and in the rounds that must end before the next one opens."""

    run: Amounts
    round: Amounts
    workers: int = 0
    next_due: int | None = None
    waited_for: tuple[int, ...] = ()
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
    match row.state:
        case SegmentState.READY:
            if row.deaths.apart:
                return "suspect"
            if row.due is None or row.due <= now:
                return "ready"
            return "asking" if row.kind == GATE else "later"
        case SegmentState.GATED:
            return "gated"
        case SegmentState.WAITING:
            return "joining"
        case SegmentState.CLAIMED:
            return "held"
        case SegmentState.STAGED | SegmentState.GARBAGE:
            return None


def workers(reads: Reads) -> list[Process]:
    """The live processes that may do tasks; one that said it knows no kinds, such as a command, does none."""
    return at_work(reads.processes())


def at_work(processes: Sequence[Process]) -> list[Process]:
    """Those of these that are alive and may do tasks."""
    return [process for process in processes if process.is_alive and process.kinds != ()]


def in_words(process: Process) -> str:
    """A process by its number, and where it is."""
    where = f" on {process.host}" if process.host else ""
    return f"process {process.id:x} (pid {process.pid}{where})"


def drained_in_words(process: Process) -> str:
    """That a process drains, and who asked for it."""
    said = process.draining
    return "" if said is None else f"draining{said_in_words(said.by, said.reason)}"


def look(reads: Reads, run: StoredRun, now: int, working: Sequence[Process], limit: int = ROWS) -> Live:
    """Count what is left of a run, on whose store these work."""
    alive = {process.id for process in working}
    all_of_it: dict[str, int] = {}
    this_round: dict[str, int] = {}
    named: list[int] = []
    next_due: int | None = None
    seen = 0
    for row in rows_of(reads, run.id, limit=limit):
        seen += 1
        wait = wait_of(row, now)
        if wait is None:
            continue
        if wait == "held" and row.owner not in alive:
            wait = "stranded"
        count = width(row)
        all_of_it[wait] = all_of_it.get(wait, 0) + count
        if wait == "later" and row.due is not None and row.due < PARKED:
            next_due = row.due if next_due is None else min(next_due, row.due)
        if wait != "joining" and (run.order is not Order.ROUNDS or row.round <= run.round):
            this_round[wait] = this_round.get(wait, 0) + count
            if len(named) < NAMED:
                named += list(row.tasks[: NAMED - len(named)])
    return Live(Amounts(**all_of_it), Amounts(**this_round), len(working), next_due, tuple(named), seen < limit)
