"""The story of a Django task, told from what the store has: when it was tried and where, how it ended, what it raised.

Promises: how it ended is told with all that belongs to it as soon as it is saved. Of a try that was killed it is known
that it was begun if it went on for about a second; so is a try that still goes on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ramify.contrib.django.framework import TaskError, TaskResult, TaskResultStatus
from ramify.contrib.django.ticket import by_settings
from ramify.errors import JobCancelled, JobFailed
from ramify.inspect.jobs import JobStanding
from ramify.inspect.lives import Commits
from ramify.inspect.words import instant
from ramify.model.event import Event, Status
from ramify.model.job import JobState
from ramify.model.mark import reason_text
from ramify.model.outcome import Failure
from ramify.store.reads import PAGE_LIMIT, Reads

#: What the line says that a try leaves in the log of its task when it begins: which logger made it.
BEGINS = "ramify.django.begins"

#: One try: the number of the process, and when it began.
Try = tuple[int, datetime]

_STATUSES = {
    JobState.QUEUED: TaskResultStatus.READY,
    JobState.RUNNING: TaskResultStatus.RUNNING,
    JobState.DONE: TaskResultStatus.SUCCESSFUL,
    JobState.FAILED: TaskResultStatus.FAILED,
    JobState.CANCELLED: TaskResultStatus.FAILED,
}
_BAD_ENDS = (Status.FAILED, Status.QUARANTINED, Status.CANCELLED, Status.SKIPPED, Status.REPLACED)


def tell(result: TaskResult[Any], reads: Reads, standing: JobStanding) -> None:
    """Update a result to the present state of its task, without the value it returned."""
    assert standing.row is not None
    task = standing.row.id
    events, commits = reads.events(task, task), Commits(reads)
    tries = list(tries_of(reads, standing.row.run, task))
    put(result, status=_STATUSES[standing.state])
    result.errors.extend(_error_of_event(event) for event in events if event.status in _BAD_ENDS)
    last = events[-1] if events and events[-1].status.is_end else None
    if standing.ended is not None and last is None:
        result.errors.append(error_of(Failure("Cancelled", "its queue was cancelled"), _path(JobCancelled)))
    commit = None if standing.seq is None else commits.at(standing.seq)
    if commit is not None:
        put(result, finished_at=_moment(commit.at))
        is_told = bool(tries) and tries[-1][0] == commit.process
        if last is not None and last.status in (Status.DONE, Status.FAILED) and not is_told:
            # Its line is not there yet, or was never kept.
            tries.append((commit.process, _moment(commit.at - (last.took or 0))))
    begun(result, tries)


def tries_of(reads: Reads, run: int, task: int) -> Sequence[Try]:
    """Return the attempts of a task that left a line in its log, as all but very short ones do."""
    found: list[Try] = []
    after, more = 0, True
    while more:
        page = reads.logs(run, task=task, after=after, limit=PAGE_LIMIT)
        found += [(each.process, _moment(each.line.at)) for each in page.rows if each.line.logger == BEGINS]
        after, more = page.after, page.more
    return found


def begun(result: TaskResult[Any], tries: Sequence[Try]) -> None:
    """Add its attempts to a result."""
    if tries:
        put(result, started_at=tries[0][1], last_attempted_at=tries[-1][1])
        result.worker_ids.extend(f"{process:x}" for process, _ in tries)


def returned(value: Any) -> Any:
    """Decode the value a task returned from stored JSON text; a value set by `resolve` is used as it is."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def error_of(failure: Failure, path: str | None = None) -> TaskError:
    """Return a failure as Django has it: the import path of the exception, and its traceback."""
    kind = failure.type if "." in failure.type else f"builtins.{failure.type}"
    return TaskError(exception_class_path=path or kind, traceback=failure.traceback)


def put(result: TaskResult[Any], **values: Any) -> None:
    """Write into a result, which is frozen for everybody else."""
    for name, value in values.items():
        object.__setattr__(result, name, value)


def _error_of_event(event: Event) -> TaskError:
    match event.status:
        case Status.FAILED:
            return error_of(Failure.decode(event.value))
        case Status.QUARANTINED:
            return error_of(Failure.decode(event.value), _path(JobFailed))
        case _:
            return error_of(Failure(event.status.name.title(), reason_text(event.value)), _path(JobCancelled))


def _path(error: type[Exception]) -> str:
    return f"{error.__module__}.{error.__qualname__}"


def _moment(microseconds: int) -> datetime:
    return by_settings(instant(microseconds))
