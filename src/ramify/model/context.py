"""The context of a run: values under names, which its tasks set and all of them may read. Pure.

A name is set once: of several tasks that set it, the first one to be committed decides, and the others are told by an
event that they came too late. Whoever means to replace a value says so. A task that is run again in a new life may set
again what it had set itself.

Does not know where values are kept, nor how they are written as bytes.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

import msgspec

from ramify.errors import BadPayload
from ramify.model.task import MAX_PAYLOAD, check_name

#: What a name of the context is called in errors.
A_NAME = "a name in the context"


class SetValue(msgspec.Struct, frozen=True, gc=False):
    """A value that a task sets, on its way into the store with the task's end."""

    task: int
    name: str
    value: bytes
    overwrite: bool = False


class ContextValue(msgspec.Struct, frozen=True, gc=False):
    """The value of a name, the task that set it, and when the name was set first and last."""

    name: str
    value: bytes
    task: int
    first_set: int
    last_set: int


def after_set(known: ContextValue | None, new: SetValue, now: int) -> ContextValue:
    """Return what stands under a name once `new` is committed: `known` itself when that one was first and stays."""
    if known is None:
        return ContextValue(new.name, new.value, new.task, now, now)
    if new.overwrite or known.task == new.task:
        return ContextValue(new.name, new.value, new.task, known.first_set, now)
    return known


def outrun_by(first: ContextValue) -> bytes:
    """Return what the event of a task tells that came too late: under which name, and who was first."""
    return msgspec.json.encode({"name": first.name, "first": first.task})


def check_sets(sets: Sequence[SetValue], done: Container[int]) -> None:
    """Refuse what cannot be set, or by a task that is not `done`, or twice by one task."""
    for new in sets:
        check_name(A_NAME, new.name)
        if len(new.value) > MAX_PAYLOAD:
            raise BadPayload(
                f"the value of {new.name!r} in the context takes {len(new.value)} bytes; the limit is {MAX_PAYLOAD}. "
                "Store it elsewhere and set a reference to it"
            )
        if new.task not in done:
            raise BadPayload(f"task {new.task} sets {new.name!r} in the context and is not done in this part")
    if len({(new.task, new.name) for new in sets}) != len(sets):
        raise BadPayload("a task sets a name in the context twice; the last value is the one to send")
