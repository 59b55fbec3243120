"""Values: small named facts that all of a store share, such as a quota or a cursor. Pure.

A value has a version that no other value ever has, not even one of the same name after it was deleted. A change is a
*swap*: it names the version that its maker has seen and happens only if that one still stands, alone or together with
the end of a task. So nobody writes over what they have not seen, and a swap that comes late changes nothing.

A value may expire, by the store's clock. From then on it counts as absent, whether or not its row is still there.

Does not know where values are kept, nor how they are written as bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ramify.errors import BadPayload
from ramify.model.task import MAX_ID, check_name

#: What the names of a value are called in errors.
A_SPACE, A_VALUE = "the space of a value", "the name of a value"
#: The largest value, in bytes.
MAX_VALUE = 65_536
#: Spaces whose names begin so are ours: no program can name them.
RESERVED = "ramify."
#: How often a task is tried again because others swapped its values, before that counts as a failed attempt.
MOST_TRIES = 100
#: The space and the name of a value.
Key = tuple[str, str]


class StoredValue(msgspec.Struct, frozen=True, gc=False):
    """A value as it is stored. It counts until `expires`, by the store's clock; None for ever."""

    space: str
    name: str
    value: bytes
    version: int
    expires: int | None = None

    def is_live(self, now: int) -> bool:
        """Return whether it has not expired."""
        return self.expires is None or now < self.expires


class Swap(msgspec.Struct, frozen=True, gc=False):
    """A change of one value, or a look that must still hold.

    `seen` is the version that its maker has seen: 0 for no value, None if any will do. `version` is an id that was
    reserved for the new value; 0 changes nothing, and only asks that `seen` still stands. `value` is None to delete.
    """

    space: str
    name: str
    seen: int | None
    version: int
    value: bytes | None = None
    expires: int | None = None

    @property
    def key(self) -> Key:
        """The space and the name."""
        return self.space, self.name

    def wins(self, known: StoredValue | None, now: int) -> bool:
        """Return whether what it has seen still stands."""
        return self.seen is None or self.seen == (known.version if known is not None and known.is_live(now) else 0)

    def made(self) -> StoredValue | None:
        """Return the value that it leaves; None where it deletes one."""
        if self.value is None:
            return None
        return StoredValue(self.space, self.name, self.value, self.version, self.expires)


def after_swaps(
    known: Mapping[Key, StoredValue | None], swaps: Iterable[Swap], now: int
) -> dict[Key, StoredValue | None] | None:
    """Return the values that some swaps leave together, by what is `known`; None if one of them loses."""
    changed: dict[Key, StoredValue | None] = {}
    for swap in swaps:
        if not swap.wins(known.get(swap.key), now):
            return None
        if swap.version:
            changed[swap.key] = swap.made()
    return changed


def check_swaps(swaps: Sequence[Swap]) -> None:
    """Refuse swaps that no store can keep, or that do not go together."""
    for swap in swaps:
        check_name(A_SPACE, swap.space)
        check_name(A_VALUE, swap.name)
        if swap.value is not None and len(swap.value) > MAX_VALUE:
            raise BadPayload(
                f"the value {swap.name!r} of {swap.space!r} takes {len(swap.value)} bytes; the limit is {MAX_VALUE}. "
                "Store it elsewhere and keep a reference to it"
            )
        if not 0 <= swap.version < MAX_ID or not 0 <= (swap.seen or 0) < MAX_ID:
            raise BadPayload(f"the value {swap.name!r} of {swap.space!r} has a version that is no id; reserve one")
        if not swap.version and (swap.value is not None or swap.seen is None):
            raise BadPayload(f"a swap of {swap.name!r} in {swap.space!r} without a version only looks at what was seen")
        if swap.expires is not None and not 0 <= swap.expires < MAX_ID:
            raise BadPayload(f"the value {swap.name!r} of {swap.space!r} expires at no possible time")
    if len({swap.key for swap in swaps}) != len(swaps):
        raise BadPayload("a value is swapped twice in one go; the last one is the one to send")
