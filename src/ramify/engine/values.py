"""Values of a store as a program reads and changes them: each change at once, by itself.

Promises: what returned is in the store. An update happens only if nobody else changed the value meanwhile; otherwise it
is made anew. In a task this acts at once too, whatever becomes of the task: `current().values` goes with its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from random import random
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from ramify.engine.processes.importing import check_not_importing
from ramify.errors import ValueContended
from ramify.kernel.attempts.values import LEFT_OUT, Space, lifetime
from ramify.kernel.tuning import LONGEST_TRY_PAUSE, TRY_PAUSE
from ramify.model.policy import Duration
from ramify.model.value import MOST_TRIES, StoredValue, Swap
from ramify.store.contract import Store
from ramify.store.reads import PAGE_LIMIT

if TYPE_CHECKING:
    from ramify.engine.runtime import Runtime

T = TypeVar("T")
D = TypeVar("D")


class Values(Generic[T]):
    """Values of one space, by name: `engine.values("quota", int)`. All processes of the store share them."""

    def __init__(self, runtime: Runtime, space: str, of: Any) -> None:
        self._runtime = runtime
        self._space: Space[T] = Space(space, of)

    @overload
    def get(self, name: str, default: None = None) -> T | None: ...
    @overload
    def get(self, name: str, default: D) -> T | D: ...
    def get(self, name: str, default: Any = None) -> Any:
        """Return the value under a name, or `default`."""
        found = self._find(name)
        return default if found is None else self._space.decode(name, found.value)

    def set(self, name: str, value: T, *, ttl: Duration | None = None) -> None:
        """Set a value, whatever is there. It expires after `ttl` (seconds or a timedelta), or never."""
        self._swap("set", name, None, self._space.encode(name, value), lifetime("set", ttl))

    def update(self, name: str, fn: Callable[[T], T], *, default: T = LEFT_OUT, ttl: Duration | None = None) -> T:
        """Set what `fn` makes of the value, or of `default` if there is none, and return it.

        `fn` is called again if somebody else changed the value meanwhile; ValueContended after a hundred times. The new
        value expires after `ttl`, or never.
        """
        life = lifetime("update", ttl)

        def change(found: StoredValue | None) -> tuple[T, bool]:
            old = self._space.known(name, None if found is None else found.value, default, "update")
            new = fn(old)
            return new, self._swap("update", name, _version(found), self._space.encode(name, new), life)

        return self._until_won("update", name, change)

    def delete(self, name: str) -> bool:
        """Delete a value; False if there is none."""

        def change(found: StoredValue | None) -> tuple[bool, bool]:
            return (False, True) if found is None else (True, self._swap("delete", name, found.version))

        return self._until_won("delete", name, change)

    def items(self) -> Iterator[tuple[str, T]]:
        """Iterate over names and values by name, page by page; those that change meanwhile as they are by then."""
        after, more = "", True
        while more:
            page = self._store.reads.values(space=self._space.name, after=(self._space.name, after), limit=PAGE_LIMIT)
            now = self._store.now()
            for found in page:
                if found.is_live(now):
                    yield found.name, self._space.decode(found.name, found.value)
            after, more = page[-1].name if page else "", len(page) == PAGE_LIMIT

    @property
    def _store(self) -> Store:
        return self._runtime.store

    def _find(self, name: str) -> StoredValue | None:
        store = self._store
        found = store.reads.value(*self._space.key(name))
        return found if found is not None and found.is_live(store.now()) else None

    def _until_won(self, verb: str, name: str, change: Callable[[StoredValue | None], tuple[D, bool]]) -> D:
        """Change what is there until nobody else does at the same time; a change answers and says if it was made."""
        for tries in range(MOST_TRIES + 1):
            if tries:
                # Longer and longer, by chance: of many who do this at once, a few come at a time.
                time.sleep(random() * min(TRY_PAUSE * tries, LONGEST_TRY_PAUSE))
            answer, is_made = change(self._find(name))
            if is_made:
                return answer
        raise ValueContended(
            f"values({self._space.name!r}).{verb}({name!r}): others changed the value {MOST_TRIES + 1} times in a row "
            "between its read and its change. Split it into several values, or change it less often."
        )

    def _swap(
        self, verb: str, name: str, seen: int | None, value: bytes | None = None, life: int | None = None
    ) -> bool:
        """Put a value in the place of the version that was seen, or of whatever is there; False if it is gone."""
        check_not_importing(f"values(...).{verb}")
        key, store = self._space.key(name), self._store
        expires = None if life is None else store.now() + life
        swap = Swap(*key, seen, self._runtime.reserve_ids(1), value, expires)
        return self._runtime.guest.send(lambda stamp: store.swap(stamp, [swap]))


def _version(found: StoredValue | None) -> int:
    return 0 if found is None else found.version
