"""Trying ended tasks again: which ones, in which pages, and under whose name.

Promises: each chosen task begins one new life. A continuation that was skipped because a member failed, or ran without
it (`.always()`), is tried again together with that member, in one transaction, so that it waits for it; and so is one
that waited for such a continuation, whatever that brought it. Everything is sent under the numbers of a short session
of its own, so that a lost answer is asked for again and not guessed.

A crash in between leaves some pages done and the others as they were; the same call goes on with the rest.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any

import msgspec

from ramify.engine.reading import PAGE, Members, Reading
from ramify.errors import ConfigError
from ramify.kernel.session import Session
from ramify.kernel.settings import Settings
from ramify.kernel.signals import Signals
from ramify.model.event import Status
from ramify.model.join import Join
from ramify.store.contract import REOPEN_LIMIT, Store


class Retried(msgspec.Struct, frozen=True):
    """What a retry did: how many tasks begin a new life, and those whose key another task has taken since."""

    tasks: int = 0
    superseded: tuple[tuple[int, int], ...] = ()


def retry(store: Store, reading: Reading, run: int, chosen: Choice, reason: str) -> Retried:
    """Begin new lives for the chosen tasks of a run."""
    session = Session(store, Settings(), Signals(), threading.Event(), kinds=())
    session.enter()
    count = 0
    superseded: list[tuple[int, int]] = []
    try:
        for page in chosen.pages(reading, run):
            answer = session.send(_reopening(store, run, page, reason))
            count += len(answer.tasks)
            superseded += answer.superseded
    finally:
        store.leave(session.process)
    return Retried(count, tuple(superseded))


class Choice(msgspec.Struct, frozen=True):
    """Which tasks: those named, or else those that failed, and with `quarantined` or `cancelled` those as well."""

    tasks: tuple[int, ...] = ()
    failed: bool = True
    quarantined: bool = False
    cancelled: bool = False

    def pages(self, reading: Reading, run: int) -> Iterator[Sequence[int]]:
        """What to reopen, some at a time."""
        if not all(isinstance(task, int) and not isinstance(task, bool) for task in self.tasks):
            raise ConfigError(f"retry{self.tasks}: give ids of tasks, as errors() shows them")
        together = self._with_continuations(reading, run)
        yield from _cut(chain.from_iterable(together.items()), REOPEN_LIMIT // 2 * 2)
        given = {*together, *together.values()}
        if self.tasks:
            yield from _cut(task for task in self.tasks if task not in given)
            return
        for status in self._statuses():
            waiting: list[int] = []
            ended = (task for task, _ in reading.ended(run, status) if task not in given)
            yield from _cut(_apart(reading, run, ended, waiting))
            yield from _cut(reversed(waiting))

    def _statuses(self) -> list[Status]:
        asked = {
            Status.FAILED: self.failed,
            Status.QUARANTINED: self.quarantined,
            Status.CANCELLED: self.cancelled,
        }
        return [status for status, wanted in asked.items() if wanted]

    def _with_continuations(self, reading: Reading, run: int) -> dict[int, int]:
        """Continuations that lacked members, and those around them, each with a member that is tried again.

        With that member the join is set back and waits for it; members that are reopened later are forgotten by the
        join one by one, because it has not fired yet. That is why the outer ones come first: the member of an outer one
        is an inner one, which must have ended when it is reopened together with it.
        """
        found: dict[int, int] = {}
        named, statuses = frozenset(self.tasks), self._statuses()
        for join in _broken_joins(reading, run):
            for task, status in _members(reading, join):
                if task in named or (not named and status in statuses):
                    around = {join: task}
                    while (outer := _outer(reading, join)) is not None and outer not in found:
                        around[outer] = join
                        join = outer
                    found |= dict(reversed(around.items()))
                    break
        return found


def _outer(reading: Reading, join: int) -> int | None:
    """The join for which the end of a continuation is an arrival. A continuation lies in a span of its own."""
    spans = reading.reads.spans(after=join - 1, limit=1).rows
    return spans[0].join if spans and spans[0].first == join else None


def _members(reading: Reading, join: int) -> Iterator[tuple[int, Status | None]]:
    return ((task, status) for page in Members(reading, join, Any).endings() for task, status, _ in page)


def _apart(reading: Reading, run: int, tasks: Iterator[int], waiting: list[int]) -> Iterator[int]:
    """The tasks, by id, without continuations, which are put into `waiting`.

    A continuation is reopened after its members, and an inner one, which is younger, before an outer one. The other way
    round, a run whose workers are quick would be taken for one that waits for what never comes.
    """
    joins = (join.id for join in _joins(reading, run, fired=None))
    join = next(joins, None)
    for task in tasks:
        while join is not None and join < task:
            join = next(joins, None)
        if join == task:
            waiting.append(task)
        else:
            yield task


def _broken_joins(reading: Reading, run: int) -> Iterator[int]:
    """Joins of a run that fired although members had not ended well."""
    return (join.id for join in _joins(reading, run, fired=True) if join.broken and join.task is not None)


def _joins(reading: Reading, run: int, *, fired: bool | None) -> Iterator[Join]:
    after, more = 0, True
    while more:
        page = reading.reads.joins(run, fired=fired, after=after, limit=PAGE)
        yield from page.rows
        after, more = page.after, page.more


def _reopening(store: Store, run: int, page: Sequence[int], reason: str) -> Any:
    return lambda stamp: store.reopen(stamp, run, page, reason=reason)


def _cut(tasks: Iterator[int], size: int | None = None) -> Iterator[Sequence[int]]:
    while page := list(islice(tasks, size or REOPEN_LIMIT)):
        yield page
