"""One task, event by event, in words and with times.

A task's history is short: attempts and what came of them. The newest `EVENTS` are shown; the fold over all of them
stays exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ramify.errors import UnknownTask
from ramify.inspect.find import title
from ramify.inspect.lives import Commits
from ramify.inspect.show import call_text, event_text, key_text, traceback_of
from ramify.model.event import Event, History, Status
from ramify.model.segment import tasks_in
from ramify.model.task import Row
from ramify.store.reads import Reads, Sweep

EVENTS = 100


class EventInWords(msgspec.Struct, frozen=True):
    """One event in words. `n` is 0 for the end by a sweep, which is no event of its own.

    `took` are the microseconds of an attempt that was not quick, `traceback` is that of a failed one.
    """

    n: int
    status: str
    at: int | None
    text: str
    took: int | None = None
    traceback: str = ""


class TaskHistory(msgspec.Struct, frozen=True):
    """A task and all that became of it."""

    task: Row
    run: str
    call: str
    key: str | None
    fold: History
    events: Sequence[EventInWords]
    left_out: int = 0


def task_row(reads: Reads, task: int) -> Row:
    """One published task; UnknownTask when there is none."""
    row = reads.task(task)
    if row is None:
        raise UnknownTask(f"no task {task} in this store, or it is not published yet; `ramify tasks RUN` lists tasks")
    return row


def history_of(reads: Reads, task: int) -> TaskHistory:
    """Return a task with its events."""
    row = task_row(reads, task)
    run = reads.run(row.run)
    events = list(reads.events(task, task))
    words = _in_words(_with_sweeps(events, reads.sweeps(row.run), task))
    kept, commits = words[-EVENTS:], Commits(reads)
    return TaskHistory(
        row,
        title(run),
        call_text(row.kind, row.body),
        key_text(row.key),
        reads.history(task),
        [
            EventInWords(
                event.n, event.status.name.lower(), commits.when(event.seq), text, event.took, traceback_of(event)
            )
            for event, text in kept
        ],
        len(words) - len(kept),
    )


def _with_sweeps(events: list[Event], sweeps: Sequence[Sweep], task: int) -> list[Event]:
    for sweep in sweeps:
        if sweep.first <= task <= sweep.last and task in tasks_in(sweep.first, sweep.last, sweep.left):
            place = sum(event.seq < sweep.seq for event in events)
            events.insert(place, Event(task, 0, Status.CANCELLED, None, sweep.seq))
    return events


def _in_words(events: Sequence[Event]) -> list[tuple[Event, str]]:
    attempt, words = 1, []
    for place, event in enumerate(events):
        if not event.n:
            words.append((event, "cancelled with its run"))
        else:
            words.append((event, event_text(event, attempt, events[max(0, place - 2) : place])))
        if event.status is Status.RETRYING:
            attempt += 1
        elif event.status is Status.REOPENED:
            attempt = 1
    return words
