"""Broken doubles of advance, cancel, pause, reopen and vacuum. See `doubles.py` for what a double is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ramify.model.claim import Claimed, Want
from ramify.model.decision import UNSAID, Said
from ramify.model.event import Status
from ramify.model.mark import Scope, Settled
from ramify.model.process import Stamp
from ramify.model.reopening import Reopened
from ramify.model.run import Advanced, RunState
from ramify.model.segment import SegmentState
from ramify.store.contract import Vacuumed
from ramify.store.memory import adding, runs
from tests.store.doubles import Damaged, caught_by

replace = msgspec.structs.replace


@caught_by("advance: a claimed task holds its round although nothing can be claimed")
class SealsWhenAClaimIsEmpty(Damaged):
    """Takes an empty claim for the end of a round, and of the run."""

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        answer = super().claim(stamp, want)
        if not answer.claims:
            for run in self._tables.runs.values():
                run.state = RunState.DONE
        return answer


@caught_by("advance: a claimed task holds its round although nothing can be claimed")
class OverlooksClaims(Damaged):
    """Looks only at what can be claimed."""

    def _advance(self, run: int, round: int) -> Advanced:
        with self.bent(self.rows(SegmentState.CLAIMED), "state", SegmentState.STAGED):
            return super()._advance(run, round)


@caught_by("advance: asked for another round it only says where the run is")
class AdvancesAnyRound(Damaged):
    """Does not care which round was asked for."""

    def _advance(self, run: int, round: int) -> Advanced:
        return super()._advance(run, self._tables.runs[run].round)


@caught_by("advance: the end of a run makes those due that await it")
class WakesNobody(Damaged):
    """Ends runs and leaves those that await them to their due time."""

    def _advance(self, run: int, round: int) -> Advanced:
        with self.bent([row for row in self.rows() if row.awaits is not None], "awaits", None):
            return super()._advance(run, round)


@caught_by("advance: an endless run does not end when it runs empty")
class EverythingEnds(Damaged):
    """Ends endless runs too."""

    def _advance(self, run: int, round: int) -> Advanced:
        row = self._tables.runs[run]
        row.new = replace(row.new, endless=False)
        return super()._advance(run, round)


@caught_by(
    "advance: a run in which a task failed has failed",
    "advance: a run whose joins can never fill is stalled and says which",
)
class NothingEverFails(Damaged):
    """Calls every end a success."""

    def _advance(self, run: int, round: int) -> Advanced:
        answer = super()._advance(run, round)
        row = self._tables.runs[run]
        row.state = RunState.DONE if row.state is RunState.FAILED else row.state
        return replace(answer, state=row.state)


@caught_by("advance: a follower opens its rounds behind its leader")
class FollowersDoNotWait(Damaged):
    """Opens a follower's round whatever its leader does."""

    def _advance(self, run: int, round: int) -> Advanced:
        self._tables.runs[run].new = replace(self._tables.runs[run].new, follows=None)
        return super()._advance(run, round)


@caught_by("movable: no more runs are named than were asked for")
class NamesEveryMovableRun(Damaged):
    """Does not mind how many were asked for."""

    def movable(self, limit: int) -> tuple[tuple[int, int], ...]:
        return super().movable(1000)


@caught_by(
    "movable: a run with live work of its round is not movable",
    "movable: an empty queue and a paused run are not movable",
)
class NamesEveryOpenRun(Damaged):
    """Takes every run that has not ended for one that can be moved."""

    def movable(self, limit: int) -> tuple[tuple[int, int], ...]:
        return tuple((number, run.round) for number, run in self._tables.runs.items() if run.ended is None)[:limit]


@caught_by(
    "movable: a draining run is movable when something can be swept or nothing is held",
    "movable: a run past its deadline is movable once",
)
class NamesOnlyRunsWithoutClaims(Damaged):
    """Takes a run that somebody works on for one that cannot be moved."""

    def movable(self, limit: int) -> tuple[tuple[int, int], ...]:
        busy = {row.run for row in self.rows(SegmentState.CLAIMED)}
        return tuple(each for each in super().movable(limit) if each[0] not in busy)


@caught_by("movable: a follower is movable when its leader allows it")
class OverlooksFollowers(Damaged):
    """Never names a run that follows another."""

    def movable(self, limit: int) -> tuple[tuple[int, int], ...]:
        return tuple(each for each in super().movable(limit) if self._tables.runs[each[0]].new.follows is None)


@caught_by("advance: several runs are judged in the order in which they are asked")
class JudgesBackwards(Damaged):
    """Judges the last one first."""

    def advance(self, asked: Sequence[tuple[int, int]]) -> tuple[Advanced, ...]:
        return super().advance(asked[::-1])[::-1]


@caught_by("advance: with an unknown run among them none moves")
class JudgesUntilOneIsUnknown(Damaged):
    """Moves those that come before one that is not there."""

    def advance(self, asked: Sequence[tuple[int, int]]) -> tuple[Advanced, ...]:
        return tuple(self._advance(run, round) for run, round in asked)


@caught_by("cancel: children of what is held are published and never claimed")
class CancelsOnlyWhatIsQueued(Damaged):
    """Sweeps what is there, once, and lets the run go on."""

    def cancel(self, run: int, task: int | None = None, **rest: Any) -> Settled:
        row = self._tables.runs[run]
        if task is not None or row.state.is_end:
            return super().cancel(run, task, **rest)
        runs.sweep(self._tables, row, [r for r in runs.live(self._tables, run) if r.owner is None], self.now())
        return Settled.REQUESTED


@caught_by("cancel: its holder may have finished it already")
class CancelsWhatIsHeld(Damaged):
    """Ends a held task although its holder may end it too."""

    def cancel(self, run: int, task: int | None = None, **rest: Any) -> Settled:
        answer = super().cancel(run, task, **rest)
        if task is not None and answer is Settled.REQUESTED:
            self._tables.new_commit(0, 0, self.now())
            self._tables.write_event(task, Status.CANCELLED, None)
        return answer


@caught_by("cancel: descendants that are created later are never started", "cancel: the mark of a subtree is durable")
class CancelsASnapshot(Damaged):
    """Cancels the descendants that exist, and knows nothing of those to come."""

    def cancel(self, run: int, task: int | None = None, **rest: Any) -> Settled:
        return super().cancel(run, task, **{**rest, "below": False})


@caught_by("cancel: a sweep frees keys")
class SweepsAndKeepsTheKeys(Damaged):
    """Ends tasks by sweep and leaves their keys taken."""

    def cancel(self, run: int, task: int | None = None, **rest: Any) -> Settled:
        held = dict(self._tables.keys)
        answer = super().cancel(run, task, **rest)
        self._tables.keys.update(held)
        return answer


@caught_by("cancel: what is put back while draining is swept", "cancel: what the dead held while draining is swept")
class SweepsOnce(Damaged):
    """Sweeps when a run is cancelled and never again."""

    def _advance(self, run: int, round: int) -> Advanced:
        row = self._tables.runs[run]
        return Advanced(row.state, row.round) if row.state is RunState.DRAINING else super()._advance(run, round)


@caught_by("pause: no claim is granted until resume")
class PauseIsAWord(Damaged):
    """Says "paused" and gives out work all the same."""

    def pause(self, run: int, said: Said = UNSAID) -> RunState:
        answer = super().pause(run, said)
        for row in self.rows(SegmentState.GATED):
            row.state = SegmentState.READY
        return answer


@caught_by("pause: what is held goes on and its children wait", "pause: what is put back waits")
class PausesOnlyWhatIsThere(Damaged):
    """Hides the rows of the moment and lets later ones through."""

    def pause(self, run: int, said: Said = UNSAID) -> RunState:
        super().pause(run, said)
        self._tables.runs[run].state = RunState.OPEN
        return RunState.PAUSED


@caught_by("pause: no claim is granted until resume", "pause: what is put back waits")
class ResumesInName(Damaged):
    """Resumes the run and leaves its rows behind the gate."""

    def resume(self, run: int, said: Said = UNSAID) -> RunState:
        row = self._tables.runs[run]
        row.state = RunState.OPEN if row.state is RunState.PAUSED else row.state
        return row.state


# lives and care


class Reopening(Damaged):
    """A reopen that goes on after it was done."""

    def reopen(self, stamp: Stamp, run: int, tasks: Sequence[int], **rest: Any) -> Reopened:
        answer = super().reopen(stamp, run, tasks, **rest)
        self.after(run, answer)
        return answer

    def after(self, run: int, answer: Reopened) -> None:
        """What is done afterwards."""


@caught_by("reopen: reopened tasks go to a later round")
class ReopensIntoASealedRound(Reopening):
    """Puts the new life where the old one was."""

    def after(self, run: int, answer: Reopened) -> None:
        for row in self.rows(SegmentState.GATED):
            row.round, row.state = 0, SegmentState.READY


@caught_by("reopen: an ended run opens again and ends again")
class LosesReopenedTasks(Reopening):
    """Takes the end of an earlier life for the end of this one."""

    def after(self, run: int, answer: Reopened) -> None:
        for row in self.rows(SegmentState.GATED, SegmentState.READY):
            if any(row.covers(task) for task in answer.tasks):
                self._tables.drop_segment(row)


@caught_by("reopen: counters move with a life")
class CountersStay(Damaged):
    """Leaves the counter of the old end where it was."""

    def reopen(self, stamp: Stamp, run: int, tasks: Sequence[int], **rest: Any) -> Reopened:
        before = dict(self._tables.counters)
        answer = super().reopen(stamp, run, tasks, **rest)
        self._tables.counters.update(before)
        return answer


@caught_by("reopen: a task whose key was taken since stays closed")
class TwoHoldersOfAKey(Damaged):
    """Reopens a task although another one holds its key by now."""

    def reopen(self, stamp: Stamp, run: int, tasks: Sequence[int], **rest: Any) -> Reopened:
        self._tables.keys.clear()
        return super().reopen(stamp, run, tasks, **rest)


@caught_by("reopen: a join that has not fired forgets a reopened member")
class JoinsRemember(Damaged):
    """Leaves the arrival of a reopened member where it is."""

    def reopen(self, stamp: Stamp, run: int, tasks: Sequence[int], **rest: Any) -> Reopened:
        hidden, self._tables.joins = self._tables.joins, {}
        answer = super().reopen(stamp, run, tasks, **rest)
        self._tables.joins = hidden
        return answer


@caught_by("reopen: a settled task is marked to end as told")
class SettlesNothing(Reopening):
    """Reopens a task to be settled and forgets to mark it."""

    def after(self, run: int, answer: Reopened) -> None:
        marks = self._tables.marks[run]
        marks[:] = [mark for mark in marks if mark.scope is not Scope.TASK]


@caught_by("reopen: a cancelled run stays so until nothing of it is cancelled")
class ForgetsThatItWasCancelled(Reopening):
    """Lets a run that opens again begin with a clean record."""

    def after(self, run: int, answer: Reopened) -> None:
        self._tables.runs[run].into = RunState.DONE


@caught_by("reopen: a task cancelled by itself does not make its run a cancelled one")
class AnyCancelledTaskCancelsItsRun(Damaged):
    """Takes every run with a cancelled task for a cancelled one."""

    def _advance(self, run: int, round: int) -> Advanced:
        self._tables.runs[run].into = RunState.CANCELLED
        return super()._advance(run, round)


@caught_by("vacuum: the rows of a live stream stay")
class VacuumsLiveStreams(Damaged):
    """Takes staged rows for garbage."""

    def vacuum(self, limit: int = 65_536, *, spare: float = 0.0) -> Vacuumed:
        for row in self.rows(SegmentState.STAGED):
            adding.discard(row)
        return super().vacuum(limit, spare=spare)


@caught_by("vacuum: garbage is removed")
class VacuumsNothing(Damaged):
    """Leaves everything where it is."""

    def vacuum(self, limit: int = 65_536, *, spare: float = 0.0) -> Vacuumed:
        return Vacuumed()


@caught_by("vacuum: the session of the dead outlives it by a day")
class ForgetsTheDead(Damaged):
    """Removes sessions as soon as they have ended."""

    def vacuum(self, limit: int = 65_536, *, spare: float = 0.0) -> Vacuumed:
        gone = [number for number, session in self._tables.sessions.items() if session.gone_at is not None]
        for number in gone:
            del self._tables.sessions[number]
        return replace(super().vacuum(limit, spare=spare), sessions=len(gone))
