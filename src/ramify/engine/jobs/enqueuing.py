"""Enqueuing: jobs that come in at the same moment, from any number of threads and coroutines, share a commit.

Whoever comes while nobody writes, writes for all who wait by then. Those who come meanwhile wait, and the first of them
writes for all of those. So one who comes alone pays one commit, hands nothing to another thread, and a hundred at once
pay for a few commits together.

Promises: who is answered has its jobs in the store. What is wrong with one of them keeps no other from being written.

A crash leaves the jobs of all who were answered, and all or nothing of each other one.
"""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from ramify.engine.jobs.behind import check_behind, check_there, job_ahead
from ramify.engine.jobs.expiry import end_expired
from ramify.engine.jobs.job import Job
from ramify.engine.jobs.queue_limit import NoRoom, Room
from ramify.engine.jobs.retention import KEEP_DONE
from ramify.engine.runs.launched_runs import IN_ORDER
from ramify.engine.runs.waiting import Waiting
from ramify.engine.tasks.task import AnyTask
from ramify.errors import BadPayload, ConfigError, QueueFull, RamifyError, StoreUnavailable
from ramify.kernel.attempts.current import current_or_none
from ramify.kernel.tuning import GATHER
from ramify.model.call import Call, OpenCall, inheriting, shared_headers
from ramify.model.policy import SECOND
from ramify.model.stray import instead_of_call
from ramify.shapes.jobs import JobQueues, NewJobs, kept
from ramify.shapes.plan import Added

if TYPE_CHECKING:
    from ramify.engine.runtime import Runtime


class Pending:
    """Jobs that somebody wants to add, and waits for."""

    __slots__ = ("added", "error", "has_led", "new", "tell")

    def __init__(self, new: NewJobs, tell: Callable[[], None]) -> None:
        self.new = new
        self.added: tuple[Added, ...] | NoRoom | None = None
        self.error: BaseException | None = None
        #: Whether it was its turn to write.
        self.has_led = False
        #: Wakes up who waits: they are answered, or it is their turn to write.
        self.tell = tell

    @property
    def is_answered(self) -> bool:
        """True if it is known what became of them."""
        return self.added is not None or self.error is not None

    def answer(self) -> tuple[Added, ...] | NoRoom:
        """Return what became of them; or why they are to be tried again later."""
        if self.error is not None:
            raise self.error
        assert self.added is not None
        return self.added


class Enqueuing:
    """How the jobs of one engine get into its queues."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.room = Room(runtime)
        #: The last write: when it was over, how long it took, and whether it was for several.
        self._wrote = self._took = 0.0
        self._were_several = False
        #: What is around each adding of jobs; it may give the calls headers, and is told of what goes wrong.
        self.sending: Callable[[list[Call[Any]]], AbstractContextManager[list[Call[Any]]]] = nullcontext
        self.orphan()

    def orphan(self) -> None:
        """In a forked child, and at first: nobody writes here, whoever did in the parent."""
        self._lock = threading.Lock()
        #: Those who wait for their turn, those whose jobs are being written, and the one of these who writes.
        self._pending: list[Pending] = []
        self._batch: list[Pending] = []
        self._leader: Pending | None = None
        self._queues: JobQueues | None = None

    # what is asked for

    def enqueue(
        self,
        calls: Iterable[Call[Any]],
        *,
        again: bool = False,
        then: Call[Any] | None = None,
        behind: Job[Any] | None = None,
    ) -> list[Job[Any]]:
        """Add jobs, all of them together; the last one is that of `then`, if it is given."""
        _warn_on_loop()
        return self._add(self._adding(calls, again, then, behind=behind))

    async def aenqueue(
        self,
        calls: Iterable[Call[Any]],
        *,
        again: bool = False,
        then: Call[Any] | None = None,
        behind: Job[Any] | None = None,
    ) -> list[Job[Any]]:
        """The same from a coroutine; others go on meanwhile."""
        adding = self._adding(calls, again, then, behind=behind)
        try:
            new = next(adding)
            while True:
                with _told(adding):
                    while isinstance(answer := await self._put_async(new), NoRoom):
                        await self._runtime.watcher.until(partial(self._has_room, answer))
                new = adding.send(answer)
        except StopIteration as end:
            return _jobs_of(end)

    def follow(self, call: Call[Any], jobs: Sequence[int]) -> Job[Any]:
        """Add a job that begins when these have ended."""
        if not isinstance(call, Call):
            raise ConfigError(f"then(): expected a call, got {instead_of_call(call)}.")
        (job,) = self._add(self._adding((), again=False, then=call, after=jobs))
        return job

    def add_reserved(self, call: Call[Any], id: int, after: Sequence[int]) -> int:
        """Add a job under an id that was reserved for it, from a task that may be tried again; the id of the job.

        It begins when those jobs have ended, however they ended. Added before, it is there once.
        """
        table = self._runtime.table()
        self._runtime.check_known([call], table)
        attempt = current_or_none()
        call = kept(call, _keep_of(table[call.kind]))
        (call,) = inheriting([call], {} if attempt is None else attempt._outgoing)
        with self.sending([call]) as (sent,):
            new = NewJobs((), then=sent.always(), after=after) if after else NewJobs((sent,))
            if isinstance(refused := self.room.refusals([new])[0], QueueFull):
                raise refused
            ((added,),) = self._there().add([new], id)
            return id if added.task is None else added.task

    def as_jobs(self, calls: Sequence[Call[Any]]) -> Sequence[Call[Any]]:
        """Calls as the jobs that they become when the task ends that enqueues them."""
        table = self._runtime.table()
        self._runtime.check_known(calls, table)
        self._there().check(call.group.queue for call in calls)
        with self.sending([kept(call, _keep_of(table[call.kind])) for call in calls]) as sent:
            if isinstance(refused := self.room.refusals([NewJobs(sent)])[0], QueueFull):
                raise refused
            return sent

    def _add(self, adding: Generator[NewJobs, tuple[Added, ...], list[Job[Any]]]) -> list[Job[Any]]:
        try:
            new = next(adding)
            while True:
                with _told(adding):
                    while isinstance(answer := self._put(new), NoRoom):
                        Waiting(self._runtime).until(partial(self.room.is_there_for, answer), None)
                new = adding.send(answer)
        except StopIteration as end:
            return _jobs_of(end)

    def _has_room(self, full: NoRoom) -> bool | None:
        return self.room.is_there_for(full) or None

    def _adding(
        self,
        calls: Iterable[Call[Any]],
        again: bool,
        then: Call[Any] | None,
        after: Sequence[int] = (),
        behind: Job[Any] | None = None,
    ) -> Generator[NewJobs, tuple[Added, ...], list[Job[Any]]]:
        """Yield what is to be added, one after the other; what became of it comes back."""
        ahead = job_ahead(self._runtime, behind)
        table = self._runtime.table()
        if isinstance(calls, Call) or not isinstance(calls, Iterable):
            raise ConfigError(f"enqueue_many(): expected a list of calls, got {calls!r}. Put it into [...].")
        given = list(calls)
        for call in given if then is None or isinstance(then, OpenCall) else [*given, then]:
            if type(call) is not Call:
                raise ConfigError(f"enqueue(): expected a call, got {instead_of_call(call)}.")
        if ahead is not None:
            check_behind(given)
        if isinstance(then, OpenCall):
            then = self._closed(then, given, after)
        both = given if then is None else [*given, then]
        self._runtime.check_known(both, table)
        if not both:
            return []
        if then is not None:
            both[-1:] = inheriting([then], self._shared_headers(given, after))
        with self.sending([kept(call, _keep_of(table[call.kind])) for call in both]) as both:
            chosen, then = both[: len(given)], None if then is None else both[-1]
            found: list[Job[Any]] = []
            try:
                for at, one in enumerate((yield NewJobs(chosen, again, then, after, ahead))):
                    while one.task is None:
                        # Its key was another job's, which has given it up since.
                        members = [*after, *(job.id for job in found)]
                        is_then = at == len(chosen)
                        (one,) = yield (
                            NewJobs((), again, then, members) if is_then else NewJobs((both[at],), again, behind=ahead)
                        )
                    found.append(self._job(one))
            except BadPayload:
                check_there(behind)
                raise
            return found

    def _shared_headers(self, calls: Iterable[Call[Any]], after: Sequence[int]) -> dict[str, str]:
        """The headers that all of the jobs have which another one waits for."""
        found = self._runtime.store.reads.standings(after) if after else {}
        return shared_headers([*(call.extra for call in calls), *(each.row.more for each in found.values())])

    def _closed(self, then: OpenCall[Any], calls: Sequence[Call[Any]], after: Sequence[int]) -> Call[Any]:
        """Return what follows, with the results of these as the argument that it lacks."""
        if len(calls) + len(after) != 1:
            return then.closed(len(calls) + len(after))
        kind = calls[0].kind if calls else Job[Any](self._runtime, after[0]).kind
        handler = None if kind is None else self._runtime.handlers().get(kind)
        return then.closed(1, Any if handler is None else handler.signature.result)

    def _job(self, added: Added) -> Job[Any]:
        assert added.task is not None
        return Job(self._runtime, added.task, is_new=added.created)

    # writing

    def _put(self, new: NewJobs) -> tuple[Added, ...] | NoRoom:
        # A bare lock: an interrupt inside of an event could leave it shut for whoever wants to tell.
        told = threading.Lock()
        told.acquire()
        mine = Pending(new, lambda: _let_go(told))
        try:
            self._line_up(mine)
            while not mine.is_answered and not self._lead(mine):
                told.acquire()
        finally:
            # Ctrl-C strikes the main thread anywhere, and must not leave others waiting for it.
            if not mine.is_answered or self._leader is mine:
                self._step_back(mine)
        return mine.answer()

    async def _put_async(self, new: NewJobs) -> tuple[Added, ...] | NoRoom:
        loop = asyncio.get_running_loop()
        told: asyncio.Future[None] = loop.create_future()

        def tell() -> None:
            if not mine.is_answered:
                _beside(lambda: self._lead(mine))
                return
            # Its loop may be closed by now: then nobody waits any more, and the jobs are there.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_wake, told)

        mine = Pending(new, tell)
        with ExitStack() as interrupted:
            interrupted.callback(self._step_back, mine)
            if self._line_up(mine):
                tell()
            interrupted.pop_all()
        await told
        return mine.answer()

    def _line_up(self, mine: Pending) -> bool:
        """Wait for one's turn from now on; whether it has come."""
        with self._lock:
            self._pending.append(mine)
            if self._leader is None:
                self._leader = mine
            return self._leader is mine

    def _lead(self, mine: Pending) -> bool:
        """Write what waits by now, if it is one's turn, once; whether it was."""
        with self._lock:
            if self._leader is not mine or mine.has_led:
                return False
            mine.has_led = True
        if self._were_several and time.monotonic() - self._wrote < self._took:
            # Those whose jobs were just written have the next ones in hand: a moment later they come along.
            time.sleep(min(self._took / 2, GATHER))
        with self._lock:
            self._batch, self._pending = self._pending, []
        began = time.monotonic()
        try:
            self._write(self._batch)
        finally:
            self._wrote = time.monotonic()
            self._took = self._wrote - began
            self._were_several = len(self._batch) > 1
            self._step_back(mine)
        return True

    def _step_back(self, mine: Pending) -> None:
        """Tell those whose jobs were written, and let the first of the others write, who came meanwhile.

        Interrupted at any point, it can be done again: somebody may be told twice, and looks what for.
        """
        if self._leader is mine:
            while self._batch:
                each = self._batch[-1]
                if not each.is_answered:
                    each.error = RamifyError("it was interrupted while these jobs were written; they may be there")
                each.tell()
                self._batch.pop()
        with self._lock:
            if mine in self._pending:
                self._pending.remove(mine)
            if self._leader is mine:
                after = self._pending[0] if self._pending else None
                if after is not None:
                    after.tell()
                self._leader = after

    def _write(self, some: Sequence[Pending]) -> None:
        try:
            # Counted here, where one writes for all: whoever else adds from this engine comes before or after.
            refusals = self.room.refusals([each.new for each in some])
            fitting = [each for each, refused in zip(some, refusals, strict=True) if refused is None]
            answers = self._there().add([each.new for each in fitting]) if fitting else []
        except Exception as error:  # noqa: BLE001  whatever it is, the one who asked is told
            if len(some) == 1 or isinstance(error, StoreUnavailable):
                for each in some:
                    each.error = error
                return
            # Something is wrong with one of them: each by itself, so that the others are written.
            for each in some:
                self._write([each])
            return
        for each, refused in zip(some, refusals, strict=True):
            if isinstance(refused, QueueFull):
                each.error = refused
            else:
                each.added = refused
        taken = {one.task for answer in answers for one in answer if one.task is not None and not one.created}
        given_up: set[int] = set()
        # Theirs are written, so they are answered, whatever becomes of this.
        with suppress(RamifyError):
            given_up = end_expired(self._runtime.store, taken)
        for each, answer in zip(fitting, answers, strict=True):
            each.added = tuple(Added(None, False) if one.task in given_up else one for one in answer)

    def _there(self) -> JobQueues:
        """The queues of the store that the engine is on now."""
        store = self._runtime.store
        if self._queues is None or self._queues.store is not store:
            self._queues = JobQueues(store, self._reserve)
        return self._queues

    def _reserve(self, many: int, above: int) -> int:
        return self._runtime.reserve_ids(many, above, younger=IN_ORDER)


@contextmanager
def _told(adding: Generator[Any, Any, Any]) -> Iterator[None]:
    """Tell what is around an adding of jobs of what goes wrong with it."""
    try:
        yield
    except BaseException as error:
        adding.throw(error)
        raise


def _beside(write: Callable[[], object]) -> None:
    """A coroutine is to write, and must not wait for the disk: a thread does it."""
    threading.Thread(target=write, name="ramify-enqueue", daemon=True).start()


def _let_go(told: threading.Lock) -> None:
    # Told twice before it looked: once is enough.
    with suppress(RuntimeError):
        told.release()


def _wake(told: asyncio.Future[None]) -> None:
    if not told.done():
        told.set_result(None)


def _jobs_of(end: StopIteration) -> list[Job[Any]]:
    found: list[Job[Any]] = end.value
    return found


def _keep_of(task: AnyTask) -> int:
    return round((KEEP_DONE if task.keep is None else task.keep) * SECOND)


def _warn_on_loop() -> None:
    """In debug mode, say that a coroutine waits for the disk, and everybody on its loop with it."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    if loop.get_debug():
        warnings.warn(
            "enqueue() blocks the running event loop until the disk has answered. Write `await engine.aenqueue(...)`.",
            RuntimeWarning,
            stacklevel=4,
        )
