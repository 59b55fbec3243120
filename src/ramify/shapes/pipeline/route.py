"""Routes: what a step returns that decides which way its run goes on, and with which value."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

V = TypeVar("V")


class Route(msgspec.Struct, Generic[V], frozen=True):
    """`return Route("ship", order)`: the `divert` behind the step takes the way of that name, which gets the value."""

    name: str
    value: V
