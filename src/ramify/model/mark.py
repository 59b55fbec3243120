"""Marks: requests left in the store that the next claim must honour. A mark never ends a task by itself."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from ramify.model.event import Status
from ramify.model.outcome import storable


class Scope(IntEnum):
    """What a mark covers. The numbers are stored; never reuse one."""

    RUN = 0
    SUBTREE = 1
    TASK = 2


class Mark(msgspec.Struct, frozen=True):
    """End the covered tasks as `status` without calling their handler. RETRYING: their last attempt ran out of time,
    which the policy of their kind judges as if they had said so themselves.
    """

    run: int
    scope: Scope
    task: int | None
    status: Status
    reason: str = ""
    value: bytes | None = None


class CancelAnswer(IntEnum):
    """What a cancel achieved."""

    CERTAIN = 1  #: ended in this transaction: it did not run and never will
    REQUESTED = 2  #: somebody holds it; they are told by their next beat, commit or claim
    ENDED = 3  #: it had ended before
    UNKNOWN = 4  #: no such published task in that run


def reason_value(reason: str) -> bytes | None:
    """A reason as the value of the event that records it."""
    return msgspec.json.encode({"reason": storable(reason)}) if reason else None


def reason_text(value: bytes | None) -> str:
    """The inverse of `reason_value`; a value of another form is shown as it is."""
    if value is None:
        return ""
    try:
        return msgspec.json.decode(value, type=dict[str, str])["reason"]
    except (msgspec.DecodeError, KeyError):
        return storable(value.decode("utf-8", "backslashreplace"))
