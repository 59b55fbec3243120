"""The current attempt: what a handler may ask about itself, and what it may do besides returning and yielding.

`current()` works in plain, generator and async handlers. It is not carried into threads that a handler starts itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from itertools import islice
from typing import Any, TypeVar, overload

from ramify.errors import BadPayload, OutsideTask
from ramify.kernel.attempts.attempt_env import AttemptEnv, CurrentRun, Leader
from ramify.kernel.attempts.calls import check_continuation, checked, each_call
from ramify.kernel.attempts.context import Context
from ramify.kernel.attempts.control import Fatal, TaskCancelled
from ramify.kernel.attempts.notes import PROGRESS, TASK_LOGGER, Notes
from ramify.kernel.attempts.values import AttemptValues, CurrentValues, Space
from ramify.kernel.core.work import Chunk
from ramify.kernel.outgoing.continuations import floor
from ramify.kernel.outgoing.offspring import Fork, LinkedCall, Offspring, Subgraph
from ramify.kernel.outgoing.staging import Staging, Void
from ramify.kernel.tuning import PIECE
from ramify.model.call import Call, Extra, inheriting
from ramify.model.claim import Details
from ramify.model.event import UNTRIED
from ramify.model.join import Rule
from ramify.model.key import key_text
from ramify.model.mark import Mark
from ramify.model.slot import SLOT, Slot, read_slot
from ramify.model.topic import Publication
from ramify.store.contract import Store

T = TypeVar("T")

_NO_DETAILS = Details()
_current: ContextVar[Current | None] = ContextVar("ramify_current", default=None)


def current() -> Current:
    """Return the attempt that runs here."""
    attempt = _current.get()
    if attempt is None:
        raise OutsideTask("current(): called outside a task. Call it in a task function that the engine runs.")
    return attempt


def current_or_none() -> Current | None:
    """The attempt that runs here, if one does."""
    return _current.get()


class Current:
    """The current attempt of a task, as its function sees it."""

    __slots__ = (
        "_attempt_env",
        "_chunk",
        "_context",
        "_forks",
        "_jobs",
        "_made",
        "_passed",
        "_position",
        "_published",
        "_refused",
        "_saw_cancel",
        "_spawned",
        "_stagings",
        "_values",
    )

    def __init__(self, chunk: Chunk, attempt_env: AttemptEnv, position: int = 0) -> None:
        self._chunk = chunk
        self._attempt_env = attempt_env
        self._position = position
        self._spawned: list[Call[Any]] = []
        self._forks: list[Fork | Subgraph] = []
        self._jobs: list[Call[Any]] = []
        self._published: list[Publication] = []
        #: Where very many of one spawn were staged.
        self._stagings: list[Staging] = []
        #: Whether the store did not take them: then nothing of this attempt counts, whatever its handler says.
        self._refused = False
        self._context: Context | None = None
        self._values: AttemptValues | None = None
        #: Whether it was told that nobody wants its result.
        self._saw_cancel = False
        #: What its children get as headers, if that is something else than its own.
        self._passed: Mapping[str, str] | None = None
        #: Whether anything was spawned or is passed on, values were asked for, or it was told of a cancel.
        self._made = False

    # who am I

    @property
    def run(self) -> CurrentRun:
        """The run of this task."""
        return CurrentRun(self._attempt_env.library.facts(self.run_id), self._attempt_env)

    @property
    def run_id(self) -> int:
        """The id of the run."""
        return self._chunk.claim.run

    @property
    def task(self) -> int:
        """The id of this task."""
        return self._chunk.claim.tasks[self._position]

    @property
    def kind(self) -> str:
        """The name under which this task was stored."""
        return self._chunk.claim.kind

    @property
    def key(self) -> str | None:
        """The key of this task, if it has one."""
        return key_text(self._details.key)

    @property
    def round(self) -> int:
        """The round of this task."""
        return self._chunk.claim.round

    @property
    def queue(self) -> str:
        """The queue of this task."""
        return self._chunk.claim.queue

    @property
    def lane(self) -> str | None:
        """The lane of this task."""
        return self._chunk.claim.lane_of(self._position)

    @property
    def parent(self) -> int | None:
        """The id of the task that made this one; None for a root."""
        return self._chunk.claim.parents[self._position]

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._chunk.attempts.get(self._position, 1)

    @property
    def last_attempt(self) -> bool:
        """True if no retry follows when this attempt fails."""
        return self._chunk.handler.policy.is_last(self.attempt, Extra.decode(self._details.extra).retries)

    @property
    def _process(self) -> int:
        """The number of the process that runs it; commands show it in hexadecimal."""
        return self._attempt_env.sender.process

    @property
    def idempotency_key(self) -> str:
        """A key for side effects: the same in every attempt, different in every other task and store.

        It changes only if the task runs again after a success. Its form is `STORE-RUN-TASK`, with `-N` behind it after
        N such retries.
        """
        revivals = self._revivals
        key = f"{self._attempt_env.library.store_id}-{self.run_id}-{self.task}"
        return f"{key}-{revivals}" if revivals else key

    @property
    def params(self) -> Any:
        """The params of the run."""
        return self._attempt_env.library.facts(self.run_id).params

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the call, and those inherited from the task that made it."""
        return Extra.decode(self._details.extra).headers or {}

    @property
    def slot(self) -> Slot | None:
        """The slot of the schedule that started this task or its ancestors; None without a schedule."""
        text = self.headers.get(SLOT)
        return None if text is None else read_slot(text)

    @property
    def context(self) -> Context:
        """The values of the run that its tasks share. Each is set once, together with the end of a task."""
        if self._context is None:
            self._made = True
            self._context = Context(self.run_id, self.task, self._attempt_env.library.context)
        return self._context

    @overload
    def values(self, space: str, of: type[T]) -> CurrentValues[T]: ...
    @overload
    def values(self, space: str, of: Any) -> CurrentValues[Any]: ...
    def values(self, space: str, of: Any) -> CurrentValues[Any]:
        """Return the values of a space that the whole store shares, as this task sees and changes them.

        Changes are made with the end of this task, exactly if it ends as done. If it changes any, all values that it
        has read must be the same by then; otherwise nothing of this attempt counts, and the task runs again at once.
        """
        return CurrentValues(self._all_values, Space(space, of))

    @property
    def _all_values(self) -> AttemptValues:
        """The values of the store as this attempt sees and changes them, those of ours included."""
        if self._values is None:
            around, self._made = self._attempt_env, True
            self._values = AttemptValues(self.task, around.library.value, around.sender.now)
        return self._values

    @property
    def cancelled(self) -> bool:
        """True if the result is no longer wanted: the task was cancelled, timed out or was taken over.

        A function that sees True and returns ends as cancelled: its result is not kept, and nothing that it spawned or
        set counts.
        """
        around = self._attempt_env
        gone = self._chunk.lost or (around.held is not None and self._chunk.claim.token not in around.held)
        if gone or self._mark is not None:
            self._made = self._saw_cancel = True
        return self._saw_cancel

    def stop_if_cancelled(self) -> None:
        """End this attempt here if its result is no longer wanted.

        It raises a `BaseException`, so `except Exception` does not catch it, and `finally` and `with` clean up.
        """
        if self.cancelled:
            raise TaskCancelled

    @property
    def _mark(self) -> Mark | None:
        """The cancel that it, or its run, is under."""
        around = self._attempt_env
        return around.cancelled_tasks.get(self.task) or around.cancelled_runs.get(self.run_id)

    @property
    def leader(self) -> Leader:
        """The run that this one follows: `leader.get(key)` is a result, `leader.children(key)` the children."""
        return self._attempt_env.library.leader(self.run_id)

    @property
    def log(self) -> logging.Logger:
        """A logger whose lines are stored with the run."""
        return logging.getLogger(f"{TASK_LOGGER}.{self.kind}")

    # what else it may do

    def spawn(self, *calls: Call[Any] | Iterable[Call[Any]], then: Call[Any] | None = None) -> None:
        """Make children, committed together with this task; `then` starts when all of them have ended.

        `calls` are calls, or an iterable of them such as a generator, which is consumed here and now. Very many
        children are written in parts, so memory stays bounded. They are published when this task ends.

        The continuation takes a `Stream` of their results. It is skipped if a member did not end as done, unless it is
        `then=collect.of(...).always()`. Tasks that wait for this task wait for the continuation instead.

        A continuation waits for its members, and not for children that they yield or spawn. To be waited for together
        with its child, a member makes the child its own continuation: `spawn(then=load.of())`.
        """
        each = each_call(calls, self._attempt_env.library.is_task)
        if then is not None:
            self._check_continuation(then)
            if Extra.decode(self._details.extra).spare:
                # What it comes to is decided by those who go on with it, and they may fail as it may.
                then, always = then._with(spare=True), Extra.decode(then.extra).rule is Rule.ALWAYS
                each = each if always else (call._with(spare=True) if type(call) is Call else call for call in each)
        self._made = True
        # A piece at a time: what is not a call, or one too many, is refused before it is written.
        some = self._checked(list(islice(each, PIECE)), 0 if then is None else 1)
        if len(some) < PIECE:
            if then is None:
                self._spawned += some
            else:
                self._forks.append(Fork(self.task, some, then))
            return
        join = None if then is None else self._attempt_env.sender.reserve(1, floor(self._chunk.claim, (self.task,)))
        staging = Staging(self._chunk, self.task, self._attempt_env, join)
        self._stagings.append(staging)
        while some:
            if not staging.stage(self._passing_on(some)):
                self._refused = True
                raise Void
            some = self._checked(list(islice(each, PIECE)), 0 if then is None else 1)
        if then is not None:
            self._forks.append(Fork(self.task, (), then, join, staging.count))

    def enqueue(self, *calls: Call[Any] | Iterable[Call[Any]]) -> None:
        """Add jobs to their queues together with the end of this task: exactly if it ends as done, and once.

        `calls` are calls, or an iterable of them. Jobs are no children: their run is that of their queue, nobody waits
        for them, and a cancel of this task does not reach them. Nothing is returned, because only the commit knows
        whether a key was free. QueueFull if the queue has no room.
        """
        new = checked("enqueue", list(each_call(calls, self._attempt_env.library.is_task)))
        self._made = True
        self._jobs += self._attempt_env.library.as_jobs(self._passing_on(new))

    def _checked(self, calls: list[Call[Any]], more: int) -> list[Call[Any]]:
        checked("spawn", calls)
        self._check_number(len(calls) + more)
        return calls

    def _check_continuation(self, then: Call[Any]) -> None:
        check_continuation(then)
        if self._forks and self._chunk.claim.awaited:
            raise BadPayload(
                "spawn(then=...): this task has a continuation that others wait for. Spawn the second one in a child."
            )

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Report the progress of this task. The last report is stored, once a second and when the task ends."""
        share = f"{done:g}" if total is None else f"{done:g} of {total:g}"
        self._attempt_env.notes.add(self, logging.INFO, PROGRESS, f"{share} {note}".rstrip())

    @property
    def _number(self) -> int:
        """How many children were spawned so far."""
        if not self._made:
            return 0
        inside = len(self._spawned) + sum(len(fork.members) + 1 for fork in self._forks)
        return inside + sum(staging.count for staging in self._stagings)

    def _check_number(self, more: int) -> None:
        most = self._chunk.handler.policy.max_children
        if most is not None and self._number + more > most:
            raise Fatal(f"{self.kind}: spawned more than max_children={most}. Raise @task(max_children=...).")

    @property
    def _revivals(self) -> int:
        """How often its task was run again after it had succeeded."""
        return self._chunk.claim.history.get(self.task, UNTRIED).revivals

    @property
    def _life(self) -> int:
        """The number of its task's present life."""
        return self._chunk.claim.history.get(self.task, UNTRIED).life

    @property
    def _deferrals(self) -> int:
        """How often its task was put off in its present life, as far as that was known when it was claimed."""
        return self._chunk.claim.history.get(self.task, UNTRIED).deferrals

    @property
    def _details(self) -> Details:
        return self._chunk.claim.details.get(self.task, _NO_DETAILS)

    # for the kernel only

    @property
    def _notes(self) -> Notes:
        """Where its log lines go."""
        return self._attempt_env.notes

    def _holds_up(self, process: int) -> bool:
        """Return whether a process cannot go on before this attempt has ended, so that waiting for it is a deadlock."""
        return self._attempt_env.is_inline and self._attempt_env.sender.process == process

    def _pass_on(self, headers: Mapping[str, str]) -> None:
        """Give what this attempt makes these headers too, in place of its own of the same name."""
        self._made, self._passed = True, {**self._outgoing, **headers}

    @property
    def _outgoing(self) -> Mapping[str, str]:
        """The headers of what it makes, unless a call has another one of that name."""
        if self._passed is not None:
            return self._passed
        return self.headers if self._chunk.claim.details else {}

    def _passing_on(self, calls: Sequence[Call[Any]]) -> Sequence[Call[Any]]:
        """Calls that this attempt makes, with the headers that they inherit."""
        return inheriting(calls, self._outgoing)

    def _is_at(self, store: Callable[[], Store]) -> bool:
        """Return whether what it leaves goes into this store; where a task is tried by itself, any."""
        return self._attempt_env.library.is_at(store)

    def _publish(self, publications: Iterable[Publication]) -> None:
        """Publish with the end of this task, exactly if it ends as done."""
        self._made = True
        self._published += publications

    def _grow(self, calls: Sequence[LinkedCall]) -> None:
        """Go on with calls that wait for each other, each behind those it needs; the last one arrives for this task."""
        self._made = True
        self._forks.append(Subgraph(self.task, calls))

    @property
    def _swaps(self) -> bool:
        """True if it changes values, so that its task is committed by itself."""
        return self._values is not None and self._values.are_changed

    def _give(self, task: int, offspring: Offspring) -> None:
        """Hand over what was spawned, and what was set."""
        offspring.add(task, self._passing_on(self._spawned))
        if self._context is not None:
            offspring.keep(self._context._close())
        if self._values is not None:
            offspring.swaps = self._values.close()
        offspring.forks += (fork.made_of(self._passing_on(fork.all)) for fork in self._forks)
        offspring.jobs += self._jobs
        offspring.tell(self._published)
        for staging in self._stagings:
            offspring.published += staging.ranges
        continued = sum(fork.staged for fork in self._forks if isinstance(fork, Fork))
        offspring.staged += sum(staging.count for staging in self._stagings) - continued

    def _forget(self) -> None:
        """Forget what was spawned and set: it is taken over, or does not count."""
        if self._context is not None:
            self._context._close()
            self._context = None
        if self._values is not None:
            self._values.close()
            self._values = None
        self._spawned, self._forks, self._jobs, self._stagings, self._passed = [], [], [], [], None
        self._published = []
        self._made = self._refused = self._saw_cancel = False

    def _set(self) -> None:
        """Make this the current attempt of the thread or coroutine."""
        _current.set(self)


def clear() -> None:
    """No attempt runs here any more."""
    _current.set(None)
