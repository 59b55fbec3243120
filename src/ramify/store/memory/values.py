"""Values in the reference store."""

from __future__ import annotations

from collections.abc import Sequence

from ramify.model.addition import Addition
from ramify.model.commit import Part
from ramify.model.limit import LIMITS
from ramify.model.process import Stamp
from ramify.model.topic import Publication
from ramify.model.value import Swap
from ramify.store.memory import adding, entries, lines, topics
from ramify.store.memory.tables import MemoryTables


def swap(
    tables: MemoryTables,
    stamp: Stamp,
    swaps: Sequence[Swap],
    additions: Sequence[Addition],
    publications: Sequence[Publication],
    now: int,
) -> bool:
    """Swap all of these values, with what is added and published then; or nothing of it."""
    adding.check_room(tables, [tasks for each in additions for tasks in each.tasks])
    if not _wins(tables, swaps, now):
        return False
    entries.check(tables, additions)
    entries.check_opening(tables, additions)
    _change(tables, swaps)
    since = len(tables.commits)
    into = [(entries.opened_for(tables, each, since, now), each, 0) for each in additions]
    if any(row.since == since for row, _, _ in into):
        # A run that begins has its start in the log.
        tables.new_commit(stamp.process, stamp.n, now)
    entries.add(tables, into, now)
    topics.publish(tables, publications, now)
    return True


def _wins(tables: MemoryTables, swaps: Sequence[Swap], now: int) -> bool:
    """Return whether all that these swaps have seen still stands."""
    for each in swaps:
        known = tables.values.get(each.key)
        version = 0 if known is None or (known.expires is not None and known.expires <= now) else known.version
        if each.seen not in (None, version):
            return False
    return True


def _change(tables: MemoryTables, swaps: Sequence[Swap]) -> None:
    """Write what these swaps leave."""
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


def swapped(tables: MemoryTables, parts: Sequence[Part], now: int) -> tuple[list[Part], tuple[int, ...]]:
    """Swap the values of parts in their order; those parts that are applied, and the tasks of those that lost."""
    applied: list[Part] = []
    lost: list[int] = []
    for part in parts:
        if not _wins(tables, part.swaps, now):
            lost += part.tasks
            continue
        _change(tables, part.swaps)
        applied.append(part)
    return applied, tuple(lost)


def remove_expired(tables: MemoryTables, now: int, limit: int) -> int:
    """Remove up to so many values that have expired; how many went."""
    ends = ((value.expires, key) for key, value in tables.values.items() if value.expires is not None)
    gone = sorted((end, key) for end, key in ends if end <= now)[:limit]
    for _, key in gone:
        del tables.values[key]
    return len(gone)
