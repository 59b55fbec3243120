"""Broken doubles of reads. See `doubles.py` for what a double is."""

from __future__ import annotations

import msgspec

from ramify.model.event import Status, Tally
from ramify.model.task import Row
from ramify.store.memory.reads import MemoryReads
from ramify.store.reads import Page, Result, Tail
from tests.store.doubles import Damaged, caught_by


class Misreading(Damaged):
    """A store whose reads are not to be trusted."""

    misreads: type[MemoryReads] = MemoryReads

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.reads = self.misreads(self._place)


@caught_by("reads: tasks are paged by id and filtered by kind")
class LosesARowBetweenPages(Misreading):
    """Leaves one row out after each cursor."""

    class misreads(MemoryReads):
        def tasks(self, run: int, *, kind: str | None = None, after: int = 0, limit: int = 100) -> Page[Row]:
            return super().tasks(run, kind=kind, after=after + 1 if after else 0, limit=limit)


@caught_by("reads: results tell the present life")
class RemembersOldLives(Misreading):
    """Lists a task as failed although it lives again."""

    class misreads(MemoryReads):
        def results(
            self, run: int, *, kind: str | None = None, status: Status = Status.DONE, after: int = 0, limit: int = 1000
        ) -> Page[Result]:
            found = [
                Result(event.task, status, event.value)
                for events in self._place.events.values()
                for event in events
                if event.status is status and event.task > after
            ]
            return Page(found, after, False)


@caught_by("reads: counters say what happened")
class CountsTwice(Misreading):
    """Counts what was added twice over."""

    class misreads(MemoryReads):
        def counts(self, run: int) -> dict[str, dict[int, int]]:
            told = {kind: dict(by) for kind, by in super().counts(run).items()}
            for by in told.values():
                by[Tally.ADDED] *= 2
            return told


@caught_by("tail: a tail that keeps up sees every event once")
class TailSkips(Misreading):
    """Moves its cursor one commit too far."""

    class misreads(MemoryReads):
        def tail(self, after: int, *, limit: int = 100) -> Tail:
            told = super().tail(after, limit=limit)
            return msgspec.structs.replace(told, after=told.after + 1)


@caught_by("tail: a page of the tail holds whole commits")
class TailTearsCommits(Misreading):
    """Pages by events, not by commits."""

    class misreads(MemoryReads):
        def tail(self, after: int, *, limit: int = 100) -> Tail:
            told = super().tail(after, limit=limit)
            return msgspec.structs.replace(told, events=told.events[:limit])
