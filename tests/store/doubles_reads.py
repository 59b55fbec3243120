"""Broken doubles of reads, logs and copies. See `doubles.py` for what a double is."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from ramify.model.decision import Decision
from ramify.model.event import Status, Tally
from ramify.model.log import LogLine, StoredLine
from ramify.model.run import RunState, StoredRun
from ramify.model.segment import Segment
from ramify.model.task import Row
from ramify.store.contract import Vacuumed
from ramify.store.error_groups import ErrorSummary
from ramify.store.memory.reads import MemoryReads
from ramify.store.memory.tables import RunRow
from ramify.store.reads import Page, Result, Tail, TaskStanding
from tests.store.doubles import Damaged, caught_by

replace = msgspec.structs.replace


class Misreading(Damaged):
    """A store whose reads are not to be trusted."""

    misreads: type[MemoryReads] = MemoryReads

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.reads = self.misreads(self._tables, self._clock)


@caught_by("reads: tasks are paged by id and filtered by kind")
class LosesARowBetweenPages(Misreading):
    """Leaves one row out after each cursor."""

    class misreads(MemoryReads):
        def tasks(
            self, run: int, *, kind: str | None = None, newest_first: bool = False, after: int = 0, limit: int = 100
        ) -> Page[Row]:
            beyond = after + 1 if after else 0
            return super().tasks(run, kind=kind, newest_first=newest_first, after=beyond, limit=limit)


@caught_by("append: a task that extends a row keeps when it was added")
class TellsWhenTheRowBegan(Misreading):
    """Takes all tasks of a span for added with the first."""

    class misreads(MemoryReads):
        def tasks(
            self, run: int, *, kind: str | None = None, newest_first: bool = False, after: int = 0, limit: int = 100
        ) -> Page[Row]:
            page = super().tasks(run, kind=kind, newest_first=newest_first, after=after, limit=limit)
            first = min((row.added for row in page.rows), default=0)
            return replace(page, rows=[replace(row, added=first) for row in page.rows])


@caught_by("reads: a store that was only used is whole")
class SeesDamageWhereThereIsNone(Misreading):
    """Cries wolf."""

    class misreads(MemoryReads):
        def damage(self) -> Sequence[str]:
            return ["page 7 is damaged"]


@caught_by("start: an unnamed run is found by its digest and its owner until it has ended")
class RemembersTheEnded(Misreading):
    """Tells of unnamed runs that have ended too."""

    class misreads(MemoryReads):
        def _unnamed(self, digest: bytes) -> list[RunRow]:
            return [row for row in self._tables.runs.values() if row.new.digest == digest and row.new.name is None]


@caught_by("start: a run knows since which commit a tail finds its events")
class TailsFromNow(Misreading):
    """Says of every run that it began at this moment."""

    class misreads(MemoryReads):
        def run(self, run: int) -> StoredRun:
            return replace(super().run(run), since=self.head() + 1)


@caught_by("tail: the start of a run is in the tail", "tail: a run that a commit opens has its start there")
class TellsOfNoStarts(Misreading):
    """Follows the log, and never hears that a run began."""

    class misreads(MemoryReads):
        def tail(self, after: int, *, limit: int = 100) -> Tail:
            return replace(super().tail(after, limit=limit), starts=[])


@caught_by("tail: decisions are in the tail in their place", "forget: the decisions about a forgotten run stay")
class TellsOfNoDecisions(Misreading):
    """Follows the log, and never hears what was decided."""

    class misreads(MemoryReads):
        def tail(self, after: int, *, limit: int = 100) -> Tail:
            return replace(super().tail(after, limit=limit), decisions=[])


@caught_by("pause: every decision about a run is kept")
class RemembersTheLastDecision(Misreading):
    """Shows what was decided last, and nothing before it."""

    class misreads(MemoryReads):
        def decisions(self, run: int, *, after: int = 0, limit: int = 100) -> Page[Decision]:
            page = super().decisions(run, after=after, limit=limit)
            return replace(page, rows=page.rows[-1:])


@caught_by("reads: runs are paged from the newest back")
class BeginsWithTheOldest(Misreading):
    """Pages runs in one direction only."""

    class misreads(MemoryReads):
        def runs(
            self,
            *,
            state: RunState | None = None,
            prefix: str = "",
            newest_first: bool = False,
            after: int = 0,
            limit: int = 100,
        ) -> Page[StoredRun]:
            return super().runs(state=state, prefix=prefix, after=after, limit=limit)


@caught_by("reads: runs are found by how their names begin")
class TakesAnyName(Misreading):
    """Finds runs whatever they are called."""

    class misreads(MemoryReads):
        def runs(
            self,
            *,
            state: RunState | None = None,
            prefix: str = "",
            newest_first: bool = False,
            after: int = 0,
            limit: int = 100,
        ) -> Page[StoredRun]:
            return super().runs(state=state, newest_first=newest_first, after=after, limit=limit)


@caught_by("reads: tasks are paged from the newest back")
class TasksFromTheOldest(Misreading):
    """Pages tasks in one direction only."""

    class misreads(MemoryReads):
        def tasks(
            self, run: int, *, kind: str | None = None, newest_first: bool = False, after: int = 0, limit: int = 100
        ) -> Page[Row]:
            return super().tasks(run, kind=kind, after=after, limit=limit)


@caught_by("reads: results tell the present life")
class RemembersOldLives(Misreading):
    """Lists a task as failed although it lives again."""

    class misreads(MemoryReads):
        def results(
            self, run: int, *, kind: str | None = None, status: Status = Status.DONE, after: int = 0, limit: int = 1000
        ) -> Page[Result]:
            found = [
                Result(event.task, status, event.value)
                for events in self._tables.events.values()
                for event in events
                if event.status is status and event.task > after
            ]
            return Page(found, after, False)


@caught_by("reads: errors that differ in numbers and names are one group with an example and its times")
class ForgetsWhenItFailed(Misreading):
    """Tells of each group only when it was last seen."""

    class misreads(MemoryReads):
        def errors(self, run: int | None) -> ErrorSummary:
            told = super().errors(run)
            return replace(told, groups=[replace(group, first=group.last) for group in told.groups])


@caught_by("reads: errors of all runs are one summary without those that are forgotten")
class TellsErrorsOfTheNewestRun(Misreading):
    """Takes all runs for the last one."""

    class misreads(MemoryReads):
        def errors(self, run: int | None) -> ErrorSummary:
            return super().errors(max(self._tables.runs) if run is None else run)


@caught_by("reads: however many errors differ only so many groups are told apart")
class DropsSmallGroups(Misreading):
    """Leaves out what is in no large group, and does not say so."""

    class misreads(MemoryReads):
        def errors(self, run: int | None) -> ErrorSummary:
            return replace(super().errors(run), others=0)


@caught_by("reads: counters say what happened")
class CountsTwice(Misreading):
    """Counts what was added twice over."""

    class misreads(MemoryReads):
        def counts(self, run: int | None) -> dict[str, dict[int, int]]:
            told = {kind: dict(by) for kind, by in super().counts(run).items()}
            for by in told.values():
                by[Tally.ADDED] *= 2
            return told


@caught_by("reads: the counters of all runs that have not ended are told together")
class CountsTheEndedToo(Misreading):
    """Counts what is over among what is left."""

    class misreads(MemoryReads):
        def counts(self, run: int | None) -> Mapping[str, Mapping[int, int]]:
            if run is not None:
                return super().counts(run)
            total: dict[str, Counter[int]] = {}
            for each in self._tables.runs:
                for kind, by in super().counts(each).items():
                    total.setdefault(kind, Counter()).update(by)
            return total


@caught_by("reads: what a process staged is not what it holds")
class TakesTheStagedForHeld(Misreading):
    """Tells of every row with the name of a process on it."""

    class misreads(MemoryReads):
        def segments(
            self, *, run: int | None = None, owner: int | None = None, after: int = 0, limit: int = 1000
        ) -> Page[Segment]:
            page = super().segments(run=run, after=after, limit=limit)
            return replace(page, rows=[row for row in page.rows if owner in (None, row.owner)])


@caught_by("reads: of each kind and queue the first in line are told", "reads: what has a due time is in line by that")
class LinesUpByAge(Misreading):
    """Takes those that were there first for the first in line."""

    class misreads(MemoryReads):
        def in_line(self, *, limit: int = 100) -> Sequence[Segment]:
            return sorted(super().in_line(), key=lambda row: row.id)[:limit]


@caught_by("reads: suspects are in line too")
class HidesSuspects(Misreading):
    """Leaves out what must run apart."""

    class misreads(MemoryReads):
        def in_line(self, *, limit: int = 100) -> Sequence[Segment]:
            return [row for row in super().in_line(limit=limit) if not row.deaths.apart]


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


@caught_by(
    "reads: staged children are found once they are published", "reads: what was never published has no live row"
)
class SeesWhatIsStaged(Misreading):
    """Shows rows that nobody has published."""

    class misreads(MemoryReads):
        def children(self, task: int, *, after: int = 0, limit: int = 100) -> Page[Row]:
            for span in self._tables.spans.values():
                span.published = True
            return super().children(task, after=after, limit=limit)

        def segment(self, task: int) -> Segment | None:
            rows = (row for row in super().segments(limit=10_000).rows if task in row.tasks)
            return next(rows, None)


@caught_by(
    "reads: the children of a task are those that name it",
    "reads: a single task that extends a row is found as a child",
)
class LooksAtTheFirstParentOnly(Misreading):
    """Takes the parent of the first task of a group for that of all."""

    class misreads(MemoryReads):
        def children(self, task: int, *, after: int = 0, limit: int = 100) -> Page[Row]:
            told = super().children(task, after=after, limit=limit)
            spans = {self._tables.span_of(row.id).first: row for row in told.rows}  # type: ignore[union-attr]
            return msgspec.structs.replace(
                told, rows=[r for f, r in spans.items() if self._tables.spans[f].parents[0] == task]
            )


@caught_by("reads: the live row of a task is found until it ends")
class ShowsRowsByTheirRange(Misreading):
    """Does not look at the mask."""

    class misreads(MemoryReads):
        def segment(self, task: int) -> Segment | None:
            return next((row for row in super().segments().rows if row.first <= task <= row.last), None)


@caught_by("reads: what ends together is told together")
class AsksOneByOne(Misreading):
    """Tells where tasks stand as it was when it came to each of them."""

    class misreads(MemoryReads):
        def standings(self, tasks: Sequence[int]) -> Mapping[int, TaskStanding]:
            told = dict(super().standings(tasks[:20]))
            with self._tables.changed:
                self._tables.changed.wait(0.1)
            return told | dict(super().standings(tasks[20:]))


@caught_by("reads: a task that was swept stands cancelled until it is reopened")
class OverlooksSweeps(Misreading):
    """Knows of ends by events only."""

    class misreads(MemoryReads):
        def standings(self, tasks: Sequence[int]) -> Mapping[int, TaskStanding]:
            told, known = super().standings(tasks), self._tables.events
            return {task: where if task in known else replace(where, ended=None) for task, where in told.items()}


@caught_by("reads: only published tasks stand anywhere", "reads: a task that was forgotten stands nowhere")
class SeesTasksEverywhere(Misreading):
    """Tells of tasks that nobody published, and of those that go with their run."""

    class misreads(MemoryReads):
        def standings(self, tasks: Sequence[int]) -> Mapping[int, TaskStanding]:
            self._tables.kept = self._tables.span_of  # type: ignore[method-assign]
            return super().standings(tasks)


@caught_by("reads: children are paged by id")
class ForgetsTheCursor(Misreading):
    """Begins every page at the beginning."""

    class misreads(MemoryReads):
        def children(self, task: int, *, after: int = 0, limit: int = 100) -> Page[Row]:
            told = super().children(task, limit=limit)
            return msgspec.structs.replace(told, more=False)


@caught_by("note: a line is kept once however often it is written")
class NotesTwice(Damaged):
    """Does not look at the numbers of lines."""

    def note(self, process: int, lines: Sequence[LogLine]) -> None:
        self._tables.noted.clear()
        super().note(process, lines)


@caught_by("note: lines are told in order of arrival and a follower misses none")
class OrdersLinesByTime(Misreading):
    """Tells lines in the order of their times, so that late ones are missed."""

    class misreads(MemoryReads):
        def logs(self, run: int, *, after: int = 0, **chosen: int) -> Page[StoredLine]:  # type: ignore[override]
            self._tables.lines.sort(key=lambda stored: stored.line.at)
            return super().logs(run, after=after, **chosen)


@caught_by("note: lines are chosen by run task and level")
class TellsEveryLine(Misreading):
    """Does not look at the level."""

    class misreads(MemoryReads):
        def logs(self, run: int, *, level: int = 0, **chosen: int) -> Page[StoredLine]:  # type: ignore[override]
            return super().logs(run, **chosen)


@caught_by("note: lines are kept all or none")
class NotesOneByOne(Damaged):
    """Keeps what it can before it refuses."""

    def note(self, process: int, lines: Sequence[LogLine]) -> None:
        for line in lines:
            super().note(process, [line])


@caught_by("note: a note uses no stamp and touches no work")
class NotesAreNumbered(Damaged):
    """Uses up a stamp."""

    def note(self, process: int, lines: Sequence[LogLine]) -> None:
        super().note(process, lines)
        self._tables.sessions[process].last += 1


@caught_by("note: who was reaped may still say what it saw")
class SilencesTheDead(Damaged):
    """Keeps nothing of a process that was reaped."""

    def note(self, process: int, lines: Sequence[LogLine]) -> None:
        self._tables.session(process)
        super().note(process, lines)


@caught_by("note: vacuum leaves lines alone")
class SweepsLines(Damaged):
    """Removes the lines of processes that are gone."""

    def vacuum(self, limit: int = 65_536, *, spare: float = 0.0) -> Vacuumed:
        gone = {number for number, session in self._tables.sessions.items() if session.gone_at is not None}
        self._tables.lines = [stored for stored in self._tables.lines if stored.process not in gone]
        return super().vacuum(limit, spare=spare)


@caught_by("note: every text can be written")
class KeepsWholeNovels(Damaged):
    """Keeps texts as long as they are."""

    def note(self, process: int, lines: Sequence[LogLine]) -> None:
        super().note(process, lines)
        self._tables.lines = [
            msgspec.structs.replace(stored, line=line) for stored, line in zip(self._tables.lines, lines, strict=True)
        ]


@caught_by("backup: a backup is a file or it is refused")
class PretendsToCopy(Damaged):
    """Says that it copied, and did not."""

    def backup(self, path: str | os.PathLike[str], *, new_id: bool = False) -> None:
        if os.path.lexists(path):
            super().backup(path)


@caught_by("backup: a backup is never written over anything")
class CopiesOverAnything(Damaged):
    """Does not look whether there is a file."""

    def backup(self, path: str | os.PathLike[str], *, new_id: bool = False) -> None:
        with open(path, "wb") as file:
            file.write(b"a copy")


@caught_by("tail: a tail that begins at the head sees what comes and nothing before")
class HeadAhead(Misreading):
    """Says that a tail stands further than anything was written."""

    class misreads(MemoryReads):
        def head(self) -> int:
            return super().head() + 1
