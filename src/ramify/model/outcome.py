"""Outcomes: what one attempt returned, and the record of an error that can always be written.

An outcome is what the kernel turns into one event. Recording a failure must itself never fail: `Failure.of` survives
exceptions whose `__str__`, `__getattribute__`, `__class__` or metaclass raises, lone surrogates, endless texts and
endless tracebacks.
"""

from __future__ import annotations

import traceback
from typing import Any

import msgspec

from ramify.model.decoder import decoder
from ramify.model.event import Status

MAX_ERROR_TEXT = 2_000
MAX_FRAMES = 10


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
    """An error as it is stored: type, text, and the frames nearest the raise."""

    type: str
    text: str = ""
    frames: tuple[str, ...] = ()
    more_frames: int = 0

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """The record of `error`; never raises."""
        frames = _frames_of(error)
        kept = frames[-MAX_FRAMES:]
        name = storable(_name_of(type(error)))
        return cls(name, storable(text_of(error)), tuple(map(storable, kept)), len(frames) - len(kept))

    def encode(self) -> bytes:
        """The bytes an event carries."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, value: bytes | None) -> Failure:
        """The inverse of `encode`. A value of another form (a reason, say) becomes the text; it never raises."""
        if value is None:
            return cls("")
        try:
            return _failure.decode(value)
        except msgspec.DecodeError:
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
    return str(name) if module == "builtins" or type(module) is not str else f"{module}.{name}"


def _frames_of(error: BaseException) -> list[str]:
    try:
        trace = BaseException.__dict__["__traceback__"].__get__(error)
        return [f"{f.filename}:{f.lineno} in {f.name}" for f in traceback.extract_tb(trace)]
    except BaseException as trouble:  # noqa: BLE001 - the loader of a user's module reads the source, and may raise
        return [f"(its frames could not be read: {_name_of(type(trouble))})"]


class TaskError(msgspec.Struct, frozen=True):
    """A task that did not end well: which, with what arguments, and what it raised, or why it was ended."""

    task: int
    kind: str
    key: str | None
    status: Status
    arguments: tuple[Any, ...]
    failure: Failure

    def __str__(self) -> str:
        return f"{self.kind} {self.key or self.task}: {self.failure.type}: {self.failure.text}"


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
