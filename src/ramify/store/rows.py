"""Rows as durable stores keep them: ranges of the log, live segments, and the arithmetic of taking these apart.

The verbs (`verbs/`) decide on these values; a backend reads them from its tables and writes them back. Nothing here
touches a store.

Rows come by the thousand and refer to values only, so the garbage collector need not look at them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from ramify.model.death import Deaths
from ramify.model.key import Hold
from ramify.model.policy import deep_rank, rank_of
from ramify.model.run import Order, RunState, StoredRun
from ramify.model.segment import SegmentState, cut_mask, full, tasks_in

#: The line of a claimed row that limits count.
COUNTED = ""


class SpanRow(msgspec.Struct, gc=False):
    """A range of the log and what its tasks share. `low_parent` is 0 where not all of them have a parent."""

    first: int
    last: int
    run: int
    round: int
    kind: str
    queue: str
    lane: str | None
    priority: int
    due: int | None
    hold: Hold
    keep: int
    join: int | None
    shift: int
    keyed: bool
    extra: bool
    laned: bool
    awaited: bool
    published: bool
    low_parent: int | None = None
    high_parent: int | None = None
    added: int = 0

    def shared(self) -> tuple[object, ...]:
        """Return what tasks must have in common to lie in one span."""
        return (
            self.run, self.round, self.kind, self.queue, self.lane, self.priority, self.due, self.hold, self.keep,
            self.join, self.shift, self.keyed, self.extra, self.laned, self.awaited,
        )  # fmt: skip

    @property
    def releases_keys(self) -> bool:
        """True if the end of a task frees its key, or lets it expire."""
        return self.keyed and self.hold is Hold.UNIQUE

    def grow(self, more: SpanRow) -> None:
        """Add the tasks of a range that follows on."""
        if (self.low_parent, self.high_parent) != (more.low_parent, more.high_parent):
            self.low_parent = min(self.low_parent or 0, more.low_parent or 0)
            self.high_parent = max(self.high_parent or 0, more.high_parent or 0)
        self.last = more.last


class SegmentRow(msgspec.Struct, gc=False):
    """A live row; `left` is its mask as a number, `line` that of the limit in which it waits or whose head it is, or
    `COUNTED`. A row that is not written yet has the id 0.
    """

    id: int
    span: int
    run: int
    round: int
    kind: str
    queue: str
    lane: str | None
    first: int
    last: int
    left: int | None
    rank: int
    due: int | None
    state: SegmentState
    attempt: int = 0
    packed_deaths: int = 0
    owner: int | None = None
    token: bytes | None = None
    awaits: int | None = None
    line: str | None = None

    @property
    def count(self) -> int:
        """How many unfinished tasks it stands for."""
        return self.last - self.first + 1 if self.left is None else self.left.bit_count()

    @property
    def tasks(self) -> Sequence[int]:
        """The unfinished tasks it stands for."""
        return tasks_in(self.first, self.last, self.left)

    @property
    def bits(self) -> int:
        """Its mask, also where none is stored because all are unfinished."""
        return full(self.last - self.first + 1) if self.left is None else self.left

    @property
    def deaths(self) -> Deaths:
        """Which processes died over it."""
        return Deaths.unpack(self.packed_deaths)

    @property
    def is_apart(self) -> bool:
        """True if it must run apart: see `Deaths.packed`."""
        return bool(self.packed_deaths & 1)

    @property
    def place(self) -> tuple[int, int]:
        """Its place in the order of claims: the newest of equal rank come last."""
        return self.rank, self.id or _NEWEST

    def covers(self, task: int) -> bool:
        """Return whether `task` is one of them."""
        return self.first <= task <= self.last and (self.left is None or bool(self.left >> (task - self.first) & 1))

    def split(self, cut: int) -> SegmentRow:
        """Return the tasks below `cut` as a new row; this one keeps the rest, so that a tail row goes on growing."""
        below, rest = cut_mask(self.first, self.last, self.left, cut)
        head = replace(self, id=0, last=cut - 1, left=below)
        self.first, self.left = cut, rest
        return head

    def split_off(self, cut: int) -> SegmentRow:
        """Do `split`. This row stays the head of a line if it was one, and the new one is met by the next claim."""
        return self.split(cut).without_line()

    def without_line(self) -> SegmentRow:
        """Return this row, which is the head of a line no more if it was: a line has one of each kind and queue."""
        if self.state is SegmentState.READY and self.line is not None:
            self.due = self.line = None
        return self


#: After all ids that were given.
_NEWEST = 2**63


def state_for(run: StoredRun, round: int) -> SegmentState:
    """Return what a segment of that round is now: claimable, or behind the gate."""
    # Without a barrier all rounds open at once, and at once unless the run follows another.
    free = run.order is not Order.ROUNDS and (run.round >= 0 or run.follows is None)
    reached = free or round <= run.round
    return SegmentState.READY if reached and run.state is RunState.OPEN else SegmentState.GATED


def rank(run: StoredRun, priority: int, round: int, now: int) -> int:
    """The place in line of new tasks."""
    if run.order is Order.DEPTH_FIRST:
        return deep_rank(run.created, priority, round)
    return rank_of(now, priority)
