"""Values as one attempt sees them: what it has changed itself, else what is stored.

Changes are made with the end of the task, or not at all. What was read once stays the same while the attempt lasts. If
the attempt changes anything, all that it read must still hold when it is committed, or nothing of it counts; an attempt
that only reads asks for nothing. To read is to ask the store, once per name, on the event loop too.

There is no list of all names here: a name that another task adds could not be noticed when this one is committed.

Does not know what becomes of a task that lost: `lost` does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, overload

from ramify.errors import BadPayload, ConfigError, OutsideTask
from ramify.model.call import LONGEST_DELAY
from ramify.model.codec.refusal import cause_of, explain, in_words
from ramify.model.codec.wire import TooLarge, Wire, write
from ramify.model.policy import SECOND, Duration, seconds_in
from ramify.model.task import check_name
from ramify.model.value import A_SPACE, A_VALUE, MAX_VALUE, Key, StoredValue, Swap

T = TypeVar("T")
D = TypeVar("D")
#: How the stored value of a space and name is read.
Read = Callable[[str, str], StoredValue | None]

#: How the names of spaces begin that are not the users'.
OWN_SPACES = "ramify."
#: Stands for an argument that was left out.
LEFT_OUT: Any = object()


class DraftSwap(NamedTuple):
    """A swap before it is sent: its version is not reserved yet, and its time to live has not begun."""

    key: Key
    seen: int | None
    is_change: bool = False
    value: bytes | None = None
    ttl: int | None = None

    def sent(self, version: int, now: int) -> Swap:
        """Return the swap as it is sent `now`."""
        return Swap(*self.key, self.seen, version, self.value, None if self.ttl is None else now + self.ttl)


class Space(Generic[T]):
    """One space of values: its name, and how its values are written and read."""

    __slots__ = ("_of", "_wire", "name")

    def __init__(self, name: str, of: Any) -> None:
        self.name = check_name(A_SPACE, name)
        if name.startswith(OWN_SPACES):
            raise ConfigError(f"values({name!r}): spaces of Ramify begin with {OWN_SPACES!r}. Choose another name.")
        self._of = of
        try:
            self._wire = Wire(of)
        except TypeError as error:
            raise ConfigError(f"values({name!r}, {of!r}): expected a type that JSON can hold: {error}.") from None

    def key(self, name: str) -> Key:
        """The key of one of its values."""
        return self.name, check_name(A_VALUE, name)

    def encode(self, name: str, value: T) -> bytes:
        """The bytes of a value; BadPayload for what would not come back equal, or is too large."""
        try:
            raw = self._wire.seal(value)
        except TooLarge:
            raw = write(value)
        except Exception as error:  # noqa: BLE001 - the user's own types may raise anything, and are told what is wrong
            raise BadPayload(f"values({self.name!r}): {explain([(name, self._of, value)], error)}") from None
        if len(raw) > MAX_VALUE:
            raise BadPayload(
                f"values({self.name!r}): `{name}` takes {len(raw):,} bytes, and a value may take {MAX_VALUE:,} "
                "(64 KiB). Store it elsewhere, and keep a reference to it"
            )
        return raw

    def decode(self, name: str, raw: bytes) -> T:
        """The value of stored bytes; BadPayload if they do not fit."""
        try:
            value: T = self._wire.read(raw)
        except Exception as error:  # noqa: BLE001  whatever it is, the words are what the reader needs
            text = f"values({self.name!r}): the stored value of {name!r} does not fit {self._of}: {in_words(error)}"
            raise BadPayload(text) from cause_of(error)
        return value

    def known(self, name: str, raw: bytes | None, default: Any, verb: str) -> Any:
        """The value of stored bytes, or the default of a verb that needs one; KeyError without either."""
        if raw is not None:
            return self.decode(name, raw)
        if default is LEFT_OUT:
            raise KeyError(f"values({self.name!r}).{verb}({name!r}): there is no such value. Give default=...")
        return default


def lifetime(verb: str, ttl: Duration | None) -> int | None:
    """A time to live in microseconds; None for a value that never expires."""
    seconds = math.inf if ttl is None else seconds_in(ttl)
    if seconds is None or seconds <= 0:
        raise ConfigError(f"{verb}(ttl={ttl!r}): expected a time above 0. Give seconds or a timedelta.")
    return None if seconds >= LONGEST_DELAY else max(1, round(seconds * SECOND))


class ValueChange(NamedTuple):
    """The change of a value with the end of a task: its bytes, None to delete it."""

    value: bytes | None
    ttl: int | None


class AttemptValues:
    """The values that one attempt has read and changed, of all spaces."""

    __slots__ = ("_changed", "_now", "_read", "_seen", "_task")

    def __init__(self, task: int, read: Read, now: Callable[[], int]) -> None:
        self._task, self._now = task, now
        self._read: Read | None = read
        self._seen: dict[Key, StoredValue | None] = {}
        self._changed: dict[Key, ValueChange] = {}

    @property
    def are_changed(self) -> bool:
        """True if something is to be swapped with the end of the task."""
        return bool(self._changed)

    def find(self, key: Key) -> bytes | None:
        """The bytes under a key: its own, else those that were stored when it looked first."""
        read = self._reader()
        if (own := self._changed.get(key)) is not None:
            return own.value
        if key not in self._seen:
            found = read(*key)
            self._seen[key] = found if found is not None and found.is_live(self._now()) else None
        seen = self._seen[key]
        return None if seen is None else seen.value

    def change(self, key: Key, value: bytes | None, ttl: int | None = None) -> None:
        """Leave something under a key with the end of the task."""
        self._reader()
        self._changed[key] = ValueChange(value, ttl)

    def close(self) -> Sequence[DraftSwap]:
        """Nothing can be changed any more; what is to be swapped."""
        self._read = None
        return tuple(self._swaps()) if self._changed else ()

    def _swaps(self) -> Iterator[DraftSwap]:
        """Yield its changes, and a look for each value that it only read."""
        versions = {key: 0 if seen is None else seen.version for key, seen in self._seen.items()}
        for key, change in self._changed.items():
            yield DraftSwap(key, versions.pop(key, None), True, *change)
        for key, version in versions.items():
            yield DraftSwap(key, version)

    def _reader(self) -> Read:
        """How to look a value up; refuses whoever comes when the attempt is over."""
        if self._read is None:
            raise OutsideTask(f"the attempt of task {self._task} is over. Call current().values(...) in each attempt.")
        return self._read


class CurrentValues(Generic[T]):
    """Values of one space in a task: `current().values("quota", int)`. Changes are made with the end of the task."""

    __slots__ = ("_attempt", "_space")

    def __init__(self, attempt: AttemptValues, space: Space[T]) -> None:
        self._attempt = attempt
        self._space = space

    @overload
    def get(self, name: str, default: None = None) -> T | None: ...
    @overload
    def get(self, name: str, default: D) -> T | D: ...
    def get(self, name: str, default: Any = None) -> Any:
        """Return the value under a name, or `default`."""
        raw = self._attempt.find(self._space.key(name))
        return default if raw is None else self._space.decode(name, raw)

    def set(self, name: str, value: T, *, ttl: Duration | None = None) -> None:
        """Set a value with the end of this task, whatever is there by then, unless this attempt has read it.

        It expires `ttl` (seconds or a timedelta) after the end; without one, never.
        """
        key = self._space.key(name)
        self._attempt.change(key, self._space.encode(name, value), lifetime("set", ttl))

    def update(self, name: str, fn: Callable[[T], T], *, default: T = LEFT_OUT, ttl: Duration | None = None) -> T:
        """Set what `fn` makes of the value, or of `default` if there is none, and return it.

        If somebody else changes the value before the end of this task, the task runs again.
        """
        key, life = self._space.key(name), lifetime("update", ttl)
        value = fn(self._space.known(name, self._attempt.find(key), default, "update"))
        self._attempt.change(key, self._space.encode(name, value), life)
        return value

    def delete(self, name: str) -> bool:
        """Delete a value with the end of this task; False if there is none."""
        key = self._space.key(name)
        if self._attempt.find(key) is None:
            return False
        self._attempt.change(key, None)
        return True
