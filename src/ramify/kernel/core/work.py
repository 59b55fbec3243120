"""Work on its way to a worker and back: chunks of leased tasks, and what became of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ramify.kernel.core.handler import Handler
from ramify.kernel.outgoing.offspring import Offspring
from ramify.model.call import Extra
from ramify.model.claim import Claim
from ramify.model.event import UNTIMED
from ramify.model.limit import Closes
from ramify.model.outcome import Failure
from ramify.model.policy import SECOND
from ramify.store import forks


@dataclass(slots=True, eq=False)
class Chunk:
    """Tasks of one claim, leased together. `positions` are those in the claim's columns, `attempts` the number of the
    try each is at (sparse: absent means 1). A task with a time `limit` is alone in its chunk, and is out of time at
    `deadline`. A chunk that is `lost` was taken away; whatever comes of it is refused. `lanes` by task, where tasks of
    several lanes are in it and limits count each.
    One that `polls` is alone as well, and is called again as that says. One with a task that was cancelled
    `is_waited_for` until a certain moment, in a process that may end itself.
    `depth` tells the process that leased it from children that were forked since (`forks.depth`).
    """

    claim: Claim
    handler: Handler
    positions: Sequence[int]
    attempts: dict[int, int]
    limit: float | None = None
    deadline: float | None = None
    lanes: dict[int, str | None] | None = None
    lost: bool = False
    is_back: bool = False
    polls: Extra | None = None
    is_waited_for: bool = False
    depth: int = field(default_factory=lambda: forks.depth)

    @property
    def tasks(self) -> Sequence[int]:
        """Its tasks."""
        return [self.claim.tasks[position] for position in self.positions]

    def is_late(self, now: float) -> bool:
        """Return whether its time is up."""
        return self.deadline is not None and self.deadline <= now

    def columns(self) -> tuple[Sequence[int], Sequence[bytes]]:
        """Its tasks and their arguments."""
        tasks, bodies, positions = self.claim.tasks, self.claim.bodies, self.positions
        if isinstance(positions, range):
            return tasks[positions.start : positions.stop], bodies[positions.start : positions.stop]
        return [tasks[position] for position in positions], [bodies[position] for position in positions]


class Wait(NamedTuple):
    """How long a task waits for its next attempt: so many seconds, or until the run that it `awaits` has ended.

    Until then it `closes` a limit, if it says so, for all processes.
    """

    seconds: float
    awaits: int | None = None
    closes: Closes | None = None

    def fits_in(self, memory: float) -> bool:
        """Return whether it is short enough to be kept in memory. Who awaits a run is woken in the store, and nowhere
        else.
        """
        return self.awaits is None and self.closes is None and self.seconds <= memory


@dataclass(frozen=True, slots=True)
class Raised:
    """An attempt failed. `final` when no policy may try it again."""

    failure: Failure
    final: bool = False


@dataclass(frozen=True, slots=True)
class Postponed:
    """An attempt asked to be called again in `seconds`, or at the end of the run that it `awaits`, for that reason.

    It `closes` a limit of its task until then, if it says so.
    """

    seconds: float
    reason: str = ""
    awaits: int | None = None
    closes: Closes | None = None


@dataclass(frozen=True, slots=True)
class Dropped:
    """An attempt was cancelled while it ran, for that reason and by whom."""

    reason: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class Forgone:
    """An attempt found that there is nothing to do for its task."""

    reason: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """An attempt did not come to an end and says nothing about its task.

    `refused`: the store did not take its children, so its claim, which may be void by now, goes back.
    """

    refused: bool = False


Verdict = Raised | Postponed | Dropped | Forgone | Interrupted


@dataclass(slots=True)
class Ran:
    """The outcomes of some tasks of a chunk: successes as columns, the others one by one by task id.

    `values` is None while every result is None. `seconds` is wall time, `busy` the CPU time of the worker. Of several
    tasks, `took` are the microseconds of those that were not quick.
    """

    chunk: Chunk
    done: list[int] = field(default_factory=list)
    values: list[bytes | None] | None = None
    others: list[tuple[int, Verdict]] = field(default_factory=list)
    offspring: Offspring = field(default_factory=Offspring)
    seconds: float = 0.0
    busy: float = 0.0
    took: dict[int, int] = field(default_factory=dict)

    @property
    def times(self) -> dict[int, int]:
        """The microseconds of each attempt that came to an end and was not quick."""
        took = self.took if self.count != 1 else {self.tasks[0]: round(self.seconds * SECOND)}
        if not took or not self.others:
            return {task: time for task, time in took.items() if time > UNTIMED}
        ended = set(self.tried)
        return {task: time for task, time in took.items() if time > UNTIMED and task in ended}

    @property
    def tasks(self) -> list[int]:
        """The tasks this is about."""
        return self.done + [task for task, _ in self.others]

    @property
    def tried(self) -> list[int]:
        """The tasks of which an attempt ended."""
        return self.done + [task for task, verdict in self.others if not isinstance(verdict, Interrupted)]

    def stretches(self, tried: int) -> Iterator[tuple[int, float]]:
        """How many of these took how many seconds, those before the last that was not quick apart from it."""
        last = next(reversed(self.took.values()), 0) / SECOND if tried > 1 else 0.0
        if last:
            yield tried - 1, self.seconds - last
        yield (1, last) if last else (tried, self.seconds)

    @property
    def count(self) -> int:
        """How many tasks this is about."""
        return len(self.done) + len(self.others)
