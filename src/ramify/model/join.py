"""Joins: tasks that wait for others, by slot, and whether they run once everybody has arrived.

A join needs one arrival per slot. An arrival is one bit, so that a member that ends twice (reopened after it had
arrived) still arrives once. A full join always publishes its task, however its members ended; its rule says whether the
task then runs or is skipped. What is skipped because of a failure arrives at other joins as cancelled. Each time a join
is set back by `reopen` it becomes a new instance.

Members join in two ways: a group of new tasks names the join and its first slot; or a waiter makes the end of any task,
new or old, an arrival.

A task may wait *behind* another one, in order with all who do. Its join has three slots: two for the task it is behind,
and one for whoever came before it, which is that task itself for the first. So the rule `BEHIND`, more done than not,
says of the one alone whether it ended well, and how the one before ended decides nothing. The store keeps the last of
those behind a task in a row of its own, and names it in the transaction that adds the next: their order is that of
commits, and among those of one addition that of its columns. One that is ended while it still waits leaves the line:
whoever is next waits for the one before it from then on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import IntEnum
from typing import assert_never

import msgspec

from ramify.model.decoder import decoder
from ramify.model.event import Status

PART_SLOTS = 8192
#: A join with so many slots has its bits in its own row, as integers; a larger one in parts of `PART_SLOTS`.
SMALL = 62
#: The slots of a task behind another one: those of that one, and that of who came before it.
AHEAD, BEFORE = (0, 1), 2
#: The most bytes of results that the claims of one verb bring along.
MOST_BROUGHT = 4 * 1024 * 1024


class Ends(msgspec.Struct, frozen=True, gc=False):
    """The numbers of a join's members by how they ended. Quarantined ones count as failed."""

    done: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0

    def __add__(self, other: Ends) -> Ends:
        return Ends(
            self.done + other.done,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.cancelled + other.cancelled,
        )

    def __sub__(self, other: Ends) -> Ends:
        return self + Ends(-other.done, -other.failed, -other.skipped, -other.cancelled)

    @property
    def broken(self) -> int:
        """The number that did not end as done."""
        return self.failed + self.skipped + self.cancelled

    @property
    def halted(self) -> int:
        """The number that failed, or did not run because of a failure or a cancel."""
        return self.failed + self.cancelled

    @property
    def worst(self) -> Status:
        """The worst end of a member."""
        if self.failed:
            return Status.FAILED
        if self.cancelled:
            return Status.CANCELLED
        return Status.SKIPPED if self.skipped else Status.DONE

    @property
    def all(self) -> int:
        """The number of all members."""
        return self.done + self.broken


class Rule(IntEnum):
    """When the task of a full join runs; otherwise it is skipped. The numbers are stored; never reuse one."""

    ALL_DONE = 0
    NONE_FAILED = 1  #: some may have been skipped or cancelled
    ANY_DONE = 2
    ANY_FAILED = 3
    ALWAYS = 4
    NONE_HALTED = 5  #: any done; others may have been skipped, but not because of a failure before them
    BEHIND = 6  #: more done than not: of the three slots, two are those of the task that it is behind

    def allows(self, ends: Ends) -> bool:
        """Return whether the task runs when its members ended like this."""
        match self:
            case Rule.ALL_DONE:
                return not ends.broken
            case Rule.NONE_FAILED:
                return not ends.failed
            case Rule.ANY_DONE:
                return ends.done > 0
            case Rule.ANY_FAILED:
                return ends.failed > 0
            case Rule.ALWAYS:
                return True
            case Rule.NONE_HALTED:
                return ends.done > 0 and not ends.halted
            case Rule.BEHIND:
                return ends.done > ends.broken
            case _:
                assert_never(self)

    def refusal(self, ends: Ends) -> str:
        """Why the task does not run when its members ended like this."""
        if self is Rule.ANY_FAILED:
            return f"none of the {ends.all} tasks it waits for failed"
        if self is Rule.ANY_DONE:
            return f"none of the {ends.all} tasks it waits for ended well"
        if self is Rule.NONE_HALTED:
            return f"{ends.halted} of the {ends.all} tasks it waits for failed, {ends.skipped} had nothing to do"
        if self is Rule.BEHIND:
            return f"the job it waited for {'failed' if ends.failed > 1 else 'was cancelled'}"
        broken = ends.failed if self is Rule.NONE_FAILED else ends.broken
        return f"{broken} of the {ends.all} tasks it waits for did not end well"


class NewJoins(msgspec.Struct, frozen=True, gc=False):
    """Joins to be created, as columns. The task of each has the same id, and is appended with `waits=True`.

    With `brings`, the claim of the task of a small join brings the results of its members along.
    """

    ids: Sequence[int]
    needs: Sequence[int]
    rule: Rule = Rule.ALL_DONE
    brings: bool = False

    @classmethod
    def one(cls, id: int, needs: int, *, rule: Rule = Rule.ALL_DONE) -> NewJoins:
        """A single one."""
        return cls((id,), (needs,), rule)


class NewWaiters(msgspec.Struct, frozen=True, gc=False):
    """As columns: the end of a task is an arrival at a slot of a join; at once, when it has ended already.

    With `behind`, it is the end of the last task that came behind that one, if there is one, and the task of the join
    is the last from then on.
    """

    tasks: Sequence[int]
    joins: Sequence[int]
    slots: Sequence[int]
    behind: bool = False

    @classmethod
    def one(cls, task: int, join: int, slot: int) -> NewWaiters:
        """A single one."""
        return cls((task,), (join,), (slot,))

    @classmethod
    def of(cls, links: Collection[tuple[int, int, int]]) -> NewWaiters:
        """Make those of some links: task, join and slot of each."""
        tasks, joins, slots = zip(*links, strict=True) if links else ((), (), ())
        return cls(tasks, joins, slots)


class Gathered(msgspec.Struct, frozen=True):
    """A result that names other results: those of the members of a full join."""

    join: int


GATHERED = decoder(Gathered)


class Join(msgspec.Struct, frozen=True):
    """A join as stored: how many slots it needs, how many arrived, and how those ended. Its id is that of its task."""

    id: int
    run: int
    needs: int
    arrived: int
    ends: Ends
    instance: int
    fired: bool
    rule: Rule = Rule.ALL_DONE

    @property
    def broken(self) -> int:
        """How many arrived, but not as done."""
        return self.ends.broken


def nearest(groups: Iterable[tuple[int, int, int]], count: int) -> dict[int, int]:
    """The tasks in the lowest `count` slots, perhaps a few more, of groups `(first, last, shift)` in slot order.

    No more of the groups is looked at than that takes. Of two tasks in one slot the younger has taken it over.
    """
    slots: dict[int, int] = {}
    enough: int | None = None
    for first, last, shift in groups:
        if enough is not None and first + shift > enough:
            break
        for task in range(first, min(last + 1, first + count)):
            slots[task + shift] = max(task, slots.get(task + shift, 0))
        if len(slots) >= count:
            enough = sorted(slots)[count - 1]
    return slots


def part_sizes(needs: int) -> list[int]:
    """The sizes of the parts of a join with `needs` slots."""
    if 0 < needs <= PART_SLOTS:
        return [needs]
    return [min(PART_SLOTS, needs - slot) for slot in range(0, needs, PART_SLOTS)]
