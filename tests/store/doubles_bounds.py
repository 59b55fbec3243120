"""Broken doubles of the bounds of runs. See `doubles.py` for what a double is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from ramify.model.addition import Addition
from ramify.model.claim import Claimed, Want
from ramify.model.commit import Committed, Part
from ramify.model.decision import UNSAID, Said
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.process import Stamp
from ramify.model.run import Advanced, NewRun, RunState, Started, Tolerance
from ramify.model.segment import SegmentState
from ramify.model.task import Appended, NewTasks
from ramify.store.contract import Beat
from tests.store.doubles import Damaged, caught_by

replace = msgspec.structs.replace

FULL = "claim: no more tasks of a run are claimed at a time than it may have running"


class Bending(Damaged):
    """A store that believes something else of its runs for the length of one verb."""

    @contextmanager
    def believing(self, **terms: Any) -> Iterator[None]:
        before = list(self._tables.runs.values())
        news = [row.new for row in before]
        for row in before:
            row.new = replace(row.new, **terms)
        yield
        for row, new in zip(before, news, strict=True):
            row.new = new


@caught_by(FULL, "claim: the turn of a run does not take it beyond its bound")
class ForgetsHowManyMayRun(Bending):
    """Grants whatever is asked for."""

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        with self.believing(max_running=None):
            return super().claim(stamp, want)


@caught_by(FULL)
class CountsOnlyItsOwn(Bending):
    """Counts what the asking process holds, and nobody else's."""

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        others = {token: row for token, row in self._tables.tokens.items() if row.owner != stamp.process}
        for token in others:
            del self._tables.tokens[token]
        answer = super().claim(stamp, want)
        self._tables.tokens.update(others)
        return answer


@caught_by("claim: only the head of a large row is claimed when its run has little room")
class TakesWholeRows(Bending):
    """Looks whether there is room, and then takes the row."""

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        full = {
            row.run for row in self.rows(SegmentState.CLAIMED) if self._tables.run(row.run).new.max_running is not None
        }
        without_room = [row for row in self.rows(SegmentState.READY) if row.run in full]
        with self.bent(without_room, "state", SegmentState.GATED), self.believing(max_running=None):
            return super().claim(stamp, want)


@caught_by("claim: a run without room is in nobodys way")
class WaitsForRoom(Bending):
    """Grants nothing at all while a run that fits has no room."""

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        bound = [row.new for row in self._tables.runs.values() if row.new.max_running is not None]
        return super().claim(stamp, replace(want, limit=1) if bound else want)


@caught_by("claim: the claim of a commit has the room that the commit made")
class ClaimsBeforeItCommits(Bending):
    """Looks for room as it was before the commit."""

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        return super().commit(stamp, parts, None)


@caught_by(
    "commit: a commit that takes a run beyond its tasks halts it",
    "commit: a run that is halted for its tasks ends when nothing of it is held",
)
class GrowsWithoutEnd(Bending):
    """Commits whatever comes."""

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        with self.believing(max_tasks=None):
            return super().commit(stamp, parts, then_claim)


@caught_by("commit: a run with exactly as many tasks as it may have goes on to its end")
class HaltsAtTheLast(Bending):
    """Takes the last task that a run may have for one too many."""

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        with self.believing(max_tasks=1):
            return super().commit(stamp, parts, then_claim)


@caught_by("append: an append that takes a run beyond its tasks halts it")
class AppendsWithoutEnd(Bending):
    """Appends whatever comes."""

    def append(self, additions: Sequence[Addition]) -> Sequence[Appended]:
        with self.believing(max_tasks=None):
            return super().append(additions)


@caught_by("advance: a run that is open past its deadline fails and says so")
class HasAllTheTime(Bending):
    """Knows no deadlines."""

    def _advance(self, run: int, round: int) -> Advanced:
        with self.believing(deadline=None):
            return super()._advance(run, round)


@caught_by("advance: a run that is open past its deadline fails and says so")
class CancelsTheLate(Damaged):
    """Takes a passed deadline for somebody's wish."""

    def _advance(self, run: int, round: int) -> Advanced:
        answer = super()._advance(run, round)
        row = self._tables.runs[run]
        row.into = RunState.CANCELLED if row.into is RunState.FAILED else row.into
        return answer


@caught_by("advance: a deadline strikes once and whoever opens the run again means it")
class StrikesAgainAndAgain(Damaged):
    """Does not remember that a deadline has struck."""

    def _advance(self, run: int, round: int) -> Advanced:
        row = self._tables.runs[run]
        row.into = RunState.DONE if row.state is RunState.OPEN else row.into
        return super()._advance(run, round)


@caught_by("advance: a deadline is judged only where the run is")
class JudgesFromAfar(Damaged):
    """Drains a late run whatever round was asked for."""

    def _advance(self, run: int, round: int) -> Advanced:
        deadline = self._tables.runs[run].new.deadline
        is_late = deadline is not None and deadline <= self.now()
        return super()._advance(run, self._tables.runs[run].round if is_late else round)


@caught_by("advance: a paused run is judged by its deadline when it is resumed")
class ResumesTheLate(Bending):
    """Lets a late run go on when it is resumed."""

    def resume(self, run: int, said: Said = UNSAID) -> RunState:
        with self.believing(deadline=None):
            return super().resume(run, said)


@caught_by("beat: a beat tells how long the runs it holds may go on")
class KeepsDeadlinesToItself(Damaged):
    """Tells nobody how long runs may go on."""

    def beat(self, process: int) -> Beat:
        return replace(super().beat(process), time_left=())


@caught_by("advance: a run ends as it was told to when tasks failed")
class FailsAllTheSame(Bending):
    """Calls every run failed whose tasks failed."""

    def _advance(self, run: int, round: int) -> Advanced:
        with self.believing(fails_as=RunState.FAILED):
            return super()._advance(run, round)


@caught_by("advance: a run that tolerates failures is done all the same")
class ToleratesNothing(Bending):
    """Puts up with no failure."""

    def _advance(self, run: int, round: int) -> Advanced:
        with self.believing(tolerates=Tolerance.NONE):
            return super()._advance(run, round)


@caught_by("start: bounds that make no sense are refused")
class TakesAnyBounds(Damaged):
    """Believes whatever it is told about a run."""

    def start(
        self,
        run: NewRun,
        tasks: Sequence[NewTasks] = (),
        joins: Sequence[NewJoins] = (),
        waiters: Sequence[NewWaiters] = (),
    ) -> Started:
        plain = replace(run, max_running=None, max_tasks=None, fails_as=RunState.FAILED)
        return super().start(plain, tasks, joins, waiters)
