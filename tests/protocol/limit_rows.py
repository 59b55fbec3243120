"""The rows of the limits: what the store keeps, what is on the wire, and the settings that models are made from.

`canonical` promises one representative for all states with the same future. It does not judge anything.
"""

from __future__ import annotations

from itertools import chain, pairwise, permutations, product
from typing import NamedTuple

from tests.protocol.checker import NOBODY, members
from tests.protocol.rows import CLAIM, DEAD, UP

READY, LIMITED, CLAIMED, GATED, OVER = "ready", "limited", "claimed", "gated", "over"
OPEN, PAUSED, DRAINING = "open", "paused", "draining"
TOTAL = "total"
Alike = tuple[tuple[int, int], ...]


class Work(NamedTuple):
    """The fixed part of a row; rows are numbered in the order of claims."""

    kind: str
    lane: str
    run: int


class Row(NamedTuple):
    state: str = READY
    line: str = ""  #: in which it waits, or whose head it is
    due: bool = False  #: its time has not come
    owner: int = NOBODY


class Numbers(NamedTuple):
    """How many may run: in each lane, and in all. 0 where there is no such limit."""

    lane: int = 0
    total: int = 0


class Request(NamedTuple):
    verb: str
    rows: int = 0
    deferred: int = 0
    closes: str = ""  #: the place that a deferred task closes


class Process(NamedTuple):
    """One incarnation: what it knows, and what it has sent without an answer."""

    state: str = UP
    request: Request | tuple[()] = ()  #: its outcome is unknown
    used: bool = False  #: store: that request was carried out
    reaped: bool = False
    todo: tuple[str, ...] = ()  #: memory: the second transaction of a shortcut; the protocol has none

    @property
    def is_over(self) -> bool:
        return self.state == DEAD and self.reaped


class State(NamedTuple):
    rows: tuple[Row, ...]
    processes: tuple[Process, ...]
    runs: tuple[str, ...]
    numbers: Numbers
    shut: tuple[str, ...] = ()  #: the places that time has shut
    left: bool = False  #: the last process that served a kind or run has left
    stored: tuple[tuple[str, int], ...] = ()  #: the counter of a shortcut; the protocol has none
    broken: str = ""  #: ghost: a promise that the last step itself broke

    def __str__(self) -> str:
        rows = [
            row.state + (f" in {row.line}" if row.line else "") + (" later" if row.due else "")
            + (f" by p{row.owner}" if row.owner != NOBODY else "")
            for row in self.rows
        ]  # fmt: skip
        return f"{rows}, runs {list(self.runs)}, {self.numbers}, shut {list(self.shut)}"

    def with_row(self, r: int, row: Row) -> State:
        return self._replace(rows=(*self.rows[:r], row, *self.rows[r + 1 :]))

    def with_process(self, i: int, process: Process) -> State:
        return self._replace(processes=(*self.processes[:i], process, *self.processes[i + 1 :]))

    def held(self, i: int) -> int:
        return sum(1 << r for r, row in enumerate(self.rows) if row.owner == i)


class Setting(NamedTuple):
    """The beginning of a model, and the faults that may happen: `a@h a@g#1 lane=1 total=1 crash`.

    Rows are named as `kind@lane` or `kind@lane#run`, then limits, options and faults. After `leaves=x`, or `leaves=1`,
    nobody may serve that kind or run any more. The tasks of a `long` run take hours, one at a time. `pairs` are claims
    that meet two rows.
    """

    works: tuple[Work, ...]
    numbers: Numbers
    options: dict[str, str]
    alike: tuple[tuple[int, int], ...]  #: the stretches of rows that are about the same

    @classmethod
    def of(cls, text: str) -> Setting:
        words = text.split()
        rows = [word.replace("#", "@").split("@") for word in words if "@" in word]
        works = tuple([Work(kind, lane, int(*run) if run else 0) for kind, lane, *run in rows])
        begins = [r for r, work in enumerate(works) if r == 0 or works[r - 1] != work]
        alike = tuple([(a, b) for a, b in pairwise([*begins, len(works)]) if b - a > 1])
        given = {name: value for name, _, value in (word.partition("=") for word in words if "@" not in word)}
        numbers = Numbers(*(int(given.pop(field, 0)) for field in Numbers._fields))
        return cls(works, numbers, given, alike)


def canonical(s: State, alike: Alike) -> State:
    """One state for all that differ in the order of processes, or in that of rows that are about the same."""
    tied: dict[tuple[object, ...], list[int]] = {}
    for i, process in enumerate(s.processes):
        if not process.is_over:
            asked = process.request[0] if process.request else ""
            held = s.held(i).bit_count()
            tied.setdefault((process.state, process.reaped, process.used, asked, held, process.todo), []).append(i)
    plain = [permutations(tied[key]) for key in sorted(tied)]
    return min(arranged(s, alike, tuple(chain.from_iterable(order))) for order in product(*plain))


def arranged(s: State, alike: Alike, order: tuple[int, ...]) -> State:
    """The same with processes in this order, and rows that are alike sorted."""
    place_of = {i: place for place, i in enumerate(order)}
    asked = [request.rows for i in order if (request := s.processes[i].request)]
    rows, moved = list(s.rows), list(range(len(s.rows)))
    for r, row in enumerate(rows):
        if row.owner != NOBODY:
            rows[r] = Row(row.state, row.line, row.due, place_of[row.owner])
    for begin, end in alike:
        moved[begin:end] = sorted(moved[begin:end], key=lambda r: (rows[r], [mask >> r & 1 for mask in asked]))
    processes = tuple([s.processes[i] for i in order])
    if asked and moved != sorted(moved):
        processes = tuple([renamed(process, moved) for process in processes])
    return State(tuple([rows[r] for r in moved]), processes, *s[2:])


def says(request: Request, after: State, met: int = 0) -> str:
    """Say in words how a verb ended."""
    if request.verb == CLAIM:
        states = [after.rows[r].state for r in members(met)]
        return "claims" if CLAIMED in states else "finds no room for" if LIMITED in states else "comes too soon for"
    if not request.deferred:
        return f"{request.verb}s"
    return "defers" + (f" and closes the {request.closes}, with" if request.closes else "")


def kind_of(line: str) -> str:
    """The limit that a line belongs to."""
    return line.split(" ")[0]


def renamed(process: Process, moved: list[int]) -> Process:
    """The same with the new numbers of the rows that it asks about: `moved` holds the old ones by place."""
    if not process.request:
        return process
    rows, deferred = (
        sum(1 << place for place, r in enumerate(moved) if mask >> r & 1)
        for mask in (process.request.rows, process.request.deferred)
    )
    return process._replace(request=process.request._replace(rows=rows, deferred=deferred))


def put(runs: tuple[str, ...], run: int, state: str) -> tuple[str, ...]:
    return (*runs[:run], state, *runs[run + 1 :])
