"""Arrivals: what the ends of members mean to joins. Which joins fire, and how one forgets.

Pure: the joins are values that a store brings and takes back. All arrivals of a commit are settled together, so that
what fires together is published together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

import msgspec

from ramify.model.event import Status
from ramify.model.join import PART_SLOTS, Ends, NewJoins, Rule, part_sizes
from ramify.model.policy import PARKED

NOBODY = Ends()
#: A join and a slot of it.
Slot = tuple[int, int]
#: A join, a slot of it, and how its member ended.
Arrival = tuple[int, int, Status]


class Arrivals(NamedTuple):
    """Members ended: those of `done` are known to be. What fires because of them goes to round `round` of `run`."""

    run: int
    round: int
    members: Sequence[Arrival] = ()
    done: Sequence[Slot] = ()


class Bits(msgspec.Struct, gc=False):
    """Some slots of a join: who arrived, and who of them not as done."""

    size: int
    arrived: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0

    def arrive(self, slots: int, others: Iterable[tuple[int, Status]] = ()) -> bool:
        """Set the bits of slots; whether everybody arrived. Members are done, but for the others; one that had arrived
        stays as it first did.
        """
        for slot, status in others:
            bit = 1 << slot & ~self.arrived
            match status:
                case Status.DONE:
                    pass
                case Status.SKIPPED:
                    self.skipped |= bit
                case Status.CANCELLED | Status.REPLACED:
                    self.cancelled |= bit
                case _:
                    self.failed |= bit
            self.arrived |= bit
        self.arrived |= slots
        return self.is_full

    def forget(self, slot: int) -> None:
        """Clear the bit of a slot."""
        keep = ~(1 << slot)
        self.arrived &= keep
        self.failed &= keep
        self.skipped &= keep
        self.cancelled &= keep

    @property
    def is_full(self) -> bool:
        """True if everybody arrived."""
        return self.arrived.bit_count() == self.size

    @property
    def ends(self) -> Ends:
        """How those that arrived ended."""
        failed, skipped, cancelled = self.failed.bit_count(), self.skipped.bit_count(), self.cancelled.bit_count()
        return Ends(self.arrived.bit_count() - failed - skipped - cancelled, failed, skipped, cancelled)


class Standing(msgspec.Struct, gc=False):
    """A join while it is worked on. Of its `total` parts only those that are needed are in `parts`; `full` counts the
    full ones, also among the others, and `elsewhere` is how members ended whose parts are not here.
    """

    id: int
    run: int
    rule: Rule
    brings: bool
    needs: int
    total: int
    full: int = 0
    instance: int = 1
    fired: bool = False
    parts: dict[int, Bits] = msgspec.field(default_factory=dict)
    elsewhere: Ends = NOBODY

    @property
    def is_full(self) -> bool:
        """True if everybody arrived."""
        return self.full == self.total

    def arrive(self, number: int, slots: int, others: Iterable[tuple[int, Status]] = ()) -> bool:
        """Members arrived in slots of a part; whether everybody has. Slots that the join does not have are nobody's."""
        bits = self.parts.get(number)
        if bits is not None and not bits.is_full and bits.arrive(slots, others):
            self.full += 1
        return self.full == self.total

    def set_back(self, slot: int) -> None:
        """Forget who arrived in a slot; a join that has fired becomes a new instance, which will fire again."""
        bits = self.parts[slot // PART_SLOTS]
        self.full -= bits.is_full
        bits.forget(slot % PART_SLOTS)
        self.full += bits.is_full
        self.instance += self.fired
        self.fired = False

    @property
    def ends(self) -> Ends:
        """How those that arrived ended."""
        return sum((bits.ends for bits in self.parts.values()), self.elsewhere)


#: Joins by id, with the parts that are named; those that do not exist are left out.
Load = Callable[[Mapping[int, Collection[int]]], Mapping[int, Standing]]


@dataclass(frozen=True, slots=True)
class JoinChanges:
    """The joins that changed, and the tasks of those that fired, with the run and round that made them.

    `joins` are the same by id, which is that of their task.
    """

    changed: Sequence[Standing]
    fired: Mapping[int, tuple[int, int]]
    joins: Mapping[int, Standing]


def dues(
    tasks: Sequence[int], delay: int | None, now: int, join: Callable[[int], Standing]
) -> Mapping[int | None, Sequence[int]]:
    """Tasks that fired, by when they may start. What is to be skipped does not wait for its delay."""
    if delay is None:
        return {None: tasks}
    found: dict[int | None, list[int]] = {}
    for task in tasks:
        found.setdefault(due_after(join(task), delay, now), []).append(task)
    return found


def due_after(join: Standing, delay: int | None, now: int) -> int | None:
    """When the task of a join may start: of a full one None, for at once, or a moment; before that its delay."""
    if delay is None or not join.is_full:
        return delay
    return min(now + delay, PARKED) if Rule(join.rule).allows(join.ends) else None


def skipped_as(join: Standing | None) -> Status:
    """How a skipped task arrives, whose join this was: as cancelled when a failure kept it from running.

    So whoever waits for it can tell that from a task that had nothing to do.
    """
    if join is None or not join.fired or Rule(join.rule).allows(ends := join.ends):
        return Status.SKIPPED
    return Status.CANCELLED if ends.halted else Status.SKIPPED


def created(run: int, joins: NewJoins) -> Iterator[Standing]:
    """The joins as they are when they are new."""
    for join, needs in zip(joins.ids, joins.needs, strict=True):
        parts = {number: Bits(size) for number, size in enumerate(part_sizes(needs))}
        yield Standing(join, run, joins.rule, joins.brings, needs, len(parts), parts=parts)


def settle(arrivals: Sequence[Arrivals], empty: Mapping[int, tuple[int, int]], load: Load) -> JoinChanges:
    """Let members arrive, and say what fires.

    `empty` are new joins that wait for nobody, each with the run and round in which it was made.
    """
    masks, others = _by_part(arrivals)
    latest = _latest(arrivals)
    known = load(_wanted(masks, empty))
    changed: dict[int, Standing] = {}
    fired = dict(empty)
    for part, slots_of in masks.items():
        for number, slots in slots_of.items():
            join = known.get(number)
            if join is None or join.fired:
                continue
            changed[number] = join
            if join.arrive(part, slots, others.get((number, part), ()) if others else ()):
                fired[number] = latest[number]
    for number in fired:
        join = changed[number] = known[number]
        join.fired = True
    return JoinChanges(list(changed.values()), fired, changed)


#: By the number of a part: slots as a mask, by join.
Masks = dict[int, dict[int, int]]
#: By join and part: members that did not end well, one by one.
Others = dict[tuple[int, int], list[tuple[int, Status]]]


def _by_part(arrivals: Iterable[Arrivals]) -> tuple[Masks, Others]:
    """Members by part."""
    masks: Masks = defaultdict(dict)
    others: Others = defaultdict(list)
    for _, _, members, done in arrivals:
        for join, slot, status in members:
            if status is not Status.DONE:
                part, slot = divmod(slot, PART_SLOTS)
                masks[part].setdefault(join, 0)
                others[join, part].append((slot, status))
        first = masks[0]
        for join, slot in chain(done, (member[:2] for member in members if member[2] is Status.DONE)):
            if slot < PART_SLOTS:
                first[join] = first.get(join, 0) | 1 << slot
            else:
                part, slot = divmod(slot, PART_SLOTS)
                masks[part][join] = masks[part].get(join, 0) | 1 << slot
    return masks, others


def _latest(arrivals: Iterable[Arrivals]) -> Mapping[int, tuple[int, int]]:
    """By join, the run and round to which it goes when it fires: the latest of those that arrived."""
    latest: dict[int, tuple[int, int]] = {}
    for run, round, members, done in sorted(arrivals, key=itemgetter(0, 1)):
        latest.update(dict.fromkeys(map(itemgetter(0), chain(members, done)), (run, round)))
    return latest


def _wanted(masks: Masks, new: Iterable[int]) -> Mapping[int, Collection[int]]:
    """The joins that are worked on, each with the parts at which somebody arrives."""
    wanted: dict[int, Collection[int]] = dict.fromkeys(new, ())
    for part, slots_of in masks.items():
        just = (part,)
        for join in slots_of:
            wanted[join] = (*wanted[join], part) if join in wanted else just
    return wanted
