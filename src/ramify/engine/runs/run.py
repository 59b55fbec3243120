"""The handle of a run: look at it, wait for it, steer it.

Promises: a handle keeps nothing of the run, so it is never out of date and may be used from any thread and in any
process. Results and errors are streams that hold one page at a time. Steering is stored with the run: every process
obeys it, also after a restart.

Does not work on the run; `engine.run`, `engine.working` and `ramify worker` do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from ramify.engine.runs import deciding
from ramify.engine.runs.answering import answer, written
from ramify.engine.runs.deciding import Resolved
from ramify.engine.runs.forgetting import forget, forget_older
from ramify.engine.runs.keyed import TaskState, id_of, ids_to_retry, results_with, state_of
from ramify.engine.runs.lacking import check_whole, failure_of
from ramify.engine.runs.reading import Reading, context_of
from ramify.engine.runs.retrying import Retried, TasksToRetry, retry
from ramify.engine.runs.rows import ResultRow, Rows, position_of
from ramify.engine.runs.timeline import DecisionRow, RunSummary, TimelineRow, decisions, durations, summary, timeline
from ramify.engine.runs.waiting import Waiting
from ramify.engine.tasks.task import Task, kind_name
from ramify.errors import ConfigError
from ramify.inspect.reason import reason_of
from ramify.inspect.status import Counts, Phase, counts_of, status_of
from ramify.kernel.tuning import ASYNC_REST, LONGEST_REST
from ramify.model.call import Call
from ramify.model.event import Status
from ramify.model.forgetting import check_remembered
from ramify.model.gate import GATE
from ramify.model.mark import Settled
from ramify.model.outcome import TaskError
from ramify.model.policy import Duration
from ramify.model.run import RunState, StoredRun
from ramify.shapes.plan import Added
from ramify.shapes.start import How, add, decode_params
from ramify.store.reads import Table

if TYPE_CHECKING:
    from ramify.engine.runtime import Runtime

R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")

#: No result was given, not even None.
UNRESOLVED: Any = object()


class Run(Generic[R_co]):
    """The handle of a run. `begun` says whether the start was new, continued or finished.

    `roots` has the task of each root of a new run, in order, or the task that has its key (`.unique()`, `.once()`).
    """

    id: int
    begun: How | None
    roots: tuple[Added, ...]

    def __init__(self, runtime: Runtime, id: int, begun: How | None = None, roots: Sequence[Added] = ()) -> None:
        self.id = id
        self.begun = begun
        self.roots = tuple(roots)
        self._runtime = runtime

    # what it is

    @property
    def name(self) -> str | None:
        """Its name, if it has one."""
        return self._stored.name

    @property
    def definition(self) -> str | None:
        """The name of the DAG or the pipeline it is a run of; None if it runs plain calls."""
        return self._stored.definition

    @property
    def state(self) -> RunState:
        """Its state: open, paused, draining, or ended as done, failed, cancelled or halted."""
        return self._stored.state

    @property
    def reason(self) -> str | None:
        """The reason it was paused, cancelled, halted or failed; None if there is none."""
        return reason_of(self._runtime.store.reads, self._stored)

    @property
    def phase(self) -> Phase:
        """Its current activity."""
        return status_of(self._runtime.store, self.id).phase

    @property
    def round(self) -> int:
        """Its current round; -1 before the first."""
        return self._stored.round

    @property
    def params(self) -> Any:
        """The params it was started with: `engine.run(params=...)`, or those of a DAG by name, as plain JSON values."""
        return decode_params(self._stored.params)

    @property
    def context(self) -> Mapping[str, Any]:
        """The values its tasks have set so far (`current().context.set`), by name, as plain values."""
        return context_of(self._runtime.store.reads, self.id)

    @property
    def counts(self) -> Counts:
        """The numbers of its tasks by how they ended."""
        return sum(counts_of(self._runtime.store.reads, self.id).values(), Counts())

    @property
    def summary(self) -> RunSummary:
        """Its counts and times in a few numbers."""
        return summary(self._runtime.store, self.id)

    @property
    def ended(self) -> bool:
        """True if it has ended, as done or otherwise."""
        return self.state.is_end

    @property
    def _stored(self) -> StoredRun:
        """The run as it is stored now."""
        return self._runtime.store.reads.run(self.id)

    def __repr__(self) -> str:
        name = "" if (found := self._stored).name is None else f"{found.name!r} "
        return f"<run {name}({self.id}): {found.state.value}, round {found.round}>"

    # what came of it

    @overload
    def results(self, kind: None = None, *, partial: bool = False, rows: Literal[False] = False) -> Iterator[R_co]: ...
    @overload
    def results(
        self, kind: Task[..., T, Any], *, partial: bool = False, rows: Literal[False] = False
    ) -> Iterator[T]: ...
    @overload
    def results(self, kind: str, *, partial: bool = False, rows: Literal[False] = False) -> Iterator[Any]: ...
    @overload
    def results(
        self, kind: None = None, *, partial: bool = False, rows: Literal[True], after: str | None = None
    ) -> Iterator[ResultRow[R_co]]: ...
    @overload
    def results(
        self, kind: Task[..., T, Any], *, partial: bool = False, rows: Literal[True], after: str | None = None
    ) -> Iterator[ResultRow[T]]: ...
    @overload
    def results(
        self, kind: str, *, partial: bool = False, rows: Literal[True], after: str | None = None
    ) -> Iterator[ResultRow[Any]]: ...
    def results(
        self, kind: Any = None, *, partial: bool = False, rows: bool = False, after: str | None = None
    ) -> Iterator[Any]:
        """Iterate over the results of its tasks, of all kinds or of one (a task function or a name).

        Results of a run that has ended come kind by kind, by id. Within a kind, roots come in the order they were
        given, then the calls that one program gave to `add`; so do the children of one task with the same queue, lane
        and priority. The order of children of different tasks is undefined. Results of an open run come as they are
        saved, until it ends; of a queue or schedule, which never ends, come those that exist now.

        If tasks failed, this raises RunFailed with the error groups; if the run was cancelled, RunCancelled, which is a
        RunFailed. With `partial=True` it raises neither, and yields the results that exist. A halted run yields its
        results without raising.

        With `rows=True` each result comes as a `ResultRow` with its task, key, arguments and a cursor, in the order of
        their commits. `after=row.cursor` continues behind that row, after a kill too: none is missed or repeated.
        """
        if rows:
            return chain.from_iterable(self._rows(kind_name(kind), partial, after))
        if after is not None:
            raise ConfigError(f"results(after={after!r}): a cursor needs rows. Give rows=True as well.")
        return chain.from_iterable(self._pages(kind_name(kind), partial))

    @overload
    def aresults(self, kind: None = None, *, partial: bool = False) -> AsyncIterator[R_co]: ...
    @overload
    def aresults(self, kind: Task[..., T, Any], *, partial: bool = False) -> AsyncIterator[T]: ...
    @overload
    def aresults(self, kind: str, *, partial: bool = False) -> AsyncIterator[Any]: ...
    async def aresults(self, kind: Any = None, *, partial: bool = False) -> AsyncIterator[Any]:
        """Iterate over the results in `async for`, without rows."""
        pages = await asyncio.to_thread(self._pages, kind_name(kind), partial, ASYNC_REST)
        while (page := await asyncio.to_thread(next, pages, None)) is not None:
            for result in page:
                yield result

    def errors(self) -> Iterator[TaskError]:
        """Iterate over the tasks that failed for good or were quarantined. It raises for none of them."""
        return self._reading().errors(self.id)

    def check(self) -> Run[R_co]:
        """Return the run if it ended as done. Otherwise raise RunFailed or RunCancelled, with the error groups."""
        check_remembered(found := self._stored)
        if not found.state.is_end:
            raise ConfigError(
                f"check(): expected a run that has ended, got one that is {found.state.value}. wait() first."
            )
        if (failure := failure_of(self._runtime.store.reads, found)) is not None:
            raise failure
        return self

    def __getitem__(self, key: str) -> TaskState:
        """Where the task with this key stands: of a DAG, a node by its id, or an item of a map, `run["load[17]"]`."""
        return state_of(self._reading(), self.id, key)

    def _stored_results(self, keys: Sequence[str]) -> Mapping[str, bytes | None]:
        """Return what the tasks with these keys gave, as it is stored, for `dag.of(...).part(given=run)`."""
        return results_with(self._runtime.store.reads, self.id, keys)

    def sql(self, query: str) -> Table:
        """Run a read-only SELECT in which `:run` is the id of this run, on stores that take SQL."""
        about = self._runtime.store.describe()
        if not about.sql:
            raise ConfigError(f"sql(): the {about.name} store takes no SQL. Use results(), errors() and counts.")
        asking: Any = self._runtime.store.reads
        answer: Table = asking.sql(query, {"run": self.id})
        return answer

    def timeline(self) -> Iterator[TimelineRow]:
        """Iterate over the attempts that have ended, by task, with start, end, number and process."""
        return timeline(self._runtime.store.reads, self.id)

    def decisions(self) -> Iterator[DecisionRow]:
        """Iterate over the decisions about it, in their order: pauses, cancels, retries, with who made them and why."""
        return decisions(self._runtime.store.reads, self.id)

    def durations(self) -> dict[str, float]:
        """Return the seconds that each ended node of a DAG took, by id, for `dag.critical_path(...)`."""
        return durations(self._runtime.store, self.id)

    def _pages(self, kind: str | None, partial: bool, longest_rest: float = LONGEST_REST) -> Iterator[list[Any]]:
        reading = self._reading()
        if not self.ended:

            def tail(after: int) -> tuple[list[list[Any]], int]:
                found, came = reading.tail(self.id, kind, after)
                return [found], came

            return self._follow(tail, self._stored.since, partial, longest_rest)
        if not partial:
            check_whole(self._runtime.store.reads, self._stored)
        return reading.results(self.id, kind)

    def _rows(self, kind: str | None, partial: bool, cursor: str | None) -> Iterator[list[ResultRow[Any]]]:
        since = self._stored.since
        position = (since, 0) if cursor is None else position_of(cursor)
        if self.ended and not partial:
            check_whole(self._runtime.store.reads, self._stored)
        # The commit of the cursor may hold more, so it is read again.
        return self._follow(Rows(self._reading(), self.id, kind, position).tail, max(since, position[0] - 1), partial)

    def _follow(
        self,
        tail: Callable[[int], tuple[Iterable[T], int]],
        after: int,
        partial: bool,
        longest_rest: float = LONGEST_REST,
    ) -> Iterator[T]:
        waiting = Waiting(self._runtime)
        until: int | None = None
        if not self.ended:
            self._runtime.lend_a_hand(self)
        while True:
            if until is None and ((now := self._stored).state.is_end or now.endless):
                # All that it came to is there by now. Other runs may go on writing the same log for ever, or itself.
                until = self._runtime.store.reads.head()
            pages, came = waiting.read(tail, after)
            # Asked after the log was read: what was forgotten meanwhile may be missing from it.
            check_remembered(self._stored)
            yield from pages
            if until is not None and came >= until:
                break
            if came == after:
                waiting.rest(longest_rest)
            after = came
        if not partial:
            check_whole(self._runtime.store.reads, self._stored)

    def _reading(self) -> Reading:
        return Reading(self._runtime.store.reads, self._runtime.handlers())

    # waiting

    def wait(self, timeout: Duration | None = None) -> bool:
        """Wait until it has ended, at most `timeout`, and return whether it has.

        Raises the error that broke the workers of this program (`working()`), since nobody else may be running.
        """
        if timeout is None:
            self._runtime.lend_a_hand(self)
        return Waiting(self._runtime).until(lambda: self.ended, timeout)

    def __await__(self) -> Generator[Any, None, Run[R_co]]:
        return self._wait_async().__await__()

    async def _wait_async(self) -> Run[R_co]:
        if self._runtime.work_on is not None:
            await asyncio.to_thread(self._runtime.lend_a_hand, self)
        return await self._runtime.watcher.until(lambda: self if self.ended else None)

    # steering

    def add(self, *calls: Call[Any]) -> tuple[Added, ...]:
        """Add tasks from outside. In a run with rounds they go to the next round. RunEnded if the run has ended.

        Returns for each call the task it is now. If its key was taken, it is not `created`, and the task is the one
        with the key.
        """
        if not calls:
            return ()
        self._runtime.check_known(calls)
        return add(self._runtime.store, self.id, calls, self._runtime.reserve_ids)

    def pause(self, reason: str = "", *, by: str | None = None) -> RunState:
        """Start no more of its tasks until `resume`; running tasks finish.

        Here and below, `reason` and `by` (user@host by default) are stored with the decision.
        """
        return deciding.pause(self._runtime.store, self.id, reason, by)

    def resume(self, reason: str = "", *, by: str | None = None) -> RunState:
        """Resume a paused run."""
        return deciding.resume(self._runtime.store, self.id, reason, by)

    def cancel(
        self, reason: str = "", *, task: int | str | None = None, below: bool = False, by: str | None = None
    ) -> Settled:
        """Cancel the run, one task, or a task and all its present and future descendants.

        Here and below, give a task by its id or its key; in a DAG, the key of a node is its id.
        """
        if below and task is None:
            raise ConfigError("cancel(below=True): expected a task whose descendants to cancel. Give task=....")
        store = self._runtime.store
        if task is None:
            return deciding.cancel(store, self.id, reason, by)
        return deciding.cancel_task(
            store, self.id, id_of(self._runtime.store.reads, self.id, task), below=below, reason=reason, by=by
        )

    def resolve(
        self, task: int | str, *, result: Any = UNRESOLVED, skip: bool = False, reason: str = "", by: str | None = None
    ) -> Resolved:
        """Mark a task as done with `result`, or with `skip=True` as skipped. Its function is not called.

        The task may never have been tried. If a worker is running it, the end that comes first counts. A task that had
        ended (as failed, for example) starts a new life that ends like this, and so does everything that waited for it.
        """
        if skip == (result is not UNRESOLVED):
            raise ConfigError(f"resolve({task!r}): expected result=... or skip=True.")
        task = id_of(self._runtime.store.reads, self.id, task)
        row = self._runtime.store.reads.task(task)
        if row is None or row.run != self.id:
            return Resolved(Settled.UNKNOWN)
        if skip:
            status, value = Status.SKIPPED, None
        else:
            status = Status.DONE
            value = written(row, result) if row.kind == GATE else self._reading().encoded(row.kind, result)
        return deciding.resolve(self._runtime.store, self.id, task, status, value, reason, by)

    def answer(self, gate: str, value: Any, *, reason: str = "", by: str | None = None) -> None:
        """Answer an open gate of a pipeline by its name. The first answer counts: GateClosed for any other."""
        answer(self._runtime.store, self.id, gate, value, reason, by)

    def retry(
        self,
        *tasks: int | str,
        failed: bool = True,
        quarantined: bool | None = None,
        cancelled: bool = False,
        reason: str = "",
        by: str | None = None,
    ) -> Retried:
        """Retry these tasks, or all failed ones; with `quarantined=True` or `cancelled=True` those too.

        In a pipeline or a DAG, quarantined tasks are retried with the failed ones unless `quarantined=False`, because
        they halt the run too. Everything that depends on a retried task runs again, such as a continuation that was
        skipped. A run that had ended opens again: `engine.run` with the same name, or any worker, continues it.

        For a map, the items that were not done are retried. If all were done, or if the map depends on a retried task,
        it makes new items: the old ones are replaced and cannot be restored. ConfigError if a worker is running one of
        those.
        """
        named = ids_to_retry(self._runtime.store.reads, self.id, tasks)
        if tasks and not named:
            return Retried()
        chosen = TasksToRetry(named, failed, quarantined, cancelled)
        return retry(self._runtime.store, self._reading(), self.id, chosen, reason, by)

    def forget(self, reason: str = "", *, older: Duration | None = None, by: str | None = None) -> int:
        """Delete it from the store for good, with all results and logs of its tasks. Return the number of tasks
        deleted.

        The run must have ended, and no other run may need its results: RunNeeded. Its name, its counts and its end
        state stay, so that `engine.run` does not start it again by mistake; its results raise RunForgotten. With
        `older`, delete it only if it ended longer ago; of an open run, delete the tasks that ended longer ago (at least
        a day) and that nothing can still ask for. After a kill, the same call continues.
        """
        store = self._runtime.store
        return forget(store, self.id, reason, by) if older is None else forget_older(store, self.id, older, reason, by)
