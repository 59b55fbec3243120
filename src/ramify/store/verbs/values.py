"""Values, as the swaps of a verb leave them: one by itself (`swapping`), or a commit with the ends of tasks.

What one swap of a verb leaves is what the next one sees.
"""

from __future__ import annotations

from collections.abc import Sequence

from ramify.model.limit import LIMITS, read_limit
from ramify.model.value import Key, StoredValue, Swap, after_swaps
from ramify.store.changes import Changes
from ramify.store.tables import Loaded


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
