"""Claims: what a process asks for and what it gets.

A claim is the right to the set bits of one segment, fenced by its token. It carries all that the kernel needs to run
the tasks, as columns, and what it must know before it does: earlier attempts, marks, deaths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ramify.model.death import NO_DEATHS, Deaths
from ramify.model.event import History
from ramify.model.mark import Mark


class Want(msgspec.Struct, frozen=True):
    """What a process can do now: kinds it knows, queues and runs it serves (None = all), lanes it must leave alone.

    A kind that is not named is never claimed, so a task nobody knows waits and costs no attempt.
    """

    kinds: frozenset[str]
    limit: int
    queues: frozenset[str] | None = None
    runs: frozenset[int] | None = None
    busy_lanes: frozenset[str] = frozenset()


class More(msgspec.Struct, frozen=True):
    """What few tasks have: a key, encoded extras, and for the task of a join how many members it waited for."""

    key: bytes | None = None
    extra: bytes | None = None
    members: int = 0
    broken: int = 0


class Claim(msgspec.Struct, frozen=True, gc=False):
    """One claimed segment. `tasks`, `bodies` and `parents` run in parallel; the mappings are sparse.

    A task named in `marks` must be committed as the mark says without calling its handler. When the tasks were appended
    as members of `join`, task t has the slot t + `shift`. `lanes` is one lane each, for a row of several lanes.
    """

    token: bytes
    run: int
    round: int
    kind: str
    queue: str
    lane: str | None
    tasks: Sequence[int]
    bodies: Sequence[bytes]
    parents: Sequence[int | None]
    mores: Mapping[int, More]
    history: Mapping[int, History]
    marks: Mapping[int, Mark]
    deaths: Deaths = NO_DEATHS
    join: int | None = None
    shift: int = 0
    lanes: Sequence[str] | None = None

    def lane_of(self, place: int) -> str | None:
        """The lane of the task at a place in the columns."""
        return self.lane if self.lanes is None else self.lanes[place]


class Claimed(msgspec.Struct, frozen=True):
    """The answer to a claim. `suspects` says that rows which must run apart wait for a process that holds nothing else.

    `ready` is how many tasks are left that the same want could take now, suspects not counted. It comes from a look at
    a few rows, so there may be more; 0 means that none were seen.
    """

    claims: tuple[Claim, ...] = ()
    suspects: bool = False
    ready: int = 0
