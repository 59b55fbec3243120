"""The context of runs in the reference store. What a set makes of what is there is said by `ramify.model.context`."""

from __future__ import annotations

from collections.abc import Iterable

from ramify.model.context import SetValue, after_set, outrun_by
from ramify.model.event import Status
from ramify.store.memory.tables import MemorySpan, MemoryTables


def write(tables: MemoryTables, span: MemorySpan, sets: Iterable[SetValue], process: int, now: int) -> None:
    """Set values in order; who comes too late gets an event."""
    values = tables.context[span.run]
    for new in sets:
        known = values.get(new.name)
        values[new.name] = after = after_set(known, new, now)
        if after is known:
            tables.write_event(new.task, Status.OUTRUN, outrun_by(after))
            tables.count(span.run, span.kind, span.queue, Status.OUTRUN, process)


def remove(tables: MemoryTables, run: int, limit: int) -> int:
    """Remove up to so many values of a run; how many went."""
    values = tables.context.pop(run, {})
    gone = sorted(values)[:limit]
    if left := {name: value for name, value in values.items() if name not in gone}:
        tables.context[run] = left
    return len(gone)
