"""The scene of one example: two stores, who works on them, and how it all comes to an end.

Here stands what rules need to know to make a sensible next step. It asks the reference, never the SQLite store.
"""

from __future__ import annotations

from collections.abc import Sequence

from ramify.model.claim import Claim, Want
from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.process import NewProcess
from ramify.model.run import RunState, StoredRun
from ramify.model.segment import LIVE_STATES, Segment, SegmentState
from ramify.store.contract import Beat
from tests.store.machine.pair import Pair, Sent, Worker
from tests.store.machine.picture import KINDS, all_of

DEAD_AFTER = 60.0
BEAT_EVERY = 15.0
LONGEST_WAIT = 4000
EVERYTHING = Want(frozenset(KINDS), 1000)


class Scene:
    """Who is on stage."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.front = pair.client()
        self.workers: list[Worker] = []
        self.crashed: list[Worker] = []
        self.gone: list[Worker] = []
        self.appends: list[Sent] = []
        self.starts: list[Sent] = []
        #: tasks that were waited for and had an heir, each with its run
        self.makers: list[tuple[int, int]] = []
        self._entered = 0

    # who works

    def enter(self) -> Worker:
        """Another process, on clients of its own. Ids do not rise, so that age and id are two things."""
        self._entered += 1
        worker = Worker(self.pair.client(), self._entered * 7919 % 10007)
        assert isinstance(worker.client.ask("enter", NewProcess(worker.process, host="here")), Beat)
        self.workers.append(worker)
        return worker

    def bury(self, worker: Worker) -> None:
        """The worker is no longer one; what it sends from now on comes from a grave."""
        if worker in self.workers:
            worker.client.close()
            worker.client = self.front
        (self.workers if worker in self.workers else self.crashed).remove(worker)
        self.gone.append(worker)

    def crash(self, worker: Worker) -> None:
        """It dies without a word. What it sent and what arrives only now comes through the front door."""
        worker.client.close()
        worker.client = self.front
        self.workers.remove(worker)
        self.crashed.append(worker)

    def crash_all(self) -> None:
        """Every client dies, and the stores are opened anew."""
        for worker in list(self.workers):
            self.crash(worker)
        self.front.close()
        self.front = self.pair.client()
        for worker in [*self.crashed, *self.gone]:
            worker.client = self.front

    def watch(self, silent: Sequence[Worker] = ()) -> None:
        """Let more than `DEAD_AFTER` seconds pass in which all but the silent beat."""
        for _ in range(6):
            self.pair.clock.advance(BEAT_EVERY)
            for worker in self.workers:
                if worker not in silent:
                    worker.client.ask("beat", worker.process)

    def reap(self, by: Worker) -> None:
        """The reaper comes; whoever it names is buried."""
        found = by.client.ask("reap", by.process, DEAD_AFTER)
        for worker in [*self.workers, *self.crashed]:
            if worker.process in found.processes:
                self.bury(worker)

    def everybody(self) -> list[Worker]:
        """The living, the crashed and the gone."""
        return [*self.workers, *self.crashed, *self.gone]

    def close(self) -> None:
        """Close all clients."""
        for client in [*(worker.client for worker in self.workers), self.front]:
            client.close()

    # what there is

    def runs(self) -> list[StoredRun]:
        """All runs."""
        return all_of(self.front.reference.reads.runs)

    def open_runs(self) -> list[StoredRun]:
        """Those that have not ended."""
        return [run for run in self.runs() if not run.state.is_end]

    def growing_runs(self) -> list[StoredRun]:
        """Those that take more tasks."""
        return [run for run in self.open_runs() if run.state is not RunState.DRAINING]

    def tasks(self, run: int) -> list[int]:
        """The published tasks of a run; none of one that was forgotten."""
        if self.front.reference.reads.run(run).state is RunState.FORGOTTEN:
            return []
        return [task.id for task in all_of(self.front.reference.reads.tasks, run, limit=1000)]

    def all_tasks(self) -> list[int]:
        """The published tasks of all runs."""
        return [task for run in self.runs() for task in self.tasks(run.id)]

    def unfinished(self) -> list[int]:
        """The published tasks that have not ended."""
        return [task for row in self.segments() if row.state in LIVE_STATES for task in row.tasks]

    def ended(self, tasks: Sequence[int]) -> list[int]:
        """Those that have ended."""
        return [task for task in tasks if self.front.reference.reads.history(task).ended is not None]

    def segments(self) -> list[Segment]:
        """All segment rows."""
        return all_of(self.front.reference.reads.segments, limit=1000)

    def awaited(self, run: int) -> set[int]:
        """The tasks that joins of a run wait for, or waited for."""
        reads = self.front.reference.reads
        joins = all_of(reads.joins, run, limit=1000)
        return {task for join in joins for _, task in all_of(reads.members, join.id, start=-1, limit=1000)}

    def held(self, worker: Worker) -> list[bytes]:
        """The tokens that are still good: a reopened join task is taken away from whoever holds it."""
        mine = [row for row in self.segments() if row.state is SegmentState.CLAIMED and row.owner == worker.process]
        owned = {task for row in mine for task in row.tasks}
        newest = {task: token for token, left in worker.left.items() for task in left}
        return [token for token, left in worker.left.items() if all(t in owned and newest[t] == token for t in left)]

    def staged(self, worker: Worker, token: bytes) -> list[Segment]:
        """The ranges that were staged under a claim and can be published or discarded."""
        mine = [row for row in self.segments() if row.state is SegmentState.STAGED and row.owner == worker.process]
        return [row for row in mine if row.first in worker.staged.get(token, ())]

    # the end

    def finish(self) -> None:
        """Everybody goes, half of them without a word; one more worker then does all that is left, and every run ends.

        The loops are bounded by what there is to do: a store in which something is stuck fails here.
        """
        for worker in self.workers[::2]:
            worker.client.ask("leave", worker.process)
            self.bury(worker)
        silent = list(self.workers)
        last = self.enter()
        self.watch(silent)
        self.reap(last)
        assert self.workers == [last]
        assert not self.crashed
        for run in self.runs():
            last.client.ask("resume", run.id)
        self._work_off(last)
        # Queues end only when told, and whoever follows one waits for that.
        for run in self.open_runs():
            if run.endless:
                last.client.ask("cancel", run.id)
        self._work_off(last)
        assert not self.open_runs(), f"these runs never end: {self.open_runs()}"

    def _work_off(self, worker: Worker) -> None:
        idle = 0
        for _ in range(200 + 4 * len(self.all_tasks())):
            moved = self._claim_and_commit(worker)
            for run in self.open_runs():
                moved = worker.client.ask("advance", [(run.id, run.round)])[0].moved or moved
            idle = 0 if moved else idle + 1
            if idle == 3:
                return
            if not moved:
                self.pair.clock.advance(LONGEST_WAIT)
        raise AssertionError(f"still at work: {self.segments()}")

    def _claim_and_commit(self, worker: Worker) -> bool:
        claims = worker.send("claim", EVERYTHING).claims
        for claim in claims:
            worker.send("commit", [as_told(claim)])
        return bool(claims)


def as_told(claim: Claim) -> Part:
    """The whole claim, as its marks say or else as done; what ran out of time has no other attempt here."""
    told = {task: mark.status if mark.status.is_end else Status.FAILED for task, mark in claim.marks.items()}
    return Part(claim.token, claim.tasks, [told.get(task, Status.DONE) for task in claim.tasks])
