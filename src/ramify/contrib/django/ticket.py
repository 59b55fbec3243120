"""A ticket: a Django task as it was enqueued, as the argument of the Ramify task that runs it.

Promises: arguments come back as they do from `json.dumps` and `json.loads`. What a ticket names is run only if it is a
task of Django's framework, under its own name, at the top of a module.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from django.conf import settings  # type: ignore[import-untyped]
from django.utils import timezone  # type: ignore[import-untyped]
from django.utils.module_loading import import_string  # type: ignore[import-untyped]

from ramify.contrib.django.framework import InvalidTask, Task, TaskResult, TaskResultStatus, normalize_json


class Ticket(msgspec.Struct, frozen=True):
    """A Django task by its import path, with its arguments as JSON text (`given`) and its backend."""

    task: str
    given: str
    backend: str
    queue: str
    priority: int
    run_after: datetime | None
    enqueued: datetime

    @classmethod
    def of(cls, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], backend: str) -> Ticket:
        """Make the ticket of a task that is about to be enqueued; InvalidTask if no worker could find it."""
        if find_task(task.module_path).func is not task.func:
            raise InvalidTask(f"{task.module_path!r} is another task; workers find a task by its function's own name")
        return cls(
            task.module_path,
            json.dumps(normalize_json([args, kwargs])),
            backend,
            task.queue_name,
            task.priority,
            _aware(task.run_after),
            datetime.now(UTC),
        )

    def result(self, id: str) -> TaskResult[Any]:
        """Make the result of a task that has not started."""
        args, kwargs = json.loads(self.given)
        after = None if self.run_after is None else by_settings(self.run_after)
        task = find_task(self.task).using(
            priority=self.priority, queue_name=self.queue, run_after=after, backend=self.backend
        )
        return TaskResult(
            task=task,
            id=id,
            status=TaskResultStatus("READY"),
            enqueued_at=by_settings(self.enqueued),
            started_at=None,
            finished_at=None,
            last_attempted_at=None,
            args=args,
            kwargs=kwargs,
            backend=self.backend,
            errors=[],
            worker_ids=[],
        )


def find_task(path: str) -> Task[..., Any]:
    """Return the Django task at an import path; InvalidTask for anything else."""
    if path.startswith("__main__."):
        raise InvalidTask(f"{path!r} is in the program that was started, where workers cannot import it from")
    try:
        found = import_string(path)
    except ImportError as error:
        raise InvalidTask(f"there is no task {path!r} that a worker could import: {error}") from error
    if not isinstance(found, Task):
        raise InvalidTask(
            f"{path!r} is a {type(found).__name__} and not a task. Put @task on the function, and keep its name"
        )
    return found


def by_settings(moment: datetime) -> datetime:
    """Convert a time to Django's form: without a zone if USE_TZ=False, in the zone of the settings."""
    return moment if settings.USE_TZ else timezone.make_naive(moment)


def _aware(moment: datetime | None) -> datetime | None:
    return timezone.make_aware(moment) if moment is not None and timezone.is_naive(moment) else moment
