"""Routes: what a step returns that decides which way its run goes on, and with which value."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

V = TypeVar("V")


class Route(msgspec.Struct, Generic[V], frozen=True):
    """Choose a way: `return Route("ship", order)` sends the value down that way of the next `divert`."""

    name: str
    value: V
