"""Values: swapped alone, or with the ends of tasks in a commit.

What one swap of a verb leaves is what the next one sees.
"""

from __future__ import annotations

from collections.abc import Sequence

from ramify.model.limit import LIMITS, read_limit
from ramify.model.process import Stamp
from ramify.model.value import Key, StoredValue, Swap, after_swaps
from ramify.store.answers import Answer
from ramify.store.changes import Changes
from ramify.store.tables import Ask, Loaded, Tables
from ramify.store.verbs.stamps import answered


class SwappedValues:
    """The values of a verb, as its swaps leave them."""

    def __init__(self, loaded: Loaded, changes: Changes) -> None:
        self._changes = changes
        self._known: dict[Key, StoredValue | None] = dict(loaded.values)

    def swap(self, swaps: Sequence[Swap]) -> bool:
        """Swap all of them, or none if one of them loses."""
        changed = after_swaps(self._known, swaps, self._changes.now)
        if changed is None:
            return False
        self._known.update(changed)
        self._changes.values.update(changed)
        limits = ((name, value) for (space, name), value in changed.items() if space == LIMITS)
        self._changes.relimited += ((name, None if v is None else read_limit(v.value).limit) for name, v in limits)
        return True


def swap(tables: Tables, stamp: Stamp, swaps: Sequence[Swap], now: int) -> bool:
    """Swap all of them, or none."""
    loaded = tables.load(Ask(now, stamp, values={each.key for each in swaps}))
    if (again := answered(loaded.session, stamp, "swap")) is not None:
        return again.done
    changes = Changes(stamp.process, stamp.n, now)
    done = SwappedValues(loaded, changes).swap(swaps)
    changes.answer = Answer("swap", done=done)
    tables.write(changes)
    return done
