"""Lanes: which new tasks share a row although their lanes differ, and how such a row comes apart again. Pure functions.

A row for every lane is dear where there are as many lanes as tasks. So lanes that add few tasks at a time go into one
row, which names the lane of each task. Whoever claims it holds tasks of many lanes; if some of them may not start, it
puts the row back, and the row comes apart into one for each lane, so that a lane can be left alone.

Does not know what a limit is: whether tasks of one kind may share is the caller's decision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ramify.model.segment import mask_of, trim

#: A lane that adds more tasks than this at a time has a row of its own.
FEW = 64

#: A lane, and the `(first, last, left)` of its row.
LaneRow = tuple[str, int, int, int | None]


def by_row(lanes: Sequence[str | None], most: int) -> list[Sequence[int]]:
    """The positions that go into one row each; up to `most` tasks of a lane may share one with others.

    Those of no lane stay among themselves.
    """
    sizes = Counter(lanes)
    most = min(most, FEW)
    if len(sizes) == 1 or (max(sizes.values()) <= most and None not in sizes):
        return [range(len(lanes))]
    found: dict[str | None, list[int]] = {}
    together: list[int] = []
    for position, lane in enumerate(lanes):
        shares = lane is not None and sizes[lane] <= most
        (together if shares else found.setdefault(lane, [])).append(position)
    return [*found.values(), together] if together else list(found.values())


def apart(tasks: Sequence[int], lanes: Sequence[str]) -> list[LaneRow]:
    """The rows that stand for these tasks, one for each lane."""
    by_lane: dict[str, list[int]] = {}
    for task, lane in zip(tasks, lanes, strict=True):
        by_lane.setdefault(lane, []).append(task)
    return [(lane, *trim(own[0], mask_of(own, own[0]))) for lane, own in by_lane.items()]
