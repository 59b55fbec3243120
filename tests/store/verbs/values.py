"""Rows and runs as short as a test of a verb can say them."""

from __future__ import annotations

from typing import Any

from ramify.model.key import Hold
from ramify.model.run import Order, RunState, StoredRun
from ramify.model.segment import SegmentState
from ramify.store.rows import SegmentRow, SpanRow

KIND, QUEUE = "walk", "default"
NOW, PROCESS = 1_000, 77


def a_run(number: int = 1, **more: Any) -> StoredRun:
    """An open run in its first round."""
    where: dict[str, Any] = {"state": RunState.OPEN, "round": 0, "reason": None, "created": 0, "ended": None}
    return StoredRun(number, **{"order": Order.ANY, **where, "since": 0, **more})


def a_span(first: int, last: int, run: int = 1, **more: Any) -> SpanRow:
    """A published range without keys."""
    plain: dict[str, Any] = dict.fromkeys(("keyed", "extra", "laned", "awaited"), False)
    plain |= {"lane": None, "priority": 0, "due": None, "hold": Hold.LABEL, "keep": 0, "join": None, "shift": 0}
    return SpanRow(first, last, run, 0, KIND, QUEUE, **{**plain, "published": True, **more})


def a_row(number: int, first: int, last: int, run: int = 1, **more: Any) -> SegmentRow:
    """A row that may be claimed."""
    plain: dict[str, Any] = {"lane": None, "left": None, "rank": 0, "due": None, "state": SegmentState.READY}
    return SegmentRow(number, first, run, 0, KIND, QUEUE, first=first, last=last, **{**plain, **more})
