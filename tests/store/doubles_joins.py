"""Broken doubles of stage, release and joins. See `doubles.py` for what a double is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from ramify.model.addition import Addition
from ramify.model.arrivals import Arrivals
from ramify.model.claim import Want
from ramify.model.commit import Committed, Part
from ramify.model.death import Deaths
from ramify.model.event import Status, fold
from ramify.model.join import NewJoins, NewWaiters, Rule
from ramify.model.process import Stamp
from ramify.model.run import Advanced, NewRun, Started
from ramify.model.segment import SegmentState
from ramify.model.task import Appended, NewTasks
from ramify.store.memory import adding, joins
from tests.store.doubles import Damaged, caught_by
from tests.store.doubles_working import Committing

replace = msgspec.structs.replace


@caught_by("stage: staged tasks are invisible")
class StagesInTheOpen(Damaged):
    """Shows what is only staged."""

    def stage(self, stamp: Stamp, token: bytes, tasks: Sequence[NewTasks]) -> bool:
        answer = super().stage(stamp, token, tasks)
        for row in self.rows(SegmentState.STAGED):
            row.span.published = True
        return answer


@caught_by("stage: a void token stages nothing")
class StagesUnguarded(Damaged):
    """Writes rows under a token that is void: nobody will ever list them."""

    def stage(self, stamp: Stamp, token: bytes, tasks: Sequence[NewTasks]) -> bool:
        held = super().stage(stamp, token, tasks)
        if not held:
            adding.stage(self._tables, next(iter(self._tables.runs.values())), tasks[0], self.rows()[0])
        return held


@caught_by("stage: staged again with the same stamp it is staged once")
class StagesTwice(Damaged):
    """Takes a stage that is sent again for a new one."""

    def stage(self, stamp: Stamp, token: bytes, tasks: Sequence[NewTasks]) -> bool:
        session = self._tables.sessions[stamp.process]
        if session.last == stamp.n:
            session.last -= 1
            tasks = [replace(group, first=self.reserve(len(group.bodies) + 1) + 1) for group in tasks]
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
        before = dict(self._tables.counters)
        answer = super().commit(stamp, parts, then_claim)
        if any(part.publish for part in parts):
            self._tables.counters.update({key: before.get(key, 0) for key in self._tables.counters if not key[3]})
        return answer


@caught_by("release: it is neither a failure nor a crash")
class ReleaseIsACrash(Damaged):
    """Counts a release as a death."""

    def release(self, stamp: Stamp, token: bytes) -> bool:
        row = self._tables.tokens.get(token)
        if row is not None:
            row.deaths = Deaths(ran=1)
        return super().release(stamp, token)


@caught_by("release: a row of several lanes comes apart")
class KeepsLanesTogether(Damaged):
    """Puts a row of several lanes back as it is, so that no lane of it can be left alone."""

    def release(self, stamp: Stamp, token: bytes) -> bool:
        row = self._tables.tokens.get(token)
        if row is None:
            return super().release(stamp, token)
        lanes, row.span.lanes = row.span.lanes, None
        answer = super().release(stamp, token)
        row.span.lanes = lanes
        return answer


@caught_by("release: what was not finished is offered again")
class ReleasesTheWholeRange(Damaged):
    """Offers what was finished again."""

    def release(self, stamp: Stamp, token: bytes) -> bool:
        row = self._tables.tokens.get(token)
        if row is not None:
            row.left = None
        return super().release(stamp, token)


@caught_by("release: a void token puts nothing back")
class ReleasesForOthers(Damaged):
    """Puts back what another process holds."""

    def release(self, stamp: Stamp, token: bytes) -> bool:
        if (row := self._tables.tokens.get(token)) is not None:
            row.owner = stamp.process
        return super().release(stamp, token)


@caught_by("cancel: a marked task that is put back is never started")
class ForgetsMarks(Damaged):
    """Forgets the mark on a task when it is put back."""

    def release(self, stamp: Stamp, token: bytes) -> bool:
        self._tables.marks.clear()
        return super().release(stamp, token)


# joins


@caught_by("joins: the task of a join is offered when the last member has ended")
class ForgetsToArrive(Damaged):
    """Writes ends without their arrivals."""

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        joined = [(span, span.join) for span in self._tables.spans.values()]
        for span, _ in joined:
            span.join = None
        answer = super().commit(stamp, parts, then_claim)
        for span, join in joined:
            span.join = join
        return answer


@caught_by("joins: a join that needs nobody fires at once")
class EmptyJoinsHang(Damaged):
    """Waits for somebody to arrive at a join that needs nobody."""

    def start(
        self,
        run: NewRun,
        tasks: Sequence[NewTasks] = (),
        joins: Sequence[NewJoins] = (),
        waiters: Sequence[NewWaiters] = (),
    ) -> Started:
        return super().start(run, tasks, [replace(each, needs=[max(1, n) for n in each.needs]) for each in joins])


@caught_by("joins: its claim says how many members there were and how many broke")
class NothingEverBreaks(Committing):
    """Forgets which members did not end as done."""

    def after(self, stamp: Stamp, parts: Sequence[Part], answer: Committed) -> None:
        for join in self._tables.joins.values():
            for bits in join.parts.values():
                bits.failed = bits.skipped = bits.cancelled = 0


@caught_by("joins: a task that has already ended arrives at once")
class WaitsForTheEnded(Damaged):
    """Waits for the end of a task that is long over."""

    def append(self, additions: Sequence[Addition]) -> Sequence[Appended]:
        return super().append([msgspec.structs.replace(each, waiters=self._alive(each)) for each in additions])

    def _alive(self, new: Addition) -> list[NewWaiters]:
        return [some for some in new.waiters if fold(self._tables.events.get(some.tasks[0], ())).ended is None]


@caught_by("joins: a member that lives again arrives once")
class CountsArrivals(Committing):
    """Counts arrivals instead of remembering them: a second end stands in for another member's first."""

    def after(self, stamp: Stamp, parts: Sequence[Part], answer: Committed) -> None:
        again = [task for part in parts for task in part.tasks if fold(self._tables.events.get(task, ())).life > 1]
        arrivals = [(join, slot, Status.DONE) for join in self._tables.joins for slot in range(2) if again]
        joins.arrive(self._tables, [Arrivals(0, 0, arrivals)], {}, 0)


@caught_by("joins: a join of several parts fires with its last member")
class AFullPartIsEnough(Committing):
    """Fires a join as soon as one of its parts is full."""

    def after(self, stamp: Stamp, parts: Sequence[Part], answer: Committed) -> None:
        for join in self._tables.joins.values():
            if join.full and not join.fired:
                join.total = join.full
                joins.arrive(self._tables, [], {join.id: (0, 0)}, 0)


@caught_by(
    "joins: a delay counts from when its join fires",
    "joins: tasks of one row are delayed one by one",
    "joins: a parked task of a join waits for somebody to settle it",
    "joins: a join that was set back delays its task again",
)
class ForgetsDelays(Committing):
    """Offers the task of a join as soon as that fires."""

    def after(self, stamp: Stamp, parts: Sequence[Part], answer: Committed) -> None:
        for row in self._tables.segments.values():
            if row.state is SegmentState.READY:
                row.due = None


@caught_by("joins: what a failure kept from running arrives as cancelled")
class ForgetsWhyItWasSkipped(Committing):
    """Lets what a failure kept from running arrive like something that had nothing to do."""

    def after(self, stamp: Stamp, parts: Sequence[Part], answer: Committed) -> None:
        for join in self._tables.joins.values():
            for bits in join.parts.values():
                bits.skipped, bits.cancelled = bits.skipped | bits.cancelled, 0


@caught_by("keys: a dropped child that a join counts arrives when the holder ends")
class DuplicatesArriveAtOnce(Committing):
    """Counts a duplicate as arrived although the other task has not ended."""

    def after(self, stamp: Stamp, parts: Sequence[Part], answer: Committed) -> None:
        arrivals = [(join, slot, Status.DONE) for pairs in self._tables.waiters.values() for join, slot in pairs]
        joins.arrive(self._tables, [Arrivals(0, 0, arrivals)], {}, 0)


@caught_by("commit: an heir arrives wherever its task was waited for")
class ForgetsHeirs(Committing):
    """Lets a task arrive although another was to arrive in its stead."""

    def bend(self, part: Part) -> Part:
        return replace(part, heirs={})


@caught_by("claim: the rule of a join goes along with its task")
class ForgetsRules(Damaged):
    """Skips every continuation whose members did not all end well."""

    def start(
        self,
        run: NewRun,
        tasks: Sequence[NewTasks] = (),
        joins: Sequence[NewJoins] = (),
        waiters: Sequence[NewWaiters] = (),
    ) -> Started:
        return super().start(run, tasks, [replace(each, rule=Rule.ALL_DONE) for each in joins], waiters)


@caught_by("start: tasks that wait for others start when those have ended")
class StartsWithoutWaiters(Damaged):
    """Starts a run without the links between its tasks."""

    def start(
        self,
        run: NewRun,
        tasks: Sequence[NewTasks] = (),
        joins: Sequence[NewJoins] = (),
        waiters: Sequence[NewWaiters] = (),
    ) -> Started:
        return super().start(run, tasks, joins)


@caught_by("start: starting with nothing ready does not end the run")
class JudgesTooSoon(Damaged):
    """Takes a run that waits for another one for one that is stalled."""

    def _advance(self, run: int, round: int) -> Advanced:
        linked, self._tables.linked = self._tables.linked, defaultdict(dict)
        try:
            return super()._advance(run, round)
        finally:
            self._tables.linked = linked
