"""Tasks that wait in a store, as a test looks at them.

Promises: every published task that has not ended and that nobody holds is there, whatever it waits for: a worker, its
time, its round, or other tasks. Comparing with a call compares its arguments as the codec sees them, and of its options
those in which the call differs from its task function.

Does not look at tasks that ran: `run.results()` and `run.errors()` do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ramify.engine.engine import Engine
from ramify.engine.runs.reading import Reading
from ramify.engine.tasks.task import Task
from ramify.errors import ConfigError
from ramify.inspect.live import rows_of, wait_of
from ramify.model.call import Call
from ramify.model.key import key_text
from ramify.model.policy import SECOND
from ramify.model.task import Row

_WAITING = ("ready", "later", "suspect", "limited", "gated", "joining")
#: Due times are stored in microseconds; a wait that was given in seconds may be off by their rounding.
_SAME = 2


@dataclass(frozen=True, slots=True)
class Enqueued:
    """A waiting task. `due_in` are the seconds until it may start, None if it may start now."""

    task: int
    run: int
    kind: str
    arguments: tuple[tuple[Any, ...], dict[str, Any]]
    key: str | None
    queue: str
    lane: str | None
    priority: int
    due_in: float | None
    row: Row

    def __str__(self) -> str:
        args, kwargs = self.arguments
        inside = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
        when = "" if self.due_in is None else f" in {self.due_in:g} s"
        return f"{self.kind}({', '.join(inside)}){when}"


def enqueued(engine: Engine, now: int) -> list[Enqueued]:
    """Everything that waits, by id."""
    reads = engine._runtime.store.reads
    reading = Reading(reads, engine._runtime.handlers())
    found = []
    for segment in rows_of(reads, None):
        if wait_of(segment, now) not in _WAITING:
            continue
        due_in = None if segment.due is None or segment.due <= now else (segment.due - now) / SECOND
        for task in segment.tasks:
            row = reads.task(task)
            assert row is not None, f"task {task} is live and has no row"
            arguments = reading.arguments(row.kind, row.body)
            key = key_text(row.key)
            found.append(
                Enqueued(task, row.run, row.kind, arguments, key, row.queue, row.lane, row.priority, due_in, row)
            )
    return sorted(found, key=lambda each: each.task)


def check_known(engine: Engine, what: object) -> None:
    """Refuse what is neither a task function of this engine nor a call of one: it could never be found."""
    if not isinstance(what, Call | Task):
        raise ConfigError(f"{what!r}: expected a task function or a call of one. Give task or task.of(...).")
    if what.kind not in engine._runtime.table():
        raise ConfigError(f"this engine has no task {what.kind!r}")


def matches(engine: Engine, waiting: Enqueued, what: Call[Any] | Task[..., Any, Any]) -> bool:
    """Return whether that is what waits."""
    table = engine._runtime.table()
    task = table[what.kind]
    if table.get(waiting.kind) is not task:
        return False
    if isinstance(what, Task):
        return True
    identity = task.group.signature.identity
    return identity(waiting.row.body) == identity(what.body) and _has_options(waiting, what, task)


def _has_options(waiting: Enqueued, call: Call[Any], task: Task[..., Any, Any]) -> bool:
    asked, usual, row = call.group, task.group, waiting.row
    if asked.queue != usual.queue and row.queue != asked.queue:
        return False
    if call.in_lane is not None and row.lane != call.in_lane:
        return False
    if asked.priority != usual.priority and row.priority != asked.priority:
        return False
    if call.label is not None and row.key != call.label:
        return False
    if call.extra is not None and row.more != call.extra:
        return False
    if asked.due is not None:
        return row.due == asked.due
    return asked.delay is None or abs((waiting.due_in or 0.0) - asked.delay) * SECOND <= _SAME
