"""Rows of durable stores as their backends keep them: columns by name, and the way between a tuple and a value.

Shared by the backends that speak SQL. Nothing here touches a store.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ramify.errors import UnknownRun
from ramify.model.decision import Decision
from ramify.model.decoder import decoder
from ramify.model.key import Hold
from ramify.model.run import Follows, Order, Owner, RunState, StoredRun, Tolerance
from ramify.model.segment import SegmentState, pack, unpack
from ramify.store.rows import SegmentRow, SpanRow

RUN_COLUMNS = (
    "id, name, generation, shape, ordering, follows, lead, endless, params, digest, shown, owner, max_running,"
    " max_tasks, deadline, fails_as, tolerates, definition, state, round, reason, created, ended, since"
)
SEGMENT_COLUMNS = (
    "id, span, run, round, kind, queue, lane, first, last, mask, rank, due, state, attempt, deaths, owner,"
    " token, awaits, line"
)
SPAN_COLUMNS = (
    "first, last, run, round, kind, queue, lane, priority, due, hold, keep, joined, shift, keyed, extra, laned,"
    " awaited, published, low_parent, high_parent, added"
)
#: By what is stored of them, because rows are read by the thousand: to call an enum is dear.
STATES = tuple(SegmentState)
HOLDS = tuple(Hold)
RUN_STATES = {str(state): state for state in RunState}
ORDERS = {str(order): order for order in Order}
TOLERANCES = {str(tolerance): tolerance for tolerance in Tolerance}

read_decision, read_owner = decoder(Decision).decode, decoder(Owner).decode


def read_run(row: tuple[Any, ...]) -> StoredRun:
    """A run from a row of `RUN`."""
    (
        number, name, generation, shape, order, follows, lead, endless, params, digest, shown, owner, max_running,
        max_tasks, deadline, fails_as, tolerates, definition, state, round, reason, created, ended, since, decision,
    ) = row  # fmt: skip
    return StoredRun(
        number, name, generation, shape, ORDERS[order],
        None if follows is None else Follows(follows, lead),
        bool(endless), params, digest, shown, None if owner is None else read_owner(owner),
        max_running, max_tasks, deadline, RUN_STATES[fails_as], TOLERANCES[tolerates], definition,
        state=RUN_STATES[state], round=round, reason=reason, created=created, ended=ended, since=since,
        decision=None if decision is None else read_decision(decision),
    )  # fmt: skip


def write_owner(owner: Owner | None) -> str | None:
    """The inverse of `read_owner`; equal owners are equal texts."""
    return None if owner is None else msgspec.json.encode(owner).decode()


def unknown(run: int) -> UnknownRun:
    """Return what to raise when there is no such run."""
    return UnknownRun(f"there is no run {run} in this store")


def span_values(span: SpanRow) -> tuple[object, ...]:
    """Return what `INSERT_SPAN` is bound to."""
    return (
        span.first, span.last, span.run, span.round, span.kind, span.queue, span.lane, span.priority, span.due,
        span.hold, span.keep, span.join, span.shift, span.keyed, span.extra, span.laned, span.awaited,
        span.published, span.low_parent, span.high_parent, span.added,
    )  # fmt: skip


def span_row(row: tuple[Any, ...]) -> SpanRow:
    """A span from a row of `SPAN_COLUMNS`."""
    span = SpanRow(*row)
    span.hold = HOLDS[row[9]]
    return span


def segment_values(row: SegmentRow) -> tuple[object, ...]:
    """Return what `INSERT_SEGMENT` is bound to."""
    return (
        row.span, row.run, row.round, row.kind, row.queue, row.lane, row.first, row.last, pack(row.left),
        row.rank, row.due, row.state, row.attempt, row.packed_deaths, row.owner, row.token, row.awaits, row.line,
    )  # fmt: skip


def segment_row(row: tuple[Any, ...]) -> SegmentRow:
    """A segment from a row of `SEGMENT_COLUMNS`."""
    segment = SegmentRow(*row)
    segment.left = unpack(row[9])
    segment.state = STATES[row[12]]
    return segment
