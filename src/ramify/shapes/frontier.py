"""Expanding runs: they begin with one root or several, and grow by what their tasks bring forth.

Promises: roots are the same whatever order they are given in and however their arguments were written, also when their
kinds were renamed since.
"""

from __future__ import annotations

import inspect
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from ramify.errors import ConfigError
from ramify.model.call import Call
from ramify.model.run import Order, RunState
from ramify.model.stray import instead_of_call
from ramify.model.task import Row
from ramify.shapes.plan import Beginning, laid_out

#: How many roots are kept in words, and how much of each.
SHOWN_ROOTS = 3
SHOWN_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class Roots:
    """The calls that an expanding run begins with."""

    calls: Sequence[Call[Any]]

    @property
    def name(self) -> None:
        """Nothing: its calls are of no definition."""

    @property
    def order(self) -> Order:
        """A barrier between rounds."""
        return Order.ROUNDS

    @property
    def size(self) -> int:
        """Each is a task."""
        return len(self.calls)

    @property
    def fails_as(self) -> RunState:
        """Failed."""
        return RunState.FAILED

    @property
    def launches(self) -> bool:
        """No: its tasks yield tasks of the same run."""
        return False

    @property
    def given(self) -> None:
        """Nothing: what it takes is in its calls."""

    def identities(self, older: Mapping[str, Sequence[str]]) -> Iterator[bytes]:
        """Kinds and arguments, in any order."""
        roots = [(call.kind, call.group.signature.identity(call.body)) for call in self.calls]
        ages = max(len(older.get(kind, ())) for kind, _ in roots)
        for age in range(ages + 1):
            named = sorted((_name_at(older, kind, age), identity) for kind, identity in roots)
            yield b"".join(b"%b\0%d %b" % (kind.encode(), len(identity), identity) for kind, identity in named)

    def difference(self, rows: Iterable[Row]) -> str:
        """Return nothing: the texts of both say it."""
        return ""

    def beginning(self, first: int, now: int) -> Beginning:
        """They wait for nothing."""
        return laid_out(self.calls, first, now)

    def __str__(self) -> str:
        more = len(self.calls) - SHOWN_ROOTS
        return ", ".join(map(_shown, self.calls[:SHOWN_ROOTS])) + (f" and {more} more" if more > 0 else "")


def plan_of(root: object, functions: Container[CodeType]) -> Roots | None:
    """The roots that were meant: one call, or several in a list."""
    if type(root) is Call:
        return Roots((root,))
    if callable(getattr(root, "of", None)):
        # A task or a DAG itself, of which nobody said with what; a DAG would give its nodes one by one.
        return None
    is_called = inspect.isgenerator(root) and root.gi_code in functions
    if is_called or isinstance(root, str) or not isinstance(root, Iterable):
        return None
    roots: list[Call[Any]] = []
    for each in root:
        if type(each) is not Call:
            raise ConfigError(f"run(): expected a call or a list of calls, got {instead_of_call(each)}.")
        roots.append(each)
    if not roots:
        raise ConfigError("run(): expected at least one call, got none. Write engine.run(measure.of(path)).")
    return Roots(roots)


def _name_at(older: Mapping[str, Sequence[str]], kind: str, age: int) -> str:
    names = (kind, *older.get(kind, ()))
    return names[min(age, len(names) - 1)]


def _shown(call: Call[Any]) -> str:
    text = repr(call).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
