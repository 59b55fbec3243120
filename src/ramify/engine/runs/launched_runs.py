"""Other runs, for the tasks of one engine: started under a name, once, and looked at.

Promises: what is started has a name, and a start that was sent before finds the run that is there. What came of a run
is told once it has ended, and of a task once that one has.

Does not wait: whoever asks comes again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ramify.engine.runs.keyed import task_with
from ramify.engine.runs.reading import Members, Reading, closing_tasks
from ramify.engine.runs.retrying import TasksToRetry, retry
from ramify.engine.tasks.contents import definitions_of
from ramify.errors import ConfigError, UnknownRun, UnknownTask
from ramify.inspect.find import title
from ramify.inspect.lives import Commits
from ramify.inspect.reason import reason_of
from ramify.kernel.attempts.attempt_env import Definition, Ending, Origin
from ramify.kernel.core.handler import Handler
from ramify.kernel.settings import LaunchedRuns
from ramify.model.call import Call
from ramify.model.codec.wire import tree_in
from ramify.model.decision import Said
from ramify.model.event import Event, Status
from ramify.model.join import GATHERED
from ramify.model.key import key_bytes, key_text
from ramify.model.run import RunState, StoredRun
from ramify.model.task import Row
from ramify.shapes.dag.dataset import PRODUCE, PRODUCED
from ramify.shapes.dag.own import GATHER
from ramify.shapes.dag.trigger import TRIGGER
from ramify.shapes.dataset import note
from ramify.shapes.pipeline.own import WAY
from ramify.shapes.start import StartRequest, begin_once, is_launched_from, launch_digest
from ramify.shapes.table import plan_of
from ramify.store.contract import Store
from ramify.store.reads import Reads

if TYPE_CHECKING:
    from ramify.engine.runtime import Runtime


#: How the results of maps begin.
_GATHERED = b'{"join":'
#: Runs are listed by id: those that several programs start are in order of time to so many seconds.
IN_ORDER = 1.0


class Others:
    """The runs of an engine's store, and what it can start."""

    def __init__(self, runtime: Runtime, handlers: Mapping[str, Handler], launched: LaunchedRuns) -> None:
        self._runtime = runtime
        self._launched = launched
        self._handlers = handlers

    def definition(self, name: str) -> Definition | None:
        """Return what the engine's tasks have under a name; None when nobody here knows it."""
        return next((each for each in definitions_of(self._runtime.tasks) if each.name == name), None)

    def start(self, root: object, name: str, origin: Origin) -> int:
        """Start a run under a name, unless the same task has; its id. ConfigError when another run has that name.

        One that had not ended well before the present life of that task is tried again.
        """
        store = self._runtime.store
        shape, plan = plan_of(root)
        launched = launch_digest(origin.place, origin.given)
        headers = self._runtime.headers_here()
        ask = StartRequest(shape, plan, name=name, order=plan.order, stays=False, launched=launched, headers=headers)
        events = store.reads.events(origin.task, origin.task) if origin.life > 1 else ()
        succeeded, reopened = _reopenings(events)
        began = Commits(store.reads).when(reopened) or 0
        made = self._made_after(origin.parent)
        if made:
            self._cancel_older(name, origin.place, made)

        def is_over(run: StoredRun) -> bool:
            # What ended in its present life is told to whoever waits for it, and not tried again.
            if run.ended is None or run.state is RunState.DONE or run.ended > began:
                return False
            if run.state is RunState.FORGOTTEN:
                # Nothing of it is left to be retried.
                return True
            is_past = run.ended < began or not _failed_after(store.reads, run.id, reopened)
            return is_past and not self._revived(run, events[-1].task)

        run = begin_once(
            store, ask, lambda many: self._runtime.reserve_ids(many, younger=IN_ORDER), max(succeeded, made), is_over
        )
        self._launched.add(run)
        return run

    def _made_after(self, maker: int | None) -> int:
        """The last commit in which one of its makers was reopened, for a task that was made after that; 0 for none."""
        reads, seq = self._runtime.store.reads, 0
        while maker is not None:
            seq = max(seq, _reopenings(reads.events(maker, maker))[1])
            row = reads.task(maker)
            maker = None if row is None else row.parent
        return seq

    def _cancel_older(self, name: str, place: str, made: int) -> None:
        """Cancel what a task that was replaced has launched from the same place, if that goes on."""
        store = self._runtime.store
        old = store.reads.find_run(name)
        if old is not None and not old.state.is_end and old.since < made and is_launched_from(old, place):
            store.cancel(old.id, said=Said(f"{place} was made anew", after=old.decisions))

    def _revived(self, run: StoredRun, task: int) -> bool:
        """Try again what failed in a run, for a task that waits for it; whether there is such a thing."""
        if run.state not in (RunState.HALTED, RunState.FAILED):
            return False
        store, chosen = self._runtime.store, TasksToRetry(quarantined=True)
        try:
            return (
                retry(store, self._reading(store.reads), run.id, chosen, f"task {task} was tried again", "").tasks > 0
            )
        except ConfigError:
            return False

    @property
    def store(self) -> Store:
        """The store of the engine."""
        return self._runtime.store

    def enqueue(self, call: Call[Any], id: int, after: Sequence[int]) -> int:
        """Add a job with a reserved id, unless it is there; the id of the job, or of the one that has its key."""
        return self._runtime.enqueuing.add_reserved(call, id, after)

    def as_jobs(self, calls: Sequence[Call[Any]]) -> Sequence[Call[Any]]:
        """Calls as the jobs that they become with the end of a task."""
        return self._runtime.enqueuing.as_jobs(calls)

    def awaiting(self, dataset: str) -> Sequence[Definition]:
        """Return what the engine's tasks have that starts on a dataset."""
        return [each for each in definitions_of(self._runtime.tasks) if dataset in each.awaits]

    def note(
        self, definition: Definition, production: str, dataset: str, value: Any
    ) -> tuple[int, dict[str, Any]] | None:
        """Note, once, what was produced for what starts on all of its datasets; a number and those, if that is all."""
        entries = self._handlers[PRODUCED]
        return note(self._runtime.store, entries, definition.name, definition.awaits, production, dataset, value)

    def ending(self, run: int | str, key: str | None) -> Ending:
        """Return what came of a run, by id or name, or of its task with that key."""
        reads = self._runtime.store.reads
        found = _found(reads, run)
        if found is None:
            return Ending(awaited=f"run {run}, which was not started yet")
        if found.state is RunState.FORGOTTEN:
            return Ending(None, f"run {title(found)} was forgotten, with all that came of it")
        if key is None:
            awaited = Ending(awaited=f"run {title(found)}", until=found.id)
            return self._of_run(reads, found) if found.state.is_end else awaited
        return self._of_task(reads, found, key)

    def _of_run(self, reads: Reads, run: StoredRun) -> Ending:
        if run.state is not RunState.DONE:
            why = f" ({reason})" if (reason := reason_of(reads, run)) else ""
            return Ending(None, f"run {title(run)}, which is waited for, ended as {run.state.value}{why}")
        last = {name: row for name, row in _last_tasks(reads, run.id) if not _is_on_another_way(reads, row)}
        # Cancelled tasks count as skipped: they have no result either.
        if all(reads.history(row.id).ended in (Status.SKIPPED, Status.CANCELLED) for row in last.values()):
            return Ending(skipped=f"run {title(run)}, which is waited for, had nothing to do")
        results = {name: _whole(self._reading(reads), row) for name, row in last.items()}
        return Ending(next(iter(results.values())) if len(results) == 1 else results)

    def _of_task(self, reads: Reads, run: StoredRun, key: str) -> Ending:
        # A run that has ended wakes nobody again.
        awaited = Ending(awaited=f"{key} of run {title(run)}", until=None if run.state.is_end else run.id)
        try:
            gathering = reads.find_tasks(run.id, GATHER, key_bytes(f"{key}[]"))
            row = reads.task(gathering[-1] if gathering else task_with(reads, run.id, key))
        except UnknownTask as unknown:
            # What a run makes on its way may still come.
            return Ending(None, str(unknown)) if run.state.is_end else awaited
        row = row if row is None or gathering else _heir(reads, row)
        ended = None if row is None else reads.history(row.id).ended
        if row is None or ended is None:
            return awaited
        if ended is Status.DONE:
            return Ending(_whole(self._reading(reads), row))
        return Ending(None, f"{key} of run {title(run)}, which is waited for, ended as {ended.name.lower()}")

    def _reading(self, reads: Reads) -> Reading:
        return Reading(reads, self._handlers)


def launched_by(reads: Reads, run: int) -> Iterator[int]:
    """The runs that tasks of a run have started."""
    for kind in {TRIGGER, PRODUCE} & set(reads.counts(run)):
        after, more = 0, True
        while more:
            page = reads.results(run, kind=kind, after=after)
            for row in page.rows:
                found: Any = tree_in(row.value)
                yield from found if isinstance(found, list) else [found]
            after, more = page.after, page.more


def _reopenings(events: Iterable[Event]) -> tuple[int, int]:
    """The commits in which a task was last reopened: after it had succeeded, and at all; 0 for never."""
    succeeded = reopened = 0
    before: Status | None = None
    for event in events:
        if event.status is Status.REOPENED:
            reopened = event.seq
            succeeded = event.seq if before is Status.DONE else succeeded
        elif event.status.is_end:
            before = event.status
    return succeeded, reopened


def _failed_after(reads: Reads, run: int, seq: int) -> bool:
    """Return whether a task of a run failed after a commit. Times do not tell when the clock stands still."""
    for status in (Status.FAILED, Status.QUARANTINED):
        after, more = 0, True
        while more:
            page = reads.results(run, status=status, after=after)
            if any((each.seq or 0) > seq for each in reads.standings([row.task for row in page.rows]).values()):
                return True
            after, more = page.after, page.more
    return False


def _found(reads: Reads, run: int | str) -> StoredRun | None:
    if isinstance(run, str):
        return reads.find_run(run)
    try:
        return reads.run(run)
    except UnknownRun:
        return None


def _last_tasks(reads: Reads, run: int) -> Iterator[tuple[str, Row]]:
    """Yield what a run came to: of a DAG the nodes for which nobody waits, by id; of others, those it began with."""
    closing = closing_tasks(reads, run)
    waiting = list(closing)
    for join in waiting:
        after, more = -1, True
        while more:
            page = reads.members(join, after=after)
            for _, task in page.rows:
                row = reads.task(task)
                if row is not None and row.kind in (TRIGGER, PRODUCE):
                    waiting.append(task)
                elif row is not None:
                    yield _named(reads, row), row
            after, more = page.after, page.more
    after, more = 0, not closing
    while more:
        found = reads.tasks(run, after=after, limit=1_000)
        yield from ((str(row.id), _heir(reads, row)) for row in found.rows if row.parent is None)
        after, more = found.after, found.more


def _is_on_another_way(reads: Reads, row: Row) -> bool:
    """Return whether a task was skipped because another way was taken, perhaps long before it."""
    ahead, seen = [row], {row.id}
    while ahead:
        at = ahead.pop()
        if reads.history(at.id).ended is not Status.SKIPPED:
            return False
        if at.kind == WAY:
            continue
        skipped = [task for _, task in reads.members(at.id).rows if reads.history(task).ended is Status.SKIPPED]
        if not skipped:
            return False
        found = (reads.task(task) for task in skipped if task not in seen)
        ahead += (each for each in found if each is not None)
        seen.update(skipped)
    return True


def _heir(reads: Reads, row: Row) -> Row:
    """The task that a task goes on with, and that one, and so on; itself when there is none."""
    while True:
        children = {child.id: child for child in _newest(reads, row)}
        joins = reads.joins(row.run, after=min(children) - 1, limit=len(children)).rows if children else ()
        heir = next((children[join.id] for join in joins if join.id in children), None)
        if heir is None:
            return row
        row = heir


def _newest(reads: Reads, row: Row) -> Sequence[Row]:
    """The first children of a task that were not replaced. A continuation has its id before those it waits for."""
    after, more = 0, True
    while more:
        page = reads.children(row.id, after=after)
        ends = reads.standings([child.id for child in page.rows])
        if found := [child for child in page.rows if ends[child.id].ended is not Status.REPLACED]:
            return found
        after, more = page.after, page.more
    return ()


def _named(reads: Reads, row: Row) -> str:
    """The id of the node that a task is, or goes on with."""
    at: Row | None = row
    while at is not None and (at.key is None or at.kind == GATHER) and at.parent is not None:
        at = reads.task(at.parent)
    return str(row.id) if at is None else key_text(at.key) or str(at.id)


def _whole(reading: Reading, row: Row) -> object:
    """The result of a task; of a map, all of them in a list."""
    value = next((e.value for e in reversed(reading.reads.events(row.id, row.id)) if e.status is Status.DONE), None)
    return tree_in(value) if row.kind != GATHER or value is None else _all_of(reading, value)


def _all_of(reading: Reading, gathered: bytes) -> list[object]:
    pages = Members(reading, GATHERED.decode(gathered).join, None).endings()
    return [_item(reading, task, raw) for page in pages for _, task, how, raw in page if how is Status.DONE]


def _item(reading: Reading, task: int, raw: bytes | None) -> object:
    """Return what came of an item; what it came to may be the end of a map inside of its branch."""
    if raw is not None and raw.startswith(_GATHERED):
        row = reading.reads.task(task)
        if row is not None and row.kind == GATHER:
            return _all_of(reading, raw)
    return tree_in(raw)
