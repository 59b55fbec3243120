"""Values in the reference store."""

from __future__ import annotations

from collections.abc import Sequence

from ramify.model.commit import Part
from ramify.model.limit import LIMITS
from ramify.model.value import Swap
from ramify.store.memory import lines
from ramify.store.memory.tables import MemoryTables


def swap(tables: MemoryTables, swaps: Sequence[Swap], now: int) -> bool:
    """Swap all of these values, or none if one of them is not what was seen."""
    for each in swaps:
        known = tables.values.get(each.key)
        version = 0 if known is None or (known.expires is not None and known.expires <= now) else known.version
        if each.seen not in (None, version):
            return False
    for each in swaps:
        if not each.version:
            continue
        made = each.made()
        if made is None:
            tables.values.pop(each.key, None)
        else:
            tables.values[each.key] = made
        if each.space == LIMITS:
            lines.change(tables, each.name)
    return True


def swapped(tables: MemoryTables, parts: Sequence[Part], now: int) -> tuple[list[Part], tuple[int, ...]]:
    """Swap the values of parts in their order; those parts that are applied, and the tasks of those that lost."""
    applied: list[Part] = []
    lost: list[int] = []
    for part in parts:
        if part.swaps and not swap(tables, part.swaps, now):
            lost += part.tasks
        else:
            applied.append(part)
    return applied, tuple(lost)


def remove_expired(tables: MemoryTables, now: int, limit: int) -> int:
    """Remove up to so many values that have expired; how many went."""
    ends = ((value.expires, key) for key, value in tables.values.items() if value.expires is not None)
    gone = sorted((end, key) for end, key in ends if end <= now)[:limit]
    for _, key in gone:
        del tables.values[key]
    return len(gone)
