"""Topics in the reference store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.own_topics import ENDS_OF_RUNS, FAILURES, failed_task, listened, of_ends, of_failures
from ramify.model.run import StoredRun
from ramify.model.topic import Publication, StoredPublication, TopicNumbers
from ramify.store.memory.tables import MemorySpan, MemoryTables


def publish(tables: MemoryTables, publications: Iterable[Publication], now: int) -> None:
    """Give each publication the next number of its topic."""
    for new in publications:
        last, at = tables.topics.get(new.topic, (0, 0))
        tables.topics[new.topic] = last + 1, max(at, now)
        tables.publications[new.topic][last + 1] = new.stored(last + 1, max(at, now))


def tell_failures(tables: MemoryTables, run: StoredRun, span: MemorySpan, part: Part, now: int) -> None:
    """Publish the tasks of a part that failed for good, if somebody listens."""
    topic = listened(tables.values.get(FAILURES), now)
    if topic is None:
        return
    ends = zip(part.tasks, part.status_column(), part.value_column(), strict=True)
    failed = (
        failed_task(run, span.kind, task, span.row(task).key, len(tables.events[task]), status, error)
        for task, status, error in ends
        if status in (Status.FAILED, Status.QUARANTINED)
    )
    publish(tables, of_failures(topic, failed), now)


def tell_end(tables: MemoryTables, run: StoredRun, now: int) -> None:
    """Publish that a run has ended, if somebody listens."""
    topic = listened(tables.values.get(ENDS_OF_RUNS), now)
    if topic is not None:
        publish(tables, of_ends(topic, [run]), now)


def publications(tables: MemoryTables, topic: str, after: int, limit: int) -> Sequence[StoredPublication]:
    """Return those of a topic that come after a number."""
    kept = tables.publications.get(topic, {})
    return [kept[number] for number in sorted(kept) if number > after][:limit]


def page(tables: MemoryTables, prefix: str, after: str, limit: int) -> Sequence[TopicNumbers]:
    """Return topics by name."""
    names = sorted(name for name in tables.topics if name > after and name.startswith(prefix))[:limit]
    lasts = ((name, tables.topics[name][0]) for name in names)
    return [TopicNumbers(name, min(tables.publications[name], default=last + 1), last) for name, last in lasts]


def remove_expired(tables: MemoryTables, now: int, limit: int) -> int:
    """Remove up to so many publications that have expired; how many went. Their topics keep their numbers."""
    kept = (each for some in tables.publications.values() for each in some.values())
    ends = ((each.expires, each.topic, each.number) for each in kept if each.expires is not None)
    gone = sorted(end for end in ends if end[0] <= now)[:limit]
    for _, topic, number in gone:
        del tables.publications[topic][number]
    return len(gone)
