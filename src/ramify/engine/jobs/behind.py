"""Operations behind a job: how the job is found that a key names, and the checks of `enqueue(call, after=job)`.

A service that is asked to change what a job is still creating finds that job by its key, and enqueues the change behind
it. `shapes/jobs.py` says how operations wait.

Promises: nothing is decided from what is read here. If the job ends between a look and an `enqueue`, the store decides
by how it ended. A job of another store, or one that is not in the store, is refused: nobody can tell how it ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from ramify.engine.jobs.job import Job
from ramify.engine.tasks.task import Task
from ramify.errors import ConfigError
from ramify.model.call import Call, Extra, label_of
from ramify.model.job import JobState
from ramify.model.join import Rule

if TYPE_CHECKING:
    from ramify.engine.runtime import Runtime

R = TypeVar("R")


def job_for(runtime: Runtime, task: Task[..., R, Any], key: str) -> Job[R] | None:
    """Return the unfinished job that holds this unique key of a task, also under one of its aliases."""
    given: object = task
    if not isinstance(given, Task):
        what = f"a call of {given.kind}" if isinstance(given, Call) else repr(given)
        raise ConfigError(f"job_for(): expected a task function, got {what}. Write job_for(create, key).")
    for kind in (task.kind, *task.aliases):
        holder = runtime.store.reads.holder(kind, label_of(kind, key))
        if holder is not None and not (job := Job[R](runtime, holder)).ended:
            return job
    return None


def job_ahead(runtime: Runtime, after: object) -> int | None:
    """Return the job that somebody gave as `after`, by its id; None stands for no job."""
    if after is None:
        return None
    if isinstance(after, Call):
        raise ConfigError(
            f"enqueue(after=...): expected a job, got a call of {after.kind}. Enqueue it first: job = enqueue(call), "
            "then enqueue(..., after=job)."
        )
    if not isinstance(after, Job):
        raise ConfigError(
            f"enqueue(after={after!r}): expected a job. Write after=engine.job_for(create, key), or "
            "after=engine.job(id)."
        )
    if after._runtime.identity != runtime.identity:
        there, here = after._runtime.store.describe().location, runtime.store.describe().location
        raise ConfigError(
            f"enqueue(after=...): job {after.id} is in another store ({there}) than this engine ({here}). Enqueue with "
            "the engine of the job."
        )
    return after.id


def check_behind(calls: Iterable[Call[Any]]) -> None:
    """Refuse calls that want something else than to wait for a job that ends well."""
    for call in calls:
        if Extra.decode(call.extra).rule is Rule.ALWAYS:
            raise ConfigError(
                f"enqueue(after=...): {call.kind}(...).always() would start however the job ends, and only a job that "
                "follows another can. Write job.then(call.always()), or leave always() out."
            )


def check_there(after: Job[Any] | None) -> None:
    """Refuse a job that is not in the store, now that something was refused."""
    if after is not None and after.state is JobState.NOT_FOUND:
        raise ConfigError(
            f"enqueue(after=...): job {after.id} is not in this store; it never existed or was forgotten. Leave after= "
            "out if what it was to create exists."
        )
