"""The backend: what `TASKS` names, and Django calls.

    TASKS = {"default": {"BACKEND": "ramify.contrib.django.RamifyBackend", "OPTIONS": {"store": BASE_DIR / "tasks.db"}}}

store       a file or a URL, as `Engine` takes it; it must be given
on_commit   True: what is enqueued in a transaction of a database is added when that is committed, and never if it is
            rolled back. False: it is added at once, and a worker may begin it before the transaction is committed
keep        how long results are kept after success: seconds or a timedelta, else a day
max_running how many tasks of a queue run at a time, in all workers together: {"mail": 10}

Promises: what is enqueued outside of a transaction is in the store when `enqueue` returns. In one it is added right
after the commit, so a kill between the two loses it; a rollback leaves nothing.

Does not retry: a task that raised is FAILED. One whose process died is run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from django.core import checks  # type: ignore[import-untyped]
from django.db import connections, transaction  # type: ignore[import-untyped]
from django.utils.crypto import get_random_string  # type: ignore[import-untyped]

from ramify.contrib.django.depot import NO_LIMITS, Depot, depot_on
from ramify.contrib.django.framework import (
    BaseTaskBackend,
    InvalidTask,
    InvalidTaskBackend,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    task_enqueued,
)
from ramify.contrib.django.story import put
from ramify.contrib.django.ticket import Ticket, by_settings
from ramify.errors import BadPayload, ConfigError
from ramify.model.call import Call
from ramify.model.task import check_name

OPTIONS = ("store", "on_commit", "keep", "max_running")


class RamifyBackend(BaseTaskBackend):
    """A backend of Django's tasks framework that keeps tasks in a Ramify store, for `manage.py ramify_worker`."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    @property
    def depot(self) -> Depot:
        """The engine and store of its tasks; InvalidTaskBackend if its options name none."""
        for trouble in self._troubles():
            raise InvalidTaskBackend(f"TASKS[{self.alias!r}]: {trouble}")
        return self._depot()

    def validate_task(self, task: Task[..., Any]) -> None:
        """Check that a task can be enqueued here; InvalidTask if not."""
        super().validate_task(task)
        try:
            check_name("queue", task.queue_name)
        except BadPayload as error:
            raise InvalidTask(str(error)) from error

    def enqueue(self, task: Task[..., Any], args: Any, kwargs: Any) -> TaskResult[Any]:
        """Add a task, now or when the transactions around this call are committed."""
        self.validate_task(task)
        ticket = Ticket.of(task, args, kwargs, self.alias)
        result = ticket.result(get_random_string(32))
        put(result, task=task, enqueued_at=None)
        # Before a commit is waited for: what cannot be stored is refused where it was asked for.
        add = partial(self._add, result, ticket, self.depot.call(result.id, ticket))
        if self.options.get("on_commit", True):
            _after_commit(add)
        else:
            add()
        return result

    def get_result(self, result_id: str) -> TaskResult[Any]:
        """Return the result with an id, of any process; TaskResultDoesNotExist also if it was forgotten."""
        found = self.depot.result(result_id) if isinstance(result_id, str) else None
        if found is None or found.backend != self.alias:
            raise TaskResultDoesNotExist(result_id)
        return found

    def check(self, **kwargs: Any) -> Iterable[Any]:
        """Return the problems of its options, for `manage.py check`."""
        yield from super().check(**kwargs)
        for trouble in self._troubles():
            yield checks.Error(f"TASKS[{self.alias!r}]: {trouble}", id="ramify.E001")

    def _troubles(self) -> Iterator[str]:
        for name in sorted(set(self.options) - set(OPTIONS)):
            yield f"OPTIONS has {name!r}, which is not known; there are {', '.join(OPTIONS)}"
        if not self.options.get("store"):
            yield 'OPTIONS needs the store, a file such as BASE_DIR / "tasks.db"'
            return
        if not isinstance(self.options.get("max_running", NO_LIMITS), Mapping):
            yield "OPTIONS needs max_running by queue: {'mail': 10}"
            return
        try:
            self._depot()
        except (ConfigError, TypeError) as error:
            yield f"OPTIONS: {error}"

    def _depot(self) -> Depot:
        options = self.options
        return depot_on(options["store"], options.get("keep"), options.get("max_running", NO_LIMITS))

    def _add(self, result: TaskResult[Any], ticket: Ticket, call: Call[Any]) -> None:
        self.depot.engine.enqueue(call)
        put(result, enqueued_at=by_settings(ticket.enqueued))
        task_enqueued.send(type(self), task_result=result)


def _after_commit(add: Callable[[], None]) -> None:
    """Call it once every transaction is committed that is open here; never if one of them is rolled back."""
    waiting = {each.alias for each in connections.all(initialized_only=True) if each.in_atomic_block}

    def committed(alias: str) -> None:
        waiting.discard(alias)
        if not waiting:
            add()

    if not waiting:
        add()
    for alias in tuple(waiting):
        transaction.on_commit(partial(committed, alias), using=alias)
