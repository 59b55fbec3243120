"""Outcomes: what one attempt returned, and the record of an error that can always be written.

An outcome is what the kernel turns into one event. Recording a failure must itself never fail: `Failure.of` survives
exceptions whose `__str__`, `__getattribute__`, `__class__` or metaclass raises, lone surrogates, endless texts,
endless tracebacks, and causes that lead back to themselves. Its size is bounded, whatever was raised.
"""

from __future__ import annotations

import os
import traceback
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import msgspec

from ramify.model.decoder import decoder
from ramify.model.event import Status

MAX_ERROR_TEXT = 2_000
#: The most frames that are kept of one exception: those nearest the raise.
MAX_FRAMES = 50
#: The most exceptions in one record: the error, its causes and contexts, and the members of groups.
MAX_EXCEPTIONS = 10
#: In bytes, as they are stored: the most that frames, source lines, causes and members take in one record.
MAX_TRACEBACK = 16_000
_MAX_FRAME = 500
_MAX_SOURCE = 200
#: Below this folder frames are Ramify's own.
_OWN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


class Done(msgspec.Struct, frozen=True):
    """The handler returned; `value` is its encoded result, None for None."""

    value: bytes | None = None


class Failed(msgspec.Struct, frozen=True):
    """The handler raised; `retry_in` seconds when another attempt follows."""

    failure: Failure
    retry_in: float | None = None


class Deferred(msgspec.Struct, frozen=True):
    """The handler asked to be called again in `seconds`, without using up an attempt."""

    seconds: float


class Cancelled(msgspec.Struct, frozen=True):
    """It was ended on request."""

    reason: str = ""


Outcome = Done | Failed | Deferred | Cancelled


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stored error: its type, its text, the frames nearest the raise, and the errors that led to it.

    `source` has the line of code of each frame, "" where it is not known. `cause` is the error it was raised from,
    `context` the error that was being handled, as Python shows them: at most one of the two is set. `members` are the
    errors of an exception group. Frames of Ramify are left out unless there are no others.
    """

    type: str
    text: str = ""
    frames: tuple[str, ...] = ()
    more_frames: int = 0
    source: tuple[str, ...] = ()
    cause: Failure | None = None
    context: Failure | None = None
    members: tuple[Failure, ...] = ()

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Return the record of `error`; never raises."""
        return _Recorder().failure(error)

    @property
    def traceback(self) -> str:
        """The full error as Python prints it, with its causes first; "" if nothing was raised."""
        return "\n".join([*_lines(self), ""]) if self.type else ""

    def encode(self) -> bytes:
        """Return the bytes that an event carries."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, value: bytes | None) -> Failure:
        """Decode the bytes of `encode`. Any other value (a reason, say) becomes the text; never raises."""
        if value is None:
            return cls("")
        try:
            return _failure.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return cls("", storable(value.decode("utf-8", "backslashreplace")))


_failure = decoder(Failure)


def text_of(error: BaseException) -> str:
    """The text of `error` with the notes that were added to it, as in a traceback; never raises."""
    try:
        return "; ".join(each for each in (str(error), *getattr(error, "__notes__", ())) if each)
    except BaseException as trouble:  # noqa: BLE001 - a broken __str__ is user code; the failure must still be recorded
        return f"(its text could not be read: {_name_of(type(trouble))})"


def _name_of(kind: type[BaseException]) -> str:
    # By the slots of `type` itself: a metaclass may answer for every attribute of its classes, and raise.
    name, module = type.__dict__["__qualname__"].__get__(kind), type.__dict__["__module__"].__get__(kind)
    if module == "builtins" or type(module) is not str:
        return str(name)
    if module.startswith("ramify.") and module != "ramify.errors":
        # Fatal and its like are imported from `ramify`, wherever they are defined.
        module = "ramify"
    return f"{module}.{name}"


class _Recorder:
    """Turns one exception, and those that led to it, into a record of bounded size."""

    def __init__(self) -> None:
        self._left = MAX_TRACEBACK
        self._seen: set[int] = set()

    def failure(self, error: BaseException) -> Failure:
        """Return the record of an exception: the first one is the error itself, later ones led to it."""
        is_first = not self._seen
        self._seen.add(id(error))
        # Each takes at most half of what is left, so that there is room for what led to it.
        self._share = self._left // 2
        name, text = storable(_name_of(type(error))), storable(text_of(error))
        if not is_first:
            name, text = self._fitting(name), self._fitting(text)
        frames, source, more = self._frames(error)
        cause, context = _leading_to(error)
        return Failure(
            name, text, frames, more, source, self._earlier(cause), self._earlier(context), self._members(error)
        )

    def _frames(self, error: BaseException) -> tuple[tuple[str, ...], tuple[str, ...], int]:
        try:
            found, count = _summaries(BaseException.__dict__["__traceback__"].__get__(error))
        except BaseException as trouble:  # noqa: BLE001 - the loader of a user's module is user code, and may raise
            return (storable(f"(its frames could not be read: {_name_of(type(trouble))})"),), (), 0
        frames: deque[str] = deque()
        source: deque[str] = deque()
        for each in reversed(found):
            frame = storable(f"{each.filename}:{each.lineno} in {each.name}", _MAX_FRAME)
            line = storable(_source_of(each), _MAX_SOURCE)
            if not self._takes(frame, line):
                break
            frames.appendleft(frame)
            source.appendleft(line)
        return tuple(frames), tuple(source) if any(source) else (), count - len(frames)

    def _earlier(self, error: BaseException | None) -> Failure | None:
        """Return the record of an exception that led to another; None when there is none, or it was recorded."""
        if error is None or id(error) in self._seen:
            return None
        return self.failure(error) if len(self._seen) < MAX_EXCEPTIONS else _LEFT_OUT

    def _members(self, error: BaseException) -> tuple[Failure, ...]:
        if not issubclass(type(error), BaseExceptionGroup):
            return ()
        kept: list[Failure] = []
        for each in BaseExceptionGroup.__dict__["exceptions"].__get__(error):
            member = self._earlier(each)
            kept += () if member is None else (member,)
            if member is _LEFT_OUT:
                break
        return tuple(kept)

    def _takes(self, *texts: str) -> bool:
        """Return whether there is room for these texts; they take it."""
        size = sum(len(msgspec.json.encode(text)) + 1 for text in texts)
        if size > self._share:
            return False
        self._share -= size
        self._left -= size
        return True

    def _fitting(self, text: str) -> str:
        return text if self._takes(text) else "…"


_LEFT_OUT = Failure("", "(more exceptions are left out)")


def _leading_to(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Return the cause of an exception, or else its context if Python would show it."""
    cause: BaseException | None = BaseException.__dict__["__cause__"].__get__(error)
    if cause is not None or BaseException.__dict__["__suppress_context__"].__get__(error):
        return cause, None
    return None, BaseException.__dict__["__context__"].__get__(error)


def _summaries(trace: TracebackType | None) -> tuple[list[traceback.FrameSummary], int]:
    """Return the frames nearest the raise, without those of ours unless all are, and how many there are."""
    kept: deque[Any] = deque(maxlen=MAX_FRAMES)
    count = 0
    for frame, line in traceback.walk_tb(trace):
        if not frame.f_code.co_filename.startswith(_OWN):
            kept.append((frame, line))
            count += 1
    if not count:
        for each in traceback.walk_tb(trace):
            kept.append(each)
            count += 1
    return list(traceback.StackSummary.extract(iter(kept), lookup_lines=False)), count


def _source_of(frame: traceback.FrameSummary) -> str:
    try:
        return frame.line or ""
    except BaseException:  # noqa: BLE001 - the loader of a user's module reads the source, and may raise
        return ""


_CAUSED = "The above exception was the direct cause of the following exception:"
_DURING = "During handling of the above exception, another exception occurred:"


def _lines(failure: Failure) -> Iterator[str]:
    for earlier, between in ((failure.cause, _CAUSED), (failure.context, _DURING)):
        if earlier is not None:
            yield from _lines(earlier)
            yield from ("", between, "")
    if failure.frames:
        yield "Traceback (most recent call last):"
    if failure.more_frames:
        yield f"  [{failure.more_frames} more frames]"
    source = failure.source or ("",) * len(failure.frames)
    for frame, line in zip(failure.frames, source, strict=False):
        where, _, name = frame.rpartition(" in ")
        file, _, number = where.rpartition(":")
        yield f'  File "{file}", line {number}, in {name}' if file else f"  {frame}"
        if line:
            yield f"    {line}"
    yield from ": ".join(filter(None, (failure.type, failure.text))).split("\n")
    for place, member in enumerate(failure.members, 1):
        yield f"  +---- {place} of {len(failure.members)} ----"
        yield from (f"  | {line}".rstrip() for line in _lines(member))


class TaskError(msgspec.Struct, frozen=True):
    """A task that did not end as done, with its arguments, and the error it raised or the reason it was ended."""

    task: int
    kind: str
    key: str | None
    status: Status
    arguments: tuple[Any, ...]
    failure: Failure

    def __str__(self) -> str:
        return f"{self.kind} {self.key or self.task}: {self.failure.type}: {self.failure.text}"

    @property
    def traceback(self) -> str:
        """The full error as Python prints it; "" if the task did not fail."""
        return self.failure.traceback if self.status in (Status.FAILED, Status.QUARANTINED) else ""


class TaskTraceback(Exception):
    """The traceback of a task, as the cause of an exception that tells of its failure in another process."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def storable(text: str, limit: int = MAX_ERROR_TEXT) -> str:
    """`text` cut to `limit` characters and free of lone surrogates, for records that must always be writable."""
    if len(text) > limit:
        text = f"{text[: limit - 30]}… ({len(text)} characters)"
    return text.encode("utf-8", "backslashreplace").decode()


def status_of(outcome: Outcome) -> Status:
    """The status of the event that records `outcome`."""
    match outcome:
        case Done():
            return Status.DONE
        case Failed(retry_in=None):
            return Status.FAILED
        case Failed():
            return Status.RETRYING
        case Deferred():
            return Status.DEFERRED
        case Cancelled():
            return Status.CANCELLED
