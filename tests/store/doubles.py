"""Broken doubles of the reference store: each breaks one promise, and names the cases that must notice.

A conformance suite that has never failed proves nothing. `caught_by` files a double with the cases that catch it;
`test_doubles.py` runs exactly those. This file holds the registry and the doubles of processes and adding; the files
beside it hold those of claim and commit (`doubles_working.py`), of processes with nothing to do (`doubles_idle.py`), of
stage, release and joins (`doubles_joins.py`), of runs, lives and vacuum (`doubles_runs.py`), of the bounds of runs
(`doubles_bounds.py`), of what people decide (`doubles_people.py`), of forgetting (`doubles_forget.py`), of reads
(`doubles_reads.py`), of reads of live work (`doubles_live.py`), and of totals (`doubles_totals.py`).

The doubles reach into the reference store. They are as small as they can be, and they know nothing of other stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

import msgspec

from ramify.model.addition import Addition
from ramify.model.claim import Want
from ramify.model.commit import Committed, Part
from ramify.model.death import Death
from ramify.model.event import Status
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.key import Hold
from ramify.model.process import NewProcess, Reap, Stamp
from ramify.model.run import NewRun, RunState, Started
from ramify.model.segment import SegmentState
from ramify.model.task import Appended, NewTasks
from ramify.store.clock import StoreTime
from ramify.store.contract import Beat
from ramify.store.description import Description
from ramify.store.memory import MemoryStore
from ramify.store.memory import processes as graves
from ramify.store.memory.tables import MemorySegment

DOUBLES: dict[type[MemoryStore], tuple[str, ...]] = {}
Double = TypeVar("Double", bound=type[MemoryStore])


def caught_by(*cases: str) -> Callable[[Double], Double]:
    """File a double under the cases, as "verb: sentence", that must fail on it."""

    def file(double: Double) -> Double:
        DOUBLES[double] = cases
        return double

    return file


class Damaged(MemoryStore):
    """What the doubles share: a look at the rows, and a way to bend them for the length of one verb."""

    def rows(self, *states: SegmentState) -> list[MemorySegment]:
        """The rows in these states; all of them when none is named."""
        return [row for row in self._tables.segments.values() if not states or row.state in states]

    @contextmanager
    def bent(self, rows: list[MemorySegment], name: str, value: object) -> Iterator[None]:
        """Give a field of these rows another value, and put it right again afterwards."""
        before = [(row, getattr(row, name)) for row in rows]
        for row in rows:
            setattr(row, name, value)
        yield
        for row, old in before:
            setattr(row, name, old)


# time and processes


@caught_by("now: now is the clock the store was given")
class StoppedClock(Damaged):
    """Reads the clock once, when it is opened."""

    def now(self) -> int:
        self._once = getattr(self, "_once", self._clock.now())
        return self._once


@caught_by(
    "now: now goes on when the wall clock is set back",
    "now: now follows a wall clock that is ahead",
    "now: a wall clock that was set back holds up nothing",
    "now: a client begins no earlier than what is written down",
)
class WallClock(Damaged):
    """Believes the wall clock, also when it is set back."""

    def now(self) -> int:
        return self._clock.now()


@caught_by("now: now follows a wall clock that is ahead")
class SleepsWithTheMachine(Damaged):
    """Counts from when it was opened, and does not notice that the machine slept."""

    def now(self) -> int:
        self._opened = getattr(self, "_opened", self._clock.now() - self._clock.monotonic())
        return self._opened + self._clock.monotonic()


@caught_by("now: a client begins no earlier than what is written down")
class BeginsAgain(Damaged):
    """Forgets at each opening what time it was."""

    def now(self) -> int:
        self._own = getattr(self, "_own", None) or StoreTime(self._clock)
        return self._own.now()


@caught_by("wait: wait does nothing but wait")
class WaitGivesUp(Damaged):
    """Puts claims back while it waits."""

    def wait(self, seconds: float, seen: int) -> int:
        for row in self.rows(SegmentState.CLAIMED):
            row.state, row.owner = SegmentState.READY, None
        return super().wait(seconds, seen)


@caught_by("id: every client sees the id that the store was created with")
class IdOfTheClient(Damaged):
    """Chooses an id for each client."""

    @cached_property
    def id(self) -> str:
        return token_hex(8)


@caught_by("describe: a store says what it is and what it keeps")
class SaysNothing(Damaged):
    """Does not say what it keeps."""

    def describe(self) -> Description:
        return Description("memory", "here", "", "")


@caught_by("describe: what a store says it can do is so")
class SaysItIsAFile(Damaged):
    """Says that it can do what it cannot."""

    def describe(self) -> Description:
        return msgspec.structs.replace(super().describe(), file="nowhere.db", sql=True)


@caught_by("close: a closed client leaves its claims with its process")
class CloseLeaves(Damaged):
    """Closing a client ends the session of its process."""

    def enter(self, process: NewProcess) -> Beat:
        self._mine = process.id
        return super().enter(process)

    def close(self) -> None:
        if hasattr(self, "_mine"):
            self.leave(self._mine)


@caught_by("enter: a process that entered is listed with what it said")
class EntersNameless(Damaged):
    """Forgets what a process says about itself."""

    def enter(self, process: NewProcess) -> Beat:
        return super().enter(NewProcess(process.id))


@caught_by("enter: to enter is the first beat and tells of the peers")
class EntersAlone(Damaged):
    """Does not count the others for who enters."""

    def enter(self, process: NewProcess) -> Beat:
        return msgspec.structs.replace(super().enter(process), peers=1)


@caught_by("beat: a parent may beat for a process that says nothing")
class HearsOnlyItsOwn(Damaged):
    """Takes no beat from a client through which the process did not enter."""

    def enter(self, process: NewProcess) -> Beat:
        self.own = {*getattr(self, "own", ()), process.id}
        return super().enter(process)

    def beat(self, process: int) -> Beat:
        told = list(self._tables.sessions[process].beats)
        answer = super().beat(process)
        if process not in getattr(self, "own", ()):
            self._tables.sessions[process].beats.clear()
            self._tables.sessions[process].beats.extend(told)
        return answer


@caught_by("leave: what a leaver holds is offered again without blame")
class LeavesWithItsClaims(Damaged):
    """Ends the session and leaves the claims with the dead."""

    def leave(self, process: int) -> None:
        self._tables.sessions[process].gone_at = self.now()


@caught_by("leave: what a leaver holds is offered again without blame")
class BlamesLeavers(Damaged):
    """Takes a leaver for a crash."""

    def leave(self, process: int) -> None:
        held = {task: 5 for row in self._tables.held_by(process) for task in range(row.first, row.last + 1)}
        graves.bury(self._tables, process, self.now(), Death(held, evidence=True))


@caught_by("leave: the stamps of a leaver are refused")
class LeaversStay(Damaged):
    """Still accepts the stamps of a process that has left."""

    def leave(self, process: int) -> None:
        super().leave(process)
        self._tables.sessions[process].gone_at = None


@caught_by("bury: nobody is marked for a death that is nobodys fault")
class BlamesKills(Damaged):
    """Takes every death for evidence."""

    def bury(self, process: int, death: Death) -> int:
        return super().bury(process, msgspec.structs.replace(death, evidence=True))


@caught_by(
    "bury: with evidence what ran is told from what was held", "bury: what ran twice comes back in parts that run apart"
)
class IgnoresEvidence(Damaged):
    """Takes no death for evidence."""

    def bury(self, process: int, death: Death) -> int:
        return super().bury(process, msgspec.structs.replace(death, evidence=False))


@caught_by("bury: without evidence only what ran counts", "bury: with evidence what ran is told from what was held")
class BlamesAllThatWasHeld(Damaged):
    """Takes everything that was held for running."""

    def bury(self, process: int, death: Death) -> int:
        held = {task: 5 for row in self._tables.held_by(process) for task in range(row.first, row.last + 1)}
        return super().bury(process, msgspec.structs.replace(death, ran=held))


@caught_by("bury: a late task is marked for its next claim")
class ForgetsWhoWasLate(Damaged):
    """Offers a task that ran out of time as if nothing had happened."""

    def bury(self, process: int, death: Death) -> int:
        return super().bury(process, msgspec.structs.replace(death, late=frozenset()))


@caught_by("bury: the mark of a late task is gone once its event is written")
class LateForEver(Damaged):
    """Keeps the mark of a task that ran out of time."""

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        kept = {run: list(marks) for run, marks in self._tables.marks.items()}
        answer = super().commit(stamp, parts, then_claim)
        self._tables.marks.update(kept)
        return answer


@caught_by("bury: burying twice is burying once")
class BuriesAgain(Damaged):
    """Buries whoever it is told to."""

    def bury(self, process: int, death: Death) -> int:
        self._tables.sessions[process].gone_at = None
        super().bury(process, death)
        return 1


@caught_by("bury: what ran twice comes back in parts that run apart")
class OffersInOnePart(Damaged):
    """Offers suspects together with everybody else."""

    def bury(self, process: int, death: Death) -> int:
        tasks = super().bury(process, death)
        for row in self.rows(SegmentState.READY):
            row.deaths = msgspec.structs.replace(row.deaths, apart=False)
        return tasks


@caught_by("records: records have a folder of their own or none are kept")
class NamesNoFolder(Damaged):
    """Lets processes leave their records where there is no room for them."""

    @property
    def records(self) -> Any:
        return Path("nowhere")


@caught_by("beat: a beat does not bring the dead back")
class BeatRevives(Damaged):
    """Lets a process that was reaped go on."""

    def beat(self, process: int) -> Beat:
        self._tables.sessions[process].gone_at = None
        return super().beat(process)


@caught_by(
    "beat: marks on runs that are not held are not told",
    "cancel: those who hold are told by their next beat",
    "cancel: a held task gets a mark that its holder hears of",
)
class BeatTellsNothing(Damaged):
    """Keeps the marks to itself."""

    def beat(self, process: int) -> Beat:
        return Beat(super().beat(process).reaped)


@caught_by("reap: who was silent itself buries nobody", "reap: a newcomer buries nobody")
class ReapsAfterAnOutage(Damaged):
    """Reaps on the strength of the others' silence alone."""

    def reap(self, process: int, dead_after: float) -> Reap:
        now = self._clock.monotonic()
        beats = self._tables.sessions[process].beats
        beats.clear()
        beats.extend(range(now - int(2e6 * dead_after), now + 1, 1_000_000))
        return super().reap(process, dead_after)


@caught_by("reap: who is silent for less than dead after is not buried")
class ReapsTooSoon(Damaged):
    """Has no patience."""

    def reap(self, process: int, dead_after: float) -> Reap:
        return super().reap(process, dead_after / 2)


@caught_by("reap: what the dead had finished is not offered again", "joins: the members of a dead worker arrive once")
class ReapsTheWholeRange(Damaged):
    """Offers everything that was claimed, finished or not."""

    def reap(self, process: int, dead_after: float) -> Reap:
        for row in self.rows(SegmentState.CLAIMED):
            row.left = None
        return super().reap(process, dead_after)


@caught_by("reap: the work of the dead is offered again")
class BuriesWorkWithTheDead(Damaged):
    """Marks the process and leaves its claims: nobody will ever look again."""

    def reap(self, process: int, dead_after: float) -> Reap:
        held, self._tables.tokens = self._tables.tokens, {}
        answer = super().reap(process, dead_after)
        self._tables.tokens = held
        return answer


@caught_by("reap: it writes no ends")
class ReaperQuarantines(Damaged):
    """Ends the tasks of the dead by itself."""

    def reap(self, process: int, dead_after: float) -> Reap:
        answer = super().reap(process, dead_after)
        found = self.rows(SegmentState.READY) if answer.processes else []
        if found:
            self._tables.new_commit(process, 0, self.now())
        for row in found:
            self._tables.write_event(row.first, Status.QUARANTINED, None)
        return answer


# adding


@caught_by("reserve: blocks never overlap")
class ReusesIds(Damaged):
    """Hands out the last id of each block twice."""

    def reserve(self, count: int) -> int:
        first = super().reserve(count)
        self._tables.next_id -= 1 if count > 1 else 0
        return first


@caught_by("start: started again by name it is the same run and nothing changes")
class StartsTwice(Damaged):
    """Does not look at names."""

    def start(
        self,
        run: NewRun,
        tasks: Sequence[NewTasks] = (),
        joins: Sequence[NewJoins] = (),
        waiters: Sequence[NewWaiters] = (),
    ) -> Started:
        self._tables.names.clear()
        return super().start(run, tasks, joins, waiters)


@caught_by("start: a follower starts with nothing open")
class OpensFollowers(Damaged):
    """Opens the first round of a follower."""

    def start(
        self,
        run: NewRun,
        tasks: Sequence[NewTasks] = (),
        joins: Sequence[NewJoins] = (),
        waiters: Sequence[NewWaiters] = (),
    ) -> Started:
        return super().start(msgspec.structs.replace(run, follows=None), tasks, joins, waiters)


@caught_by("start: a first task whose key is taken is dropped and answered with its holder")
class ForgetsTheHolder(Damaged):
    """Drops a root whose key is taken without a word."""

    def start(
        self,
        run: NewRun,
        tasks: Sequence[NewTasks] = (),
        joins: Sequence[NewJoins] = (),
        waiters: Sequence[NewWaiters] = (),
    ) -> Started:
        return msgspec.structs.replace(super().start(run, tasks, joins, waiters), added=Appended())


class Appending(Damaged):
    """An append that goes wrong in the first group."""

    def append(self, additions: Sequence[Addition]) -> Sequence[Appended]:
        return super().append([self._bent(each) for each in additions])

    def _bent(self, new: Addition) -> Addition:
        return msgspec.structs.replace(new, tasks=[self.bend(new.run, group) for group in new.tasks])

    def bend(self, run: int, group: NewTasks) -> NewTasks:
        """What is appended instead."""
        return group


@caught_by(
    "append: appended again after its tasks ended it still answers already",
    "append: appended again after its run ended it still answers already",
)
class AppendsTwice(Appending):
    """Takes an append that is sent again for a new one."""

    def bend(self, run: int, group: NewTasks) -> NewTasks:
        known = self._tables.span_of(group.first) is not None
        return msgspec.structs.replace(group, first=self.reserve(len(group.bodies))) if known else group


@caught_by("append: when one run takes nothing no other does")
class AppendsOneByOne(Damaged):
    """Has written the first of several additions when it comes to one that it refuses."""

    def append(self, additions: Sequence[Addition]) -> Sequence[Appended]:
        return [super(AppendsOneByOne, self).append([each])[0] for each in additions]


@caught_by("append: an ended run refuses tasks")
class EndedRunsTakeTasks(Appending):
    """Lets an ended run grow."""

    def bend(self, run: int, group: NewTasks) -> NewTasks:
        self._tables.runs[run].state = RunState.OPEN
        return group


@caught_by(
    "append: in a run with rounds tasks go to the round after the present one", "append: an open round never grows"
)
class GrowsOpenRounds(Appending):
    """Appends to the round that is open."""

    def append(self, additions: Sequence[Addition]) -> Sequence[Appended]:
        for each in additions:
            self._tables.runs[each.run].round -= 1
        answers = super().append(additions)
        for each in additions:
            self._tables.runs[each.run].round += 1
        return answers


@caught_by(
    "append: a taken key drops its task and answers with the holder", "keys: once is for ever within its run and kind"
)
class KeysAreLabels(Appending):
    """Does not hold keys for anybody."""

    def bend(self, run: int, group: NewTasks) -> NewTasks:
        return msgspec.structs.replace(group, hold=Hold.LABEL)


@caught_by("append: a row of something else is not extended")
class ExtendsWhateverIsThere(Appending):
    """Gives a single task the priority of the row before it, to be able to extend that."""

    def bend(self, run: int, group: NewTasks) -> NewTasks:
        before = self._tables.span_of(group.first - 1)
        return group if before is None else msgspec.structs.replace(group, priority=before.priority)


@caught_by("append: a claimed row is not extended")
class ExtendsClaimedRows(Appending):
    """Adds tasks to a row that somebody holds."""

    def append(self, additions: Sequence[Addition]) -> Sequence[Appended]:
        with self.bent(self.rows(SegmentState.CLAIMED), "state", SegmentState.READY):
            return super().append(additions)


@caught_by("append: five hundred single appends make one row")
class NeverExtends(Appending):
    """Adds a row for every single task."""

    def append(self, additions: Sequence[Addition]) -> Sequence[Appended]:
        with self.bent(self.rows(), "attempt", 1):
            return super().append(additions)
