"""Broken doubles of forgetting: what goes too early, what stays, and what is seen of it. See `doubles.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ramify.model.decision import UNSAID, Said
from ramify.model.forgetting import Forgot
from ramify.model.log import LogLine
from ramify.model.run import RunState
from ramify.model.segment import SegmentState
from ramify.store.memory import processes as graves
from tests.store.doubles import Damaged, caught_by

replace = msgspec.structs.replace


@caught_by("forget: a run that goes on is refused")
class ForgetsWhatGoesOn(Damaged):
    """Takes every run for one that has ended."""

    def forget(self, run: int, tasks: range | None = None, **rest: Any) -> Forgot:
        if tasks is None and run in self._tables.runs:
            self._tables.runs[run].state = RunState.DONE
        return super().forget(run, tasks, **rest)


@caught_by(
    "forget: it is marked before anything of it goes",
    "forget: its keys are free at once",
    "forget: nobody waits for a task that is going",
)
class MarksItLast(Damaged):
    """Removes tasks first, and says so when all of them are gone."""

    def forget(self, run: int, tasks: range | None = None, **rest: Any) -> Forgot:
        before = self._tables.run(run).state
        answer = super().forget(run, tasks, **rest)
        if answer.more and tasks is None:
            self._tables.run(run).state = before
        return answer


@caught_by("forget: a dry call says how many would go and changes nothing")
class ForgetsInEarnest(Damaged):
    """Takes a dry call for a real one."""

    def forget(self, run: int, tasks: range | None = None, *, dry: bool = False, **rest: Any) -> Forgot:
        return super().forget(run, tasks, **rest)


@caught_by("forget: jobs side by side go each from the counts of its kind")
class CountsOneKindOut(Damaged):
    """Takes all that goes out of the counts of one kind."""

    def forget(self, run: int, tasks: range | None = None, **rest: Any) -> Forgot:
        before = {key: value for key, value in self._tables.counters.items() if key[1] == "copy"}
        answer = super().forget(run, tasks, **rest)
        self._tables.counters.update(before)
        return answer


@caught_by("forget: one that arrives after the run was opened again changes nothing")
class ForgetsLate(Damaged):
    """Carries it out, however late it comes."""

    def forget(self, run: int, tasks: range | None = None, *, said: Said = UNSAID, **rest: Any) -> Forgot:
        return super().forget(run, tasks, said=replace(said, after=None), **rest)


@caught_by(
    "forget: a run whose results another one has stays until that one goes",
    "forget: a continuation and its members go together",
)
class AsksNoReader(Damaged):
    """Does not look who has the results."""

    def forget(self, run: int, tasks: range | None = None, **rest: Any) -> Forgot:
        place = self._tables
        hidden, place.joins = place.joins, {}
        try:
            return super().forget(run, tasks, **rest)
        finally:
            place.joins = hidden


@caught_by("forget: what ended lately stays")
class ForgetsAtOnce(Damaged):
    """Removes tasks whose append may still be on its way."""

    def forget(self, run: int, tasks: range | None = None, **rest: Any) -> Forgot:
        later = MemoryTime(self)
        return later.forget(run, tasks, **rest)


class MemoryTime(Damaged):
    """The same place, some days from now."""

    def __init__(self, other: Damaged) -> None:
        super().__init__(other._tables, other._clock)

    def now(self) -> int:
        return super().now() + 10**12


@caught_by("forget: what is unfinished or lies in a live row stays")
class CutsLiveRows(Damaged):
    """Removes ended tasks from under a row that is still worked on."""

    def forget(self, run: int, tasks: range | None = None, **rest: Any) -> Forgot:
        with self.bent(self.rows(SegmentState.CLAIMED), "state", SegmentState.STAGED):
            return super().forget(run, tasks, **rest)


@caught_by("forget: a parent goes with its children and not before")
class ForgetsParentsFirst(Damaged):
    """Does not look for children."""

    def forget(self, run: int, tasks: range | None = None, **rest: Any) -> Forgot:
        known = {span.first: span.parents for span in self._tables.spans.values()}
        for span in self._tables.spans.values():
            span.parents = [None] * len(span.parents)
        answer = super().forget(run, tasks, **rest)
        for first, span in self._tables.spans.items():
            span.parents = known.get(first, span.parents)
        return answer


@caught_by(
    "forget: a run with an end is still judged by what failed", "forget: a key that is still taken keeps its task"
)
class TakesEveryRunForAQueue(Damaged):
    """Lets go of whatever ended, as if nobody asked how."""

    def forget(self, run: int, tasks: range | None = None, **rest: Any) -> Forgot:
        row, held = self._tables.run(run), self._tables.keys
        new, row.new, self._tables.keys = row.new, replace(row.new, endless=True), {}
        try:
            return super().forget(run, tasks, **rest)
        finally:
            row.new, self._tables.keys = new, held


@caught_by("forget: of a run of any end its name and counts stay")
class ForgetsTheName(Damaged):
    """Removes the run itself as well."""

    def forget(self, run: int, tasks: range | None = None, **rest: Any) -> Forgot:
        answer = super().forget(run, tasks, **rest)
        if tasks is None and not answer.more:
            self._tables.names = {name: number for name, number in self._tables.names.items() if number != run}
        return answer


@caught_by("forget: cursors stay good")
class UsesNumbersTwice(Damaged):
    """Numbers lines by how many there are."""

    def note(self, process: int, lines: Sequence[LogLine]) -> None:
        self._tables.next_line = len(self._tables.lines) + 1
        super().note(process, lines)


@caught_by("forget: what it logs too late is not kept")
class KeepsLateLines(Damaged):
    """Keeps what a run logs that nobody can ask any more."""

    def note(self, process: int, lines: Sequence[LogLine]) -> None:
        gone = [row for row in self._tables.runs.values() if row.state is RunState.FORGOTTEN]
        for row in gone:
            row.state = RunState.DONE
        graves.note(self._tables, process, lines)
        for row in gone:
            row.state = RunState.FORGOTTEN


@caught_by("forget: ended tasks of a queue go by their ids")
class CountsWhatIsGone(Damaged):
    """Leaves the counters as they were."""

    def forget(self, run: int, tasks: range | None = None, **rest: Any) -> Forgot:
        counters = self._tables.counters.copy()
        answer = super().forget(run, tasks, **rest)
        self._tables.counters = counters
        return answer
