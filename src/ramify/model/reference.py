"""References: what stands among the arguments of a call for a result that is not there yet.

A shape makes them: `total.of(a.out, b.out)` is a call that waits for two others and takes what they return. To type
checkers a reference is the result itself, so `of` keeps the types of the function. Each reference of a call has a slot
of the join that its task waits on, in the order in which they are first met; one of a stream has as many slots as there
are members. The stored call names slots, and nothing else of what it waits for.

Does not know joins or tasks: which call is meant by a `source` is known to the shape that made it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NoReturn

from ramify.errors import BadPayload


class Reference:
    """The result of one call, or with `stream` the results of `size` of them. It never changes.

    `source` is the shape's own name for what is meant: a small value, not the call itself. `size=None` says that their
    number is known only once the run is on its way; such a stream has the last slots of its task.
    """

    # No dataclass and no struct: msgspec would write one as a value.
    __slots__ = ("size", "source", "stream")

    def __init__(self, source: Hashable, *, stream: bool = False, size: int | None = 1) -> None:
        if not stream and size != 1:
            raise BadPayload(f"a reference to {source!r} of {size} results: say stream=True, or leave the size out")
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "stream", stream)
        object.__setattr__(self, "size", size)

    source: Hashable
    stream: bool
    size: int | None

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a reference never changes, so {name} cannot be set")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reference):
            return NotImplemented
        return (self.source, self.stream, self.size) == (other.source, other.stream, other.size)

    def __hash__(self) -> int:
        return hash((self.source, self.stream, self.size))

    def __repr__(self) -> str:
        return f"<{'results' if self.stream else 'result'} of {self.source}>"

    def __str__(self) -> str:
        # A key or a lane that somebody builds of it would be the same text for every result.
        raise BadPayload(f"{self!r} is not known yet: nothing can be made of it, a key or a lane least of all")

    def __bool__(self) -> bool:
        raise BadPayload(f"{self!r} is not known yet, so it is neither true nor false")


class Slots:
    """Gives the references of one call their slots, in the order in which it meets them."""

    def __init__(self) -> None:
        self._firsts: dict[Reference, int] = {}
        self._open: Reference | None = None
        self.count = 0  #: how many slots are known; those of a stream of unknown size come after them

    def first(self, reference: Reference) -> int:
        """The first slot of a reference; one that is met again has the slots it has."""
        if reference not in self._firsts:
            if self._open is not None:
                raise BadPayload(
                    f"{self._open!r} and {reference!r} in one call: a task can take one stream of which the size is "
                    "not known yet; collect the other in a task of its own"
                )
            self._open = reference if reference.size is None else None
            self._firsts[reference] = self.count
            self.count += reference.size or 0
        return self._firsts[reference]

    @property
    def references(self) -> tuple[Reference, ...]:
        """Those that were met, in the order of their slots."""
        return tuple(self._firsts)
