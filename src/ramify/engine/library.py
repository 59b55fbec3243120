"""The library: what handlers may read while they run, supplied to the kernel by the engine.

Promises: facts about a run are read once and kept, because they never change. Results of a leader's tasks are read when
they are asked for, and decoded by the functions of this engine.

Does not write, except to stop a run on a handler's request.
"""

from __future__ import annotations

import inspect
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

from ramify.engine.resource import AnyResource, close_all_async
from ramify.engine.runs.deciding import halt
from ramify.engine.runs.reading import Members, Reading, below, closing_tasks
from ramify.errors import ConfigError
from ramify.inspect.lives import Commits, lives_of
from ramify.kernel.attempts.attempt_env import Child, Leader, OtherRuns, RunFacts
from ramify.kernel.attempts.stream import Stream
from ramify.kernel.core.handler import Handler
from ramify.model.call import Call
from ramify.model.context import ContextValue
from ramify.model.event import Status
from ramify.model.join import Ends
from ramify.model.key import key_bytes, key_text
from ramify.model.policy import SECOND
from ramify.model.run import StoredRun
from ramify.model.segment import stretches
from ramify.model.task import Row, is_own
from ramify.model.value import StoredValue
from ramify.shapes.start import decode_params
from ramify.store.contract import Store

#: Facts of more runs than this are not remembered; they are read again.
_KEPT = 10_000
#: How often it is counted anew how tasks ended, where others end meanwhile.
_LOOKS = 10
_PAGE = 1_000


class StoreLibrary:
    """The facts that one engine's handlers may read, on one store. Runs that are `known` are not read again."""

    def __init__(
        self,
        store: Store,
        handlers: Mapping[str, Handler],
        resources: Collection[AnyResource] = (),
        others: OtherRuns | None = None,
        known: Iterable[StoredRun] = (),
    ) -> None:
        self._store = store
        self._others = others
        self._resources = resources
        self._handlers = handlers
        self._reading = Reading(store.reads, handlers)
        self._facts: dict[int, RunFacts] = {run.id: _facts_of(run) for run in known}
        self._leaders: dict[int, Led] = {}
        #: When tasks were first called, by task and life.
        self._first_tries: dict[tuple[int, int], int] = {}
        self._lock = threading.Lock()

    @property
    def store_id(self) -> str:
        """The id of the store."""
        return self._store.id

    def facts(self, run: int) -> RunFacts:
        """Return what never changes about a run."""
        known = self._facts.get(run)
        if known is None:
            known = _facts_of(self._store.reads.run(run))
            with self._lock:
                if len(self._facts) >= _KEPT:
                    self._facts.clear()
                self._facts[run] = known
        return known

    def leader(self, run: int) -> Leader:
        """The run that this one follows."""
        follows = self.facts(run).follows
        if follows is None:
            raise ConfigError(f"current().leader: run {run} follows no other run. Start it with follows=(other, lead).")
        known = self._leaders.get(follows)
        if known is None:
            known = self._leaders[follows] = Led(self._reading, self._handlers, follows)
        return known

    def members(self, join: int, of: Any, first: int = 0, size: int | None = None) -> Stream[Any]:
        """Results of the members of a full join, those in `size` slots from `first` on."""
        return Stream(Members(self._reading, join, of, first, size))

    def results(self, join: int, slots: Collection[int]) -> dict[int, bytes | None]:
        """Return what the members in these slots returned, as stored; None for those that did not end well."""
        return {
            slot: value if status is Status.DONE else None
            for stretch in stretches(sorted(slots))
            for page in Members(self._reading, join, Any, stretch[0], len(stretch)).endings()
            for slot, _, status, value in page
        }

    def context(self, run: int, name: str) -> ContextValue | None:
        """Return what stands in the context of a run under a name."""
        return self._store.reads.context_value(run, name)

    def value(self, space: str, name: str) -> StoredValue | None:
        """Return a value as stored at this moment."""
        return self._store.reads.value(space, name)

    def ends(self, run: int) -> Ends:
        """How the tasks of a run ended that have ended by now. Of those that no user wrote only failures count.

        What follows its end does not count: it may be left from an earlier end of the run.
        """
        reads = self._store.reads
        for _ in range(_LOOKS):
            after, kinds = self._behind(run), reads.counts(run)
            # If one of those has ended meanwhile, it may be counted or not.
            if after == self._behind(run):
                break

        def many(*statuses: Status, own: bool = False) -> int:
            counted = [kind for kind in kinds if own or not is_own(kind)]
            return sum(kinds[kind].get(each, 0) - after[kind, each] for kind in counted for each in statuses)

        failed = many(Status.FAILED, Status.QUARANTINED, own=True)
        return Ends(many(Status.DONE), failed, many(Status.SKIPPED), many(Status.CANCELLED))

    def _behind(self, run: int) -> Counter[tuple[str, Status | None]]:
        """Return what follows the end of a run, by kind, and how it ended."""
        reads = self._store.reads
        return Counter((row.kind, reads.history(row.id).ended) for row in below(reads, closing_tasks(reads, run)))

    def tried_for(self, task: int, life: int) -> float:
        """How many seconds ago a task was first called in its present life; 0 when it never was."""
        since = self._first_tries.get((task, life))
        if since is None:
            (present,) = lives_of(self._store.reads, [task])
            if not present.tries:
                return 0.0
            _, seq, took = present.tries[0]
            committed = Commits(self._store.reads).when(seq)
            if committed is None:
                return 0.0
            since = committed - took
            with self._lock:
                if len(self._first_tries) >= _KEPT:
                    self._first_tries.clear()
                self._first_tries[task, life] = since
        return (self._store.now() - since) / SECOND

    def is_at(self, store: Callable[[], Store]) -> bool:
        """Return whether what tasks leave goes into this store."""
        return store() is self._store

    @property
    def others(self) -> OtherRuns:
        """Other runs of the store; ConfigError where a task is tried by itself."""
        if self._others is None:
            raise ConfigError("other runs do not exist in attempt(). Test this with using()")
        return self._others

    def as_jobs(self, calls: Sequence[Call[Any]]) -> Sequence[Call[Any]]:
        """Calls as jobs; where a task is tried by itself, as they are."""
        return calls if self._others is None else self._others.as_jobs(calls)

    def handler(self, kind: str) -> Handler | None:
        """Return what runs tasks of a kind; None when nobody here knows it."""
        return self._handlers.get(kind)

    def stop(self, run: int, reason: str) -> None:
        """Let a run end early, as halted."""
        halt(self._store, run, reason)

    def is_task(self, code: CodeType) -> bool:
        """Return whether this is the code of a task's function."""
        return any(inspect.unwrap(handler.fn).__code__ is code for handler in self._handlers.values())

    async def put_away(self) -> None:
        """Close the async resources that are open on this event loop."""
        await close_all_async(self._resources)


def _facts_of(run: StoredRun) -> RunFacts:
    follows = None if run.follows is None else run.follows.run
    return RunFacts(run.id, run.name, decode_params(run.params), follows, run.generation)


class Led:
    """A leader, seen by a run that follows it."""

    def __init__(self, reading: Reading, handlers: Mapping[str, Handler], run: int) -> None:
        self._reading = reading
        self._handlers = handlers
        self._run = run
        self._kinds: tuple[str, ...] = ()

    def get(self, key: str) -> Any:
        """The result of the leader's task with this key; KeyError when there is none that ended well."""
        reads = self._reading.reads
        for kind, task in self._tasks(key):
            ends = [event for event in reads.events(task, task) if event.status.is_end]
            if ends and ends[-1].status is Status.DONE:
                return self._reading.result(kind, ends[-1].value)
        raise KeyError(key)

    def children(self, key: str) -> list[Child]:
        """Return what the leader's task with this key spawned; KeyError when there is no such task."""
        found = self._tasks(key)
        if not found:
            raise KeyError(key)
        return [self._child(row) for row in self._rows(found[0][1])]

    def _tasks(self, key: str) -> list[tuple[str, int]]:
        """Tasks with that key, the newest first."""
        found = self._find(key)
        if not found:
            # Of a kind that the leader did not have when we last looked, perhaps.
            self._kinds = tuple(self._reading.reads.counts(self._run))
            found = self._find(key)
        return sorted(found, key=lambda pair: -pair[1])

    def _find(self, key: str) -> list[tuple[str, int]]:
        reads, raw = self._reading.reads, key_bytes(key)
        return [(kind, task) for kind in self._kinds for task in reads.find_tasks(self._run, kind, raw)]

    def _rows(self, task: int) -> Iterator[Row]:
        after, more = 0, True
        while more:
            page = self._reading.reads.children(task, after=after, limit=_PAGE)
            yield from page.rows
            after, more = page.after, page.more

    def _child(self, row: Row) -> Child:
        args, kwargs = self._reading.arguments(row.kind, row.body)
        handler = self._handlers.get(row.kind)
        if handler is None:
            named = {str(position): value for position, value in enumerate(args)} | kwargs
        else:
            named = dict(inspect.signature(handler.fn).bind_partial(*args, **kwargs).arguments)
        return Child(row.kind, key_text(row.key), named)
