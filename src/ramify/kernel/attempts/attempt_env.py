"""The environment of attempts: what they find around them, in whatever thread they run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import msgspec

from ramify.kernel.attempts.notes import Notes
from ramify.kernel.core.handler import Handler
from ramify.kernel.core.start_fence import StartFence
from ramify.kernel.outgoing.sender import Sender
from ramify.model.call import Call
from ramify.model.context import ContextValue
from ramify.model.join import Ends
from ramify.model.mark import Mark
from ramify.model.value import StoredValue
from ramify.store.contract import Store
from ramify.store.record import Record

if TYPE_CHECKING:
    from ramify.kernel.attempts.stream import Stream


class RunFacts(msgspec.Struct, frozen=True):
    """The facts about its run that a handler may read without asking the store again."""

    id: int
    name: str | None = None
    params: Any = None
    follows: int | None = None
    generation: int = 1


class Child(NamedTuple):
    """A child of a leader's task: its kind, its key and its arguments by name."""

    kind: str
    key: str | None
    arguments: dict[str, Any]


class Leader(Protocol):
    """The run that this one follows, as its tasks see it."""

    def get(self, key: str) -> Any:
        """Return the result of the leader's task with this key; KeyError if none ended as done."""

    def children(self, key: str) -> Sequence[Child]:
        """Return the children of the leader's task with this key; KeyError if there is no such task."""


@runtime_checkable
class Definition(Protocol):
    """Something that runs are made of by its name, such as a DAG."""

    #: By which it is found.
    name: str
    #: What runs of it start, by name; the datasets that they produce.
    starts: dict[str, Definition]
    produces: set[str]
    #: The datasets that start a run of it, each with whether it takes what was produced; all of them, or any.
    awaits: dict[str, bool]
    awaits_all: bool

    @property
    def gives(self) -> Any:
        """The annotation of what a run of it comes to; Any when that is not known."""

    def of_stored(self, params: Mapping[str, bytes]) -> object:
        """The root of a run of it, with params as they are stored. One without a name is the only one it takes."""


class Ending(NamedTuple):
    """The end of a run, or of one of its tasks: a result, as it is in JSON, or the reason why there is none.

    While that is not known, it says what is `awaited`, and `until` is the run whose end tells. One that ended as done
    may have had nothing to do: `skipped` says why.
    """

    value: object = None
    problem: str | None = None
    awaited: str | None = None
    skipped: str | None = None
    until: int | None = None


class Origin(NamedTuple):
    """The launcher of a run: the task, in which of its lives, what it gives, and what made the task.

    `place` tells it from others that may launch runs: a task that takes the place of another one has the same.
    """

    task: int
    life: int
    given: object
    place: str
    parent: int | None = None


class OtherRuns(Protocol):
    """The things a task may do about other runs than its own."""

    def definition(self, name: str) -> Definition | None:
        """Return what is defined under a name; None when nobody here knows it."""

    def start(self, root: object, name: str, origin: Origin) -> int:
        """Start a run under a name, unless the same task has; its id. ConfigError when another run has that name."""

    @property
    def store(self) -> Store:
        """The store, for tasks of ours that look after other runs."""

    def enqueue(self, call: Call[Any], id: int, after: Sequence[int]) -> int:
        """Add a job with a reserved id, to begin when others have ended, unless it is there; the id of the job."""

    def as_jobs(self, calls: Sequence[Call[Any]]) -> Sequence[Call[Any]]:
        """Calls as the jobs that they become; refuses what their queues do not take."""

    def awaiting(self, dataset: str) -> Sequence[Definition]:
        """Return what starts on a dataset."""

    def note(
        self, definition: Definition, production: str, dataset: str, value: Any
    ) -> tuple[int, dict[str, Any]] | None:
        """Note, once, what was produced for what starts on all of its datasets; a number and those, if that is all."""

    def ending(self, run: int | str, key: str | None) -> Ending:
        """Return what came of a run, by id or name, or of its task with that key."""


class Library(Protocol):
    """The facts that the engine supplies to the kernel: everything that is read for handlers."""

    @property
    def store_id(self) -> str:
        """The id of the store, which no other store has."""

    def facts(self, run: int) -> RunFacts:
        """Facts about a run that never change; kept after the first time."""

    def leader(self, run: int) -> Leader:
        """The run that this one follows; ConfigError when it follows none."""

    def members(self, join: int, of: Any, first: int = 0, size: int | None = None) -> Stream[Any]:
        """Results of the members of a full join, in order, decoded as `of`: `size` of them from slot `first` on."""

    def results(self, join: int, slots: Collection[int]) -> Mapping[int, bytes | None]:
        """Return what the members in these slots of a full join returned, as stored; None for those that did not end
        well.
        """

    def context(self, run: int, name: str) -> ContextValue | None:
        """Return what stands in the context of a run under a name, as stored at this moment."""

    def value(self, space: str, name: str) -> StoredValue | None:
        """Return a value as stored at this moment, expired or not."""

    def ends(self, run: int) -> Ends:
        """How the tasks of a run ended that have ended by now."""

    def tried_for(self, task: int, life: int) -> float:
        """How many seconds ago a task was first called in its present life; 0 when it never was."""

    @property
    def others(self) -> OtherRuns:
        """Other runs of the store."""

    def is_at(self, store: Callable[[], Store]) -> bool:
        """Return whether what tasks leave goes into this store."""

    def as_jobs(self, calls: Sequence[Call[Any]]) -> Sequence[Call[Any]]:
        """Calls that a task enqueues as the jobs that they become."""

    def handler(self, kind: str) -> Handler | None:
        """Return what runs tasks of a kind; None when nobody here knows it."""

    def stop(self, run: int, reason: str) -> None:
        """Let a run end early, as halted."""

    def is_task(self, code: CodeType) -> bool:
        """Return whether this is the code of a task's function."""

    async def put_away(self) -> None:
        """Close what handlers opened on the event loop; called there, once, when nothing runs on it any more."""


@dataclass(frozen=True, slots=True)
class AttemptEnv:
    """Shared by all attempts of one kernel. What was cancelled is the core's, read without its lock.

    `held` are the tokens of the claims that this process still holds; None where attempts are made without a claim.
    `record` says what runs, to whoever buries this process. `on_raise` hears what handlers raise, before it becomes the
    outcome of their task. No task is started once `clock` has reached the end of the start fence.
    `busy` is the CPU time of the thread that asks. `is_inline`: attempts are made in the loop's own thread, which does
    nothing else meanwhile.
    """

    sender: Sender
    library: Library
    notes: Notes
    cancelled_runs: Mapping[int, Mark]
    cancelled_tasks: Mapping[int, Mark]
    record: Record = field(default_factory=Record)
    on_raise: Callable[[BaseException], None] = lambda error: None
    held: Container[bytes] | None = None
    start_fence: StartFence = field(default_factory=lambda: StartFence(math.inf))
    clock: Callable[[], float] = time.monotonic
    busy: Callable[[], float] = time.thread_time
    is_inline: bool = False


class CurrentRun:
    """The run of the current attempt."""

    __slots__ = ("_attempt_env", "_facts")

    def __init__(self, facts: RunFacts, attempt_env: AttemptEnv) -> None:
        self._facts = facts
        self._attempt_env = attempt_env

    @property
    def id(self) -> int:
        """Its id."""
        return self._facts.id

    @property
    def name(self) -> str | None:
        """Its name, if it has one."""
        return self._facts.name

    @property
    def generation(self) -> int:
        """Its generation: the number of the run among those of the same name."""
        return self._facts.generation

    @property
    def params(self) -> Any:
        """The params it was started with."""
        return self._facts.params

    @property
    def ends(self) -> Ends:
        """The numbers of its tasks that have ended: done, failed, skipped, cancelled."""
        return self._attempt_env.library.ends(self._facts.id)

    def stop(self, reason: str) -> None:
        """End the run early, as halted. Short tasks that workers have already claimed may still run."""
        self._attempt_env.library.stop(self._facts.id, reason)
