"""Reopening: which ended tasks begin a new life, what they replace, and what joins forget because of it.

Pure but for the questions to the store, which are arguments and are asked for many tasks at once. A join that has not
fired forgets a reopened member. One that has fired becomes a new instance, and waits again, when its task is reopened
with the member; otherwise it is left alone, and the late arrival of its member changes nothing.

A task behind another one is reopened with it if it did not run because that one had not ended well; one that ran keeps
its own outcome. Those behind the same task only follow on each other, so none is reopened with the one before it.

A task with an heir handed its place on to what it made: its **edition**, down to the last descendant. In a new life it
takes its place back and makes another edition, so the old one is replaced: its tasks end as REPLACED, whatever they
were, and nothing brings them back. While a process holds one of them nothing is reopened: its work would be done twice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from operator import itemgetter
from typing import NamedTuple

import msgspec

from ramify.errors import BadPayload
from ramify.model.arrivals import Load, Standing
from ramify.model.event import Status
from ramify.model.forgetting import check_remembered
from ramify.model.join import BEFORE, PART_SLOTS, Rule
from ramify.model.run import StoredRun

#: The most tasks one `reopen` takes; callers continue with the next page.
REOPEN_LIMIT = 8192


class Reopened(msgspec.Struct, frozen=True):
    """The effect of `reopen`: new lives, tasks whose key another one has now, and how many tasks were replaced, of
    which makers. With `held` it did nothing: that task would be replaced, and a process holds it.
    """

    tasks: tuple[int, ...] = ()
    superseded: tuple[tuple[int, int], ...] = ()
    round: int = 0
    makers: tuple[int, ...] = ()
    replaced: int = 0
    held: int | None = None


class Candidate(NamedTuple):
    """A task that may begin a new life: how it ended, who has taken its key since, the join slots that its end fills,
    and the heirs that arrive there in its stead, each with join and slot.
    """

    ended: Status | None
    taken_by: int | None = None
    slots: Sequence[tuple[int, int]] = ()
    heirs: Sequence[tuple[int, int, int]] = ()

    @property
    def begins(self) -> bool:
        """True if it begins a new life when it is reopened."""
        return self.ended not in (None, Status.REPLACED) and self.taken_by is None


@dataclass(frozen=True, slots=True)
class Edition:
    """Tasks that some makers have made, as ranges of ids in order; `held` is one that a process holds, if any."""

    ranges: Sequence[tuple[int, int]] = ()
    held: int | None = None

    def __contains__(self, task: int) -> bool:
        return any(True for _ in self.over(task, task))

    def over(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield its ranges that reach into a range of ids."""
        place = bisect_left(self.ranges, first, key=itemgetter(1))
        return takewhile(lambda each: each[0] <= last, islice(self.ranges, place, None))


def merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges in order, neighbours as one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


@dataclass(slots=True)
class Reopening:
    """Tasks that begin a new life, with how they had ended; those whose key another task has; unfinished join tasks
    that wait once more; the joins that changed; `disowned` heirs with a slot in which they arrive no more; the makers
    among the tasks and the edition that is replaced. With an edition that is `held`, nothing else is set.
    """

    ended: dict[int, Status] = field(default_factory=dict)
    superseded: list[tuple[int, int]] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    changed: dict[int, Standing] = field(default_factory=dict)
    disowned: list[tuple[int, int, int]] = field(default_factory=list)
    makers: tuple[int, ...] = ()
    edition: Edition = Edition()


class ReopeningQuestions(NamedTuple):
    """The questions to a store. `candidates` are published tasks of the run;
    `joins` are joins by id with the parts that are named; `edition` is what some tasks have made that was not replaced.
    """

    candidates: Callable[[Collection[int]], Mapping[int, Candidate]]
    joins: Load
    edition: Callable[[Collection[int]], Edition]


def check(run: StoredRun, tasks: Sequence[int]) -> None:
    """Refuse too many tasks, and all of a run that was forgotten."""
    check_remembered(run)
    if len(tasks) > REOPEN_LIMIT:
        raise BadPayload(f"reopen(): {len(tasks)} tasks; take at most {REOPEN_LIMIT} at a time")


def reopen(run: int, tasks: Collection[int], ask: ReopeningQuestions) -> Reopening:
    """Say what becomes of these tasks of a run and of all in it that follows them."""
    reached = _spread(run, tasks, ask)
    makers = [task for task, each in reached.items() if each.begins and each.heirs]
    edition = ask.edition(makers) if makers else Edition()
    if edition.held is not None:
        return Reopening(edition=edition)
    # What made a task makes it anew, so it does not follow what is reopened either.
    kept = {task: each for task, each in reached.items() if task not in edition} if makers else reached
    begin = {task: each for task, each in kept.items() if each.begins}
    found = Reopening(
        ended={task: each.ended for task, each in begin.items() if each.ended is not None},
        superseded=[(task, each.taken_by) for task, each in kept.items() if each.taken_by is not None],
        disowned=[heir for each in begin.values() for heir in each.heirs],
        makers=tuple(sorted(task for task in makers if task in begin)),
        edition=edition,
    )
    _set_back(found, kept, ask.joins)
    return found


def _spread(run: int, tasks: Collection[int], ask: ReopeningQuestions) -> dict[int, Candidate]:
    """Go through tasks and, level by level, through all in their run that waited for them."""
    level = ask.candidates(sorted(set(tasks)))
    for task in tasks:
        if task not in level:
            raise BadPayload(f"reopen(): task {task} is not a task of run {run}")
    reached: dict[int, Candidate] = {}
    while level:
        reached.update(level)
        slots = [slot for each in level.values() if each.begins for slot in each.slots]
        joins = ask.joins({join: () for join, _ in slots})
        after = {join for join, slot in slots if slot != BEFORE or joins[join].rule != Rule.BEHIND}
        # The task of a join is not there if another one had its key.
        found = ask.candidates(sorted(after - reached.keys()))
        level = {task: each for task, each in found.items() if _follows(joins[task], each.ended)}
    return reached


def _follows(join: Standing, ended: Status | None) -> bool:
    """Return whether the task of a join is reopened with a member. One behind another: if that one held it up."""
    return join.rule != Rule.BEHIND or (ended in (None, Status.SKIPPED) and not Rule.BEHIND.allows(join.ends))


def _set_back(found: Reopening, reached: Mapping[int, Candidate], load: Load) -> None:
    slots = [slot for task in found.ended for slot in reached[task].slots]
    wanted: dict[int, set[int]] = {}
    for number, slot in slots:
        wanted.setdefault(number, set()).add(slot // PART_SLOTS)
    joins = load(wanted)
    for number, slot in slots:
        join = joins[number]
        if join.fired:
            if number not in reached:
                continue
            if reached[number].ended is None:
                found.waiting.append(number)
        join.set_back(slot)
        found.changed[number] = join
