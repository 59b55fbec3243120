"""Running a Django task: what a worker does with a ticket.

Promises: only what is a task of Django's framework is called. A failed task is not tried again; one whose process died
is, and knows by its context how often it was begun before. Signals are sent in the worker: `task_finished` just before
the end is saved, so after a kill in between it is sent again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

from django.db import close_old_connections  # type: ignore[import-untyped]
from django.utils import timezone  # type: ignore[import-untyped]

from ramify.contrib.django.framework import (
    TaskContext,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    task_backends,
    task_finished,
    task_started,
)
from ramify.contrib.django.story import BEGINS, begun, error_of, put, returned
from ramify.contrib.django.ticket import Ticket
from ramify.kernel.attempts.control import Defer
from ramify.kernel.attempts.current import Current, current
from ramify.model.outcome import Failure


def connected() -> Iterator[None]:
    """Close database connections that are too old or broken, around every attempt."""
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


def run(ticket: Ticket) -> Any:
    """Run the task that a ticket names, and return its result as JSON text."""
    me = current()
    backend: Any = task_backends[ticket.backend]
    result = ticket.result(me.key or "")
    begun(result, [*backend.depot.tries(me.run_id, me.task), _this_try(me, ticket)])
    put(result, status=TaskResultStatus.RUNNING)
    try:
        task_started.send(type(backend), task_result=result)
        value = _call(result)
        backend.depot.check(value)
    except Defer:
        raise
    except BaseException as error:
        result.errors.append(error_of(Failure.of(error)))
        put(result, status=TaskResultStatus.FAILED, finished_at=timezone.now())
        # How it ended is certain by now, whatever those who hear of it raise; here, where they see the exception.
        task_finished.send_robust(type(backend), task_result=result)
        raise
    put(result, status=TaskResultStatus.SUCCESSFUL, finished_at=timezone.now(), _return_value=returned(value))
    task_finished.send_robust(type(backend), task_result=result)
    return value


def _this_try(me: Current, ticket: Ticket) -> tuple[int, Any]:
    # Its own end is in the log anyway. If this process dies, this line tells of the try.
    me._notes.add(me, logging.INFO, BEGINS, f"{ticket.task} begins")
    return me._process, timezone.now()


def _call(result: TaskResult[Any]) -> str:
    first = [TaskContext(task_result=result)] if result.task.takes_context else []
    return json.dumps(normalize_json(result.task.call(*first, *result.args, **result.kwargs)))
