"""References: what stands among the arguments of a call for a result that is not there yet.

A shape makes them: `total.of(a.out, b.out)` is a call that waits for two others and takes what they return. To type
checkers a reference is the result itself, so `of` keeps the types of the function. Each reference of a call has a slot
of the join that its task waits on, in the order in which they are first met; one of a stream has as many slots as there
are members. The stored call names slots, and nothing else of what it waits for. A blank has no slot: the shape writes
its value into the call before it is stored.

Whoever takes one for its result is told so: it cannot be computed with, gone through, or compared with a value.

Does not know joins or tasks: which call is meant by a `source` is known to the shape that made it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NoReturn

from ramify.errors import BadPayload, NotKnownYet


def _refuse(what: str) -> Callable[..., NoReturn]:
    def refuse(self: Reference, *_: object) -> NoReturn:
        raise self._unknown(what)

    return refuse


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
            # What is equal to anything may say so, as `unittest.mock.ANY` does.
            answer = type(other).__eq__(other, self)
            if answer is NotImplemented:
                raise self._unknown("compared with a value")
            return answer
        return type(self) is type(other) and (self.source, self.stream, self.size) == (
            other.source,
            other.stream,
            other.size,
        )

    def __hash__(self) -> int:
        return hash((self.source, self.stream, self.size))

    def __repr__(self) -> str:
        return f"<{'results' if self.stream else 'result'} of {self.source}>"

    def _unknown(self, what: str) -> NotKnownYet:
        return NotKnownYet(f"{self!r} is not known yet, so it cannot be {what} here. Do that in a task that takes it")

    # A key or a lane that somebody builds of it would be the same text for every result.
    __str__ = __format__ = _refuse("made a text")
    __bool__ = _refuse("true or false")
    __iter__ = __reversed__ = _refuse("gone through")
    __len__ = _refuse("measured")
    __getitem__ = __contains__ = _refuse("looked into")
    __lt__ = __le__ = __gt__ = __ge__ = _refuse("compared with a value")
    __int__ = __float__ = __complex__ = __index__ = __round__ = _refuse("made a number")
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse("computed with")
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __pow__ = __rpow__ = _refuse("computed with")
    __neg__ = __pos__ = __abs__ = __invert__ = __matmul__ = __rmatmul__ = _refuse("computed with")
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rshift__ = _refuse("computed with")

    def __getattr__(self, name: str) -> NoReturn:
        # An AttributeError, because many ask whether something has a name.
        raise AttributeError(f"{self._unknown(f'asked for its .{name}')}", name=name, obj=self)


def reference_in(value: object) -> Reference | None:
    """The reference that a value is, or that it says stands for it, as a stream of a test does; None for others."""
    if isinstance(value, Reference):
        return value
    make: Callable[[Any], Reference | None] | None = getattr(type(value), "_reference", None)
    return None if make is None else make(value)


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
        """The references that were met, in that order, which is also that of their slots."""
        return tuple(self._firsts)
