"""An engine on another store, with time in the hands of a test.

    with using(engine) as bench:
        sign_up("ann")                              # the code under test: it starts runs, or adds to them
        bench.assert_enqueued(welcome.of("ann"))
        bench.drain()                               # everything that is ready, here, to the end
        bench.advance(3600)
        bench.drain()                               # what became due by that

Promises: inside the block the engine works on the store that was given, and outside of it on its own; nothing reaches
that one. Time stands still until `advance`, so nothing is waited for and nothing happens by itself. A failure comes
out of `drain` as it was raised. `engine.run` goes to the end at once: where something is due later, the clock is moved
there. So does waiting for a run that nobody works on (`run.wait()`, `run.results()`, `await run`).

Handlers run in the thread of the test, one after the other, so a debugger stops in them. Rates are not waited for, and
no thread is ended for a timeout; an async task's timeout is real time.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from time import time_ns
from typing import Any

from ramify.engine.engine import Engine
from ramify.engine.resource import AnyResource
from ramify.engine.runs.run import Run
from ramify.engine.tasks.task import Task
from ramify.errors import ConfigError
from ramify.inspect.find import title
from ramify.inspect.gates import every_gate
from ramify.inspect.live import rows_of, wait_of
from ramify.kernel.attempts.control import Defer, Skip
from ramify.kernel.machine import Machine
from ramify.kernel.settings import LaunchedRuns, Settings
from ramify.kernel.signals import Moved, Saved, Signal
from ramify.model.call import Call
from ramify.model.policy import PARKED, Duration, seconds_in
from ramify.model.run import StoredRun
from ramify.shapes.pipeline.own import CHILD
from ramify.store.open import open_store
from ramify.testing.attempt import check_no_event_loop, overridden
from ramify.testing.clock import SECOND, FakeClock
from ramify.testing.enqueued import Enqueued, check_known, enqueued, matches

#: Retries and deferred tasks leave the kernel's memory at once, so that the clock alone decides about them.
_AT_ONCE = -1.0

_in_use: weakref.WeakSet[Engine] = weakref.WeakSet()


@contextmanager
def using(
    engine: Engine,
    store: str | os.PathLike[str] = "memory:",
    *,
    now: datetime | None = None,
    resources: Mapping[AnyResource, Any] | None = None,
    tasks: Mapping[Task[..., Any, Any], Callable[..., Any] | BaseException] | None = None,
) -> Iterator[Workbench]:
    """Put an engine on another store until the block ends. Time starts at `now`, or at the real time, and stands still.

    Give a file to look into the store from another process, or to test a restart. `resources={db: fake}` replaces
    resources without opening them. `tasks={load: fake}` replaces the functions of tasks by other functions, or by
    exceptions to raise. For single nodes of a DAG use `dag.of().part(given={...})`.
    """
    if engine in _in_use:
        raise ConfigError("using(…): this engine is on another store already. Leave that block first.")
    if now is not None and now.utcoffset() is None:
        raise ConfigError(f"using(now={now!r}): expected a datetime with a time zone. Write datetime(..., tzinfo=UTC).")
    clock = FakeClock(time_ns() // 1000 if now is None else round(now.timestamp() * SECOND))
    own = engine._runtime.url
    stand_ins = dict(_stand_in(engine, task, fake) for task, fake in (tasks or {}).items())
    opened = open_store(store, durability="process", clock=clock)
    bench = Workbench(engine, clock)
    engine.close()
    engine._runtime.use(opened)
    engine._runtime.url = store
    engine._runtime.work_on, engine._runtime.work_on_job = bench.finish, bench.finish_job
    engine._runtime.stand_ins = stand_ins
    _in_use.add(engine)
    try:
        with overridden(resources):
            yield bench
    finally:
        _in_use.discard(engine)
        engine._runtime.stand_ins = {}
        engine._runtime.url = own
        engine._runtime.work_on = engine._runtime.work_on_job = None
        engine.close()


def _stand_in(engine: Engine, task: object, fake: object) -> tuple[str, Callable[..., Any]]:
    if not isinstance(task, Task) or task.kind not in engine._runtime.table():
        raise ConfigError(f"using(tasks={{{task!r}: …}}): expected tasks of this engine.")
    if isinstance(fake, BaseException):

        def fail(*args: Any, **kwargs: Any) -> None:
            raise fake

        return task.kind, fail
    if not callable(fake):
        raise ConfigError(f"using(tasks={{{task.kind}: {fake!r}}}): expected a function, or an exception to raise.")
    return task.kind, fake.fn if isinstance(fake, Task) else fake


class Workbench:
    """The handle of an engine that `using` has put on another store."""

    def __init__(self, engine: Engine, clock: FakeClock) -> None:
        self.engine = engine
        self.clock = clock

    # time

    @property
    def now(self) -> datetime:
        """The time by the clock of the test."""
        return datetime.fromtimestamp(self.clock.now() / SECOND, UTC)

    def advance(self, length: Duration) -> None:
        """Move time forward. Tasks that are due by then run in the next `drain`."""
        self.clock.advance(seconds_in(length) or 0.0)
        self.engine._runtime.store.wake()

    # work

    def drain(self, *, raising: bool = True) -> int:
        """Run all ready tasks and everything they spawn, here, and return the number of attempts.

        The first exception of a task stops it and is raised, after it was recorded like any failure; with
        `raising=False` failures are only recorded. Tasks that are due later, retries included, wait for `advance`.
        """
        return self._drain(None, raising)

    async def adrain(self, *, raising: bool = True) -> int:
        """Do `drain` in an async test, whose event loop keeps running; functions run in a thread beside it."""
        return await asyncio.to_thread(self.drain, raising=raising)

    def finish(self, runs: Sequence[int] | None = None) -> None:
        """Drain and move the clock to the next due time, until these runs, or all, have ended.

        A queue of jobs does not end; its jobs do. Failures are recorded and not raised, as with `engine.run`, which
        does this inside `using`.
        """
        launched = LaunchedRuns()
        self._finish(None if runs is None else frozenset(runs), lambda: False, launched)
        reads = self.engine._runtime.store.reads
        stuck = [run for run in map(reads.run, runs or ()) if not run.state.is_end and not run.endless]
        if stuck:
            waited_for = [run for run in map(reads.run, sorted(launched.runs)) if not run.state.is_end]
            raise ConfigError(f"run {stuck[0].id} cannot end: {self._why_stuck(stuck[0], waited_for)}")

    def _why_stuck(self, run: StoredRun, waited_for: Sequence[StoredRun]) -> str:
        start = "Start it with engine.start(…), drain(), and answer:"
        if gates := self.gates(run.id):
            return f"the gate {gates[0]!r} waits for an answer. {start} run.answer({gates[0]!r}, …)"
        for other in waited_for:
            if gates := self.gates(other.id):
                return (
                    f"it waits for run {title(other)}, in which the gate {gates[0]!r} waits for an answer. {start} "
                    f"engine.find({title(other)!r}).answer({gates[0]!r}, …)"
                )
        # The last of them was started by one that waits for it, if any does, and waits for none itself.
        of = f"it waits for run {title(waited_for[-1])}, and nothing of that" if waited_for else "nothing of it"
        return f"{of} can run, now or later. Is it paused, or does it have tasks that this engine does not know?"

    def finish_job(self, run: int, task: int) -> None:
        """Drain and move the clock until a job has ended. `job.wait` and `job.result` do this inside `using`."""
        job = self.engine.job(task)
        self._finish(frozenset({run}), lambda: job.ended, LaunchedRuns())
        if not job.ended:
            raise ConfigError(
                f"job {task} cannot end: neither it nor what it follows can run, now or later. "
                "Is its queue paused, or is it of a task that this engine does not know?"
            )

    def _finish(self, runs: frozenset[int] | None, is_enough: Callable[[], bool], launched: LaunchedRuns) -> None:
        reads = self.engine._runtime.store.reads
        seen: dict[int, int] = {}
        before: tuple[object, ...] = ()
        while True:
            self._drain(runs, raising=False, launched=launched)
            due = None if is_enough() else min(self._due(runs).values(), default=None)
            if due is None:
                break
            within = None if runs is None else runs | launched.runs
            looks, others = self._due(within, looks=True), self._due(within, looks=False)
            # A look may revive the run that it waits for, and that one may end at once.
            ends = {run.id: (run.state, run.ended) for run in map(reads.run, launched.runs)}
            if looks.keys() != seen.keys() or (others, ends) != before:
                seen, before = looks, (others, ends)
            elif seen:
                # The end of a run wakes whoever waits for it, so that another look changes nothing.
                if not others:
                    break
                due = min(others.values())
            self.clock.advance(max(0, due - self.engine._runtime.store.now()) / SECOND)

    def _drain(self, runs: frozenset[int] | None, raising: bool, launched: LaunchedRuns | None = None) -> int:
        if any(handler.calling.is_async for handler in self.engine._runtime.handlers().values()):
            check_no_event_loop("drain()", "await bench.adrain()")
        count = 0
        with self.engine._runtime.using_resources():
            while True:
                done, moved, raised = self._pass(runs, raising, launched or LaunchedRuns())
                count += done
                if raised and raising:
                    raise raised[0]
                # A pass that changed something may have made something else ready: another run's gate, a new run.
                if not (done or moved):
                    return count

    def _pass(
        self, runs: frozenset[int] | None, raising: bool, launched: LaunchedRuns
    ) -> tuple[int, bool, list[BaseException]]:
        """One kernel, until it has nothing to do: attempts, whether a run moved, and what was raised."""
        done, moved = 0, False
        raised: list[BaseException] = []

        def hear(signal: Signal) -> None:
            nonlocal done, moved
            match signal:
                case Saved():
                    done += signal.outcomes
                case Moved():
                    moved = True

        def on_raise(error: BaseException) -> None:
            if not issubclass(type(error), Defer | Skip):
                raised.append(error)
                if raising:
                    kernel.stop()

        settings = Settings(
            runs=runs,
            launched=launched,
            until_idle=True,
            exact_waits=True,
            threads=0,
            memory_wait=_AT_ONCE,
        )
        machine = Machine(clock=lambda: self.clock.monotonic() / SECOND)
        kernel = self.engine._runtime.kernel(settings, machine=machine, on_raise=on_raise)
        kernel.signals.listen(hear)
        kernel.run()
        return done, moved, raised

    def _due(self, runs: frozenset[int] | None, *, looks: bool | None = None) -> dict[int, int]:
        """When tasks of these runs, or of all, are due that are not yet: only looks at other runs, or all but those."""
        now = self.engine._runtime.store.now()
        return {
            task: row.due
            for row in rows_of(self.engine._runtime.store.reads, None)
            if row.due is not None and row.due < PARKED and wait_of(row, now) in ("later", "asking")
            if (runs is None or row.run in runs) and looks in (None, row.kind == CHILD)
            for task in row.tasks
        }

    # what waits

    def gates(self, run: Run[Any] | int | None = None) -> list[str]:
        """Return the gates that wait for an answer, of one run or of all, by name."""
        of = run.id if isinstance(run, Run) else run
        return [each.gate for each in every_gate(self.engine._runtime.store.reads, of)]

    def enqueued(self, what: Call[Any] | Task[..., Any, Any] | None = None) -> list[Enqueued]:
        """Return the waiting tasks by id; with a task function or a call, only those of it."""
        found = enqueued(self.engine, self.engine._runtime.store.now())
        if what is None:
            return found
        check_known(self.engine, what)
        return [each for each in found if matches(self.engine, each, what)]

    def assert_enqueued(self, what: Call[Any] | Task[..., Any, Any], *, times: int | None = None) -> list[Enqueued]:
        """Assert that a task waits: any of a task function, or one with the arguments of a call. Return them.

        The options of the call count too: `remind.of("ann").delay(3600)` must be due in an hour. `times` is the exact
        number.
        """
        found = self.enqueued(what)
        if (found and times is None) or len(found) == times:
            return found
        said = f"{len(found)} of {_named(what)} wait instead of {times}" if times is not None else ""
        raise AssertionError(f"{said or f'no {_named(what)} waits'}; {self._what_waits()}")

    def refute_enqueued(self, what: Call[Any] | Task[..., Any, Any]) -> None:
        """Assert that no such task waits."""
        if self.enqueued(what):
            raise AssertionError(f"{_named(what)} waits; {self._what_waits()}")

    def _what_waits(self) -> str:
        found = self.enqueued()
        shown = ", ".join(map(str, found[:10])) + (f" and {len(found) - 10} more" if len(found) > 10 else "")
        return f"what waits is: {shown}" if found else "nothing waits"


def _named(what: Call[Any] | Task[..., Any, Any]) -> str:
    return what.kind if isinstance(what, Task) else repr(what)
