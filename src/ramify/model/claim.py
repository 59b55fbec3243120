"""Claims: what a process asks for and what it gets.

A claim is the right to the set bits of one segment, fenced by its token. It carries all that the kernel needs to run
the tasks, as columns, and what it must know before it does: earlier attempts, marks, deaths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType

import msgspec

from ramify.model.death import NO_DEATHS, Deaths
from ramify.model.event import History
from ramify.model.join import MOST_BROUGHT, Ends, Rule
from ramify.model.mark import Mark

#: No kind is bounded.
NO_BOUNDS: Mapping[str, int] = MappingProxyType({})


class Want(msgspec.Struct, frozen=True):
    """The work a process can take now: kinds it knows, queues and runs it serves (None = all), lanes to leave alone.

    A kind that is not named is never claimed, so a task nobody knows waits and costs no attempt. Of a kind that a limit
    covers no more than `few` tasks are taken, because each takes a place whether or not it runs yet.
    """

    kinds: frozenset[str]
    limit: int
    queues: frozenset[str] | None = None
    runs: frozenset[int] | None = None
    busy_lanes: frozenset[str] = frozenset()
    few: Mapping[str, int] = NO_BOUNDS


class Rooms:
    """How many more tasks of each run may be claimed: its `max_running`, less what is claimed by anybody.

    `ask` tells it of one run, None for no bound, and is asked once in a claim.
    """

    def __init__(self, ask: Callable[[int], int | None]) -> None:
        self._ask = ask
        self._left: dict[int, int | None] = {}
        #: Kinds, with their queue, of which enough was taken: their other rows need not be looked at.
        self.enough: set[tuple[str, str]] = set()

    def of(self, run: int, limit: int) -> int:
        """How many tasks of a run may be taken when `limit` are wanted."""
        if run not in self._left:
            self._left[run] = self._ask(run)
        left = self._left[run]
        return limit if left is None else max(0, min(left, limit))

    def take(self, run: int, many: int) -> None:
        """So many of a run are claimed now."""
        left = self._left[run]
        if left is not None:
            self._left[run] = left - many

    def open_to(self, rows: Iterable[tuple[int, int]]) -> int:
        """How many tasks could be taken of rows, given as the run and the tasks of each."""
        many: Counter[int] = Counter()
        for run, tasks in rows:
            many[run] += tasks
        return sum(self.of(run, tasks) for run, tasks in many.items())


class Details(msgspec.Struct, frozen=True, gc=False):
    """The properties that few tasks have: a key, encoded extras, and for the task of a join how its members ended, and
    its rule.

    `results` are those of its members by slot, if the join brings them, all ended as done, and they are not too large.
    """

    key: bytes | None = None
    extra: bytes | None = None
    members: Ends | None = None
    rule: Rule = Rule.ALL_DONE
    results: tuple[bytes | None, ...] | None = None


class Claim(msgspec.Struct, frozen=True, gc=False):
    """One claimed segment. `tasks`, `bodies` and `parents` run in parallel; the mappings are sparse.

    A task named in `marks` must be committed as the mark says without calling its handler. `awaited` when somebody may
    wait for the tasks of this row. `lanes` is one lane each, for a row of several lanes. `limited` when a limit of the
    store covers it: then each of its tasks takes a place, whether or not it runs. Like marks, it is that of the moment.
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
    details: Mapping[int, Details]
    history: Mapping[int, History]
    marks: Mapping[int, Mark]
    deaths: Deaths = NO_DEATHS
    awaited: bool = False
    lanes: Sequence[str] | None = None
    limited: bool = False

    def lane_of(self, position: int) -> str | None:
        """The lane of the task at a place in the columns."""
        return self.lane if self.lanes is None else self.lanes[position]


def within_bounds(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """The claims of one verb, without the results that would be too much to bring along: those are read later."""
    found: list[Claim] = []
    room = MOST_BROUGHT
    for claim in claims:
        brought = chain.from_iterable(filter(None, (more.results for more in claim.details.values())))
        size = sum(map(len, filter(None, brought)))
        if size > room:
            kept: dict[int, Details] = {}
            for task, more in claim.details.items():
                room -= sum(len(result) for result in more.results or () if result is not None)
                kept[task] = more if room >= 0 else msgspec.structs.replace(more, results=None)
            claim = msgspec.structs.replace(claim, details=kept)
        else:
            room -= size
        found.append(claim)
    return tuple(found)


class Claimed(msgspec.Struct, frozen=True):
    """The answer to a claim. `suspects` says that rows which must run apart wait for a process that holds nothing else.

    `ready` is how many tasks are left that the same want could take now, suspects not counted. It comes from a look at
    a few rows, so there may be more; 0 means that none were seen. `time_left` are the seconds until the deadlines of
    runs of these claims. `now` is the store's time.

    `next_due` are the seconds until the next row becomes due that the same want could take, or fewer; None when none is
    known. A claim that found nothing answers it.
    """

    claims: tuple[Claim, ...] = ()
    suspects: bool = False
    ready: int = 0
    time_left: tuple[tuple[int, float], ...] = ()
    now: int = 0
    next_due: float | None = None
