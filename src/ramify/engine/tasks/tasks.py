"""Sets of tasks: declared in any module, without an engine, and included where they are to run.

Promises: a kind or an older name means one function in a set and everything it includes; a second one is refused, with
both places, and so is a second DAG or pipeline of a name. What is defined again at a prompt or in a notebook takes the
place of the one before. What is added to an included set later is seen as well.

Does not run anything and knows no store.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from datetime import datetime, tzinfo
from types import FrameType
from typing import Any, ParamSpec, TypeVar, overload

from ramify.coordination.handling import Handling
from ramify.coordination.places import Since
from ramify.coordination.topic import Topic
from ramify.engine.around import AnyHook, H, check_hook
from ramify.engine.resource import AnyResource, AsyncResource, Resource
from ramify.engine.tasks.contents import check_definitions, check_free, declared_limits, schedules_of, table_of
from ramify.engine.tasks.limit import GivenRate, Per, TaskLimit, limit_of, noted
from ramify.engine.tasks.on import OnDecorator, handling_of, options_for, source_of
from ramify.engine.tasks.options import Selector, options_of
from ramify.engine.tasks.task import AnyTask, AsyncChildren, AsyncSpawns, Spawns, Task, TaskDecorator, redefines
from ramify.errors import BadPayload, ConfigError
from ramify.model.call import Call, whole
from ramify.model.policy import Backoff, Duration
from ramify.model.slot import Slot
from ramify.model.task import check_name
from ramify.shapes.cron.declaration import MOST_CAUGHT_UP, CatchUp, Overlap, declaration_of
from ramify.shapes.cron.schedule import Schedule
from ramify.shapes.cron.timetable import Timetable
from ramify.shapes.dag.dag import Dag
from ramify.shapes.definitions import Definitions
from ramify.shapes.pipeline.pipeline import Pipeline
from ramify.shapes.pipeline.steps import Diverted, Steps, Whole
from ramify.shapes.plan import Plan
from ramify.shapes.table import plan_of

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

TaskT = TypeVar("TaskT", bound=AnyTask)


class Tasks:
    """A set of task functions and resources without a store. `Engine(include=[tasks])` runs them."""

    def __init__(self, *, include: Iterable[Tasks] = ()) -> None:
        self._own: dict[str, AnyTask] = {}
        self._resources: list[AnyResource] = []
        self._hooks: list[AnyHook] = []
        self._definitions = Definitions()
        self._schedules: dict[str, Schedule] = {}
        self._limits: dict[str, TaskLimit] = {}
        self._readers: dict[str, Handling] = {}
        self._included: list[Tasks] = []
        #: What is known by which name, and the tasks of each set that it was made of.
        self._table: tuple[list[dict[str, AnyTask]], dict[str, AnyTask]] = ([], {})
        for each in include:
            self.include(each)

    @overload
    def task(self, fn: Callable[P, Spawns[R]], /) -> Task[P, R, Spawns[R]]: ...
    @overload
    def task(self, fn: Callable[P, Iterator[Call[Any]]], /) -> Task[P, Any, Iterator[Call[Any]]]: ...
    @overload
    def task(self, fn: Callable[P, AsyncChildren], /) -> Task[P, Any, AsyncChildren]: ...
    @overload
    def task(self, fn: Callable[P, AsyncSpawns[R]], /) -> Task[P, R, AsyncSpawns[R]]: ...
    @overload
    def task(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def task(self, fn: Callable[P, R], /) -> Task[P, R, R]: ...
    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        aliases: Iterable[str] = (),
        queue: str = "default",
        retries: int = 3,
        backoff: Backoff = ...,
        retry_on: type[BaseException] | tuple[type[BaseException], ...] = ...,
        give_up_on: type[BaseException] | tuple[type[BaseException], ...] = (),
        timeout: Duration | None = None,
        key: Selector | None = None,
        once: Selector | bool | None = None,
        lane: Selector | None = None,
        concurrency: int | None = None,
        rate: GivenRate | None = None,
        max_running: int | None = None,
        max_rate: GivenRate | None = None,
        per: Per | None = None,
        limit: TaskLimit | Sequence[TaskLimit] | None = None,
        max_children: int | None = None,
        max_crashes: int | None = 5,
        keep: Duration | None = None,
    ) -> TaskDecorator: ...
    def task(self, fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a task of a function: `@engine.task`, or `@engine.task(retries=2)`.

        name, aliases   its kind, and older names under which tasks may still wait
        queue           the queue by which workers choose tasks
        retries, backoff, retry_on, give_up_on   `retries=3` is up to four attempts
        timeout         for one attempt, seconds or a timedelta; raises TimeoutError, for retry_on too
        key, once, lane a parameter's name or a function of the arguments (str or None); `once=True`: all arguments
        concurrency     how many run at a time, within one process and lane
        rate            how many start, within one process and lane: "10/s", "100/m", (count, seconds), spread evenly;
                        `Rate("10/s", burst=20)` lets up to 20 more start at once
        max_running, max_rate, per   the same in all processes of the store together; in each lane with `per="lane"`
        limit           limits that several tasks share, from `limit()`: one, or one in all and one per lane
        keep            how long results of jobs are kept, and unique keys with them: seconds or a timedelta, else a day
        max_children, max_crashes   how many children an attempt may have; deaths before it is quarantined
        """
        chosen = options_of(options)

        def decorate(fn: Callable[..., Any]) -> AnyTask:
            task: AnyTask = Task(fn, chosen, self._hooks)
            self._add(task)
            return task

        return decorate if fn is None else decorate(fn)

    def limit(
        self,
        name: str,
        *,
        max_running: int | None = None,
        max_rate: GivenRate | None = None,
        per: Per | None = None,
    ) -> TaskLimit:
        """Make a limit for several tasks: `api = engine.limit("api", max_running=5)`, then `@engine.task(limit=api)`.

        max_running     how many run at a time, in all processes of the store together
        max_rate        how many start: "100/m", or as `rate` of a task
        per             "lane": each lane has these numbers for itself

        Workers store it when they start. `ramify limits set` changes the numbers while they run.
        """
        return self._keep_to(
            limit_of("limit({})", name, max_running, max_rate, per), is_typed=_is_typed(sys._getframe(1))
        )

    def _keep_to(self, limit: TaskLimit, *, is_typed: bool) -> TaskLimit:
        """The limit that a set knows from now on under a name."""
        known = declared_limits(self)
        found = known.get(limit.name)
        if found is not None and is_typed:
            found._become(limit)
        limit = noted(known, limit)
        self._limits = {**self._limits, limit.name: limit}
        return limit

    @overload
    def resource(self, open: Callable[[], Iterator[T]], /) -> Resource[T]: ...
    @overload
    def resource(self, open: Callable[[], AsyncIterator[T]], /) -> AsyncResource[T]: ...
    def resource(self, open: Callable[[], Any], /) -> Any:
        """Make a resource of a generator function: one per process, opened on first use, closed at the end."""
        made: AnyResource = AsyncResource(open) if inspect.isasyncgenfunction(open) else Resource(open)
        self._resources.append(made)
        return made

    def around(self, hook: H, /) -> H:
        """Run a generator function around every attempt of these tasks, and of included ones.

        It yields once, where the task runs, and takes the current attempt or nothing. The first one declared is the
        outermost. An exception of the task is raised at the yield, and counts whatever the hook does with it. An
        exception of the hook itself fails the attempt. Plain hooks run around all tasks, async hooks around async tasks
        only.
        """
        check_hook(hook)
        self._hooks[:] = [each for each in self._hooks if not _is_edited(hook, each)] + [hook]
        return hook

    @overload
    def on(
        self, topic: Topic[T], /, *, ordered: bool = False, since: Since = None, name: str | None = None, **options: Any
    ) -> OnDecorator[T]: ...
    @overload
    def on(
        self, topic: str, /, *, ordered: bool = False, since: Since = None, name: str | None = None, **options: Any
    ) -> OnDecorator[Any]: ...
    def on(
        self, topic: Any, /, *, ordered: bool = False, since: Since = None, name: str | None = None, **options: Any
    ) -> OnDecorator[Any]:
        """Run a task for each publication of a topic: `@engine.on(orders)` above a function of one value.

        The function takes the value, or with the annotation `Published[Order]` all that is known of the publication.
        `topic` may be a name, or a pattern of names: "orders.*". The other options are those of `task`.

        ordered   tasks of one key run one at a time, in the order of the publications
        since     where a reader begins that the store does not know: after a number, at a datetime, or a timedelta back
        name      the name of the reader and of its task, by default that of the function
        """
        source = source_of(topic)
        given = options if name is None else {**options, "name": name}

        def decorate(fn: Callable[..., Any]) -> AnyTask:
            task: AnyTask = Task(fn, options_of(options_for(source, given, fn)), self._hooks)
            reader = handling_of(source, task, ordered, since)
            self._add(task)
            self._readers = {**self._readers, task.kind: reader}
            return task

        return OnDecorator(decorate)

    def dag(self, name: str) -> Dag:
        """Define a DAG: `etl = engine.dag("etl")`, then `etl.add(load.of(...))`, and `engine.run(etl.of())`."""
        place = self._place(name)
        made = Dag(name, self._definitions)
        self._definitions.placed(name, place)
        return made

    @overload
    def pipeline(self, name: str, steps: Steps[P, R, Whole | Diverted[Whole]]) -> Pipeline[P, R]: ...
    # What stays apart at the end comes to a list or a dict.
    @overload
    def pipeline(self, name: str, steps: Steps[P, Any, Any]) -> Pipeline[P, Any]: ...
    def pipeline(self, name: str, steps: Steps[P, Any, Any]) -> Pipeline[P, Any]:
        """Define a pipeline: `order = engine.pipeline("order", steps(receive).chain(charge))`."""
        place = self._place(name)
        made = Pipeline(name, steps, self._definitions)
        self._definitions.placed(name, place)
        return made

    def cron(
        self,
        cron: str | None = None,
        /,
        *,
        every: Duration | None = None,
        name: str | None = None,
        tz: str | tzinfo = "UTC",
        start: datetime | None = None,
        end: datetime | None = None,
        catch_up: CatchUp = "latest",
        max_catch_up: int = MOST_CAUGHT_UP,
        overlap: Overlap = "skip",
        jitter: Duration = 0,
        late_after: Duration | None = None,
        keep: Duration | None = None,
    ) -> Callable[[TaskT], TaskT]:
        """Enqueue a task without arguments at each slot: `@engine.cron("0 6 * * *")` above `@engine.task`.

        The schedule has the name of the task by default. The other options are those of `schedule`.
        """
        place = _caller()
        times = Timetable.of(cron, every=every, tz=tz, start=start, end=end)
        options = {
            "catch_up": catch_up, "max_catch_up": max_catch_up, "overlap": overlap, "jitter": jitter,
            "late_after": late_after, "keep": keep,
        }  # fmt: skip

        def decorate(task: TaskT) -> TaskT:
            if not isinstance(task, Task):
                raise ConfigError(f"@cron: expected a task, got {task!r}. Write @engine.cron(...) above @engine.task.")
            try:
                call = whole(task.of())
            except BadPayload as error:
                raise ConfigError(
                    f"@cron: {error}. Write engine.schedule(lambda slot: {task.kind}.of(...), name={task.kind!r}, ...)."
                ) from None
            declared = declaration_of(task.kind if name is None else name, times, call.group.queue, dict(options))
            self._add_schedule(Schedule(declared, lambda slot: call, place))
            return task

        return decorate

    def schedule(
        self,
        make: Callable[[Slot], object] | Call[Any] | Plan[Any],
        *,
        name: str,
        cron: str | None = None,
        every: Duration | None = None,
        tz: str | tzinfo = "UTC",
        start: datetime | None = None,
        end: datetime | None = None,
        catch_up: CatchUp = "latest",
        max_catch_up: int = MOST_CAUGHT_UP,
        overlap: Overlap = "skip",
        jitter: Duration = 0,
        late_after: Duration | None = None,
        keep: Duration | None = None,
        queue: str = "default",
    ) -> None:
        """Start something at each slot: `engine.schedule(lambda slot: etl.of(day=slot.at.date()), cron=..., name=...)`.

        A call becomes a job. Anything else that `engine.start` takes becomes a run named `cron/NAME/TIME`, which is
        forgotten `keep` after its end (30 days). The function is called when the slot starts. Give the call itself if
        it does not depend on the slot.

        cron, every     when: five fields or @hourly, @daily, ...; or an interval, seconds or a timedelta
        tz, start, end  the zone of the expression; no slot lies before `start` or after `end`
        catch_up        slots that no worker started in time: the "latest", "all" (at most `max_catch_up`), or "none"
        overlap         when the slot before has not ended: "skip", "queue", "allow" it, or "cancel" the older one
        jitter          each slot starts up to this much later, always the same for one slot
        late_after      a slot that starts or ends later than this is reported as a failure of the schedule
        queue           the queue that workers must serve to start slots
        """
        place = _caller()
        times = Timetable.of(cron, every=every, tz=tz, start=start, end=end)
        options = {
            "catch_up": catch_up, "max_catch_up": max_catch_up, "overlap": overlap, "jitter": jitter,
            "late_after": late_after, "keep": keep,
        }  # fmt: skip
        check_name("queue", queue)
        if isinstance(make, Task):
            raise ConfigError(f"schedule {name!r}: expected a call, got a task. Write {make.kind}.of(...).")
        constant = isinstance(make, Call) or not callable(make)
        if constant:
            plan_of(whole(make) if isinstance(make, Call) else make)
        declared = declaration_of(name, times, queue, options)
        self._add_schedule(Schedule(declared, (lambda slot: make) if constant else make, place))  # type: ignore[arg-type]

    def _add_schedule(self, schedule: Schedule) -> None:
        for other in schedules_of(self):
            if other.name == schedule.name and other.place != schedule.place:
                raise ConfigError(
                    f"two schedules are called {schedule.name!r}: {other.place} and {schedule.place}. "
                    'Give one another name: name="...".'
                )
        self._schedules = {**self._schedules, schedule.name: schedule}

    def _place(self, name: object) -> str:
        """Where the caller of the caller defines something; ConfigError when that name is defined elsewhere."""
        frame = sys._getframe(2)
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if not _is_typed(frame) and isinstance(name, str):
            check_definitions(self, {name: place})
        return place

    def include(self, tasks: Tasks) -> None:
        """Include another set, with all its present and future tasks."""
        if not isinstance(tasks, Tasks):
            raise ConfigError(f"include(): expected a set of tasks, got {tasks!r}. Give one made with Tasks().")
        if self in tasks._sets():
            raise ConfigError(
                "include(): a set of tasks cannot include itself, directly or through others. Leave this one out."
            )
        self._included.append(tasks)
        try:
            table_of(self)
            check_definitions(self)
            schedules_of(self)
            declared_limits(self)
        except ConfigError:
            self._included.remove(tasks)
            raise

    def _add(self, task: AnyTask) -> None:
        before = self._own.get(task.kind)
        is_edited = before is not None and redefines(task.fn, before.fn)
        known = {name: each for name, each in table_of(self).items() if not (is_edited and each is before)}
        for name in (task.kind, *task.aliases):
            check_free(known, name, task)
        for limit in task.limits:
            self._keep_to(limit, is_typed=is_edited)
        # Another one, because other threads may be looking through the one before.
        self._own = {**self._own, task.kind: task}

    def _sets(self) -> list[Tasks]:
        found: list[Tasks] = []
        waiting: list[Tasks] = [self]
        while waiting:
            each = waiting.pop()
            if each not in found:
                found.append(each)
                waiting.extend(reversed(each._included))
        return found


def _is_typed(frame: FrameType) -> bool:
    """Return whether a line was typed at a prompt or into a notebook."""
    return frame.f_globals.get("__name__") == "__main__" and frame.f_code.co_filename != frame.f_globals.get("__file__")


def _caller() -> str:
    """Where the caller of the caller is, as `file:line`."""
    frame = sys._getframe(2)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_edited(hook: AnyHook, before: AnyHook) -> bool:
    """Return whether a hook is another one, typed again at a prompt; those that a function makes are several."""
    typed = inspect.isfunction(hook) and inspect.isfunction(before) and "<locals>" not in hook.__qualname__
    return typed and redefines(hook, before)
