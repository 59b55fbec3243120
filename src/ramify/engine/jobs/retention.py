"""Retention: jobs that ended long ago are forgotten by those who work, a few at a time, busy or idle.

    done        as long as their task says (`keep=`), else a day
    failed      14 days
    cancelled   a day

Promises: nothing is forgotten sooner, and nothing of a kind that this program does not know. All the workers of a store
together spend 4 % of one worker's time on it, in steps that compute 20 ms, because others wait for the store and the
interpreter meanwhile. A job whose key is kept, or whose result somebody may still ask for, stays with them. Space that
new work will not soon use goes back to the file system.

The runs that schedules started, and what schedules did themselves, go after the schedule's `keep` (30 days). Other runs
are forgotten by people.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from ramify.errors import RamifyError, RunNeeded
from ramify.inspect.find import every_run
from ramify.inspect.jobs import queues
from ramify.inspect.live import workers
from ramify.kernel.signals import Saved, Signal, Took
from ramify.model.forgetting import Cutoffs
from ramify.model.policy import SECOND
from ramify.model.run import RunState, StoredRun
from ramify.model.task import MAX_ID
from ramify.shapes.cron.declaration import CRON, slot_kind
from ramify.shapes.cron.declaring import SHAPE
from ramify.shapes.start import is_launched
from ramify.store.contract import Store

DAY = 86_400
#: How long results of jobs are kept unless their task says so, and jobs that did not end well, in seconds.
KEEP_DONE, KEEP_FAILED, KEEP_CANCELLED = float(DAY), 14 * DAY, DAY
#: Seconds from when all was looked at until the next time.
ROUND = 3_600.0
#: Seconds until the first step: a program that ends sooner has better things to do.
FIRST = 1.0
#: The share of a worker's time that goes into it, and the most seconds of it that are made up for at once.
SHARE, MOST = 0.04, 0.04
#: The share that runs without anything old get: a thousand schedules at rest are looked at in passing.
LOOKING = 0.002
#: Seconds that a step is to compute, and seconds that it may take in all. Beside a thread that computes, a step waits
#: 5 ms for the interpreter after each of its statements, and a smaller step waits as long; only a slow disk takes
#: longer than that.
STEP_SECONDS, LONGEST = 0.02, 1.0
#: How many jobs a step looks at, at first half of the most, and by how much that grows at once. Fewer would cost as
#: much: it is a transaction.
SMALLEST, LARGEST, GROWTH = 1_000, 8_000, 4
#: The share of the store's space that is left free for what comes next.
SPARE = 0.25


class Janitor:
    """A listener to a kernel's signals that forgets old jobs. `keeps` tells how many seconds results stay, by kind."""

    def __init__(
        self,
        store: Store,
        keeps: Callable[[], Mapping[str, float]],
        clock: Callable[[], float] = time.monotonic,
        busy: Callable[[], float] = time.thread_time,
    ) -> None:
        self._store = store
        self._keeps = keeps
        self._clock = clock
        self._busy = busy
        #: Until when its share of the time is used up.
        self._paid = clock() + FIRST
        self._size = max(LARGEST // 2, SMALLEST)
        self._workers = 1
        #: One round, step by step: whether each found something old, or a run too long for one step.
        self._round: Iterator[bool] = self._steps()

    def __call__(self, signal: Signal) -> None:
        """Hear a signal: after a claim or a commit is a time for steps, as far as its share of the time goes."""
        if not isinstance(signal, Took | Saved) or (now := self._clock()) < self._paid:
            return
        self._paid = max(self._paid, now - MOST / SHARE * self._workers)
        while self._paid <= now:
            busy = self._busy()
            found = next(self._round, None)
            if found is None:
                self._round, self._paid = self._steps(), self._clock() + ROUND
                return
            began, now = now, self._clock()
            took, computed = now - began, self._busy() - busy
            # While it waits for the interpreter or the disk, other threads work: that time counts a quarter, or not at
            # all where nothing was found, or many schedules would take a busy worker hours.
            cost = (computed + (took - computed) / 4) / SHARE if found else computed / LOOKING
            self._paid += cost * self._workers
            if found:
                self._resize(took, computed)

    def _resize(self, took: float, computed: float) -> None:
        """Choose how many jobs the next step looks at, by how long this one took."""
        by = 0.5 if took > LONGEST else STEP_SECONDS / max(computed, STEP_SECONDS / GROWTH)
        self._size = min(max(round(self._size * by), SMALLEST), LARGEST)

    def _steps(self) -> Iterator[bool]:
        """One round. An error of the store ends it: the next round tells."""
        try:
            # Each of them has a janitor.
            self._workers = max(1, len(workers(self._store.reads)))
            # By itself: it says nothing of how long it takes to forget some.
            yield False
            keeps = self._keeps()
            cutoffs = self._cutoffs(keeps)
            for run in queues(self._store.reads):
                yield from self._forget(run.id, cutoffs)
            for run in every_run(self._store.reads, prefix=CRON):
                if run.shape == SHAPE:
                    yield from self._forget(run.id, cutoffs)
                else:
                    yield from self._forget_slot(run, keeps)
            yield from self._give_back()
        except RamifyError:
            # The store is away, or the queue was forgotten.
            return

    def _cutoffs(self, keeps: Mapping[str, float]) -> Cutoffs:
        now = self._store.now()
        done = {kind: now - round(keep * SECOND) for kind, keep in keeps.items()}
        return Cutoffs(done, now - KEEP_FAILED * SECOND, now - KEEP_CANCELLED * SECOND)

    def _forget(self, queue: int, cutoffs: Cutoffs) -> Iterator[bool]:
        after, more = 0, True
        while more:
            rest = range(after + 1, MAX_ID)
            # CRASH: before it, nothing has changed; after it, these jobs are gone, and the next round finds the others.
            page = self._store.forget(queue, rest, before=cutoffs, limit=self._size)
            after, more = page.after, page.more
            yield more or page.tasks > 0

    def _forget_slot(self, run: StoredRun, keeps: Mapping[str, float]) -> Iterator[bool]:
        """Forget a run that a schedule of this program started, once its time is over."""
        schedule = (run.name or "").removeprefix(CRON).rpartition("/")[0]
        keep = keeps.get(slot_kind(schedule))
        if (
            keep is None
            or not is_launched(run)
            or run.ended is None
            or run.ended > self._store.now() - round(keep * SECOND)
        ):
            return
        decided = run.decision
        if run.state is RunState.FORGOTTEN and decided is not None and decided.at < self._store.now() - DAY * SECOND:
            # It is gone by now.
            return
        more = True
        while more:
            try:
                # CRASH: a run that is FORGOTTEN and not gone yet -> the next round goes on with it.
                more = self._store.forget(run.id, limit=self._size).more
            except RunNeeded:
                return
            yield True

    def _give_back(self) -> Iterator[bool]:
        while self._store.vacuum(self._size, spare=SPARE).is_more:
            yield True
