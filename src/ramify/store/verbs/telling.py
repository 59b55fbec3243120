"""Publications of stores themselves, while somebody listens: failures of a commit, and runs that ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.own_topics import (
    ENDS_OF_RUNS,
    FAILED,
    FAILURES,
    FailedTask,
    failed_task,
    listened,
    of_ends,
    of_failures,
)
from ramify.model.run import StoredRun
from ramify.model.topic import Publication
from ramify.store.changes import Changes
from ramify.store.rows import SegmentRow
from ramify.store.tables import Loaded, Tables


def has_failures(part: Part) -> bool:
    """Return whether tasks of a part fail for good."""
    statuses = part.statuses
    return statuses in FAILED if isinstance(statuses, Status) else not FAILED.isdisjoint(statuses)


def failures(
    tables: Tables, loaded: Loaded, parts: Sequence[tuple[SegmentRow, Part]], now: int
) -> Sequence[Publication]:
    """The failures of the parts that are applied, if somebody listens. Only then are the keys of their tasks asked."""
    topic = listened(loaded.values.get(FAILURES), now)
    failing = [] if topic is None else [(row, part) for row, part in parts if has_failures(part)]
    if topic is None or not failing:
        return ()
    keyed = [task for row, part in failing if loaded.spans[row.span].keyed for task, _, _ in _failed(part)]
    keys = tables.keys_of(keyed) if keyed else {}

    def told() -> Iterator[FailedTask]:
        for row, part in failing:
            for task, status, error in _failed(part):
                event = loaded.numbers.get(task, 0) + 1
                yield failed_task(loaded.runs[row.run], row.kind, task, keys.get(task), event, status, error)

    return of_failures(topic, told())


def _failed(part: Part) -> Iterator[tuple[int, Status, bytes | None]]:
    columns = zip(part.tasks, part.status_column(), part.value_column(), strict=True)
    return (each for each in columns if each[1] in FAILED)


def ends(tables: Tables, ended: Sequence[StoredRun], now: int) -> Sequence[Publication]:
    """The ends of runs, if somebody listens."""
    topic = listened(tables.values([ENDS_OF_RUNS]).get(ENDS_OF_RUNS), now) if ended else None
    return () if topic is None else of_ends(topic, ended)


def tell_ends(tables: Tables, ended: Sequence[StoredRun], now: int) -> None:
    """Publish the ends of runs. Nothing of the verb is written after that."""
    if told := ends(tables, ended, now):
        tables.write(Changes(0, 0, now, publications=[*told]))
