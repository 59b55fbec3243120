"""Inputs of an attempt in a test: the results that its call waited for, what its leader found, what others have set.

Results take the way that those of tasks take: through the codec, by the annotation of the stream that they are for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from ramify.engine.library import StoreLibrary
from ramify.errors import BadPayload, ConfigError
from ramify.kernel.attempts.attempt_env import Leader
from ramify.kernel.attempts.context import sealed
from ramify.kernel.attempts.stream import Ready, Stream, as_failures
from ramify.kernel.core.handler import Handler
from ramify.model.call import Call, Extra, OpenCall, ReferringCall
from ramify.model.codec.refusal import explain
from ramify.model.codec.wire import Wire, write
from ramify.model.context import ContextValue
from ramify.model.join import Gathered, Rule
from ramify.model.outcome import TaskError
from ramify.model.reference import Reference
from ramify.model.value import Key, StoredValue
from ramify.store.contract import Store

R = TypeVar("R")


class Given(StoreLibrary):
    """Facts for a handler in a test: the results it waited for, what its leader found, what others have set."""

    def __init__(
        self,
        store: Store,
        handler: Handler,
        streams: Mapping[int, Ready[Any]],
        leader: Mapping[str, Any] | None,
        context: Mapping[str, Any] | None,
        values: Mapping[Key, StoredValue],
    ) -> None:
        super().__init__(store, {handler.kind: handler})
        self._values = values
        self._leader = leader
        self._context = {name: sealed(name, value) for name, value in (context or {}).items()}
        self._streams = streams

    @property
    def store_id(self) -> str:
        """The same in every attempt, so that tests can compare keys."""
        return "test"

    def is_at(self, store: Callable[[], Store]) -> bool:
        """Everything that an attempt leaves stays with it, and no store is opened to tell."""
        return True

    def leader(self, run: int) -> Leader:
        """The leader's results, as the test gave them."""
        if self._leader is None:
            raise ConfigError("current().leader: expected what it finds. Give attempt(..., leader={key: result})")
        return GivenLeader(self._leader)

    def context(self, run: int, name: str) -> ContextValue | None:
        """Return what others have set, as the test gave it."""
        return ContextValue(name, self._context[name], 0, 0, 0) if name in self._context else None

    def value(self, space: str, name: str) -> StoredValue | None:
        """Return what the store has, as the test gave it."""
        return self._values.get((space, name))

    def members(self, join: int, of: Any, first: int = 0, size: int | None = None) -> Stream[Any]:
        """The results it waited for, as the test gave them, on the way that results take."""
        found, wire = self._streams[join], Wire(of)
        results: list[Any] = []
        for each in (each for page in found.pages() for each in page):
            try:
                results.append(None if each is None else wire.read(wire.seal(each)))
            except Exception as error:  # noqa: BLE001  whatever it is, the words are what the test needs
                raise BadPayload(f"attempt(): results: {explain([('each', of, each)], error)}") from None
        return Stream(Ready(results, list(found.failures())))


class GivenLeader:
    """A leader of which a test tells the results."""

    def __init__(self, results: Mapping[str, Any]) -> None:
        self._results = results

    def get(self, key: str) -> Any:
        """Return what the test says was found under that key; KeyError for others."""
        return self._results[key]

    def children(self, key: str) -> Any:
        """Not known to one attempt."""
        raise ConfigError("attempt(): the children of a leader are unknown here. Test this with using() and two runs")


def members_of(
    call: Call[Any],
    handler: Handler,
    results: Iterable[Any] | None,
    failures: Sequence[TaskError],
) -> Ready[Any] | None:
    """Return the members a call waited for; ConfigError if it cannot have waited, or would have been skipped."""
    if results is None and not failures:
        return None
    if handler.stream is None:
        given = "results" if results is not None else "broken"
        raise ConfigError(f"attempt({given}=…): {handler.kind}() has no parameter that is a Stream")
    _check_runs(call, failures)
    return Ready(list(results or ()), failures)


def _check_runs(call: Call[Any], failures: Sequence[TaskError]) -> None:
    if failures and Extra.decode(call.extra).rule is not Rule.ALWAYS:
        raise ConfigError(
            f"attempt(broken=…): {call.kind}() would be skipped, because members did not end well; "
            f"give {call.kind}.of(…).always() if it is spawned like that"
        )


def streaming(call: OpenCall[R], results: Iterable[Any], failures: Sequence[TaskError]) -> ReferringCall[R]:
    """Return a call that was made without its stream, with a stream of these results in its place."""
    _check_runs(call, failures)
    stream = Reference(Stream.of(results, failures=failures), gathered=True)
    return ReferringCall(call.group, call.fill(stream), call.label, call.extra, call.in_lane, (stream,))


class Supplied(NamedTuple):
    """Inputs of a call from others: results by slot, and those of streams by the numbers that stand in their slots."""

    slots: tuple[bytes | None, ...]
    streams: Mapping[int, Ready[Any]]


def supplied_to(call: ReferringCall[Any], results: Sequence[Any] | None, failures: Sequence[TaskError]) -> Supplied:
    """Return what goes into the places of its references, in the order in which they are first named."""
    own = {each: each.source for each, _ in call.slots() if isinstance(each.source, Stream)}
    asks = [each for each, _ in call.slots() if each not in own]
    many = [each for each in asks if each.gathered]
    given, few = list(results or ()), sum(each.size for each in asks if not each.gathered)
    fits = few <= len(given) if len(many) == 1 else few + len(many) == len(given)
    if fits and len(many) > 1:
        # Then each of them stands for one entry.
        fits = all(isinstance(one, list | tuple) for ask, one in zip(asks, given, strict=True) if ask.gathered)
    if (asks and results is None) or (failures and len(many) != 1) or not fits:
        raise ConfigError(
            f"attempt({call!r}): it takes results of others. Give them as results=[…], in the order in which "
            f"they are first named ({', '.join(map(repr, call.references))}), a stream as one after the other, several "
            "streams as a list each; broken=… is for a single stream"
        )
    slots: list[bytes | None] = []
    streams: dict[int, Ready[Any]] = {}
    for reference, _ in call.slots():
        if not reference.gathered:
            slots += [None if each is None else write(each) for each in given[: reference.size]]
            del given[: reference.size]
            continue
        if reference in own:
            made = Ready(list(own[reference]), list(own[reference].failures))
        elif len(many) == 1:
            size = len(results or ()) - few
            made = Ready(given[:size], failures)
            del given[:size]
        else:
            made = Ready(list(given.pop(0)))
        # No task has such an id.
        number = -1 - len(streams)
        streams[number] = made
        slots.append(msgspec.json.encode(Gathered(number)))
    return Supplied(tuple(slots), streams)


def failures_of(given: int | Iterable[BaseException | TaskError]) -> list[TaskError]:
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return as_failures([RuntimeError("it broke, as the test says")] * given)
    if isinstance(given, Iterable):
        each = list(given)
        if all(isinstance(one, BaseException | TaskError) for one in each):
            return as_failures(each)
    raise ConfigError(f"attempt(broken={given!r}): give how many members broke, or a list of what each of them raised")
