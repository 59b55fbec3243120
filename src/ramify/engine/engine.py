"""The engine: the object users hold. It knows their task functions and one store, and puts them to work.

Promises: making an engine does no I/O; the store is opened when it is first needed, once. After a kill the same
`engine.run(...)` line goes on where the work was.

It composes and delegates: a start is decided in `shapes/start.py`, the work in `kernel/`; a run has `run.py`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, TypeVar, overload

from msgspec import UNSET, UnsetType

from ramify.coordination.lock import Lock, lock_of
from ramify.coordination.topic import Topic
from ramify.engine.jobs.behind import job_for
from ramify.engine.jobs.job import Job
from ramify.engine.jobs.queue import Queue
from ramify.engine.jobs.queue_limit import OnFull
from ramify.engine.processes.importing import check_not_importing
from ramify.engine.processes.working import Working
from ramify.engine.runs.asking import asked, begun_as, showing
from ramify.engine.runs.busy import Busy
from ramify.engine.runs.doing import Doing
from ramify.engine.runs.lacking import failure_of
from ramify.engine.runs.leading import Leading
from ramify.engine.runs.run import Run
from ramify.engine.runtime import Runtime
from ramify.engine.tasks.limit import QUEUE, limit_of
from ramify.engine.tasks.task import Task, kind_name
from ramify.engine.tasks.tasks import Tasks
from ramify.engine.validation import (
    bound_of,
    check_count,
    check_state,
    check_task,
    job_filter,
    level_of,
    seconds_of,
)
from ramify.engine.values import Values
from ramify.errors import ConfigError
from ramify.inspect.find import every_run, named_run
from ramify.inspect.health import Health, health_of
from ramify.inspect.jobs import Standings, jobs
from ramify.kernel.core.queues import Queues
from ramify.kernel.settings import GRACE, MOST_PROCESSES, MOST_THREADS, Settings
from ramify.kernel.signals import Listener
from ramify.model.call import Call
from ramify.model.job import JobState
from ramify.model.own_topics import FAILURES_TOPIC, RUN_ENDS_TOPIC, EndedRun, FailedTask
from ramify.model.policy import Duration
from ramify.model.run import RunState
from ramify.model.task import MAX_ID, check_name
from ramify.shapes.bounds import Bounds
from ramify.shapes.plan import Plan
from ramify.shapes.start import How
from ramify.store.open import Durability

R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")

OrderName = Literal["rounds", "any", "depth-first"]

_busy = Busy()


class Engine(Tasks):
    """A set of tasks and the store that keeps them: `Engine("walk.db")`. Nothing is opened before it is needed.

    store        a file or a URL. A relative path starts at the folder in which the engine was made, even if the program
                 or a worker process changes its folder later
    include      more sets of tasks, each made with `Tasks()`
    version      the version of your program, shown with its processes
    durability   "power": every commit survives a power cut; "process": it survives a kill only, and is faster
    log_level    store log lines of tasks from this level on: "DEBUG", or a number. The level of the root logger has no
                 effect; the level of a logger of your own has
    log_lines    the largest number of log lines stored per attempt
    """

    def __init__(
        self,
        store: str | os.PathLike[str] = "ramify.db",
        *,
        include: Iterable[Tasks] = (),
        version: str | None = None,
        durability: Durability = "power",
        log_level: int | str = "INFO",
        log_lines: int = 1_000,
    ) -> None:
        if isinstance(include, Tasks):
            raise ConfigError("include: expected a list of sets. Write include=[jobs].")
        check_count("log_lines", log_lines)
        super().__init__(include=include)
        level = level_of(log_level)
        self._runtime = Runtime(
            self, store, durability=durability, version=version, log_level=level, log_lines=log_lines
        )

    def close(self) -> None:
        """Close the store and the resources. They are opened again when they are next needed."""
        self._runtime.close()

    def listen(self, listener: Listener) -> None:
        """Call a function with every signal of the workers that this engine starts from now on, in their threads."""
        self._runtime.listen(listener)

    def health(self, *, max_age: Duration | None = None, min_workers: int = 0) -> Health:
        """Report whether the store and all its processes are `healthy`, with the `problems` if not.

        The store is not healthy if a process is dead, silent or cannot write, if the disk is full, or if a run is
        stuck: paused, for example, or with ready tasks that no live worker takes. It is not healthy either if a task
        has been ready for longer than `max_age` (seconds or a timedelta), or if fewer than `min_workers` processes take
        tasks.
        """
        age = None if max_age is None else seconds_of("health(max_age={!r})", max_age)
        check_count("min_workers", min_workers)
        return health_of(self._runtime.store, max_age=age, min_workers=min_workers)

    # runs

    def run(
        self,
        root: Call[R] | Iterable[Call[R]] | Plan[R],
        *,
        name: str | None = None,
        again: bool = False,
        order: OrderName | None = None,
        params: object = None,
        threads: int | None = None,
        processes: int = 0,
        follows: Leading | tuple[Leading, int] | None = None,
        max_running: int | None = None,
        max_tasks: int | None = None,
        deadline: Duration | datetime | None = None,
        progress: bool = False,
        check: bool = False,
    ) -> Run[R]:
        """Run a call and everything it spawns to the end, and return the handle of the run.

        With a `name`, the same line continues the unfinished run of that name after a kill. If that run has finished,
        its handle is returned and nothing runs; `again=True` starts the next generation. Without a name, the line
        continues the unfinished run of the same roots, if the program that began it is gone.

        Runs that this run starts (`dag.trigger`) are worked on too. With `check=True`, a run that did not end as done
        raises RunFailed or RunCancelled; without it, an error is logged.

        `order` applies to the tasks below a root task, and is "rounds" by default; a DAG has its own order.

        At most `max_running` tasks of the run are running at a time, in all processes together. A run with more than
        `max_tasks` tasks is halted. A run that has not ended at its `deadline` (a datetime with a time zone, or seconds
        or a `timedelta` from its start) fails; tasks that are running then finish or are cancelled.

        `threads=None` adapts the number of threads; `threads=0` runs the tasks one by one in this thread.
        `progress=True` shows a progress bar on a terminal (stderr), and otherwise logs a line now and then.
        """
        check_not_importing("run")
        check_count("threads", 0 if threads is None else threads, MOST_THREADS)
        check_count("processes", processes, MOST_PROCESSES)
        if processes and self._runtime.work_on is None:
            from ramify.engine.processes.supervise import address_for_others

            # Before anything is stored: a run that was refused is not there.
            address_for_others(self._runtime)
        bounds = Bounds(max_running, max_tasks, deadline)
        with _busy.beginning(self._runtime.identity):
            ask = asked(self._runtime, _busy, root, order, follows, bounds, name, again, params, stays=True)
            begun = begun_as(self._runtime, ask)
            _busy.add(self._runtime.identity, [begun.run.id])
        try:
            run: Run[R] = Run(self._runtime, begun.run.id, begun.how, begun.roots)
            doing = Doing(self._runtime, _busy, threads, processes)
            if self._runtime.on_begun is not None:
                self._runtime.on_begun(run)
            ended = None
            if begun.how is not How.FINISHED:
                with showing(run, progress, in_place=threads != 0):
                    ended = doing.work_on(begun.run)
            if ask.plan.launches:
                doing.work_on_launched(run.id)
            if ended is RunState.DONE:
                return run
            if (failure := failure_of(self._runtime.store.reads, run._stored)) is not None:
                if check:
                    raise failure
                self._runtime.complain(str(failure), logging.ERROR)
            return run
        finally:
            _busy.remove(self._runtime.identity, [begun.run.id])

    def start(
        self,
        root: Call[R] | Iterable[Call[R]] | Plan[R],
        *,
        name: str | None = None,
        again: bool = False,
        order: OrderName | None = None,
        params: object = None,
        follows: Leading | tuple[Leading, int] | None = None,
        max_running: int | None = None,
        max_tasks: int | None = None,
        deadline: Duration | datetime | None = None,
    ) -> Run[R]:
        """Register a run without working on it. `engine.working()` here or `ramify worker` elsewhere runs it."""
        check_not_importing("start")
        bounds = Bounds(max_running, max_tasks, deadline)
        ask = asked(self._runtime, _busy, root, order, follows, bounds, name, again, params, stays=False)
        begun = begun_as(self._runtime, ask)
        return Run(self._runtime, begun.run.id, begun.how, begun.roots)

    def find(self, name: str | int) -> Run[Any] | None:
        """Return the newest run of that name, one generation (`find("name#1")`), or a run by its id; else None."""
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise ConfigError(f"find(): expected the name of a run or its id, got {name!r}.")
        reads = self._runtime.store.reads
        found = named_run(reads, name) if isinstance(name, str) else reads.runs_at([name]).get(name)
        return None if found is None else Run(self._runtime, found.id)

    def runs(self, state: RunState | None = None) -> Iterator[Run[Any]]:
        """Iterate over the runs in the store, or those in one state, newest first, page by page."""
        check_state(state)
        found = every_run(self._runtime.store.reads, state, newest_first=True)
        return (Run(self._runtime, each.id) for each in found)

    # jobs

    def enqueue(self, call: Call[R], *, again: bool = False, after: Job[Any] | None = None) -> Job[R]:
        """Add a job to the queue of its task. When this returns, the job is in the store.

        A call with `.unique(key)`, or `.unique()` for its arguments, returns the job that has the key if that one is
        queued, running or recently done. `again=True` replaces a job that is done, never one that has not ended.

        With `after`, it starts once that job is done, and is cancelled if that job ends otherwise. Jobs after the same
        one start one by one, in the order in which they were added, however the one before has ended.
        """
        check_not_importing("enqueue")
        (job,) = self._runtime.enqueuing.enqueue([call], again=again, behind=after)
        return job

    @overload
    def enqueue_many(
        self, calls: Iterable[Call[R]], *, again: bool = False, after: Job[Any] | None = None
    ) -> list[Job[R]]: ...
    @overload
    def enqueue_many(
        self, calls: Iterable[Call[R]], *, again: bool = False, then: Call[S], after: Job[Any] | None = None
    ) -> tuple[list[Job[R]], Job[S]]: ...
    def enqueue_many(
        self,
        calls: Iterable[Call[Any]],
        *,
        again: bool = False,
        then: Call[Any] | None = None,
        after: Job[Any] | None = None,
    ) -> Any:
        """Add many jobs in one transaction; `after` another job, one by one in the order of the list.

        With `then`, also add a job that starts when all of them are done. It takes a `Stream` of their results, or the
        result of one call, as the argument it was made without: `parts, total = engine.enqueue_many(calls,
        then=add_up.of())`.
        """
        check_not_importing("enqueue_many")
        jobs = self._runtime.enqueuing.enqueue(calls, again=again, then=then, behind=after)
        return jobs if then is None else (jobs[:-1], jobs[-1])

    async def aenqueue(self, call: Call[R], *, again: bool = False, after: Job[Any] | None = None) -> Job[R]:
        """Do `enqueue` in a coroutine, without blocking the event loop."""
        check_not_importing("aenqueue")
        (job,) = await self._runtime.enqueuing.aenqueue([call], again=again, behind=after)
        return job

    @overload
    async def aenqueue_many(
        self, calls: Iterable[Call[R]], *, again: bool = False, after: Job[Any] | None = None
    ) -> list[Job[R]]: ...
    @overload
    async def aenqueue_many(
        self, calls: Iterable[Call[R]], *, again: bool = False, then: Call[S], after: Job[Any] | None = None
    ) -> tuple[list[Job[R]], Job[S]]: ...
    async def aenqueue_many(
        self,
        calls: Iterable[Call[Any]],
        *,
        again: bool = False,
        then: Call[Any] | None = None,
        after: Job[Any] | None = None,
    ) -> Any:
        """Do `enqueue_many` in a coroutine, without blocking the event loop."""
        check_not_importing("aenqueue_many")
        jobs = await self._runtime.enqueuing.aenqueue(calls, again=again, then=then, behind=after)
        return jobs if then is None else (jobs[:-1], jobs[-1])

    def job(self, id: int) -> Job[Any]:
        """Return the handle of the job with this id; its state is `not_found` if there is none."""
        check_task("job({})", id)
        return Job(self._runtime, id)

    def job_for(self, create: Task[..., R, Any], key: str) -> Job[R] | None:
        """Return the unfinished job of a task with this `.unique(key)`, for `enqueue(after=)`; None without one."""
        return job_for(self._runtime, create, key)

    def jobs(
        self,
        *,
        kind: str | Task[..., Any, Any] | None = None,
        state: JobState | str | None = None,
        queue: str | None = None,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        older: Duration | None = None,
        newer: Duration | None = None,
        before: int = 0,
    ) -> Iterator[Job[Any]]:
        """Iterate over the jobs that match all arguments, newest first, page by page.

        `older` and `newer` compare the time since a job ended or, if it has not ended, since it was added. `before` is
        the id of the last job of the page before.
        """
        check_task("jobs(before={})", before)
        store = self._runtime.store
        wanted = job_filter(store.now(), kind_name(kind, "jobs(kind={})"), state, queue, key, headers, older, newer)
        found = jobs(store.reads, wanted, store.now(), before if before < MAX_ID else 0)
        return (Job(self._runtime, each.row.id) for each in found if each.row is not None)

    def job_states(self, ids: Iterable[int]) -> dict[int, JobState]:
        """Return the states of many jobs at one moment, by id."""
        store, asked = self._runtime.store, list(ids)
        for id in asked:
            check_task("job_states([{}])", id)
        return {id: found.state for id, found in Standings(store.reads, store.now()).of(asked).items()}

    def queue(
        self,
        name: str,
        *,
        max_pending: int | UnsetType | None = UNSET,
        on_full: OnFull | None = None,
        max_running: int | UnsetType | None = UNSET,
    ) -> Queue:
        """Return the handle of a queue. `max_pending` limits the jobs in it that have not ended; None lifts the limit.

        Above it `enqueue` raises QueueFull, or with `on_full="block"` waits. Each process counts before it writes, so
        several that enqueue at the same moment may exceed the limit by a few jobs.

        At most `max_running` tasks of the queue run at a time, in all processes together. Workers store this limit when
        they start; None removes it then.
        """
        queue = Queue(self._runtime, check_name("queue", name))
        self._runtime.queues.add(name)
        if max_pending is not UNSET or on_full is not None:
            self._runtime.enqueuing.room.bound(name, bound_of(max_pending, on_full))
        if not isinstance(max_running, UnsetType):
            limit = None if max_running is None else limit_of("queue({})", QUEUE + name, max_running, None, None)
            self._runtime.queue_limits[name] = limit
        return queue

    # values

    @overload
    def values(self, space: str, of: type[T]) -> Values[T]: ...
    @overload
    def values(self, space: str, of: Any) -> Values[Any]: ...
    def values(self, space: str, of: Any) -> Values[Any]:
        """Return the handle of a space of values, such as quotas or cursors, which all processes of the store share.

        `of` is the type of the values. Each change is made at once; in a task use `current().values`, whose changes are
        made with the end of the task.
        """
        return Values(self._runtime, space, of)

    def lock(
        self,
        name: str | Callable[..., str],
        *,
        wait: Duration | None = 45,
        holders: int = 1,
        ttl: Duration | None = None,
    ) -> Lock:
        """Return a lock that all programs of the store share: `with engine.lock("report"):` or `async with`.

        As a decorator it takes its name from the arguments: `@engine.lock("report-{customer}")`, or a function of them.
        At most `holders` hold it at a time. After `wait` (seconds or a timedelta; None for ever) it raises LockTimeout.
        A lock is held until it is released, its process dies, or `ttl` is up.
        """
        return lock_of(self._runtime.locks, name, wait, holders, ttl)

    @overload
    def topic(self, name: str, of: type[T], *, keep: Duration | None = None) -> Topic[T]: ...
    @overload
    def topic(self, name: str, of: Any, *, keep: Duration | None = None) -> Topic[Any]: ...
    def topic(self, name: str, of: Any, *, keep: Duration | None = None) -> Topic[Any]:
        """Return a topic that all programs of the store share: `orders = engine.topic("orders", Order)`.

        `of` is the type of its values. Publications are kept for `keep` (seconds or a timedelta), or for ever.
        """
        return self._runtime.topics.topic(name, of, keep)

    @property
    def failures(self) -> Topic[FailedTask]:
        """The tasks that failed for good: `@engine.on(engine.failures)` is told of each. The store publishes them."""
        return self._runtime.topics.own(FAILURES_TOPIC, FailedTask)

    @property
    def run_ends(self) -> Topic[EndedRun]:
        """The ends of runs, published by the store: `@engine.on(engine.run_ends)`."""
        return self._runtime.topics.own(RUN_ENDS_TOPIC, EndedRun)

    # workers

    def working(
        self,
        *,
        queues: Iterable[str] | Mapping[str, int] | None = None,
        threads: int | None = None,
        processes: int = 0,
        grace: Duration = GRACE,
    ) -> Working:
        """Run workers inside your own program: `with engine.working():` or `async with engine.working():`.

        They serve every run in the store, in threads of this process or in `processes` worker processes. A list of
        `queues` is served in order, so a later queue only while the earlier ones are empty. `{"high": 3, "low": 1}`
        shares the work by weight, and a set of names has no order.

        When the block ends, running tasks get `grace` to finish (seconds or a timedelta). Unfinished tasks run again
        with the next start. SIGTERM or Ctrl-C ends the wait, unless the block is in a thread other than the main one.
        """
        check_not_importing("working")
        check_count("threads", 0 if threads is None else threads, MOST_THREADS)
        check_count("processes", processes, MOST_PROCESSES)
        if threads == 0:
            raise ConfigError("working(threads=0): expected 1 thread or more. Leave threads out, or give 1 or more.")
        chosen = None if queues is None else Queues.of(queues)
        patience = seconds_of("working(grace={!r})", grace)
        return Working(self._runtime, Settings(queues=chosen, threads=threads, grace=patience), processes)
