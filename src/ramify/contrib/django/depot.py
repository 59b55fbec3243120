"""The depot of a backend: an engine with a task for each Django task, under its import path, all of the same function.

So people see a Django task under its own name wherever kinds are told, and none must be registered: an engine has those
that were enqueued or met here. There is one depot for each store in a process, however many threads have a backend of
their own.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from ramify.contrib.django.framework import TaskResult
from ramify.contrib.django.running import connected, run
from ramify.contrib.django.story import Try, put, returned, tell, tries_of
from ramify.contrib.django.teacher import Teacher
from ramify.contrib.django.ticket import Ticket
from ramify.engine.engine import Engine
from ramify.engine.runs.reading import Reading
from ramify.engine.tasks.task import AnyTask
from ramify.errors import ConfigError, RunForgotten
from ramify.inspect.jobs import JobStanding, queues, standing_of
from ramify.kernel.core.handler import Handler
from ramify.kernel.kernel import Kernel
from ramify.model.call import Call
from ramify.model.job import JobState
from ramify.model.key import key_bytes
from ramify.model.task import Row

#: The kind of tasks whose path cannot be a kind, because it is too long.
KIND = "django.task"
#: No queue is limited.
NO_LIMITS: Mapping[str, int] = MappingProxyType({})
#: Django's priorities go from -100 to 100, ours ten times as far: so much of a head start is a step of theirs.
STEP = 10


class Depot:
    """The engine that keeps the tasks of a backend. `keep` is how long results stay, `max_running` limits queues."""

    def __init__(
        self,
        store: str | os.PathLike[str],
        keep: float | timedelta | None = None,
        max_running: Mapping[str, int] = NO_LIMITS,
    ) -> None:
        self.engine = Engine(store)
        for queue, most in max_running.items():
            self.engine.queue(queue, max_running=most)
        self.engine.around(connected)
        self.engine._runtime.teacher = self._teacher
        self._keep = keep
        self._lock = threading.Lock()
        self._run = self._made(KIND)
        self._tasks: dict[str, AnyTask] = {KIND: self._run}
        self._teachers: weakref.WeakSet[Teacher] = weakref.WeakSet()

    def call(self, id: str, ticket: Ticket) -> Call[Any]:
        """Make a call of a ticket, with the id of its result as its key; BadPayload if it cannot be stored."""
        call = self._task(ticket.task).of(ticket).key(id).queue(ticket.queue).priority(-STEP * ticket.priority)
        return call if ticket.run_after is None else call.at(ticket.run_after)

    def handler(self, kind: str) -> Handler:
        """Return how a worker runs the tasks of a kind."""
        self._task(kind)
        return self.engine._runtime.handlers()[kind]

    def is_ticket(self, body: bytes) -> bool:
        """Return whether a task with this body is a Django task."""
        try:
            self._reading().arguments(KIND, body)
        except Exception:  # noqa: BLE001 - whatever is stored there, it is not ours
            return False
        return True

    def check(self, value: str) -> None:
        """Raise BadPayload for a result that cannot be stored, while the task can still fail for it."""
        self._run.group.signature.encode_result(value)

    def result(self, id: str) -> TaskResult[Any] | None:
        """Return the result with this id, as it is now; None if there is none, or it was forgotten."""
        try:
            standing = self._standing(id)
            return None if standing is None or standing.row is None else self._told(id, standing, standing.row)
        except RunForgotten:
            return None

    def tries(self, run: int, task: int) -> Sequence[Try]:
        """Return the known attempts of a task."""
        return tries_of(self.engine._runtime.store.reads, run, task)

    def _told(self, id: str, standing: JobStanding, row: Row) -> TaskResult[Any]:
        reads = self.engine._runtime.store.reads
        reading = self._reading()
        (ticket,), _ = reading.arguments(KIND, row.body)
        result: TaskResult[Any] = ticket.result(id)
        tell(result, reads, standing)
        if standing.state is JobState.DONE:
            put(result, _return_value=returned(reading.result(KIND, standing.value)))
        return result

    def _standing(self, id: str) -> JobStanding | None:
        reads = self.engine._runtime.store.reads
        for queue in queues(reads):
            for kind in reads.counts(queue.id):
                found = reads.find_tasks(queue.id, kind, key_bytes(id), limit=1)
                if found:
                    return standing_of(reads, found[0], self.engine._runtime.store.now())
        return None

    def _reading(self) -> Reading:
        return Reading(self.engine._runtime.store.reads, self.engine._runtime.handlers())

    def _task(self, path: str) -> AnyTask:
        """The task of a path; kernels of this process that are at work learn of a new one."""
        with self._lock:
            found = self._tasks.get(path)
            if found is not None:
                return found
            try:
                found = self._made(path)
            except ConfigError:
                found = self._run
            self._tasks[path] = found
            teachers = tuple(self._teachers)
        for each in teachers:
            each.teach(found.kind)
        return found

    def _made(self, kind: str) -> AnyTask:
        made: AnyTask = self.engine.task(name=kind, retries=0, keep=self._keep)(run)
        return made

    def _teacher(self, kernel: Kernel) -> Teacher:
        made = Teacher(self, kernel)
        self._teachers.add(made)
        return made


#: Those of this process. Several threads may ask at once: the first one that is here counts, before any is opened.
_depots: dict[tuple[object, ...], Depot] = {}


def depot_on(
    store: str | os.PathLike[str], keep: float | timedelta | None, max_running: Mapping[str, int] = NO_LIMITS
) -> Depot:
    """Return the depot of this process on a store."""
    where = (os.fspath(store), keep, *sorted(max_running.items()))
    return _depots.get(where) or _depots.setdefault(where, Depot(store, keep, max_running))
