"""Broken doubles of the totals: those that fall, and those that count what did not happen. See `doubles.py`."""

from __future__ import annotations

import msgspec

from ramify.model.death import NOBODYS_FAULT
from ramify.model.process import NewProcess
from ramify.store.contract import Beat
from ramify.store.memory.reads import MemoryReads
from ramify.store.reads import Totals
from tests.store.doubles import Damaged, caught_by
from tests.store.doubles_reads import Misreading

replace = msgspec.structs.replace


@caught_by(
    "reads: what is forgotten stays in the totals",
    "reads: a new life adds to the totals",
    "reads: a result given by hand to what was done counts once more",
    "reads: what is replaced stays in the totals",
)
class TotalsFall(Misreading):
    """Sums up what there is now."""

    class misreads(MemoryReads):
        def totals(self) -> Totals:
            self._tables.lowered.clear()
            return super().totals()


@caught_by("reads: the end of a run changes no total", "reads: totals are told by kind and queue")
class TotalsOfOpenRuns(Misreading):
    """Leaves out the runs that have ended."""

    class misreads(MemoryReads):
        def totals(self) -> Totals:
            ended = {number for number, run in self._tables.runs.items() if run.ended is not None}
            for counter in [each for each in self._tables.counters if each[0] in ended]:
                del self._tables.counters[counter]
            return super().totals()


@caught_by("reads: retries and deferrals are in the totals", "reads: totals outlive everybody")
class LosesThePending(Misreading):
    """Takes all that was added for ended."""

    class misreads(MemoryReads):
        def totals(self) -> Totals:
            found = super().totals()
            return replace(found, kinds=[replace(each, pending=0) for each in found.kinds])


@caught_by("reads: deaths are counted once and who leaves did not die")
class LeavingIsDying(Damaged):
    """Buries whoever leaves."""

    def leave(self, process: int) -> None:
        self.bury(process, NOBODYS_FAULT)


@caught_by("reads: starts are counted once also when they are sent again")
class StartsTwice(Damaged):
    """Counts each delivery."""

    def enter(self, process: NewProcess) -> Beat:
        self._tables.starts += 1
        return super().enter(process)


@caught_by("reads: commits that came too late are counted")
class ForgetsRefusals(Misreading):
    """Does not count what came too late."""

    class misreads(MemoryReads):
        def totals(self) -> Totals:
            return replace(super().totals(), refused=0)


@caught_by("reads: a store that was never used has no totals")
class CountsItself(Misreading):
    """Counts the client that reads."""

    class misreads(MemoryReads):
        def totals(self) -> Totals:
            found = super().totals()
            return replace(found, starts=found.starts + 1)
