"""A job: the handle of a task that was enqueued. It can be made anywhere from the id alone.

Promises: what it tells is read when it is asked. A job that is not there, or was forgotten, is in state `not_found`;
that is no error. Waiting sleeps until something was committed.

Does not add jobs: `enqueuing.py` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from ramify.engine.jobs.expiry import end_expired
from ramify.engine.runs import deciding
from ramify.engine.runs.reading import Reading
from ramify.engine.runs.retrying import TasksToRetry, retry
from ramify.engine.runs.waiting import Waiting
from ramify.errors import ConfigError, JobCancelled, JobFailed
from ramify.inspect.jobs import JobStanding, Standings, standing_of
from ramify.inspect.lives import Commits, Life, life_of
from ramify.inspect.words import instant
from ramify.kernel.attempts.notes import PROGRESS
from ramify.model.call import Call, Extra
from ramify.model.event import Status
from ramify.model.job import JobState
from ramify.model.key import key_text
from ramify.model.mark import Settled
from ramify.model.outcome import Failure, TaskError, TaskTraceback
from ramify.model.policy import Duration, seconds_in
from ramify.model.task import MAX_ID, Row
from ramify.store.reads import PAGE_LIMIT

if TYPE_CHECKING:
    from ramify.engine.runtime import Runtime

R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")


class JobProgress(msgspec.Struct, frozen=True):
    """The progress a job reported (`current().progress`), with the time by the store's clock."""

    text: str
    at: int


class Job(Generic[R_co]):
    """The handle of a job. `is_new` is True if the `enqueue` that returned it added the job."""

    def __init__(self, runtime: Runtime, id: int, *, is_new: bool = False) -> None:
        self._runtime = runtime
        self.id = id
        self.is_new = is_new

    def __repr__(self) -> str:
        return f"<job {self.id}: {self.state.value}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and (other.id, other._runtime.identity) == (self.id, self._runtime.identity)

    def __hash__(self) -> int:
        return hash(self.id)

    # where it stands

    @property
    def state(self) -> JobState:
        """Its state now."""
        return self._standing.state

    @property
    def ended(self) -> bool:
        """True if it has ended, or is not in the store."""
        return self.state.is_end

    @property
    def error(self) -> TaskError | None:
        """The error it failed with, or the reason it was cancelled; None if it succeeded or has not ended."""
        return self._error(self._standing)

    def _error(self, standing: JobStanding) -> TaskError | None:
        if standing.row is None or standing.ended in (None, Status.DONE):
            return None
        return self._reading().error(standing.row, standing.ended or Status.FAILED, standing.value)

    @property
    def traceback(self) -> str | None:
        """The full traceback of its last attempt, if that failed, even if a retry is to follow."""
        life = self._life
        failed = life.last in (Status.FAILED, Status.RETRYING, Status.QUARANTINED)
        return Failure.decode(life.value).traceback if failed else None

    @property
    def attempts(self) -> int:
        """The number of attempts that have ended, since the last retry by hand."""
        return self._life.attempts

    @property
    def enqueued_at(self) -> datetime | None:
        """The time it was added; a `delay` counts from there."""
        return None if (row := self._row) is None else instant(row.added)

    @property
    def started_at(self) -> datetime | None:
        """The time its first attempt started; known once that attempt has ended."""
        life, commits = self._life, Commits(self._runtime.store.reads)
        if not life.tries:
            return None
        _, seq, took = life.tries[0]
        at = commits.when(seq)
        return None if at is None else instant(at - took)

    @property
    def ended_at(self) -> datetime | None:
        """The time it ended; None if it has not."""
        store = self._runtime.store
        standings = Standings(store.reads, store.now())
        standing = standings.of([self.id])[self.id]
        at = None if standing.ended is None else standings.when(standing)
        return None if at is None else instant(at)

    @property
    def worker(self) -> str | None:
        """The process that holds it, or that made its last attempt, as `ramify health` names it."""
        process = self._standing.holder
        if process is None and (life := self._life).tries:
            commit = Commits(self._runtime.store.reads).at(life.tries[-1][1])
            process = None if commit is None else commit.process
        return None if process is None else f"{process:x}"

    @property
    def kind(self) -> str | None:
        """The name of its task; None, as in the properties below, if the job is not in the store."""
        return None if (row := self._row) is None else row.kind

    @property
    def key(self) -> str | None:
        """Its key, if it has one."""
        return None if (row := self._row) is None else key_text(row.key)

    @property
    def queue(self) -> str | None:
        """Its queue."""
        return None if (row := self._row) is None else row.queue

    @property
    def headers(self) -> dict[str, str]:
        """The headers that it carries."""
        return {} if (row := self._row) is None else Extra.decode(row.more).headers or {}

    @property
    def progress(self) -> JobProgress | None:
        """The last progress it reported; None if it reported none."""
        row = self._row
        if row is None:
            return None
        last: JobProgress | None = None
        after, more = 0, True
        while more:
            page = self._runtime.store.reads.logs(row.run, task=self.id, after=after, limit=PAGE_LIMIT)
            for stored in page.rows:
                if stored.line.logger == PROGRESS:
                    last = JobProgress(stored.line.text, stored.line.at)
            after, more = page.after, page.more
        return last

    @property
    def _standing(self) -> JobStanding:
        return standing_of(self._runtime.store.reads, self.id, self._runtime.store.now())

    @property
    def _life(self) -> Life:
        is_id = 0 < self.id < MAX_ID
        return life_of(self._runtime.store.reads.events(self.id, self.id) if is_id else ())

    @property
    def _row(self) -> Row | None:
        return self._standing.row

    def _reading(self) -> Reading:
        return Reading(self._runtime.store.reads, self._runtime.handlers())

    # waiting

    def wait(self, timeout: Duration | None = None) -> bool:
        """Wait until it has ended, at most `timeout`, and return whether it has."""
        self._runtime.lend_a_hand_to_job(self.id)
        return Waiting(self._runtime).until(lambda: self.ended, timeout)

    def result(self, timeout: Duration | None = None) -> R_co:
        """Return its result, waiting at most `timeout`: TimeoutError.

        JobFailed if it failed, JobCancelled if it was cancelled, LookupError if it is not in the store.
        """
        if not self.wait(timeout):
            raise TimeoutError(f"job {self.id} has not ended after {seconds_in(timeout):g} seconds; it continues")
        return self._outcome(self._standing)

    def __await__(self) -> Generator[Any, None, R_co]:
        return self._result_async().__await__()

    async def _result_async(self) -> R_co:
        if self._runtime.work_on_job is not None:
            await asyncio.to_thread(self._runtime.lend_a_hand_to_job, self.id)
        return self._outcome(await self._runtime.watcher.until(self._ended))

    def _ended(self) -> JobStanding | None:
        """Where it stands, once it has ended."""
        standing = self._standing
        return standing if standing.state.is_end else None

    def _outcome(self, standing: JobStanding) -> R_co:
        match standing.state:
            case JobState.DONE:
                assert standing.row is not None
                result: R_co = self._reading().result(standing.row.kind, standing.value)
                return result
            case JobState.NOT_FOUND:
                raise LookupError(f"no job {self.id} in this store; it never existed or was forgotten")
            case JobState.CANCELLED:
                error = self._error(standing)
                raise JobCancelled(f"job {self.id} was cancelled: {error}", error)
            case _:
                error = self._error(standing)
                raise JobFailed(f"job {self.id} failed: {error}", error) from _raised(error)

    # steering

    def cancel(self, reason: str = "", *, by: str | None = None) -> Settled:
        """Cancel it. CERTAIN: it is not running and never will. REQUESTED: a worker runs it, and is asked to stop."""
        row = self._row
        if row is None:
            return Settled.UNKNOWN
        return deciding.cancel_task(self._runtime.store, row.run, self.id, reason=reason, by=by)

    def retry(self, reason: str = "", *, by: str | None = None) -> bool:
        """Run it again under the same id if it has ended; return whether it will. ConfigError if its key is taken."""
        row = self._row
        if row is None or not self.ended:
            return False
        end_expired(self._runtime.store, [self.id])
        done = retry(self._runtime.store, self._reading(), row.run, TasksToRetry((self.id,)), reason, by)
        if done.superseded:
            raise ConfigError(f"job {self.id} cannot run again: job {done.superseded[0][1]} has its key now")
        return done.tasks > 0

    def then(self, call: Call[S]) -> Job[S]:
        """Enqueue a job that starts when this one is done, and is cancelled if this one ends otherwise.

        It takes this job's result, or a `Stream` of it, as the one argument it was made without:
        `job.then(send.of(to="ann"))`. With `.always()` on the call, it starts however this job ends.
        """
        return self._runtime.enqueuing.follow(call, [self.id])


def _raised(error: TaskError | None) -> TaskTraceback | None:
    """Return what the job raised, for people to see below the exception that tells of it."""
    return TaskTraceback(error.traceback) if error is not None and error.traceback else None
