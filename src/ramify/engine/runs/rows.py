"""Results as rows, each with a cursor: for exports that go on where they were killed.

Rows come in the order of the log: commit by commit, and by task within one. A cursor is a place in that order, as a
small text. Because commits are only ever added at the end, reading on after a cursor misses nothing and repeats
nothing, whether the run is open, has ended, or was opened again meanwhile.

A task that was run again after it had succeeded has a row for each success, the newer one later. A task that was
replaced has none from then on.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from ramify.engine.runs import reading
from ramify.engine.runs.reading import Reading
from ramify.errors import ConfigError
from ramify.model.event import Event
from ramify.model.key import key_text
from ramify.model.segment import stretches
from ramify.model.task import MAX_ID, Row

R_co = TypeVar("R_co", covariant=True)

_CURSOR = re.compile(r"(\d{1,19})-(\d{1,19})", re.ASCII)


class ResultRow(msgspec.Struct, Generic[R_co], frozen=True):
    """The result of one task, with the task, its arguments, and the cursor after which the next row follows."""

    task: int
    kind: str
    key: str | None
    arguments: tuple[Any, ...]
    result: R_co
    cursor: str


def position_of(cursor: object) -> tuple[int, int]:
    """The commit and the task that a cursor stands at; ConfigError for what is no cursor."""
    found = _CURSOR.fullmatch(cursor) if isinstance(cursor, str) else None
    if found is None or max(map(int, found.groups())) > MAX_ID:
        raise ConfigError(f"results(after={cursor!r}): expected the cursor of a row. Give row.cursor.")
    return int(found[1]), int(found[2])


class Rows:
    """The results of a run, or of one kind of it, as rows beyond a place in the log."""

    def __init__(self, source: Reading, run: int, kind: str | None, beyond: tuple[int, int]) -> None:
        self._source = source
        self._run = run
        self._kind = kind
        self._beyond = beyond

    def tail(self, after: int) -> tuple[Iterator[list[ResultRow[Any]]], int]:
        """The rows in the next commits after a cursor of the store, page by page, and the cursor that goes on."""
        found, came = self._source.tail_events(self._run, self._kind, after)
        events = sorted((event for event, _ in found), key=_position)
        left = events[bisect_right(events, self._beyond, key=_position) :]
        return (self._page(left[at : at + reading.PAGE]) for at in range(0, len(left), reading.PAGE)), came

    def _page(self, events: Sequence[Event]) -> list[ResultRow[Any]]:
        rows = self._rows(sorted({event.task for event in events}))
        return [self._row(rows[event.task], event) for event in events]

    def _rows(self, tasks: Sequence[int]) -> dict[int, Row]:
        """The rows of these tasks of the run: neighbours are read together."""
        found: dict[int, Row] = {}
        for stretch in stretches(tasks):
            page = self._source.reads.tasks(self._run, after=stretch[0] - 1, limit=len(stretch))
            found.update((row.id, row) for row in page.rows)
        return found

    def _row(self, row: Row, event: Event) -> ResultRow[Any]:
        result = self._source.result(row.kind, event.value)
        cursor = "{}-{}".format(*_position(event))
        return ResultRow(row.id, row.kind, key_text(row.key), self._source.values(row), result, cursor)


def _position(event: Event) -> tuple[int, int]:
    return event.seq, event.task
