"""Joins: tasks that wait for others, by slot.

A join needs one arrival per slot. An arrival is one bit, in parts of `PART_SLOTS` slots, so that a member that ends
twice (reopened after it had arrived) still arrives once and a fan-in of a million has no hot row. A full join always
publishes its task, however its members ended; whether the task then runs or is skipped is not the store's business.
Each time a join is set back by `reopen` it becomes a new instance.

Members join in two ways: a group of new tasks names the join and its first slot; or a waiter row makes the end of any
task, new or old, an arrival.
"""

from __future__ import annotations

import msgspec

PART_SLOTS = 8192


class NewJoin(msgspec.Struct, frozen=True):
    """A join to be created. Its `task` has the same id and is appended with `waits=True`; a join without a task only
    passes its fullness on, as an arrival at `outer`, a `(join, slot)`.
    """

    id: int
    needs: int
    task: int | None = None
    outer: tuple[int, int] | None = None


class NewWaiter(msgspec.Struct, frozen=True):
    """The end of `task` is an arrival at `slot` of `join`; at once, when it has already ended."""

    task: int
    join: int
    slot: int


class Join(msgspec.Struct, frozen=True):
    """A join as stored: how many slots it needs, how many arrived, how many of those not as done."""

    id: int
    run: int
    task: int | None
    needs: int
    arrived: int
    broken: int
    instance: int
    fired: bool


def part_sizes(needs: int) -> list[int]:
    """The sizes of the parts of a join with `needs` slots."""
    return [min(PART_SLOTS, needs - slot) for slot in range(0, needs, PART_SLOTS)]
