"""The outbox: outcomes that wait for the next commit, as columns per claim, and the parts they become.

What is in here is finished but not yet true: a crash loses it, and its tasks run again. Nothing leaves except in a
commit, and what was sent stays the batch's business until it is answered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ramify.kernel.attempts.values import DraftSwap
from ramify.kernel.core.work import Ran, Wait
from ramify.kernel.outgoing.continuations import Continuations, floor
from ramify.kernel.outgoing.offspring import Brood, Offspring, new_tasks, sorted_out
from ramify.kernel.signals import Ended
from ramify.model.addition import Addition
from ramify.model.call import LONGEST_DELAY, Call, Group
from ramify.model.claim import Claim
from ramify.model.commit import Later, Part
from ramify.model.event import Status
from ramify.model.job import queue_run
from ramify.model.limit import Closes
from ramify.model.policy import SECOND, due_bucket
from ramify.model.task import NewTasks
from ramify.model.value import Swap

Reserve = Callable[[int, int], int]
#: No offspring; nothing is ever added to it. Thousands of outcomes wait for a commit, most without children, and the
#: garbage collector visits each object of theirs.
NOTHING = Offspring()
#: The same of forks.
UNFORKED = Continuations((), lambda many: 0, 0)


@dataclass(slots=True)
class Finished:
    """Outcomes of tasks of one claim. `statuses` and `values` are None while every task ended as done with no result.

    `again` are tasks that stay in memory for a short wait, `later` those that leave it, each with its wait. `took`
    are the microseconds of attempts that were not quick, `seconds` is the time of all of them. `attempts` are the
    numbers of those that were not the first; 0 for a task that ended without one.
    """

    claim: Claim
    tasks: list[int] = field(default_factory=list)
    statuses: list[Status] | None = None
    values: list[bytes | None] | None = None
    offspring: Offspring = field(default_factory=lambda: NOTHING)
    again: dict[int, Wait] = field(default_factory=dict)
    later: dict[int, Wait] = field(default_factory=dict)
    took: dict[int, int] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def is_fertile(self) -> bool:
        """True if something may be there once they are committed that was not there before."""
        return self.claim.awaited or self.claim.limited or (self.offspring is not NOTHING and self.offspring.is_fertile)

    def done(self, ran: Ran) -> None:
        """Take over the tasks of a chunk that ended well, and how long attempts took."""
        if times := ran.times:
            self.took |= times
        if repeated := ran.chunk.attempts:
            self.attempts |= {self.claim.tasks[position]: number for position, number in repeated.items()}
        self.seconds += ran.seconds
        before, more = len(self.tasks), len(ran.done)
        if ran.values is not None or self.values is not None:
            if self.values is None:
                self.values = [None] * before
            self.values += ran.values if ran.values is not None else [None] * more
        if self.statuses is not None:
            self.statuses += [Status.DONE] * more
        self.tasks += ran.done
        self.bring(ran.offspring)

    def bring(self, offspring: Offspring) -> None:
        """Take over children, and what else came of its tasks."""
        if not offspring:
            return
        if self.offspring is NOTHING:
            self.offspring = offspring
        else:
            self.offspring.extend(offspring)

    def add(self, task: int, status: Status, value: bytes | None, attempt: int = 1) -> None:
        """One outcome of another kind."""
        if attempt != 1:
            self.attempts[task] = attempt
        if self.statuses is None:
            self.statuses = [Status.DONE] * len(self.tasks)
        if self.values is None:
            self.values = [None] * len(self.tasks)
        self.tasks.append(task)
        self.statuses.append(status)
        self.values.append(value)

    def parts(self) -> Iterator[Finished]:
        """Yield what becomes a part of a commit each: a task that swaps values by itself, and all others together."""
        apart = self.offspring.apart
        if not apart:
            yield self
            return
        self.offspring.apart = None
        places = {task: place for place, task in enumerate(self.tasks)}
        alone = [self._some([places.pop(task)], offspring) for task, offspring in apart.items()]
        if places or self.offspring.discarded:
            rest = self._some(list(places.values()), self.offspring)
            rest.again, rest.later = self.again, self.later
            yield rest
        yield from alone

    def _some(self, places: Sequence[int], offspring: Offspring) -> Finished:
        """The outcomes of the tasks in some places."""
        tasks = [self.tasks[place] for place in places]
        return Finished(
            self.claim,
            tasks,
            None if self.statuses is None else [self.statuses[place] for place in places],
            None if self.values is None else [self.values[place] for place in places],
            offspring,
            took={task: self.took[task] for task in tasks if task in self.took},
            attempts={task: self.attempts[task] for task in tasks if task in self.attempts},
            seconds=self.seconds * len(tasks) / len(self.tasks),
        )


class Outbox:
    """The outcomes for the next commit, by token; `unsent` counts them; they came in from `since` to `latest`."""

    def __init__(self) -> None:
        self.finished: dict[bytes, Finished] = {}
        self.unsent = 0
        self.since: float | None = None
        self.latest = 0.0

    def of(self, claim: Claim, now: float) -> Finished:
        """The place for outcomes of a claim."""
        self.latest = now
        finished = self.finished.get(claim.token)
        if finished is None:
            finished = self.finished[claim.token] = Finished(claim)
            self.since = now if self.since is None else self.since
        return finished

    @property
    def is_fertile(self) -> bool:
        """True if something may follow from what waits."""
        return any(finished.is_fertile for finished in self.finished.values())

    def take_all(self) -> tuple[Finished, ...]:
        """All of it, for a commit."""
        batch = tuple(part for finished in self.finished.values() for part in finished.parts())
        self.finished, self.unsent, self.since = {}, 0, None
        return batch

    def hurry(self) -> None:
        """Let what waits be committed at once: others wait for it."""
        self.since = -math.inf

    def forget(self, token: bytes) -> None:
        """Outcomes of a claim that was lost: they must not be sent."""
        finished = self.finished.pop(token, None)
        if finished is not None:
            self.unsent -= len(finished.tasks)
        if not self.finished:
            self.since = None


def ends_of(
    batch: Iterable[Finished], refused: Container[bytes], name_of: Callable[[int], str | None], done: bool
) -> Iterator[Ended]:
    """Yield what the attempts of a batch that was committed came to, one by one: those `done` on demand, no results."""
    for each in batch:
        claim, statuses, values = each.claim, each.statuses, each.values
        if claim.token in refused or (statuses is None and not done):
            continue
        for place, task in enumerate(each.tasks):
            status = Status.DONE if statuses is None else statuses[place]
            if done or status is not Status.DONE:
                value = None if values is None or status is Status.DONE else values[place]
                attempt = each.attempts.get(task, 1)
                took, name = each.took.get(task), name_of(claim.run)
                yield Ended(claim.run, claim.kind, task, attempt, status, value, took, claim.queue, name)


def part_of(finished: Finished, reserve: Reserve, now: int, exact: bool = False) -> Part:
    """The part of a commit; `reserve` gives so many contiguous ids above another, `now` is the store's clock; `exact`
    rounds no waits.
    """
    offspring = finished.offspring
    statuses = Status.DONE if finished.statuses is None else finished.statuses
    later = _later(finished.later.items(), now, exact) if finished.later else ()
    if not offspring:
        return Part(
            finished.claim.token, _tasks(finished.tasks), statuses, finished.values, later=later, took=finished.took
        )
    children = [
        new_tasks(group, reserve(len(brood.bodies), 0), brood, now) for group, brood in sorted_out(offspring.broods)
    ]
    forked = UNFORKED
    if offspring.forks:
        above = floor(finished.claim, (fork.parent for fork in offspring.forks))
        forked = Continuations(offspring.forks, lambda many: reserve(many, above), now)
    return Part(
        finished.claim.token,
        _tasks(finished.tasks),
        statuses,
        finished.values,
        children=children + forked.children,
        joins=forked.joins,
        waiters=forked.waiters,
        later=later,
        publish=offspring.published,
        discard=offspring.discarded,
        heirs=forked.heirs,
        took=finished.took,
        sets=offspring.sets or (),
        additions=additions_of(offspring.jobs, reserve, now) if offspring.jobs else (),
        swaps=_swaps(offspring.swaps, reserve, now) if offspring.swaps else (),
        publications=offspring.publications or (),
    )


def _swaps(drafts: Sequence[DraftSwap], reserve: Reserve, now: int) -> list[Swap]:
    """Swaps as they are sent: each new value has a version of its own."""
    version = reserve(len(drafts), 0)
    return [draft.sent(version + at if draft.is_change else 0, now) for at, draft in enumerate(drafts)]


def additions_of(jobs: Sequence[Call[Any]], reserve: Reserve, now: int) -> list[Addition]:
    """Jobs by queue, each with the run that begins the queue if it must."""
    broods: dict[Group, Brood] = {}
    for call in jobs:
        # Jobs have no parent: they go their own way.
        broods.setdefault(call.group, Brood()).add(0, call)
    queues: dict[str, list[NewTasks]] = {}
    for group, brood in sorted_out(broods):
        new = new_tasks(group, reserve(len(brood.bodies), 0), brood, now)
        queues.setdefault(group.queue, []).append(msgspec.structs.replace(new, parents=None))
    return [Addition.opening(queue_run(queue, reserve(1, 0)), tasks) for queue, tasks in queues.items()]


def _tasks(tasks: list[int]) -> Sequence[int]:
    """The same tasks, as a range if they are one: stores need not look at each of a range."""
    whole = range(tasks[0], tasks[0] + len(tasks)) if tasks else range(0)
    return whole if tasks and tasks[-1] == whole[-1] and tasks == list(whole) else tasks


def _later(waits: Iterable[tuple[int, Wait]], now: int, exact: bool) -> list[Later]:
    """Tasks that leave memory, by due time: waits of about the same length, for the same run if any, share a row."""
    rows: dict[tuple[int, int | None, Closes | None], list[int]] = {}
    for task, wait in waits:
        # No store can keep the moment at which a wait of 1e300 seconds would be over.
        seconds = min(wait.seconds, LONGEST_DELAY)
        due = now + round(seconds * SECOND) if exact else due_bucket(now, seconds)
        rows.setdefault((due, wait.awaits, wait.closes), []).append(task)
    return [Later(tasks, *how) for how, tasks in rows.items()]
