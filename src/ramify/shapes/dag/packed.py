"""Packed calls: calls inside the arguments of another one, for tasks of ours that make them when it is time."""

from __future__ import annotations

from typing import Any

import msgspec

from ramify.model.call import Call, Group
from ramify.model.codec import Signature
from ramify.model.key import Hold


class PackedCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that makes a call, in JSON. Its body and extras are JSON themselves, as text."""

    kind: str
    body: str
    queue: str = "default"
    priority: int = 0
    delay: float | None = None
    due: int | None = None
    lane: str | None = None
    extra: str | None = None

    @classmethod
    def of(cls, call: Call[Any]) -> PackedCall:
        """A call without a key."""
        group = call.group
        extra = None if call.extra is None else call.extra.decode()
        return cls(
            group.kind, call.body.decode(), group.queue, group.priority, group.delay, group.due, call.in_lane, extra
        )

    def group(self, signature: Signature, handler: object = None) -> Group:
        """Return what calls that are made of it share."""
        return Group(
            self.kind, signature, self.queue, self.priority, self.delay, self.due, hold=Hold.LABEL, handler=handler
        )

    def call(self, group: Group, body: bytes, label: bytes | None = None) -> Call[Any]:
        """A call of that group with other arguments."""
        return Call(group, body, label, None if self.extra is None else self.extra.encode(), self.lane)
