"""The scene of one example: two stores, who works on them, and what new work looks like.

Here stands what rules need to know to make a sensible next step. It asks the reference, never the SQLite store, and
draws tasks from so few kinds, keys and times that they meet each other all the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from ramify.model.claim import Claim, Want
from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.join import Join, NewJoin, NewWaiter
from ramify.model.key import Hold
from ramify.model.policy import SECOND
from ramify.model.process import NewProcess
from ramify.model.run import Run, RunState
from ramify.model.segment import Segment, SegmentState
from ramify.model.task import NewTasks
from ramify.store.reads import Span
from tests.store.machine.choices import Choices
from tests.store.machine.pair import Pair, Sent, Worker
from tests.store.machine.picture import KEYS, KINDS, all_of

DEAD_AFTER = 60.0
BEAT_EVERY = 15.0
WAITS = (0, 1, 40, 4000)
EVERYTHING = Want(frozenset(KINDS), 1000)
#: Ids that one producer of single tasks takes at a time.
BLOCK = 6


@dataclass
class Work:
    """Tasks on their way in, with the joins between them."""

    groups: list[NewTasks] = field(default_factory=list)
    joins: list[NewJoin] = field(default_factory=list)
    waiters: list[NewWaiter] = field(default_factory=list)


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
        self._entered = 0
        self._block = range(0)
        self._spare: list[range] = []

    # who works

    def enter(self) -> Worker:
        """Another process, on clients of its own. Ids do not rise, so that age and id are two things."""
        self._entered += 1
        worker = Worker(self.pair.client(), self._entered * 7919 % 10007)
        assert worker.client.ask("enter", NewProcess(worker.process, host="here")) is None
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

    def close(self) -> None:
        """Close all clients."""
        for client in [*(worker.client for worker in self.workers), self.front]:
            client.close()

    # what there is

    def runs(self) -> list[Run]:
        """All runs."""
        return all_of(self.front.reference.reads.runs)

    def open_runs(self) -> list[Run]:
        """Those that have not ended."""
        return [run for run in self.runs() if not run.state.is_end]

    def growing_runs(self) -> list[Run]:
        """Those that take more tasks."""
        return [run for run in self.open_runs() if run.state is not RunState.DRAINING]

    def tasks(self, run: int) -> list[int]:
        """The published tasks of a run."""
        return [task.id for task in all_of(self.front.reference.reads.tasks, run, limit=1000)]

    def all_tasks(self) -> list[int]:
        """The published tasks of all runs."""
        return [task for run in self.runs() for task in self.tasks(run.id)]

    def ended(self, tasks: Sequence[int]) -> list[int]:
        """Those that have ended."""
        return [task for task in tasks if self.front.reference.reads.history(task).ended is not None]

    def segments(self) -> list[Segment]:
        """All segment rows."""
        return all_of(self.front.reference.reads.segments, limit=1000)

    def span_of(self, task: int) -> Span | None:
        """The published range that a task is in."""
        spans = all_of(self.front.reference.reads.spans, limit=1000)
        return next((span for span in spans if span.first <= task <= span.last), None)

    def waiting_join(self, run: int, task: int) -> tuple[Join, int] | None:
        """The join that a task is a member of, with its slot, while it has not fired."""
        span = self.span_of(task)
        if span is None or span.join is None:
            return None
        joins = all_of(self.front.reference.reads.joins, run, fired=False, limit=1000)
        found = next((join for join in joins if join.id == span.join), None)
        return None if found is None else (found, span.slot + task - span.first)

    def staged(self, worker: Worker, token: bytes) -> list[int]:
        """The ranges that were staged under a claim and can be published or discarded."""
        firsts = {
            row.first for row in self.segments() if row.state is SegmentState.STAGED and row.owner == worker.process
        }
        return [first for first in worker.staged.get(token, ()) if first in firsts]

    # new work

    def ids(self, choose: Choices, count: int) -> int:
        """The first of `count` reserved ids. Some blocks are kept for later, so that ids do not tell the age."""
        for block in self._spare:
            if len(block) >= count and choose.chance():
                self._spare.remove(block)
                self._spare.append(block[count:])
                return block[0]
        if choose.chance(8):
            self._spare.append(self._reserve(4))
        return self._reserve(count)[0]

    def next_single(self, choose: Choices) -> int:
        """The next id of the producer of single tasks, who mostly goes on where he was."""
        if not self._block or choose.chance(8):
            self._block = self._reserve(BLOCK)
        first, self._block = self._block[0], self._block[1:]
        return first

    def _reserve(self, count: int) -> range:
        first = self.front.ask("reserve", count)
        return range(first, first + count)

    def later(self, choose: Choices) -> int:
        """A time that comes sooner or later."""
        return self.pair.clock.now() + choose.one(WAITS) * SECOND

    def group(self, choose: Choices, first: int, count: int, parents: Sequence[int] = (), **columns: Any) -> NewTasks:
        """New tasks with columns of all sorts."""
        options: dict[str, Any] = {"kind": choose.one((KINDS[0], *KINDS))}
        if choose.chance(4):
            options |= {"queue": "slow", "lane": choose.one((None, "left", "right"))}
        if choose.chance(4):
            options["priority"] = choose.one((-1, 1))
        if choose.chance(3) and not columns.get("waits"):
            options["due"] = self.later(choose)
        if choose.chance(2):
            options |= {"keys": [choose.one((*KEYS, *KEYS[1:], None)) for _ in range(count)]}
            options["hold"] = choose.one((*Hold, Hold.UNIQUE, Hold.JOB))
            options["keep"] = choose.one((0, 100))
        if choose.chance(4):
            options["mores"] = [choose.one((None, b"", b"more")) for _ in range(count)]
        if parents:
            options["parents"] = choose.one((parents[0], [choose.one((None, *parents)) for _ in range(count)]))
        bodies = [choose.one((b"1", b"", b"\0\xff")) for _ in range(count)]
        return NewTasks(first, bodies=bodies, **(options | columns))

    def some_work(self, choose: Choices, parents: Sequence[int] = (), *, waiters: bool = True) -> Work:
        """A few groups; sometimes with a join, of members, of tasks that exist, or of nobody at all."""
        work = Work()
        for _ in range(choose.number(1, 2)):
            count = choose.number(1, 4)
            work.groups.append(self.group(choose, self.ids(choose, count), count, parents))
        if choose.chance():
            self._fan_in(choose, work, parents, waiters)
        return work

    def _fan_in(self, choose: Choices, work: Work, parents: Sequence[int], waiters: bool) -> None:
        """A join of some members and waiters, perhaps with a nested one, and perhaps a second that needs nobody."""
        tasks = choose.number(1, 2)
        join = self.ids(choose, tasks)
        members = choose.number(0, 3)
        waited = choose.some(self.all_tasks(), most=2) if waiters else []
        nested = choose.chance(3)
        needs = members + len(waited) + nested
        work.joins.append(NewJoin(join, needs, join))
        work.joins += [NewJoin(join + 1, 0, join + 1)] * (tasks - 1)
        work.groups.append(self.group(choose, join, tasks, parents, waits=True))
        if members:
            first = self.ids(choose, members)
            work.groups.append(self.group(choose, first, members, parents, join=join))
        work.waiters += [NewWaiter(task, join, members + i) for i, task in enumerate(waited)]
        if nested:
            inner = self.ids(choose, 1)
            count = choose.number(0, 2)
            work.joins.append(NewJoin(inner, count, None, (join, needs - 1)))
            if count:
                work.groups.append(self.group(choose, self.ids(choose, count), count, parents, join=inner))

    def stage(self, choose: Choices, worker: Worker, token: bytes) -> None:
        """Stage a range under a claim, sometimes one that follows on the one before."""
        before = [sent.args[2] for sent in worker.sent[-1:] if sent.verb == "stage" and sent.args[1] == token]
        if before and choose.chance():
            last = before[0]
            tasks = structs.replace(last, first=last.last + 1, slot=last.slot + len(last.bodies))
            if tasks.last % 8 < last.last % 8:
                return
        else:
            block = self._reserve(16)
            first = next(task for task in block if task % 8 == 0)
            tasks = self.group(choose, first, choose.number(1, 3), [worker.left[token][0]])
        if worker.send("stage", token, tasks, lost=choose.chance(4)) is True:
            worker.staged.setdefault(token, []).append(tasks.first)

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
                moved = worker.client.ask("advance", run.id, run.round).moved or moved
            idle = 0 if moved else idle + 1
            if idle == 3:
                return
            if not moved:
                self.pair.clock.advance(max(WAITS))
        raise AssertionError(f"still at work: {self.segments()}")

    def _claim_and_commit(self, worker: Worker) -> bool:
        claims = worker.send("claim", EVERYTHING).claims
        for claim in claims:
            worker.send("commit", [as_told(claim)])
        return bool(claims)


def as_told(claim: Claim) -> Part:
    """The whole claim, as its marks say or else as done."""
    return Part(
        claim.token, claim.tasks, [claim.marks[t].status if t in claim.marks else Status.DONE for t in claim.tasks]
    )
