"""Retention: jobs that ended long ago are forgotten by whoever has nothing to do, a few at a time.

    done        as long as their task says (`keep=`), else a day
    failed      14 days
    cancelled   a day

Promises: nothing is forgotten sooner, and nothing of a kind that this program does not know. A step looks at some
thousand jobs, comes when a kernel found nothing to do, and takes a small share of the time: it is heard in the thread
that hands out work. A job whose key is kept, or whose result somebody may still ask for, stays with them.

Does not touch runs: those are forgotten by people.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from ramify.errors import RamifyError
from ramify.inspect.jobs import queues
from ramify.kernel.signals import Signal, Took
from ramify.model.forgetting import Cutoffs
from ramify.model.policy import SECOND
from ramify.model.task import MAX_ID
from ramify.store.contract import Store

DAY = 86_400
#: How long results of jobs are kept unless their task says so, and jobs that did not end well, in seconds.
KEEP_DONE, KEEP_FAILED, KEEP_CANCELLED = float(DAY), 14 * DAY, DAY
#: How many jobs one step looks at.
STEP = 2_000
#: Seconds between two steps, and from when all was looked at until the next time.
BETWEEN, ROUND = 1.0, 3_600.0
#: After a step, so many times as long as it took.
REST = 100


class Janitor:
    """A listener to a kernel's signals that forgets old jobs. `keeps` tells how many seconds results stay, by kind."""

    def __init__(
        self, store: Store, keeps: Callable[[], Mapping[str, float]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._keeps = keeps
        self._clock = clock
        self._next = clock() + BETWEEN
        #: The queues that are still to be looked at in this round, and the job after which the step goes on.
        self._queues: list[int] = []
        self._after = 0

    def __call__(self, signal: Signal) -> None:
        """Hear a signal: a claim that found nothing may be a time for a step."""
        if isinstance(signal, Took) and not signal.tasks and self._clock() >= self._next:
            began = self._clock()
            is_more = False
            try:
                is_more = self._step()
            except RamifyError:
                # The store is away, or the queue was forgotten: the next round tells.
                self._queues, self._after = [], 0
            took = self._clock() - began
            self._next = began + max(BETWEEN if is_more else ROUND, REST * took)

    def _step(self) -> bool:
        """Look at some jobs; whether there are more in this round."""
        if not self._queues:
            self._queues = [run.id for run in queues(self._store.reads)]
            self._after = 0
        if not self._queues:
            return False
        now = self._store.now()
        done = {kind: now - round(keep * SECOND) for kind, keep in self._keeps().items()}
        cutoffs = Cutoffs(done, now - KEEP_FAILED * SECOND, now - KEEP_CANCELLED * SECOND)
        rest = range(self._after + 1, MAX_ID)
        # CRASH: before it, nothing has changed; after it, these jobs are gone, and the next round finds the others.
        page = self._store.forget(self._queues[0], rest, before=cutoffs, limit=STEP)
        self._after = page.after
        if not page.more:
            self._queues, self._after = self._queues[1:], 0
        return bool(self._queues)
