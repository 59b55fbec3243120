"""Broken doubles of reads of live work. See `doubles.py` for what a double is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ramify.model.run import StoredRun
from ramify.model.segment import SegmentState
from ramify.store.memory import joins, live
from ramify.store.memory.reads import MemoryReads
from ramify.store.reads import LiveCounts, Page, TaskStanding
from tests.store.doubles import caught_by
from tests.store.doubles_reads import Misreading

replace = msgspec.structs.replace


@caught_by("reads: tasks with a due time are paged by id")
class PagesByRow(Misreading):
    """Tells the tasks of one row after the other, although rows overlap."""

    class misreads(MemoryReads):
        def due_tasks(
            self, kind: str, *, run: int | None = None, after: int = 0, limit: int = 100
        ) -> Page[TaskStanding]:
            told = super().due_tasks(kind, run=run, limit=10_000).rows
            by_row = sorted(told, key=lambda task: (task.segment.id if task.segment else 0, task.row.id))
            beyond = [task for task in by_row if task.row.id > after]
            return Page(beyond[:limit], beyond[:limit][-1].row.id if beyond else after, len(beyond) > limit)


@caught_by("reads: tasks with a due time are told unless somebody holds them or they wait")
class HidesThePaused(Misreading):
    """Tells only of what can be claimed."""

    class misreads(MemoryReads):
        def due_tasks(
            self, kind: str, *, run: int | None = None, after: int = 0, limit: int = 100
        ) -> Page[TaskStanding]:
            told = super().due_tasks(kind, run=run, after=after, limit=limit)
            ready = [task for task in told.rows if task.segment and task.segment.state is SegmentState.READY]
            return replace(told, rows=ready)


@caught_by("reads: a join fired when the last of its members ended")
class TellsTheFirstEnd(Misreading):
    """Takes the first end for the last."""

    class misreads(MemoryReads):
        def fired_at(self, tasks: Sequence[int]) -> Mapping[int, int]:
            known = {task: list(joins.firing(self._tables, task)) for task in tasks}
            return {task: self._tables.commits[min(seqs) - 1][0].at for task, seqs in known.items() if seqs}


@caught_by("reads: runs that are asked for together are those that exist")
class ForgetsEndedRuns(Misreading):
    """Leaves out what has ended."""

    class misreads(MemoryReads):
        def runs_at(self, runs: Sequence[int]) -> Mapping[int, StoredRun]:
            return {number: run for number, run in super().runs_at(runs).items() if not run.state.is_end}


@caught_by("reads: what is left of a run is counted by what it waits for")
class CountsRows(Misreading):
    """Counts a row as one task."""

    class misreads(MemoryReads):
        def live_counts(self, run: int, now: int) -> LiveCounts:
            told = super().live_counts(run, now)
            return replace(told, counts=[replace(each, tasks=1) for each in told.counts])


@caught_by("reads: what is left of a run is told with its rounds joins and suspects")
class CountsEveryRoundAsOpen(Misreading):
    """Does not look at the round of the run."""

    class misreads(MemoryReads):
        def live_counts(self, run: int, now: int) -> LiveCounts:
            told = live.counts(self._tables, run, now, 10_000)
            return replace(told, counts=[replace(each, ahead=False) for each in told.counts])


@caught_by("reads: what is left of a run is counted however many rows it has up to a bound")
class CountsAFew(Misreading):
    """Stops early, and does not say so."""

    class misreads(MemoryReads):
        def live_counts(self, run: int, now: int) -> LiveCounts:
            return replace(live.counts(self._tables, run, now, 1_000), complete=True)
