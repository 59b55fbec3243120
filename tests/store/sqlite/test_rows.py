"""Rows are found by what is asked for, without going through their neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw
import pytest

from ramify.model.segment import SegmentState
from ramify.store import tuples
from ramify.store.rows import SegmentRow
from ramify.store.sqlite import rows, schema, standing
from ramify.store.sqlite.rows import covering


@pytest.fixture
def db() -> Iterator[apsw.Connection]:
    db = apsw.Connection(":memory:")
    db.execute(schema.TABLES)
    yield db
    db.close()


def row(db: apsw.Connection, first: int, last: int, left: int | None = None) -> int:
    """A live row; its id."""
    waiting = SegmentRow(0, first, 1, 0, "k", "q", None, first, last, left, 0, None, SegmentState.WAITING)
    db.execute(rows.INSERT_SEGMENT, tuples.segment_values(waiting))
    return db.last_insert_rowid()


def found(db: apsw.Connection, task: int) -> int | None:
    covers = covering(db, task)
    return None if covers is None else covers.id


def test_rows_whose_masks_interleave_are_told_apart(db: apsw.Connection) -> None:
    even, odd = row(db, 10, 15, 0b010101), row(db, 11, 15, 0b10101)
    wide = row(db, 100, 1_000_000)
    assert [found(db, task) for task in (10, 11, 12, 15)] == [even, odd, even, odd]
    assert found(db, 999_999) == wide
    assert found(db, 50) is None


def test_a_run_that_forks_much_does_not_read_all_its_narrow_rows(
    db: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [row(db, first, first + 1) for first in range(2, 6_002, 2)]
    read: list[object] = []
    whole = tuples.segment_row

    def counting(found: tuple[Any, ...]) -> SegmentRow:
        read.append(found)
        return whole(found)

    monkeypatch.setattr(rows, "segment_row", counting)
    assert [found(db, task) for task in (2, 3_001, 6_001)] == [ids[0], ids[1499], ids[2999]]
    assert len(read) == 3


def test_a_claim_is_found_by_its_token_however_many_a_process_holds(db: apsw.Connection) -> None:
    plan = [line for *_, line in db.execute(f"EXPLAIN QUERY PLAN {rows.CLAIMED_UNDER}", (apsw.carray((b"token",)),))]
    assert plan == ["SCAN given VIRTUAL TABLE INDEX 1:", "SEARCH segment USING INDEX fence (token=?)"]


def test_where_tasks_stand_is_looked_up_by_their_ids(db: apsw.Connection) -> None:
    plan = [line for *_, line in db.execute(f"EXPLAIN QUERY PLAN {standing.LOGGED}", (rows.ids([1]),))]
    assert [line for line in plan if "SCAN" in line] == ["SCAN wanted VIRTUAL TABLE INDEX 1:"]
    assert [line.split()[1] for line in plan if "SEARCH" in line] == ["s", "span", "r", "t", "e", "event"]
