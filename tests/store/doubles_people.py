"""Broken doubles of what people decide: ends by hand, and decisions that arrive late. See `doubles.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ramify.model.decision import UNSAID, Said
from ramify.model.event import Status
from ramify.model.mark import Settled
from ramify.model.process import NewProcess, Stamp
from ramify.model.reopening import Reopened
from ramify.model.run import RunState
from ramify.model.segment import SegmentState
from ramify.store.contract import Beat
from tests.store.doubles import Damaged, caught_by

replace = msgspec.structs.replace


class Settles(Damaged):
    """A settle that is bent on its way in."""

    def settle(self, run: int, task: int, status: Status, value: bytes | None = None, said: Said = UNSAID) -> Settled:
        return super().settle(run, task, status, value, self.heard(said))

    def heard(self, said: Said) -> Said:
        """What is understood of what was said."""
        return said


@caught_by("settle: who gives a result is told once")
class TellsItAgain(Damaged):
    """Forgets that a mark was told when it was left."""

    def settle(self, run: int, task: int, status: Status, value: bytes | None = None, said: Said = UNSAID) -> Settled:
        self._tables.marks.clear()
        return super().settle(run, task, status, value, said)


@caught_by("reopen: who gives a result with a new life is told when it begins")
class TellsNobodyWhoGaveIt(Damaged):
    """Marks tasks to end with a result, and keeps to itself who gave it."""

    def reopen(self, stamp: Stamp, run: int, tasks: Sequence[int], **rest: Any) -> Reopened:
        answer = super().reopen(stamp, run, tasks, **rest)
        for task in answer.tasks:
            kept = (event for event in self._tables.events[task] if event.status is not Status.DECIDED)
            self._tables.events[task] = tuple(kept)
        return answer


@caught_by("reopen: other ends that are given with a new life tell it themselves")
class TellsOfEveryEnd(Damaged):
    """Writes who and why of ends that carry it themselves."""

    def reopen(self, stamp: Stamp, run: int, tasks: Sequence[int], **rest: Any) -> Reopened:
        answer = super().reopen(stamp, run, tasks, **rest)
        for task in answer.tasks if rest.get("settle") else ():
            self._tables.write_event(task, Status.DECIDED, None)
        return answer


@caught_by("settle: an end by hand arrives at its join and frees its key")
class SettlesAndTellsNoJoin(Damaged):
    """Ends a task by hand and lets whoever waits for it wait for ever."""

    def settle(self, run: int, task: int, status: Status, value: bytes | None = None, said: Said = UNSAID) -> Settled:
        hidden, self._tables.joins = self._tables.joins, {}
        answer = super().settle(run, task, status, value, said)
        self._tables.joins = hidden
        return answer


@caught_by(
    "settle: a held task gets a mark with its result", "settle: its holder may end it first and then that counts"
)
class SettlesWhatIsHeld(Damaged):
    """Ends a held task at once, although its holder may end it too."""

    def settle(self, run: int, task: int, status: Status, value: bytes | None = None, said: Said = UNSAID) -> Settled:
        with self.bent(self.rows(SegmentState.CLAIMED), "state", SegmentState.READY):
            return super().settle(run, task, status, value, said)


@caught_by("settle: a task that waits for a join leaves it and is not raised by it")
class SettlesOnlyWhatIsReady(Damaged):
    """Leaves a task that waits for a join where it is."""

    def settle(self, run: int, task: int, status: Status, value: bytes | None = None, said: Said = UNSAID) -> Settled:
        with self.bent(self.rows(SegmentState.WAITING), "state", SegmentState.STAGED):
            return super().settle(run, task, status, value, said)


@caught_by("settle: it is about the life that was meant")
class SettlesAnyLife(Settles):
    """Ends whichever life a task is in."""

    def heard(self, said: Said) -> Said:
        return replace(said, life=None)


@caught_by("settle: who and why are told by the events", "settle: a held task gets a mark with its result")
class SettlesForNobody(Settles):
    """Forgets who decided, and why."""

    def heard(self, said: Said) -> Said:
        return replace(said, by="", reason="")


@caught_by("settle: a result is the value of its end")
class SettlesWithoutResult(Damaged):
    """Loses the result that was given."""

    def settle(self, run: int, task: int, status: Status, value: bytes | None = None, said: Said = UNSAID) -> Settled:
        return super().settle(run, task, status, None, said)


@caught_by(
    "pause: a pause that arrives after the resume that followed it changes nothing",
    "pause: a resume that arrives late changes nothing either",
    "cancel: a cancel that was overtaken says so and changes nothing",
    "cancel: a cancel does not reach a run that was opened again since",
)
class DecidesLate(Damaged):
    """Carries out every decision, however late it comes."""

    def pause(self, run: int, said: Said = UNSAID) -> RunState:
        return super().pause(run, replace(said, after=None))

    def resume(self, run: int, said: Said = UNSAID) -> RunState:
        return super().resume(run, replace(said, after=None))

    def cancel(self, run: int, task: int | None = None, **rest: Any) -> Settled:
        return super().cancel(run, task, **{**rest, "said": replace(rest.get("said", UNSAID), after=None)})


@caught_by("pause: a resume overtakes a pause that has not arrived yet")
class NotesOnlyWhatChanges(Damaged):
    """Gives a number only to decisions that change the state of a run."""

    def resume(self, run: int, said: Said = UNSAID) -> RunState:
        row = self._tables.runs[run]
        return super().resume(run, said) if row.state is RunState.PAUSED else row.state


@caught_by("pause: a run remembers the last decision about it")
class ForgetsWhoDecided(Damaged):
    """Notes that something was decided, and not by whom."""

    def pause(self, run: int, said: Said = UNSAID) -> RunState:
        return super().pause(run, replace(said, by="", reason=""))


@caught_by("drain: a process that was asked to drain hears of it by its beat")
class TellsNobodyToDrain(Damaged):
    """Notes the wish, and keeps it to itself."""

    def beat(self, process: int) -> Beat:
        return replace(super().beat(process), draining=False)


@caught_by("drain: what it holds stays with it until it is done")
class DrainsByForce(Damaged):
    """Takes away what a draining process holds."""

    def drain(self, process: int, said: Said = UNSAID) -> bool:
        for row in self.rows(SegmentState.CLAIMED):
            row.state, row.owner = SegmentState.READY, None
        return super().drain(process, said)


@caught_by("drain: everybody sees that it drains and who asked")
class ForgetsWhoAskedToDrain(Damaged):
    """Believes whoever asked last."""

    def drain(self, process: int, said: Said = UNSAID) -> bool:
        self._tables.sessions[process].draining = None
        return super().drain(process, said)


@caught_by("enter: a process that entered is listed with what it said")
class TakesHostsForPlaces(Damaged):
    """Keeps the name of a host, and not which boot and which space of process ids it is about."""

    def enter(self, process: NewProcess) -> Beat:
        return super().enter(replace(process, boot="", pids=""))
