"""Jobs: what people call a task that was put into a queue, and where one stands.

A job is a task like any other. That somebody holds it is the line at which `cancel` stops being certain, so that is
what "running" means here: claimed by a process that lives, whether or not its function was called by now.
"""

from __future__ import annotations

from enum import StrEnum

from ramify.model.event import Status
from ramify.model.run import NewRun, Order, Tolerance

#: How the names of the runs begin that are queues of jobs.
QUEUES = "jobs/"
#: The shape of these runs.
SHAPE = "jobs"


def queue_run(queue: str, id: int) -> NewRun:
    """The run that a queue is: endless, and not failed by any of its jobs."""
    return NewRun(
        id,
        QUEUES + queue,
        shape=SHAPE,
        order=Order.ANY,
        endless=True,
        shown=f"the jobs of queue {queue!r}",
        tolerates=Tolerance.ANY,
    )


class JobState(StrEnum):
    """The state of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    NOT_FOUND = "not_found"

    @property
    def is_end(self) -> bool:
        """True if the job has ended, or is not in the store."""
        return self not in (JobState.QUEUED, JobState.RUNNING)


_ENDS = {
    Status.DONE: JobState.DONE,
    Status.FAILED: JobState.FAILED,
    Status.QUARANTINED: JobState.FAILED,
    Status.CANCELLED: JobState.CANCELLED,
    Status.SKIPPED: JobState.CANCELLED,
    Status.REPLACED: JobState.CANCELLED,
}


def job_state(ended: Status | None, *, held: bool) -> JobState:
    """The state of a task that ended like this, or has not and is held by a living process, or is not."""
    if ended is None:
        return JobState.RUNNING if held else JobState.QUEUED
    return _ENDS[ended]
