"""Transactions as scripts of statements that interleave freely: for questions that atomic verbs cannot ask.

A statement sees what is committed at that moment (READ COMMITTED), may note something for the script's next statement,
and waits by returning nothing. A lock is a field of the store that one script fills and clears. What a transaction has
written but not committed is simply not in the store yet: a script notes it and writes it in its COMMIT statement.

It does not model rollback, deadlock detection or isolation levels above READ COMMITTED.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from tests.protocol.checker import Label

S = TypeVar("S", bound=Hashable)

#: what a script carries from one statement to the next
Note = Any
#: where one script stands, and its note
Place = tuple[int, Note]


class _Quit:
    """A note that ends its script early: refused, killed, or nothing to do."""

    def __repr__(self) -> str:
        return "QUIT"


QUIT = _Quit()


@dataclass(frozen=True)
class Statement(Generic[S]):
    """`does(store, note)` gives the possible (store, note) afterwards; none at all means it has to wait."""

    says: str
    does: Callable[[S, Note], Sequence[tuple[S, Note]]]
    fault: bool = False


@dataclass(frozen=True)
class Script(Generic[S]):
    name: str
    statements: tuple[Statement[S], ...]
    repeats: bool = False


class Moment(NamedTuple, Generic[S]):
    store: S
    places: tuple[Place, ...]

    def __str__(self) -> str:
        return str(self.store)


@dataclass(frozen=True)
class Interleaved(Generic[S]):
    """The model made of some scripts over one store."""

    store: S
    scripts: tuple[Script[S], ...]
    judge: Callable[[S], str]
    over: Callable[[S], bool]

    def start(self) -> Moment[S]:
        return Moment(self.store, ((0, None),) * len(self.scripts))

    def moves(self, now: Moment[S]) -> Iterator[tuple[Label, bool, Moment[S]]]:
        for i, script in enumerate(self.scripts):
            at, note = now.places[i]
            if at == len(script.statements):
                continue
            statement = script.statements[at]
            for after, kept in statement.does(now.store, note):
                places = (*now.places[:i], self._next(script, at, kept), *now.places[i + 1 :])
                yield Label(f"{script.name}: {statement.says}"), statement.fault, Moment(after, places)

    def _next(self, script: Script[S], at: int, note: Note) -> Place:
        end = len(script.statements)
        following = end if note is QUIT else at + 1
        if following < end:
            return following, note
        return (0, None) if script.repeats else (end, None)

    def canonical(self, now: Moment[S]) -> Moment[S]:
        return now

    def wrong(self, now: Moment[S]) -> str:
        return self.judge(now.store)

    def ended(self, now: Moment[S]) -> bool:
        return self.over(now.store)
