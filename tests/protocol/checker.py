"""A small explicit-state model checker: visit every reachable state, breadth first, and judge all of them.

A model is five functions over immutable, hashable states. `explore` promises:

* safety: `wrong(state)` is asked in every reachable state; the first complaint ends the search, and because the
  search is breadth first, its trace is a shortest one;
* liveness: from every reachable state an ended state can be reached over steps that are not faults (AG EF ended).
  A fault is whatever the protocol may not count on: a crash, a thaw, the late arrival of a lost request, a person;
* traces are replayed on plain states, so that a process keeps its number although `canonical` sorts processes.

It deliberately does not do fairness, time, partial-order reduction or states on disk: a model that does not fit in
memory is a model that nobody will read.
"""

from __future__ import annotations

import gc
import time
from array import array
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

Kind = Literal["ok", "safety", "liveness"]
S = TypeVar("S", bound=Hashable)
NOBODY = -1


class Label(NamedTuple):
    """What a step is called. Kept as a tuple, because a text per edge would cost more than the edge."""

    what: str
    who: int = NOBODY
    tasks: int = 0

    def __str__(self) -> str:
        words = [f"p{self.who}"] if self.who != NOBODY else []
        words.append(self.what)
        if self.tasks:
            words.append(str(members(self.tasks)))
        return " ".join(words)


class Model(Protocol[S]):
    """What the checker needs to know. A move is (label, is it a fault, next state)."""

    def start(self) -> S: ...

    def moves(self, state: S, /) -> Iterable[tuple[Label, bool, S]]: ...

    def canonical(self, state: S, /) -> S:
        """One representative of all states with the same future."""
        ...

    def wrong(self, state: S, /) -> str:
        """The broken promise, beginning with its letter, or the empty string."""
        ...

    def ended(self, state: S, /) -> bool: ...


@dataclass(frozen=True)
class Verdict:
    kind: Kind
    reason: str
    trace: tuple[str, ...]
    states: int
    edges: int
    seconds: float
    steps_used: frozenset[str]

    @property
    def breaks(self) -> str:
        """The letter of the broken promise: S1, J, L ...; empty when all were kept."""
        return self.reason.split(" ", 1)[0]


@dataclass(frozen=True)
class Case:
    """One configuration of one model: a right one (`breaks` is empty) or a shortcut that must break a promise."""

    name: str
    make: Callable[[], Model[Any]]
    why: str
    breaks: str = ""
    full: bool = False

    @property
    def kind(self) -> Kind:
        if not self.breaks:
            return "ok"
        return "liveness" if self.breaks == "L" else "safety"


class TooManyStates(Exception):
    """The model outgrew the limit; a verdict over part of it would be worth nothing."""


def members(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def explore(model: Model[S], limit: int = 3_000_000) -> Verdict:
    # States are trees of tuples, so nothing here is cyclic; the collector would walk all of them again and again.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return _Search(model, limit).verdict()
    finally:
        if was_enabled:
            gc.enable()


class _Search:
    """One exploration. States are numbered in the order they are found; number 0 is the start."""

    def __init__(self, model: Model[Any], limit: int) -> None:
        self.model = model
        self.limit = limit
        self.began = time.perf_counter()
        self.states: list[Any] = []
        self.parents = array("q")
        self.edges = 0
        self.steps_used: set[str] = set()
        # Edges that are no faults, as two parallel columns: a list of pairs would take five times the memory.
        self.sources = array("q")
        self.targets = array("q")

    def verdict(self) -> Verdict:
        broken = self._visit_all()
        if broken is not None:
            return self._report("safety", *broken)
        stuck = self._first_stuck()
        if stuck is not None:
            return self._report("liveness", stuck, f"L the end is out of reach from {self.states[stuck]}")
        return self._report("ok", 0, "")

    def _visit_all(self) -> tuple[int, str] | None:
        """The number of the first wrong state and its complaint, or None."""
        moves, canonical, wrong = self.model.moves, self.model.canonical, self.model.wrong
        start = canonical(self.model.start())
        numbers = {start: 0}
        self.states.append(start)
        self.parents.append(-1)
        if complaint := wrong(start):
            return 0, complaint
        for here, state in enumerate(self.states):  # the list grows while we walk it: that is the queue
            for label, fault, successor in moves(state):
                self.edges += 1
                self.steps_used.add(label[0])
                found = canonical(successor)
                there = numbers.setdefault(found, len(numbers))
                if there == len(self.states):
                    self.states.append(found)
                    self.parents.append(here)
                    if complaint := wrong(found):
                        return there, complaint
                    if there >= self.limit:
                        raise TooManyStates(f"more than {self.limit:,} states")
                if not fault and there != here:
                    self.sources.append(here)
                    self.targets.append(there)
        return None

    def _first_stuck(self) -> int | None:
        """Walk backwards from the ended states; whoever is not met cannot end."""
        count = len(self.states)
        first_edge = array("q", [-1]) * count
        next_edge = array("q", [-1]) * len(self.targets)
        for edge, target in enumerate(self.targets):
            next_edge[edge] = first_edge[target]
            first_edge[target] = edge
        can_end = bytearray(count)
        todo = [n for n, state in enumerate(self.states) if self.model.ended(state)]
        for n in todo:
            can_end[n] = 1
        while todo:
            edge = first_edge[todo.pop()]
            while edge >= 0:
                source = self.sources[edge]
                if not can_end[source]:
                    can_end[source] = 1
                    todo.append(source)
                edge = next_edge[edge]
        stuck = can_end.find(0)
        return None if stuck < 0 else stuck

    def _report(self, kind: Kind, at: int, reason: str) -> Verdict:
        trace = self._replay(at)
        spent = time.perf_counter() - self.began
        return Verdict(kind, reason, trace, len(self.states), self.edges, spent, frozenset(self.steps_used))

    def _replay(self, at: int) -> tuple[str, ...]:
        path = []
        while at > 0:
            path.append(self.states[at])
            at = self.parents[at]
        plain, trace = self.model.start(), []
        for wanted in reversed(path):
            for label, _fault, successor in self.model.moves(plain):
                if self.model.canonical(successor) == wanted:
                    plain = successor
                    trace.append(str(label))
                    break
            else:
                raise AssertionError(f"canonical() merged states with different futures near {plain}")
        return tuple(trace)
