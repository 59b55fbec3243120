"""Open gates: who waits for an answer, since when, until when, and what for."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import msgspec

from ramify.inspect.find import typed
from ramify.inspect.show import because, key_text
from ramify.model.event import Status
from ramify.model.gate import GATE, GateSpec, spec_of
from ramify.model.policy import PARKED
from ramify.model.run import StoredRun
from ramify.model.schema import in_short
from ramify.model.segment import Segment, SegmentState
from ramify.model.task import Row
from ramify.store.reads import PAGE_LIMIT, Page, Reads


class OpenGate(msgspec.Struct, frozen=True):
    """A gate that waits: its run and task, its name in the run, and what it asks for; times are the store's."""

    run: int
    task: int
    gate: str
    spec: GateSpec
    since: int | None
    until: int | None


def open_gates(reads: Reads, run: int | None = None, *, after: int = 0, limit: int = 100) -> Page[OpenGate]:
    """Gates of a run, or of all, that wait for an answer, by the ids of their tasks: two reads a page."""
    page = reads.due_tasks(GATE, run=run, after=after, limit=limit)
    since = reads.fired_at([found.row.id for found in page.rows])
    return Page([_gate(found.row, found.due, since.get(found.row.id)) for found in page.rows], page.after, page.more)


def every_gate(reads: Reads, run: int | None = None) -> Iterator[OpenGate]:
    """All gates of a run, or of all runs, that wait for an answer."""
    after, more = 0, True
    while more:
        page = open_gates(reads, run, after=after, limit=PAGE_LIMIT)
        yield from page.rows
        after, more = page.after, page.more


def is_open(row: Segment | None) -> bool:
    """Return whether the row of a gate waits for an answer. One that is to be skipped has no time to wait for."""
    return row is not None and row.state in (SegmentState.READY, SegmentState.GATED) and row.due is not None


def gate_of(reads: Reads, task: int, due: int | None) -> OpenGate:
    """A gate that is open until a time."""
    row = reads.task(task)
    assert row is not None, f"task {task} is live and has no row"
    return _gate(row, due, opened(reads, task))


def _gate(row: Row, due: int | None, since: int | None) -> OpenGate:
    until = None if due is None or due >= PARKED else due
    return OpenGate(row.run, row.id, key_text(row.key) or "", spec_of(row.body), since, until)


def asks_for(spec: GateSpec) -> str:
    """Return what a gate asks for, in short: `{approved: boolean, note?: string}`."""
    return in_short(spec.schema)


def answer_line(run: StoredRun, gate: str) -> str:
    """Return what to type to answer a gate."""
    return f"ramify answer {typed(run)} {shlex.quote(gate)} JSON"


def how_answered(reads: Reads, task: int) -> str:
    """How a gate came to its answer, in words: by whom and why, or because its time was up."""
    told = [event for event in reads.events(task, task) if event.status in (Status.DECIDED, Status.DONE)]
    match told[-2:]:
        case [event, _] if event.status is Status.DECIDED:
            return f"answered{because(event.value)}"
        case _:
            return "its time was up"


def opened(reads: Reads, task: int) -> int | None:
    """When the last of those ended that it waited for, or when it was opened again after that."""
    return reads.fired_at([task]).get(task)
