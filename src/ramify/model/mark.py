"""Marks: requests left in the store that the next claim must honour. A mark never ends a task by itself."""

from __future__ import annotations

from enum import IntEnum, StrEnum

import msgspec

from ramify.model.decoder import decoder
from ramify.model.event import Status
from ramify.model.outcome import storable


class Scope(IntEnum):
    """The tasks that a mark covers. The numbers are stored; never reuse one."""

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
    by: str = ""

    @property
    def told(self) -> tuple[tuple[Status, bytes | None], ...]:
        """The events written when the mark is left: who wants it and why. Only a result needs one; other ends carry
        that themselves.
        """
        return ((Status.DECIDED, reason_value(self.reason, self.by)),) if self.status is Status.DONE else ()

    @property
    def end_value(self) -> bytes | None:
        """The value of the event that ends a covered task: its result, or who wanted that and why."""
        return self.value if self.status is Status.DONE else reason_value(self.reason, self.by)


class Settled(StrEnum):
    """The effect of a person's decision about a run or a task."""

    CERTAIN = "certain"  #: ended in this transaction: it did not run and never will
    REQUESTED = "requested"  #: somebody holds it; they are told by their next beat, commit or claim
    ENDED = "ended"  #: it had ended before
    UNKNOWN = "unknown"  #: no such published task in that run
    OVERTAKEN = "overtaken"  #: somebody decided otherwise about the run meanwhile; nothing changed


def reason_value(reason: str, by: str = "") -> bytes | None:
    """A reason, and who gave it, as the value of the event that records it."""
    told = {name: storable(text) for name, text in (("reason", reason), ("by", by)) if text}
    return msgspec.json.encode(told) if told else None


_texts = decoder(dict[str, str])


def reason_text(value: bytes | None) -> str:
    """The reason in what `reason_value` made; a value of another form is shown as it is."""
    if value is None:
        return ""
    try:
        told = _texts.decode(value)
    except msgspec.DecodeError:
        told = {}
    if told.keys() & {"reason", "by"}:
        return told.get("reason", "")
    return storable(value.decode("utf-8", "backslashreplace"))
