"""Keys in the reference store: taking, holding, releasing."""

from __future__ import annotations

from ramify.model.event import Status
from ramify.model.key import Hold, digest, kept_until
from ramify.store.memory.tables import KeyRow, MemorySpan, MemoryTables


def holder(tables: MemoryTables, hold: Hold, run: int, kind: str, key: bytes, now: int) -> int | None:
    """The task that holds the key now, if any."""
    row = tables.keys.get(digest(hold, run, kind, key))
    holds = row is not None and (row.expires is None or row.expires > now) and not tables.is_forgotten(row.task)
    return row.task if row is not None and holds else None


def take(tables: MemoryTables, span: MemorySpan, task: int, key: bytes) -> None:
    """Give the key to the task, and make the task findable by it."""
    if span.hold is not Hold.LABEL:
        tables.keys[digest(span.hold, span.run, span.kind, key)] = KeyRow(task, span.hold)
    if span.hold is not Hold.ONCE:
        tables.labels[digest(Hold.LABEL, span.run, span.kind, key)].append(task)


def release(tables: MemoryTables, span: MemorySpan, task: int, status: Status, now: int) -> None:
    """Free the key of a task that ended, or let it expire, as its hold says."""
    key = span.keys[task - span.first] if span.keys is not None else None
    if key is None or span.hold in (Hold.LABEL, Hold.ONCE):
        return
    name = digest(span.hold, span.run, span.kind, key)
    row = tables.keys.get(name)
    if row is None or row.task != task:
        return
    until = kept_until(span.keep, status, now)
    if until == now:
        del tables.keys[name]
    else:
        row.expires = until


def taken_by(tables: MemoryTables, span: MemorySpan, task: int, now: int) -> int | None:
    """The other task that holds the key of a task now, if any."""
    key = span.keys[task - span.first] if span.keys is not None else None
    if key is None or span.hold is Hold.LABEL:
        return None
    other = holder(tables, span.hold, span.run, span.kind, key, now)
    return None if other == task else other


def retake(tables: MemoryTables, span: MemorySpan, task: int) -> None:
    """Take the key again for a reopened task."""
    key = span.keys[task - span.first] if span.keys is not None else None
    if key is not None and span.hold is not Hold.LABEL:
        tables.keys[digest(span.hold, span.run, span.kind, key)] = KeyRow(task, span.hold)
