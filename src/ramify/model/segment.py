"""Segments: the live rows that say which published tasks are unfinished, and the arithmetic of their masks.

A segment covers the ids `first..last` of one run, round, kind and queue, and of one lane or several (`lanes.py`). Its
mask `left` has bit i set when task `first + i` is unfinished; no mask means all of them are. Only rows of at most
`MASK_WIDTH` tasks carry a mask; wider rows are full and are split before any of their tasks is claimed.

States of a segment and the ways between them:

    staged   rows of a streamed fan-out, unpublished     -> gated or ready (publish), garbage (attempt or owner ended)
    waiting  tasks whose join is not full                -> gated or ready (the join fires)
    gated    published, but its run is paused or its round is not open yet   -> ready (advance, resume)
    ready    anyone who knows the kind may claim it      -> claimed, limited (a claim), gated (pause, cancel)
    limited  waits in the line of a limit (`limit.py`)   -> ready (a place is freed, the limit changes), gated (pause)
    claimed  owned under a token                         -> gone (all ended), ready (release, reap, deferred part)
    garbage  unpublished rows that nobody will publish   -> gone (vacuum)

This module holds values and pure functions; it never touches a store.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from heapq import heappop, heappush

import msgspec

from ramify.model.death import Deaths

MASK_WIDTH = 8192


class SegmentState(IntEnum):
    """Where a live row stands. The numbers are stored; never reuse one."""

    READY = 0
    GATED = 1
    WAITING = 2
    CLAIMED = 3
    STAGED = 4
    GARBAGE = 5
    LIMITED = 6


LIVE_STATES = (
    SegmentState.READY,
    SegmentState.GATED,
    SegmentState.WAITING,
    SegmentState.CLAIMED,
    SegmentState.LIMITED,
)


class Segment(msgspec.Struct, frozen=True):
    """A live row as people and checks see it; the kernel works with `Claim`."""

    id: int
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
    attempt: int
    deaths: Deaths
    owner: int | None
    state: SegmentState
    awaits: int | None = None  #: the run whose end makes it due before its time
    line: str | None = None  #: the line of a limit in which it waits, or whose head it is

    @property
    def tasks(self) -> Sequence[int]:
        """The unfinished tasks this row stands for."""
        return tasks_in(self.first, self.last, self.left)


def full(width: int) -> int:
    """A mask with `width` bits set."""
    return (1 << width) - 1


def mask_of(tasks: Sequence[int], first: int) -> int:
    """The mask, relative to `first`, with exactly the bits of `tasks` set."""
    if not tasks:
        return 0
    if is_unbroken(tasks):
        return full(len(tasks)) << (tasks[0] - first)
    # A base-2 literal is parsed in one linear C loop; shifting ints one by one would be quadratic.
    digits = bytearray(b"0") * (max(tasks) - first + 1)
    for task in tasks:
        digits[task - first] = 49
    digits.reverse()
    return int(digits, 2)


def is_unbroken(tasks: Sequence[int]) -> bool:
    """Return whether the tasks are a rising range without gaps."""
    return isinstance(tasks, range) and tasks.step == 1


def bounds(tasks: Sequence[int]) -> tuple[int, int]:
    """The lowest and the highest of some tasks, without walking a range."""
    return (tasks[0], tasks[-1]) if is_unbroken(tasks) else (min(tasks), max(tasks))


def tasks_in(first: int, last: int, left: int | None) -> Sequence[int]:
    """The tasks whose bit is set, in order; a `range` when all are."""
    if left is None:
        return range(first, last + 1)
    return [first + i for i, bit in enumerate(bin(left)[:1:-1]) if bit == "1"]


def trim(first: int, left: int) -> tuple[int, int, int | None]:
    """The narrowest `(first, last, left)` for a non-empty mask; `left` is None when the row became full."""
    low = (left & -left).bit_length() - 1
    left >>= low
    width = left.bit_length()
    return first + low, first + low + width - 1, None if left == full(width) else left


def pack(left: int | None) -> bytes | None:
    """A mask as the bytes a store keeps."""
    return None if left is None else left.to_bytes((left.bit_length() + 7) // 8 or 1, "little")


def unpack(left: bytes | None) -> int | None:
    """The inverse of `pack`."""
    return None if left is None else int.from_bytes(left, "little")


def take_head(first: int, last: int, left: int | None, limit: int) -> tuple[int, int]:
    """Split off the first `limit` set bits: `(cut, taken)`, where tasks below `cut` form the head."""
    width = min(last - first + 1, MASK_WIDTH)
    if left is None:
        taken = min(width, limit)
        return first + taken, taken
    if (count := left.bit_count()) <= limit:
        return last + 1, count
    return tasks_in(first, last, left)[limit], limit


def cut_mask(first: int, last: int, left: int | None, cut: int) -> tuple[int | None, int | None]:
    """The masks of the two rows `first..cut-1` and `cut..last`."""
    if left is None:
        return None, None
    return left & full(cut - first), left >> (cut - first)


def in_order(rows: Iterable[Segment], after: int) -> Iterator[tuple[int, Segment]]:
    """The tasks of rows beyond an id, in order, each with its row. The rows come by their first; they may overlap."""
    ahead: list[tuple[int, int, Segment, Iterator[int]]] = []

    def taken() -> tuple[int, Segment]:
        task, number, row, rest = heappop(ahead)
        if (following := next(rest, None)) is not None:
            heappush(ahead, (following, number, row, rest))
        return task, row

    for number, row in enumerate(rows):
        while ahead and ahead[0][0] < row.first:
            yield taken()
        tasks = row.tasks
        rest = iter(tasks[bisect_right(tasks, after) :])
        if (first := next(rest, None)) is not None:
            heappush(ahead, (first, number, row, rest))
    while ahead:
        yield taken()


def stretches(positions: Iterable[int]) -> list[list[int]]:
    """Rising positions grouped into runs of consecutive ones."""
    found: list[list[int]] = []
    for position in positions:
        if found and found[-1][-1] == position - 1:
            found[-1].append(position)
        else:
            found.append([position])
    return found
