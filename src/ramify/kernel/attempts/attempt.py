"""Attempts in threads: run the tasks of a chunk one after the other and collect what came of them.

Per task: one decode, one call, a few list appends. Everything else is per chunk. Whatever a handler does (raise
anything, yield nonsense, return what cannot be stored) becomes an outcome of its own task and harms no other. A child
that it forks ends in here.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

import msgspec

from ramify.errors import BadPayload, OverwriteError, StoreUnavailable
from ramify.kernel.attempts.arguments import arguments_of, columns_of
from ramify.kernel.attempts.attempt_env import AttemptEnv
from ramify.kernel.attempts.control import Defer, Fatal, Return, Skip, TaskCancelled
from ramify.kernel.attempts.current import Current, clear
from ramify.kernel.attempts.forked import end_child
from ramify.kernel.core.handler import Calling, Handler
from ramify.kernel.core.polling import looked
from ramify.kernel.core.work import Chunk, Dropped, Forgone, Interrupted, Postponed, Raised, Ran, Verdict
from ramify.kernel.faults import reach
from ramify.kernel.outgoing.staging import Staging, Void
from ramify.kernel.tuning import CHUNK_TOO_LONG, PIECE, STORE_PAUSE
from ramify.model.call import Call
from ramify.model.event import UNTIMED
from ramify.model.mark import Mark
from ramify.model.outcome import Failure, storable, text_of
from ramify.model.stray import instead_of_call
from ramify.store import forks
from ramify.store.record import DEADLINE, MOST, SECOND

_CALLS = {Call}
#: In seconds: attempts that took longer say how long.
NOTED = UNTIMED / SECOND


def run_chunk(chunk: Chunk, attempt_env: AttemptEnv) -> Ran:
    """Run the tasks of a chunk in this thread, as long as this process may start tasks and that does not take too long.

    The others come back as they were.
    """
    handler = chunk.handler
    fn, decode, decode_slowly = handler.fn, handler.signature.decode_plain, handler.signature.decode_positional
    encode_result = handler.signature.encode_result
    yields = handler.calling is Calling.GENERATOR
    plain = handler.stream is None
    depth = chunk.depth
    clock, start_fence = attempt_env.clock, attempt_env.start_fence
    ran = Ran(chunk)
    done, add_children = ran.done, ran.offspring.add
    record = attempt_env.record
    words, slot = record.words, record.take()
    words[slot + MOST] = handler.policy.max_crashes or 0
    words[slot + DEADLINE] = int((chunk.deadline or 0.0) * SECOND)
    current = Current(chunk, attempt_env)
    current._set()
    box: list[Any] = []
    calls: Sequence[Any] | None = None
    streamed: Staging | None = None
    began, busy = clock(), attempt_env.busy()
    over, since, is_long = -math.inf, math.inf, False
    reach("before-retry" if chunk.attempts else "before-attempt")
    for position, task, body in zip(chunk.positions, *columns_of(chunk), strict=True):
        # One look at the clock for both: whether this task may begin, and how long the one before it took. While a
        # stretch of as much as is noted is not over, none of those in it took longer.
        now = clock()
        if now > over:
            over = now + NOTED
            if now - since > NOTED:
                ran.took[words[slot]] = round((now - since) * SECOND)
            is_long = since < now and now - began > CHUNK_TOO_LONG
        since = now
        # INVARIANT: A process that was not heard of for half of `dead_after` starts nothing.
        if is_long or now >= start_fence.until:
            since = math.inf  # nothing runs, so that nothing takes time
            ran.others.append((task, Interrupted()))
            continue
        words[slot] = task
        current._position = position
        try:
            try:
                args = decode(body) if plain else None
            except Exception:  # noqa: BLE001 - the slow way reads what is not plain, or says what is wrong with it
                args = decode_slowly(body)
            result = fn(*args) if args is not None else _call_slowly(chunk, position, attempt_env)
            if yields:
                caught = _caught(result, box)
                calls = list(islice(caught, PIECE))
                if len(calls) == PIECE:
                    streamed = Staging(chunk, task, attempt_env)
                    result, calls = _stream(streamed, caught, box, calls, current), None
                else:
                    result = box.pop()
                    if calls:
                        check_children(calls, handler, current._number)
                        calls = current._passing_on(calls)
            value = encode_result(result) if result is not None else None
        except BaseException as error:  # whatever a handler raises is the outcome of its task
            if forks.depth != depth:
                end_child(error)
            if current._made:
                ran.offspring.discarded += given_up(current)
            box.clear()
            if streamed is not None:
                ran.offspring.discarded += streamed.ranges
                streamed = None
            if is_pressed(error):
                words[slot] = 0
                clear()
                raise
            if type(error) is Void:
                ran.others.append((task, Interrupted(refused=True)))
                continue
            if issubclass(type(error), TaskCancelled):
                ran.others.append((task, stopped_by(current._mark)))
                continue
            ran.others.append((task, judged(error, handler, attempt_env.on_raise)))
        else:
            if forks.depth != depth:
                end_child()
            if current._made:
                is_adopted = _adopt(ran, task, current, calls, streamed)
                streamed = None
                if not is_adopted:
                    continue
            elif calls:
                add_children(task, calls)
            elif streamed is not None:
                ran.offspring.publish(streamed.ranges, streamed.count)
                streamed = None
            if value is None and ran.values is None:
                done.append(task)
            else:
                _add(ran, task, value)
    if (now := clock()) - since > NOTED:
        ran.took[words[slot]] = round((now - since) * SECOND)
    words[slot] = 0
    record.give(slot)
    ran.seconds, ran.busy = now - began, attempt_env.busy() - busy
    reach("after-attempt")
    clear()
    return ran if chunk.polls is None else looked(ran, attempt_env)


def _add(ran: Ran, task: int, value: bytes | None) -> None:
    if ran.values is not None:
        ran.values.append(value)
    elif value is not None:
        ran.values = [None] * len(ran.done)
        ran.values.append(value)
    ran.done.append(task)


def _caught(generator: Generator[Any, Any, Any], box: list[Any]) -> Generator[Any, None, None]:
    """The children a generator yields; what it returns goes into the box."""
    box.append((yield from generator))


def _stream(
    staging: Staging, rest: Generator[Any, None, None], box: list[Any], calls: list[Call[Any]], current: Current
) -> Any:
    """Write the children of a task that has very many piece by piece; the result, once it has no more."""
    # A handler that is not heard to its end cleans up here and now, while it is still the current one.
    with closing(rest):
        while calls:
            check_children(calls, staging.handler, staging.count)
            if not staging.stage(current._passing_on(calls)):
                raise Void
            calls = list(islice(rest, PIECE))
    return box.pop()


def _adopt(ran: Ran, task: int, current: Current, calls: Sequence[Call[Any]] | None, streamed: Staging | None) -> bool:
    """Take what was spawned by a call, set or changed, and what was yielded; False when the store did not take some of
    it, or when the handler stopped because of a cancel.
    """
    if current._refused or current._saw_cancel:
        verdict = Interrupted(refused=True) if current._refused else stopped_by(current._mark)
        ran.offspring.discarded += given_up(current) + ([] if streamed is None else streamed.ranges)
        ran.others.append((task, verdict))
        return False
    offspring = ran.offspring.set_apart(task) if current._swaps else ran.offspring
    current._give(task, offspring)
    current._forget()
    offspring.add(task, calls or ())
    if streamed is not None:
        offspring.publish(streamed.ranges, streamed.count)
    return True


def stopped_by(mark: Mark | None) -> Verdict:
    """Return what becomes of an attempt that stopped because nobody wants its result: without a cancel, nothing."""
    return Interrupted() if mark is None else Dropped(mark.reason or "cancelled while it ran", mark.by)


def given_up(current: Current) -> list[int]:
    """Forget what an attempt spawned and set that came to nothing; the ranges that were staged."""
    ranges = [first for staging in current._stagings for first in staging.ranges]
    current._forget()
    return ranges


def check_children(calls: Sequence[Call[Any]], handler: Handler, before: int) -> None:
    """Refuse what is no call, and more children than the kind allows; `before` were seen earlier."""
    if set(map(type, calls)) != _CALLS:
        stray: object = next(call for call in calls if type(call) is not Call)
        if isinstance(stray, Return):
            raise Fatal(
                f"{handler.kind}: yielded {stray!r:.200}, which only async generators may. Write `return value`."
            )
        raise Fatal(f"{handler.kind}: expected calls to be yielded, got {instead_of_call(stray)}.")
    most = handler.policy.max_children
    if most is not None and before + len(calls) > most:
        raise Fatal(f"{handler.kind}: made more than max_children={most}. Raise @task(max_children=...).")


def _call_slowly(chunk: Chunk, position: int, attempt_env: AttemptEnv) -> Any:
    """Call a handler whose arguments have names, or that takes results of others."""
    args, kwargs = arguments_of(chunk, position, attempt_env)
    return chunk.handler.fn(*args, **kwargs)


def is_pressed(error: BaseException) -> bool:
    """Return whether somebody wants the program to end: the key is only ever heard in the main thread."""
    return issubclass(type(error), KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def judged(error: BaseException, handler: Handler, on_raise: Callable[[BaseException], None]) -> Verdict:
    """Return the verdict on an exception. An exception that cannot be judged fails its attempt, and says why."""
    try:
        on_raise(error)
        return verdict_on(error, handler)
    except BaseException as trouble:
        if is_pressed(trouble):
            raise
        failure, met = Failure.of(error), Failure.of(trouble)
        text = f"{failure.text} (Ramify could not judge this error: {met.type}: {met.text})"
        return Raised(msgspec.structs.replace(failure, text=storable(text.lstrip())))


def verdict_on(error: BaseException, handler: Handler) -> Verdict:
    """Return the meaning of an exception for its task. Runs code of the exception's class, which may raise."""
    # INVARIANT: an exception is judged by its type, as `except` does. isinstance() asks `__class__`, which may raise.
    kind = type(error)
    if issubclass(kind, Defer):
        assert isinstance(error, Defer)
        # Made anew, because it is checked there: a subclass may wait for something that is no time.
        checked = Defer(error.seconds, error.reason, closes=error.closes)
        return Postponed(checked.seconds, checked.reason, error._awaits, checked.closes)
    if issubclass(kind, Skip):
        return Forgone(text_of(error))
    if issubclass(kind, StoreUnavailable):
        # It asked for something (its params, its leader, its members) while the store was away: no fault of it.
        return Postponed(STORE_PAUSE)
    # A stored call that does not fit, a result that cannot be stored, a name that is set: no try changes that.
    is_final = issubclass(kind, Fatal | BadPayload | OverwriteError)
    return Raised(Failure.of(error), final=is_final or not handler.policy.retries_after(kind))
