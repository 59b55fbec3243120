"""Attempts on the event loop: the one place where the callings meet.

One thread runs one asyncio loop for all `async def` handlers of the process. Each task is a coroutine of its own with
its own `current()`; outcomes are delivered in batches, once per turn of the loop.

A coroutine whose time is up is cancelled. One that swallows that is left behind: it is refused, and waited for no more.
One that does not let the loop turn cannot be stopped; it is found here (`blockers`), and the kernel leaves the whole
loop behind (`give_up`) and goes on with another.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Any

from ramify.kernel.attempts.arguments import arguments_of
from ramify.kernel.attempts.attempt import check_children, given_up, is_pressed, judged, stopped_by
from ramify.kernel.attempts.attempt_env import AttemptEnv
from ramify.kernel.attempts.control import Return, TaskCancelled
from ramify.kernel.attempts.current import Current
from ramify.kernel.attempts.forked import Home, end_child
from ramify.kernel.core.handler import Calling
from ramify.kernel.core.polling import looked
from ramify.kernel.core.work import Chunk, Interrupted, Ran, Verdict
from ramify.kernel.machine import HERE, Machine
from ramify.kernel.outgoing.offspring import Offspring
from ramify.kernel.outgoing.staging import Staging, Void
from ramify.kernel.tuning import BLOCKED_AFTER, LAST_WAIT, PIECE
from ramify.model.call import Call
from ramify.store import forks
from ramify.store.record import DEADLINE, MOST, SECOND


class Coroutines:
    """The event loop's thread. `lease()` gives chunks or None, `deliver(ran)` takes what came of them, under `lock`."""

    def __init__(
        self,
        attempt_env: AttemptEnv,
        lease: Callable[[], Chunk | None],
        deliver: Callable[[list[Ran], list[Chunk]], None],
        lock: contextlib.AbstractContextManager[object] | None = None,
        machine: Machine = HERE,
    ) -> None:
        self._attempt_env = attempt_env
        self._lease = lease
        self._deliver = deliver
        self._lock = lock if lock is not None else contextlib.nullcontext()
        self._loop = machine.event_loop()
        self._tasks: dict[asyncio.Task[Any], tuple[Chunk, int]] = {}
        #: Places whose coroutine has not ended.
        self._left: dict[Chunk, set[int]] = {}
        self._ran: list[Ran] = []
        self._over: list[Chunk] = []
        self._is_delivering = False
        self._is_closing = False
        self._is_over = False
        #: When the loop was asked to turn; None once it has.
        self._asked: float | None = None
        self._thread = machine.thread(self._main, "ramify-event-loop")
        forks.register(self)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop, for resources that live on it."""
        return self._loop

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def poke(self) -> None:
        """There may be something to lease."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._fill)

    def mind_cancels(self) -> None:
        """Cancel what nobody wants any more."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel_marked)

    def blockers(self, now: float) -> Collection[Chunk]:
        """Return who is out of time and keeps the loop from turning; nobody while it turns, or while one that has time
        does.

        Asked now and then while anybody's time is up; the first time is only a question to the loop.
        """
        if self._loop.is_closed():
            return ()
        if (asked := self._asked) is None:
            self._asked = now
            self._loop.call_soon_threadsafe(self._turned)
            return ()
        running = asyncio.current_task(self._loop)
        if now - asked < BLOCKED_AFTER or running is None:
            return ()
        known = self._tasks.get(running)
        # What a handler left to a task of its own cannot be told from what another did.
        suspects = [known[0]] if known is not None else list(self._left)
        return [chunk for chunk in suspects if chunk.deadline is not None and chunk.deadline <= now]

    def has_strays(self) -> bool:
        """Return whether anything runs here that was taken away."""
        return any(chunk.lost for chunk in list(self._left))

    def give_up(self) -> tuple[list[Ran], list[Chunk], dict[Chunk, set[int]]]:
        """Leave the loop to itself; it ends when it turns again. Called under the lock.

        Gives what was not delivered yet, and the positions that are still running.
        """
        self._is_closing = True
        # In this order: should it turn at this very moment, a position is then in one of both, or in both.
        left = {chunk: set(positions) for chunk, positions in list(self._left.items())}
        rans, over = self._collect()
        for ran in rans:
            ended = {*ran.done, *(task for task, _ in ran.others)}
            positions = left.get(ran.chunk, set())
            positions -= {position for position in positions if ran.chunk.claim.tasks[position] in ended}
        self._loop.call_soon_threadsafe(self._close)
        return rans, over, {chunk: positions for chunk, positions in left.items() if positions}

    def stop(self) -> None:
        """Interrupt what still runs, and end the thread."""
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._close)
        self._thread.join(timeout=10)

    def run_here(self, chunk: Chunk) -> Ran:
        """Run a chunk in the calling thread, one task after the other, so that a debugger can stop in it."""
        whole = Ran(chunk)
        for position in chunk.positions:
            task = self._loop.create_task(_attempt(chunk, position, self._attempt_env))
            self._tasks[task] = (chunk, position)
            try:
                with _keeping_children():
                    merge(whole, self._loop.run_until_complete(task))
            except asyncio.CancelledError:
                merge(whole, _unbegun(chunk, position))
            finally:
                del self._tasks[task]
        return whole

    def close_here(self) -> None:
        """Close a loop that never had a thread."""
        if not self._thread.is_alive() and not self._loop.is_closed():
            self._loop.run_until_complete(self._attempt_env.library.put_away())
            self._loop.close()

    def orphan(self) -> None:
        """In a forked child: what else was about to run on the loop runs in the parent, and only there."""
        # There is no public way to take back what a loop was about to call; one of another make may have another.
        getattr(self._loop, "_ready", deque[Any]()).clear()
        if not self._loop.is_closed():
            self._loop.stop()

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            while not self._is_over:
                # What a handler left running on the loop may stop it, or raise SystemExit in it: the others go on.
                with contextlib.suppress(SystemExit, KeyboardInterrupt), _keeping_children():
                    self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def _fill(self) -> None:
        while not self._is_closing and (chunk := self._lease()) is not None:
            self._left[chunk] = set(chunk.positions)
            for position in chunk.positions:
                task = self._loop.create_task(self._one(chunk, position))
                self._tasks[task] = (chunk, position)
                task.add_done_callback(self._ended)

    async def _one(self, chunk: Chunk, position: int) -> None:
        self._bring(await _attempt(chunk, position, self._attempt_env), position)

    def _ended(self, task: asyncio.Task[None]) -> None:
        chunk, position = self._tasks.pop(task)
        if task.cancelled():
            self._bring(_unbegun(chunk, position), position)
        elif (error := task.exception()) is not None:
            # No handler raised it, since an attempt never raises: it is an error of ours, met while it was judged.
            verdict = judged(error, chunk.handler, lambda error: None)
            self._bring(Ran(chunk, others=[(chunk.claim.tasks[position], verdict)]), position)

    def _bring(self, ran: Ran, position: int) -> None:
        chunk = ran.chunk
        self._ran.append(ran)
        self._left[chunk].discard(position)
        if not self._left[chunk]:
            del self._left[chunk]
            self._over.append(chunk)
        if not self._is_delivering:
            self._is_delivering = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_delivering = False
        with self._lock:
            self._deliver(*self._collect())
        self._fill()

    def _collect(self) -> tuple[list[Ran], list[Chunk]]:
        rans, self._ran = self._ran, []
        over, self._over = self._over, []
        return rans, over

    def _turned(self) -> None:
        self._asked = None

    def _cancel_marked(self) -> None:
        found = self._attempt_env
        for task, (chunk, at) in list(self._tasks.items()):
            wanted = chunk.claim.run not in found.cancelled_runs and chunk.claim.tasks[at] not in found.cancelled_tasks
            # Once is enough: a second time would cut its cleaning up short.
            if not wanted and not task.cancelling():
                task.cancel()

    def _close(self) -> None:
        self._is_closing = True
        for task in list(self._tasks):
            task.cancel()
        self._loop.create_task(self._end())

    async def _end(self) -> None:
        while wanted := [task for task, (chunk, _) in self._tasks.items() if not chunk.lost]:
            await asyncio.wait(wanted, timeout=1)
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=LAST_WAIT)
        for task in self._tasks:
            # What became of it is known, so that asyncio need not complain when it is gone with its loop.
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._flush()
        try:
            await self._attempt_env.library.put_away()
        finally:
            self._is_over = True
            self._loop.stop()


@contextlib.contextmanager
def _keeping_children() -> Iterator[None]:
    """Around a loop that runs: a child that was forked on it, and that left its handler by an await, ends here."""
    depth = forks.depth
    trouble: BaseException = RuntimeError(
        "a child that a task forked on the event loop awaited something, and the loop belongs to its parent; "
        "let the child end without an await, or let it run a loop of its own with asyncio.run()"
    )
    try:
        yield
    except (SystemExit, KeyboardInterrupt) as left:
        trouble = left
        raise
    finally:
        if forks.depth != depth:
            end_child(trouble)


async def _attempt(chunk: Chunk, position: int, attempt_env: AttemptEnv) -> Ran:
    """One attempt of one task. It never raises; being cancelled is an outcome too."""
    ran = Ran(chunk)
    task = chunk.claim.tasks[position]
    if attempt_env.clock() >= attempt_env.start_fence.until:
        ran.others.append((task, Interrupted()))
        return ran
    current = Current(chunk, attempt_env, position)
    current._set()
    began = attempt_env.clock()
    limit = chunk.limit
    record = attempt_env.record
    words, slot = record.words, record.take()
    words[slot + MOST] = chunk.handler.policy.max_crashes or 0
    words[slot + DEADLINE] = int((time.monotonic() + limit) * SECOND) if limit is not None else 0
    words[slot] = task
    try:
        async with asyncio.timeout(limit) as clock:
            with Home():
                await _call(chunk, position, attempt_env, current, ran)
    except Void:
        ran.others.append((task, Interrupted(refused=True)))
    except TaskCancelled:
        ran.others.append((task, stopped_by(current._mark)))
    except asyncio.CancelledError as error:
        ran.others.append((task, _cancelled(error, current, chunk)))
    except BaseException as error:  # whatever a handler raises is the outcome of its task
        if is_pressed(error):
            raise
        is_late = issubclass(type(error), TimeoutError) and clock.expired()
        told = TimeoutError(f"no result after {limit:g} seconds") if is_late else error
        ran.others.append((task, judged(told, chunk.handler, attempt_env.on_raise)))
    finally:
        words[slot] = 0
        record.give(slot)
    if ran.others:
        ran.offspring = ran.offspring.undone()
        ran.offspring.discarded += given_up(current)
    ran.seconds = attempt_env.clock() - began
    return ran if chunk.polls is None else looked(ran, attempt_env)


def _unbegun(chunk: Chunk, position: int) -> Ran:
    """It was cancelled before its first step: nothing of it ran, and nobody else says so."""
    return Ran(chunk, others=[(chunk.claim.tasks[position], Interrupted())])


def _cancelled(error: BaseException, current: Current, chunk: Chunk) -> Verdict:
    """Return what it means that a coroutine was cancelled: we did it, or something it waited for was."""
    if not _is_cancelling():
        return judged(error, chunk.handler, lambda error: None)
    return stopped_by(current._mark)


async def _call(chunk: Chunk, position: int, attempt_env: AttemptEnv, current: Current, ran: Ran) -> None:
    handler, task = chunk.handler, chunk.claim.tasks[position]
    args, kwargs = arguments_of(chunk, position, attempt_env)
    if handler.calling is Calling.ASYNC_GENERATOR:
        result = await _collect(handler.fn(*args, **kwargs), chunk, current, attempt_env, ran)
    else:
        result = await handler.fn(*args, **kwargs)
    value = handler.signature.encode_result(result) if result is not None else None
    if current._refused:
        raise Void
    if current._saw_cancel or (current._mark is not None and _is_cancelling()):
        raise TaskCancelled
    current._give(task, ran.offspring)
    if ran.offspring.swaps:
        ran.offspring = Offspring(apart={task: ran.offspring})
    current._forget()
    if value is not None:
        ran.values = [value]
    ran.done.append(task)


def _is_cancelling() -> bool:
    """Return whether this coroutine was cancelled, also if it caught that and went on."""
    inside = asyncio.current_task()
    return inside is not None and inside.cancelling() > 0


async def _collect(stream: Any, chunk: Chunk, current: Current, attempt_env: AttemptEnv, ran: Ran) -> Any:
    """The children an async generator yields, and the value of its last `Return`."""
    task = current.task
    calls: list[Call[Any]] = []
    staging = Staging(chunk, task, attempt_env)
    result: Any = None
    count = 0
    try:
        async for each in stream:
            if type(each) is Return:
                result = each.value
                continue
            calls.append(each)
            if len(calls) == PIECE:
                count = await _put(calls, count, current, staging)
                calls = []
        if calls:
            if count:
                count = await _put(calls, count, current, staging)
            else:
                check_children(calls, chunk.handler, current._number)
                ran.offspring.add(task, current._passing_on(calls))
    finally:
        # An attempt that fails in here, or later, discards what it would have published.
        ran.offspring.published += staging.ranges
        if inspect.isasyncgen(stream):
            await stream.aclose()
    ran.offspring.staged += count
    return result


async def _put(calls: list[Call[Any]], count: int, current: Current, staging: Staging) -> int:
    check_children(calls, staging.handler, count)
    if not await asyncio.to_thread(staging.stage, current._passing_on(calls)):
        raise Void
    return count + len(calls)


def merge(whole: Ran, ran: Ran) -> None:
    """Add what came of some tasks to what came of others of the same chunk."""
    if ran.values is not None or whole.values is not None:
        if whole.values is None:
            whole.values = [None] * len(whole.done)
        whole.values += ran.values if ran.values is not None else [None] * len(ran.done)
    whole.took |= ran.times
    whole.done += ran.done
    whole.others += ran.others
    whole.offspring.extend(ran.offspring)
    whole.seconds += ran.seconds
    whole.busy += ran.busy
