"""The teacher: tells a kernel which kinds of tasks are Django tasks, as it meets them in the queues of its store.

A kind is the import path of a Django task, and no worker has a list of them: a task is enqueued from any module, before
or after the worker began. So a kind that a kernel does not know is looked at: it is a Django task if the tasks of that
kind hold tickets.

Promises: a kind that is in a queue when a kernel begins is known before its first claim. A later one is known when the
kernel next finds nothing to do, and on a busy one within a moment: a look takes at most a two-hundredth of the time.
Nothing is imported here; a task that cannot be imported fails when it is run, and says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ramify.errors import RamifyError
from ramify.inspect.jobs import queues
from ramify.kernel.signals import Entered, Saved, Signal, Took
from ramify.model.run import RunState

if TYPE_CHECKING:
    from ramify.contrib.django.depot import Depot
    from ramify.kernel.kernel import Kernel

#: After a look, so many times as long as it took.
REST = 200


class Teacher:
    """A listener to the signals of one kernel."""

    def __init__(self, depot: Depot, kernel: Kernel, clock: Callable[[], float] = time.monotonic) -> None:
        self._depot = depot
        self._kernel = kernel
        self._clock = clock
        self._next = 0.0
        #: Kinds that the kernel knows, or that are no Django tasks.
        self._known: set[str] = set()

    def __call__(self, signal: Signal) -> None:
        """Hear a signal; now and then it is a reason to look."""
        if isinstance(signal, Took | Saved | Entered) and self._clock() >= self._next:
            began = self._clock()
            try:
                for kind in self._found():
                    self.teach(kind)
            except RamifyError:
                # The store is away, or a queue is gone; the next look tells.
                pass
            self._next = self._clock() + REST * (self._clock() - began)

    def teach(self, kind: str) -> None:
        """Register a Django task with the kernel by its path."""
        if kind not in self._known:
            self._known.add(kind)
            self._kernel.learn(kind, self._depot.handler(kind))

    def _found(self) -> Iterator[str]:
        reads = self._depot.engine._runtime.store.reads
        for queue in queues(reads):
            if queue.state is not RunState.OPEN:
                continue
            for kind in reads.counts(queue.id).keys() - self._known:
                rows: Any = reads.tasks(queue.id, kind=kind, newest_first=True, limit=1).rows
                if rows and self._depot.is_ticket(rows[0].body):
                    yield kind
                elif rows:
                    self._known.add(kind)
