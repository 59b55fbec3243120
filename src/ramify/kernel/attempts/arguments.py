"""The arguments of an attempt: as they were stored, with the results that its task waited for.

Results of a small join come along with its claim. Others are read: those that go among the arguments all at once,
before the handler is called; those of a stream page by page, when it is gone through.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ramify.errors import BadPayload
from ramify.kernel.attempts.attempt_env import AttemptEnv
from ramify.kernel.attempts.stream import Ready, Stream
from ramify.kernel.core.work import Chunk
from ramify.model.claim import Details
from ramify.model.codec.escape import has_slots, plainly_filled, single_slots
from ramify.model.codec.wire import Wire
from ramify.model.join import GATHERED, SMALL
from ramify.model.task import MAX_PAYLOAD


def arguments_of(chunk: Chunk, position: int, attempt_env: AttemptEnv) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return what the handler of a task is called with."""
    handler, claim = chunk.handler, chunk.claim
    task, body = claim.tasks[position], claim.bodies[position]
    more = claim.details.get(task)
    if more is None or more.members is None:
        if has_slots(body):
            raise BadPayload(f"{claim.kind}(): it takes results of other tasks, and task {task} waited for none")
        return handler.signature.decode(body)
    supply = JoinResults(task, more, handler.streams, attempt_env)
    if has_slots(body):
        if (plain := _with_results(body, more)) is not body:
            return handler.signature.decode(plain)
        supply.collect(single_slots(body))
        return handler.signature.decode(body, supply)
    args, kwargs = handler.signature.decode(body)
    if handler.stream is not None:
        kwargs = {**kwargs, handler.stream: supply.stream(handler.stream, 0, None)}
    return args, kwargs


def columns_of(chunk: Chunk) -> tuple[Sequence[int], Iterable[bytes]]:
    """Its tasks and their arguments, with the results that came along where these make a call like any other."""
    tasks, bodies = chunk.columns()
    details = chunk.claim.details
    if not details:
        return tasks, bodies
    return tasks, (_with_results(body, details.get(task)) for task, body in zip(tasks, bodies, strict=True))


def _with_results(body: bytes, more: Details | None) -> bytes:
    if more is None or more.results is None:
        return body
    return plainly_filled(body, more.results) or body


class JoinResults:
    """The results that one task waited for: as its claim brought them, by slot, or as the library finds them."""

    def __init__(self, task: int, more: Details, streams: Mapping[str, Any], attempt_env: AttemptEnv) -> None:
        self._task = task
        self._brought = more.results
        self._streams = streams
        self._library = attempt_env.library
        self._results: Mapping[int, bytes | None] = {}

    def collect(self, slots: list[int]) -> None:
        """Have the results of these slots ready."""
        brought = self._brought
        if brought is None:
            self._results = self._library.results(self._task, slots) if slots else {}
        else:
            self._results = {slot: brought[slot] for slot in slots if slot < len(brought)}
        if missing := [slot for slot in slots if slot not in self._results]:
            raise BadPayload(
                f"task {self._task} takes the result in slot {missing[0]} of its join, which has none there"
            )
        size = sum(len(raw) for raw in self._results.values() if raw is not None)
        if len(slots) > SMALL and size > MAX_PAYLOAD:
            raise BadPayload(
                f"task {self._task} takes {len(slots)} results of together {size:,} bytes as arguments; "
                f"more than {SMALL} may take {MAX_PAYLOAD:,} (1 MiB). Let the parameter be a Stream"
            )

    def result(self, slot: int) -> bytes | None:
        """One result, as it is stored; None for a member that did not end well."""
        return self._results[slot]

    def stream(self, name: str, first: int, size: int | None) -> Stream[Any]:
        """Return what a parameter is given that takes the results of `size` slots from `first` on."""
        of, brought = self._streams[name], self._brought
        if brought is None:
            return self._library.members(self._task, of, first, size)
        read, end = _wire(of).read, len(brought) if size is None else first + size
        return Stream(Ready([None if raw is None else read(raw) for raw in brought[first:end]]))

    def gathered(self, name: str, slot: int) -> Stream[Any]:
        """Return the argument for a parameter that takes the results named by the result in a slot; none for none."""
        raw = self._results[slot]
        if raw is None:
            return Stream()
        return self._library.members(GATHERED.decode(raw).join, self._streams[name], 0, None)


@lru_cache(maxsize=1_024)
def _wire(annotation: Any) -> Wire:
    return Wire(annotation)
