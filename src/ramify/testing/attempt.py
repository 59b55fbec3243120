"""One attempt of one call, by itself: what it returned, spawned and logged. No store, no engine, no waiting.

    done = attempt(measure.of("/usr"))
    assert done.result == 42
    assert done.children == [measure.of("/usr/lib")]

Promises: the attempt is a real one. Arguments and the result go through the codec, the handler may be of any calling,
the hooks of its own set are around it (not those of sets that include that one), `current()` works in it, limits such
as `max_children` hold, and whatever is raised is raised here, as it was. Children are calls, in the order in which they
were made; none of them is run.

A resource that the handler asks for is opened as ever and stays open until its engine is closed; give what it should
get instead with `resources={db: fake}`. Does not retry: each call of `attempt` is one try.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from typing import Any, Generic, TypeVar, assert_never

import msgspec

from ramify.engine.around import within
from ramify.engine.resource import AnyResource, AsyncResource, Resource
from ramify.errors import ConfigError
from ramify.kernel.attempts.attempt import run_chunk
from ramify.kernel.attempts.attempt_env import AttemptEnv
from ramify.kernel.attempts.control import Defer, Return
from ramify.kernel.attempts.coroutines import Coroutines
from ramify.kernel.attempts.current import current, current_or_none
from ramify.kernel.attempts.notes import Notes, capturing
from ramify.kernel.attempts.stream import Ready
from ramify.kernel.core.handler import Calling, Handler
from ramify.kernel.core.holding import Holding
from ramify.kernel.core.leases import timeout_of
from ramify.kernel.core.work import Chunk, Ran
from ramify.kernel.outgoing.offspring import Fork
from ramify.kernel.outgoing.sender import Sender
from ramify.kernel.settings import Settings
from ramify.kernel.signals import Signals
from ramify.model.call import Call, OpenCall, ReferringCall
from ramify.model.claim import Claim, Details, Want
from ramify.model.codec.wire import Wire
from ramify.model.join import Ends
from ramify.model.log import LogLine
from ramify.model.outcome import Deferred, Done, TaskError
from ramify.model.stray import instead_of_call
from ramify.shapes.start import StartRequest, begin
from ramify.shapes.table import plan_of
from ramify.store.contract import Store
from ramify.store.open import open_store
from ramify.testing.given import Given, Supplied, failures_of, members_of, streaming, supplied_to
from ramify.testing.given_values import sealed_values, values_left

R = TypeVar("R")

_anything = Wire(Any)


@dataclasses.dataclass(frozen=True)
class Attempted(Generic[R]):
    """The result of one attempt.

    `children` were yielded or spawned, in that order; `forks` are those spawned with a continuation, as `members` and
    `then`; `jobs` were enqueued by `current().enqueue`. `stopped` is the reason if it ended its run, and `context` has
    the values it set there. `values` are all values as it left them, by space and name, those that it was given
    included.
    """

    outcome: Done | Deferred
    children: Sequence[Call[Any]]
    forks: Sequence[Fork]
    logs: Sequence[LogLine]
    stopped: str | None
    context: Mapping[str, Any]
    _value: R
    jobs: Sequence[Call[Any]] = ()
    values: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)

    @property
    def result(self) -> R:
        """The result it returned, as it comes back from the store; AssertionError if it was deferred."""
        assert not isinstance(self.outcome, Deferred), f"it has no result: deferred by {self.outcome.seconds:g} seconds"
        return self._value

    @property
    def deferred(self) -> float | None:
        """The seconds of its `Defer`; None if it did not defer itself."""
        return self.outcome.seconds if isinstance(self.outcome, Deferred) else None

    @property
    def texts(self) -> list[str]:
        """The log lines as text alone."""
        return [line.text for line in self.logs]


def attempt(
    call: Call[R],
    *,
    number: int = 1,
    params: object = None,
    results: Iterable[Any] | None = None,
    broken: int | Iterable[BaseException | TaskError] = 0,
    leader: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
    values: Mapping[str, Mapping[str, Any]] | None = None,
    resources: Mapping[AnyResource, Any] | None = None,
) -> Attempted[R]:
    """Try a call once, here and now, and raise what it raises.

    `number` is `current().attempt`, `params` are the params of its run. `results` fill the `Stream` of a task that
    waits for others, or the places of its references; `broken` is how many of those did not end as done, or the error
    of each. A parameter that is a `Stream` may be given one: `attempt(total.of(Stream.of([1, 2])))`. `leader` is what
    `current().leader.get(key)` finds, `context` has the values that other tasks have set in its run, `values` those of
    the store by space and name, and `resources` replace resources without opening any.
    """
    handler = handler_of(call)
    if handler.calling.is_async:
        check_no_event_loop(f"attempt({call.kind}.of(…))", "await aattempt(…)")
    if results is not None and not isinstance(results, Iterable):
        raise ConfigError(f"attempt(): expected a list of results, got results={results!r}. Write results=[1, 2].")
    supplied = members = None
    failures = failures_of(broken)
    if isinstance(call, OpenCall) and call.references[0].stream and (results is not None or failures):
        call, results, failures = streaming(call, results or (), failures), None, []
    if isinstance(call, ReferringCall):
        supplied = supplied_to(call, None if results is None else list(results), failures)
        call = Call(call.group, call.body, call.label, call.extra, call.in_lane)
    else:
        members = members_of(call, handler, results, failures)
    with overridden(resources):
        run = copy_context().run
        return run(_attempt, call, handler, number, params, members, leader, context, values, supplied)


async def aattempt(
    call: Call[R],
    *,
    number: int = 1,
    params: object = None,
    results: Iterable[Any] | None = None,
    broken: int | Iterable[BaseException | TaskError] = 0,
    leader: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
    values: Mapping[str, Mapping[str, Any]] | None = None,
    resources: Mapping[AnyResource, Any] | None = None,
) -> Attempted[R]:
    """Do `attempt` in an async test, whose event loop keeps running; the function runs in a thread beside it."""

    def here() -> Attempted[R]:
        return attempt(
            call, number=number, params=params, results=results, broken=broken, leader=leader, context=context,
            values=values, resources=resources,
        )  # fmt: skip

    return await asyncio.to_thread(here)


@contextmanager
def overridden(resources: Mapping[AnyResource, Any] | None) -> Iterator[None]:
    """Let handlers get these values instead of opening the resources, until the block ends."""
    with ExitStack() as overrides:
        for resource, value in (resources or {}).items():
            if not isinstance(resource, Resource | AsyncResource):
                raise ConfigError(f"resources={{{resource!r}: …}}: expected what @engine.resource made, not its name.")
            overrides.enter_context(resource.override(value))
        yield


def handler_of(call: Call[Any]) -> Handler:
    """The handler that a call reaches; ConfigError for what is no call of a task function."""
    if not isinstance(call, Call):
        raise ConfigError(f"attempt(): expected a call, got {instead_of_call(call)}.")
    if not isinstance(call.group.handler, Handler):
        raise ConfigError(f"{call!r} was not made with task.of(...), so its function is unknown. Write task.of(...).")
    return within(call.group.handler, call.group.handler.around)


def check_no_event_loop(verb: str, instead: str) -> None:
    """Refuse to block an event loop that runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigError(f"{verb} would block the event loop until the async task has ended. Write {instead}")


def _attempt(
    call: Call[R],
    handler: Handler,
    number: int,
    params: object,
    members: Ready[Any] | None,
    leader: Mapping[str, Any] | None,
    context: Mapping[str, Any] | None,
    values: Mapping[str, Mapping[str, Any]] | None,
    supplied: Supplied | None,
) -> Attempted[R]:
    settings, over = Settings(), threading.Event()
    store = open_store("memory:")
    sender = Sender(store, settings, Signals(), over, ())
    sender.enter()
    claim = _claim(store, sender, call, params)
    streams = {} if supplied is None else supplied.streams
    given = sealed_values(values)
    library = Given(store, handler, streams if members is None else {claim.tasks[0]: members}, leader, context, given)
    if members is not None:
        claim = _as_continuation(claim, *members.sizes())
    elif supplied is not None:
        claim = _as_continuation(claim, len(supplied.slots), 0, supplied.slots)
    notes, raised, seen = Notes(settings.log_lines), list[BaseException](), list[Call[Any]]()
    attempt_env = AttemptEnv(sender, library, notes, {}, {}, on_raise=raised.append)
    tried = dataclasses.replace(handler, fn=_noting(handler, seen))
    chunk = Chunk(claim, tried, (0,), {} if number == 1 else {0: number}, timeout_of(Holding(claim, tried), 0))
    with capturing(notes, current_or_none, settings.log_level):
        ran = _run_async(chunk, attempt_env) if handler.calling.is_async else run_chunk(chunk, attempt_env)
    for error in raised:
        if not issubclass(type(error), Defer):
            raise error
    value = ran.values[0] if ran.values else None
    stopped = store.reads.run(claim.run).reason
    if raised and isinstance(raised[0], Defer):
        deferred, left = Deferred(raised[0].seconds), values_left(given, ())
        return Attempted(deferred, (), (), notes.rest(), stopped, {}, handler.signature.decode_result(None), (), left)
    if not ran.done:
        raise asyncio.CancelledError(f"{call!r} was cancelled while it ran")
    result = handler.signature.decode_result(value)
    made = (ran.offspring.apart or {}).get(claim.tasks[0], ran.offspring)
    forks = [fork for fork in made.forks if isinstance(fork, Fork)]
    was_set = {new.name: _anything.read(new.value) for new in made.sets or ()}
    left = values_left(given, made.swaps)
    return Attempted(Done(value), seen, forks, notes.rest(), stopped, was_set, result, made.jobs, left)


def _claim(store: Store, sender: Sender, call: Call[Any], params: object) -> Claim:
    """The call as the only task of a run of its own, claimed as any process would."""
    now = msgspec.structs.replace(call, group=dataclasses.replace(call.group, delay=None, due=None))
    begin(store, StartRequest(*plan_of(now), params=params))
    return sender.send(lambda stamp: store.claim(stamp, Want(frozenset({call.kind}), 1))).claims[0]


def _as_continuation(claim: Claim, done: int, broken: int, results: tuple[bytes | None, ...] | None = None) -> Claim:
    task = claim.tasks[0]
    more = msgspec.structs.replace(claim.details.get(task, Details()), members=Ends(done, broken), results=results)
    return msgspec.structs.replace(claim, details={task: more})


def _run_async(chunk: Chunk, attempt_env: AttemptEnv) -> Ran:
    coroutines = Coroutines(attempt_env, lambda: None, lambda rans, chunks: None)
    try:
        return coroutines.run_here(chunk)
    finally:
        # An async resource lives on this loop, and ends with it.
        coroutines.loop.run_until_complete(coroutines.loop.shutdown_asyncgens())
        coroutines.close_here()


def _noting(handler: Handler, seen: list[Call[Any]]) -> Callable[..., Any]:
    """The function of a handler; the children it makes are noted, those it yields first."""
    fn = handler.fn

    def plain(*args: Any, **kwargs: Any) -> Any:
        result = fn(*args, **kwargs)
        seen.extend(current()._spawned)
        return result

    def generator(*args: Any, **kwargs: Any) -> Any:
        children = iter(fn(*args, **kwargs))
        while True:
            try:
                child = next(children)
            except StopIteration as end:
                seen.extend(current()._spawned)
                return end.value
            seen.append(child)
            yield child

    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        result = await fn(*args, **kwargs)
        seen.extend(current()._spawned)
        return result

    async def async_generator(*args: Any, **kwargs: Any) -> Any:
        async for child in fn(*args, **kwargs):
            if not isinstance(child, Return):
                seen.append(child)
            yield child
        seen.extend(current()._spawned)

    match handler.calling:
        case Calling.PLAIN:
            return plain
        case Calling.GENERATOR:
            return generator
        case Calling.ASYNC:
            return coroutine
        case Calling.ASYNC_GENERATOR:
            return async_generator
        case _:
            assert_never(handler.calling)
