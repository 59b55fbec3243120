"""Topics in the reference store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ramify.model.topic import Publication, StoredPublication, Topic
from ramify.store.memory.tables import MemoryTables


def publish(tables: MemoryTables, publications: Iterable[Publication], now: int) -> None:
    """Give each publication the next number of its topic."""
    for new in publications:
        number = tables.topics[new.topic] = tables.topics.get(new.topic, 0) + 1
        tables.publications[new.topic][number] = new.stored(number, now)


def publications(tables: MemoryTables, topic: str, after: int, limit: int) -> Sequence[StoredPublication]:
    """Return those of a topic that come after a number."""
    kept = tables.publications.get(topic, {})
    return [kept[number] for number in sorted(kept) if number > after][:limit]


def page(tables: MemoryTables, prefix: str, after: str, limit: int) -> Sequence[Topic]:
    """Return topics by name."""
    names = sorted(name for name in tables.topics if name > after and name.startswith(prefix))[:limit]
    lasts = ((name, tables.topics[name]) for name in names)
    return [Topic(name, min(tables.publications[name], default=last + 1), last) for name, last in lasts]


def remove_expired(tables: MemoryTables, now: int, limit: int) -> int:
    """Remove up to so many publications that have expired; how many went. Their topics keep their numbers."""
    kept = (each for some in tables.publications.values() for each in some.values())
    ends = ((each.expires, each.topic, each.number) for each in kept if each.expires is not None)
    gone = sorted(end for end in ends if end[0] <= now)[:limit]
    for _, topic, number in gone:
        del tables.publications[topic][number]
    return len(gone)
