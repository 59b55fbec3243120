"""References: what stands among the arguments of a call for a result that is not there yet.

A shape makes them: `total.of(a.out, b.out)` is a call that waits for two others and takes what they return. To type
checkers a reference is the result itself, so `of` keeps the types of the function. Each reference of a call has a slot
of the join that its task waits on, in the order in which they are first met; one of a stream has as many slots as there
are members. The stored call names slots, and nothing else of what it waits for. A blank has no slot: the shape writes
its value into the call before it is stored.

Does not know joins or tasks: which call is meant by a `source` is known to the shape that made it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NoReturn

from ramify.errors import BadPayload


class Reference:
    """The result of one call, or with `stream` the results of `size` of them. It never changes.

    `source` is the shape's own name for what is meant: a small value, not the call itself. A `gathered` stream has one
    slot, whose result says which results are meant. `of` is the annotation of what it stands for, where that is known.
    """

    # No dataclass and no struct: msgspec would write one as a value.
    __slots__ = ("gathered", "of", "size", "source", "stream")

    def __init__(
        self, source: Hashable, *, stream: bool = False, size: int = 1, gathered: bool = False, of: Any = Any
    ) -> None:
        if size != 1 and (gathered or not stream):
            raise BadPayload(f"a reference to {source!r} of {size} results: say stream=True, or leave the size out")
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "stream", stream or gathered)
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "gathered", gathered)
        object.__setattr__(self, "of", of)

    source: Hashable
    stream: bool
    size: int
    gathered: bool
    of: Any

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a reference never changes, so {name} cannot be set")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reference):
            return NotImplemented
        return type(self) is type(other) and (self.source, self.stream, self.size) == (
            other.source,
            other.stream,
            other.size,
        )

    def __hash__(self) -> int:
        return hash((self.source, self.stream, self.size))

    def __repr__(self) -> str:
        return f"<{'results' if self.stream else 'result'} of {self.source}>"

    def __str__(self) -> str:
        # A key or a lane that somebody builds of it would be the same text for every result.
        raise BadPayload(f"{self!r} is not known yet: nothing can be made of it, a key or a lane least of all")

    def __bool__(self) -> bool:
        raise BadPayload(f"{self!r} is not known yet, so it is neither true nor false")


class Blank(Reference):
    """A value that is written into the call before it is stored."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{self.source}>"


class Slots:
    """Gives the references of one call their slots, in the order in which it meets them."""

    def __init__(self) -> None:
        self._firsts: dict[Reference, int] = {}
        self.count = 0  #: how many slots there are

    def first(self, reference: Reference) -> int:
        """The first slot of a reference; one that is met again has the slots it has. Of a blank, its place."""
        first = self._firsts.get(reference)
        if first is None:
            is_blank = isinstance(reference, Blank)
            first = self._firsts[reference] = len(self._firsts) if is_blank else self.count
            self.count += 0 if is_blank else reference.size
        return first

    @property
    def references(self) -> tuple[Reference, ...]:
        """Those that were met, in that order, which is also that of their slots."""
        return tuple(self._firsts)
