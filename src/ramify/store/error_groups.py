"""Failures that look alike, counted as groups while they are read. Memory is bounded however many differ."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

import msgspec

from ramify.model.fingerprint import fingerprint
from ramify.model.outcome import Failure

#: The most failed tasks an error summary looks at; beyond that it says so.
GROUP_SCAN = 100_000
#: The most groups of errors that are told apart; twice as many while they are counted.
MOST_GROUPS = 500
EXAMPLES = 3


class ErrorGroup(msgspec.Struct, frozen=True):
    """Failed tasks with the same kind, error type and text: how many, some examples, and the times of the failures.

    `text` is the common text, or its fingerprint if the texts differ in numbers, names or paths; `example` is the text
    of the first of `examples`. `first` and `last` are times of the store's clock.
    """

    kind: str
    type: str
    text: str
    count: int
    examples: tuple[int, ...]
    example: str = ""
    first: int = 0
    last: int = 0

    @property
    def error(self) -> str:
        """The error the way Python shows one."""
        return f"{self.type}: {self.text}" if self.text else self.type


class ErrorSummary(msgspec.Struct, frozen=True):
    """Error groups, largest first, at most `MOST_GROUPS`; `others` failures are in none of them.

    `complete` is False when only the newest `GROUP_SCAN` failures were looked at.
    """

    groups: Sequence[ErrorGroup]
    complete: bool
    others: int = 0

    @property
    def looked_at(self) -> int:
        """How many failures that makes."""
        return sum(group.count for group in self.groups) + self.others


class _Alike:
    """Failures with one fingerprint, as they are met: the newest first."""

    def __init__(self, text: str, at: int) -> None:
        self.count = 0
        self.text: str | None = text
        self.example = text
        self.examples: deque[int] = deque(maxlen=EXAMPLES)
        self.first = self.last = at

    def add(self, task: int, text: str, at: int) -> None:
        """One more."""
        self.count += 1
        self.example = text
        self.text = self.text if self.text == text else None
        self.examples.appendleft(task)
        self.first, self.last = min(self.first, at), max(self.last, at)

    def group(self, kind: str, type: str, folded: str) -> ErrorGroup:
        """All of them as one group."""
        text = folded if self.text is None else self.text
        return ErrorGroup(kind, type, text, self.count, tuple(self.examples), self.example, self.first, self.last)


def group_errors(failures: Iterable[tuple[int, str, bytes | None, int]]) -> ErrorSummary:
    """Group `(task, kind, value, at)` of failed tasks, the newest first, by kind, type and fingerprint.

    At most the first `GROUP_SCAN` are looked at. Memory is bounded however many differ: when there are too many groups,
    the smaller half of them is only counted from then on, as `others`.
    """
    found: dict[tuple[str, str, str], _Alike] = {}
    rest = iter(failures)
    others = 0
    for task, kind, value, at in islice(rest, GROUP_SCAN):
        failure = Failure.decode(value)
        name = (kind, failure.type, fingerprint(failure.text))
        alike = found.get(name)
        if alike is None:
            if len(found) >= 2 * MOST_GROUPS:
                found, few = _largest(found)
                others += few
            alike = found[name] = _Alike(failure.text, at)
        alike.add(task, failure.text, at)
    # To its end, so that no statement stays open over a snapshot.
    complete = sum(1 for _ in rest) == 0
    found, few = _largest(found)
    groups = [each.group(*name) for name, each in found.items()]
    return ErrorSummary(groups, complete, others + few)


def _largest(found: dict[tuple[str, str, str], _Alike]) -> tuple[dict[tuple[str, str, str], _Alike], int]:
    """The `MOST_GROUPS` largest groups in order, and how many failures are in those left out."""
    order = sorted(found, key=lambda name: (-found[name].count, name))
    few = sum(found[name].count for name in order[MOST_GROUPS:])
    return {name: found[name] for name in order[:MOST_GROUPS]}, few
