"""Broken doubles of stage, release, joins, runs, lives and vacuum. See `doubles.py` for what a double is."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ramify.model.claim import Claimed, Want
from ramify.model.commit import Committed, Part
from ramify.model.event import Status, fold
from ramify.model.join import NewJoin, NewWaiter
from ramify.model.mark import CancelAnswer, Mark, Scope
from ramify.model.process import Stamp
from ramify.model.run import Advanced, NewRun, RunState, Started
from ramify.model.segment import SegmentState
from ramify.model.task import Appended, NewTasks
from ramify.store.contract import Reopened, Vacuumed
from ramify.store.memory import adding, joins, runs
from tests.store.doubles import Damaged, caught_by
from tests.store.doubles_working import Committing

replace = msgspec.structs.replace


# stage and release


@caught_by("stage: staged tasks are invisible")
class StagesInTheOpen(Damaged):
    """Shows what is only staged."""

    def stage(self, stamp: Stamp, token: bytes, tasks: NewTasks) -> bool:
        answer = super().stage(stamp, token, tasks)
        for row in self.rows(SegmentState.STAGED):
            row.span.published = True
        return answer


@caught_by("stage: a void token stages nothing")
class StagesUnguarded(Damaged):
    """Writes rows under a token that is void: nobody will ever list them."""

    def stage(self, stamp: Stamp, token: bytes, tasks: NewTasks) -> bool:
        held = super().stage(stamp, token, tasks)
        if not held:
            adding.stage(self._place, next(iter(self._place.runs.values())), tasks, self.rows()[0])
        return held


@caught_by("stage: staged again with the same stamp it is staged once")
class StagesTwice(Damaged):
    """Takes a stage that is sent again for a new one."""

    def stage(self, stamp: Stamp, token: bytes, tasks: NewTasks) -> bool:
        session = self._place.sessions[stamp.process]
        if session.last == stamp.n:
            session.last -= 1
            tasks = replace(tasks, first=self.reserve(len(tasks.bodies) + 1) + 1)
        return super().stage(stamp, token, tasks)


@caught_by(
    "stage: what a finished claim did not publish becomes garbage", "stage: a release turns staged rows to garbage"
)
class ForgetsWhatWasStaged(Committing):
    """Leaves staged rows behind that nobody can publish or remove."""

    def after(self, stamp: Stamp, parts: Sequence[Part], answer: Committed) -> None:
        self._abandon()

    def release(self, stamp: Stamp, token: bytes) -> bool:
        answer = super().release(stamp, token)
        self._abandon()
        return answer

    def _abandon(self) -> None:
        for row in self.rows(SegmentState.GARBAGE):
            row.state = SegmentState.STAGED


@caught_by("stage: published they are children like others")
class PublishesWithoutCounting(Damaged):
    """Lets the counters stay behind when staged rows are published."""

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        before = dict(self._place.counters)
        answer = super().commit(stamp, parts, then_claim)
        if any(part.publish for part in parts):
            self._place.counters.update({key: before.get(key, 0) for key in self._place.counters if not key[2]})
        return answer


@caught_by("release: it is neither a failure nor a crash")
class ReleaseIsACrash(Damaged):
    """Counts a release as a death."""

    def release(self, stamp: Stamp, token: bytes) -> bool:
        row = self._place.tokens.get(token)
        if row is not None:
            row.crashes += 1
        return super().release(stamp, token)


@caught_by("release: what was not finished is offered again")
class ReleasesTheWholeRange(Damaged):
    """Offers what was finished again."""

    def release(self, stamp: Stamp, token: bytes) -> bool:
        row = self._place.tokens.get(token)
        if row is not None:
            row.left = None
        return super().release(stamp, token)


@caught_by("release: a void token puts nothing back")
class ReleasesForOthers(Damaged):
    """Puts back what another process holds."""

    def release(self, stamp: Stamp, token: bytes) -> bool:
        if (row := self._place.tokens.get(token)) is not None:
            row.owner = stamp.process
        return super().release(stamp, token)


@caught_by("cancel: a marked task that is put back is never started")
class ForgetsMarks(Damaged):
    """Forgets the mark on a task when it is put back."""

    def release(self, stamp: Stamp, token: bytes) -> bool:
        self._place.marks.clear()
        return super().release(stamp, token)


# joins


@caught_by("joins: the task of a join is offered when the last member has ended")
class ForgetsToArrive(Committing):
    """Writes ends without their arrivals."""

    def bend(self, part: Part) -> Part:
        return replace(part, withheld=frozenset(part.tasks))


@caught_by("joins: a join that needs nobody fires at once")
class EmptyJoinsHang(Damaged):
    """Waits for somebody to arrive at a join that needs nobody."""

    def start(self, run: NewRun, tasks: Sequence[NewTasks] = (), joins: Sequence[NewJoin] = ()) -> Started:
        return super().start(run, tasks, [replace(join, needs=max(1, join.needs)) for join in joins])


@caught_by("joins: a member may add members with its own end")
class LateMembersAreNotWaitedFor(Committing):
    """Publishes late members without a slot, so that the join fires before them."""

    def bend(self, part: Part) -> Part:
        return replace(part, children=[replace(g, join=None, slot=0) if g.slot is None else g for g in part.children])


@caught_by("joins: its claim says how many members there were and how many broke")
class NothingEverBreaks(Committing):
    """Forgets which members did not end as done."""

    def after(self, stamp: Stamp, parts: Sequence[Part], answer: Committed) -> None:
        for join in self._place.joins.values():
            for part in join.parts:
                part.broken = 0


@caught_by("joins: a task that has already ended arrives at once")
class WaitsForTheEnded(Damaged):
    """Waits for the end of a task that is long over."""

    def append(
        self, run: int, tasks: Sequence[NewTasks], joins: Sequence[NewJoin] = (), waiters: Sequence[NewWaiter] = ()
    ) -> Appended:
        alive = [w for w in waiters if fold(self._place.events.get(w.task, ())).ended is None]
        return super().append(run, tasks, joins, alive)


@caught_by("joins: a member that lives again arrives once")
class CountsArrivals(Committing):
    """Counts arrivals instead of remembering them: a second end stands in for another member's first."""

    def after(self, stamp: Stamp, parts: Sequence[Part], answer: Committed) -> None:
        again = [task for part in parts for task in part.tasks if fold(self._place.events.get(task, ())).life > 1]
        arrivals = [(join, slot, False) for join in self._place.joins for slot in range(2) if again]
        joins.settle(self._place, arrivals, (), 0, 0, self.now())


@caught_by(
    "joins: a join of several parts fires with its last member", "joins: late members beyond a part are waited for"
)
class AFullPartIsEnough(Committing):
    """Fires a join as soon as one of its parts is full."""

    def after(self, stamp: Stamp, parts: Sequence[Part], answer: Committed) -> None:
        for join in self._place.joins.values():
            if join.full and not join.fired:
                del join.parts[1:]
                joins.settle(self._place, [(join.id, slot, False) for slot in range(8192)], (), 0, 0, self.now())
                join.fired = True


@caught_by("keys: a dropped child that a join counts arrives when the holder ends")
class DuplicatesArriveAtOnce(Committing):
    """Counts a duplicate as arrived although the other task has not ended."""

    def after(self, stamp: Stamp, parts: Sequence[Part], answer: Committed) -> None:
        arrivals = [(join, slot, False) for pairs in self._place.waiters.values() for join, slot in pairs]
        joins.settle(self._place, arrivals, (), 0, 0, self.now())


# rounds and ends


@caught_by("advance: a claimed task holds its round although nothing can be claimed")
class SealsWhenAClaimIsEmpty(Damaged):
    """Takes an empty claim for the end of a round, and of the run."""

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        answer = super().claim(stamp, want)
        if not answer.claims:
            for run in self._place.runs.values():
                run.state = RunState.DONE
        return answer


@caught_by(
    "advance: a round with live work is not over",
    "advance: a claimed task holds its round although nothing can be claimed",
)
class OverlooksClaims(Damaged):
    """Looks only at what can be claimed."""

    def advance(self, run: int, round: int) -> Advanced:
        with self.bent(self.rows(SegmentState.CLAIMED), "state", SegmentState.STAGED):
            return super().advance(run, round)


@caught_by("advance: asked for another round it only says where the run is")
class AdvancesAnyRound(Damaged):
    """Does not care which round was asked for."""

    def advance(self, run: int, round: int) -> Advanced:
        return super().advance(run, self._place.runs[run].round)


@caught_by("advance: an endless run does not end when it runs empty")
class EverythingEnds(Damaged):
    """Ends endless runs too."""

    def advance(self, run: int, round: int) -> Advanced:
        row = self._place.runs[run]
        row.new = replace(row.new, endless=False)
        return super().advance(run, round)


@caught_by(
    "advance: a run in which a task failed has failed",
    "advance: a run whose joins can never fill is stalled and says which",
)
class NothingEverFails(Damaged):
    """Calls every end a success."""

    def advance(self, run: int, round: int) -> Advanced:
        answer = super().advance(run, round)
        row = self._place.runs[run]
        row.state = RunState.DONE if row.state is RunState.FAILED else row.state
        return replace(answer, state=row.state)


@caught_by("advance: a follower opens its rounds behind its leader")
class FollowersDoNotWait(Damaged):
    """Opens a follower's round whatever its leader does."""

    def advance(self, run: int, round: int) -> Advanced:
        self._place.runs[run].new = replace(self._place.runs[run].new, follows=None)
        return super().advance(run, round)


@caught_by("cancel: children of what is held are published and never claimed")
class CancelsOnlyWhatIsQueued(Damaged):
    """Sweeps what is there, once, and lets the run go on."""

    def cancel(
        self,
        run: int,
        task: int | None = None,
        *,
        below: bool = False,
        reason: str = "",
        into: RunState = RunState.CANCELLED,
    ) -> CancelAnswer:
        row = self._place.runs[run]
        if task is not None or row.state.is_end:
            return super().cancel(run, task, below=below, reason=reason, into=into)
        runs.sweep(self._place, row, [r for r in runs.live(self._place, run) if r.owner is None], self.now())
        return CancelAnswer.REQUESTED


@caught_by("cancel: its holder may have finished it already")
class CancelsWhatIsHeld(Damaged):
    """Ends a held task although its holder may end it too."""

    def cancel(
        self,
        run: int,
        task: int | None = None,
        *,
        below: bool = False,
        reason: str = "",
        into: RunState = RunState.CANCELLED,
    ) -> CancelAnswer:
        answer = super().cancel(run, task, below=below, reason=reason, into=into)
        if task is not None and answer is CancelAnswer.REQUESTED:
            self._place.new_commit(0, 0, self.now())
            self._place.write_event(task, Status.CANCELLED, None)
        return answer


@caught_by("cancel: descendants that are created later are never started", "cancel: the mark of a subtree is durable")
class CancelsASnapshot(Damaged):
    """Cancels the descendants that exist, and knows nothing of those to come."""

    def cancel(
        self,
        run: int,
        task: int | None = None,
        *,
        below: bool = False,
        reason: str = "",
        into: RunState = RunState.CANCELLED,
    ) -> CancelAnswer:
        return super().cancel(run, task, reason=reason, into=into)


@caught_by("cancel: a sweep frees keys")
class SweepsAndKeepsTheKeys(Damaged):
    """Ends tasks by sweep and leaves their keys taken."""

    def cancel(
        self,
        run: int,
        task: int | None = None,
        *,
        below: bool = False,
        reason: str = "",
        into: RunState = RunState.CANCELLED,
    ) -> CancelAnswer:
        held = dict(self._place.keys)
        answer = super().cancel(run, task, below=below, reason=reason, into=into)
        self._place.keys.update(held)
        return answer


@caught_by("cancel: what is put back while draining is swept", "cancel: what the dead held while draining is swept")
class SweepsOnce(Damaged):
    """Sweeps when a run is cancelled and never again."""

    def advance(self, run: int, round: int) -> Advanced:
        row = self._place.runs[run]
        return Advanced(row.state, row.round) if row.state is RunState.DRAINING else super().advance(run, round)


@caught_by("pause: no claim is granted until resume")
class PauseIsAWord(Damaged):
    """Says "paused" and gives out work all the same."""

    def pause(self, run: int) -> RunState:
        answer = super().pause(run)
        for row in self.rows(SegmentState.GATED):
            row.state = SegmentState.READY
        return answer


@caught_by("pause: what is held goes on and its children wait", "pause: what is put back waits")
class PausesOnlyWhatIsThere(Damaged):
    """Hides the rows of the moment and lets later ones through."""

    def pause(self, run: int) -> RunState:
        super().pause(run)
        self._place.runs[run].state = RunState.OPEN
        return RunState.PAUSED


@caught_by("pause: no claim is granted until resume", "pause: what is put back waits")
class ResumesInName(Damaged):
    """Resumes the run and leaves its rows behind the gate."""

    def resume(self, run: int) -> RunState:
        row = self._place.runs[run]
        row.state = RunState.OPEN if row.state is RunState.PAUSED else row.state
        return row.state


# lives and care


class Reopening(Damaged):
    """A reopen that goes on after it was done."""

    def reopen(
        self, stamp: Stamp, run: int, tasks: Sequence[int], *, settle: Mark | None = None, reason: str = ""
    ) -> Reopened:
        answer = super().reopen(stamp, run, tasks, settle=settle, reason=reason)
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
                self._place.drop_segment(row)


@caught_by("reopen: counters move with a life")
class CountersStay(Damaged):
    """Leaves the counter of the old end where it was."""

    def reopen(
        self, stamp: Stamp, run: int, tasks: Sequence[int], *, settle: Mark | None = None, reason: str = ""
    ) -> Reopened:
        before = dict(self._place.counters)
        answer = super().reopen(stamp, run, tasks, settle=settle, reason=reason)
        self._place.counters.update(before)
        return answer


@caught_by("reopen: a task whose key was taken since stays closed")
class TwoHoldersOfAKey(Damaged):
    """Reopens a task although another one holds its key by now."""

    def reopen(
        self, stamp: Stamp, run: int, tasks: Sequence[int], *, settle: Mark | None = None, reason: str = ""
    ) -> Reopened:
        self._place.keys.clear()
        return super().reopen(stamp, run, tasks, settle=settle, reason=reason)


@caught_by("reopen: a join that has not fired forgets a reopened member")
class JoinsRemember(Damaged):
    """Leaves the arrival of a reopened member where it is."""

    def reopen(
        self, stamp: Stamp, run: int, tasks: Sequence[int], *, settle: Mark | None = None, reason: str = ""
    ) -> Reopened:
        hidden, self._place.joins = self._place.joins, {}
        answer = super().reopen(stamp, run, tasks, settle=settle, reason=reason)
        self._place.joins = hidden
        return answer


@caught_by("reopen: a settled task is marked to end as told")
class SettlesNothing(Reopening):
    """Reopens a task to be settled and forgets to mark it."""

    def after(self, run: int, answer: Reopened) -> None:
        marks = self._place.marks[run]
        marks[:] = [mark for mark in marks if mark.scope is not Scope.TASK]


@caught_by("vacuum: the rows of a live stream stay")
class VacuumsLiveStreams(Damaged):
    """Takes staged rows for garbage."""

    def vacuum(self, limit: int = 65_536) -> Vacuumed:
        for row in self.rows(SegmentState.STAGED):
            adding.discard(row)
        return super().vacuum(limit)


@caught_by("vacuum: garbage is removed")
class VacuumsNothing(Damaged):
    """Leaves everything where it is."""

    def vacuum(self, limit: int = 65_536) -> Vacuumed:
        return Vacuumed()


@caught_by("vacuum: the session of the dead outlives it by a day")
class ForgetsTheDead(Damaged):
    """Removes sessions as soon as they have ended."""

    def vacuum(self, limit: int = 65_536) -> Vacuumed:
        gone = [number for number, session in self._place.sessions.items() if session.gone_at is not None]
        for number in gone:
            del self._place.sessions[number]
        return replace(super().vacuum(limit), sessions=len(gone))
