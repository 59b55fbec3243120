"""Columns written at once say the same as rows written one by one."""

from collections.abc import Iterator, Sequence

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramify.model.event import Status
from ramify.model.task import NewTasks
from ramify.store.sqlite.bulk import TaskColumns, insert_events, insert_tasks
from ramify.store.sqlite.schema import TABLES


@pytest.fixture
def db() -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    connection.execute(TABLES)
    yield connection
    connection.close()


def tasks(db: apsw.Connection) -> list[tuple[object, ...]]:
    return db.execute("SELECT id, parent, CAST(body AS BLOB), key, more FROM task ORDER BY id").fetchall()


def lanes_of(db: apsw.Connection) -> list[object]:
    return [lane for (lane,) in db.execute("SELECT lane FROM task ORDER BY id").fetchall()]


def events(db: apsw.Connection) -> list[tuple[object, ...]]:
    return db.execute("SELECT task, n, seq, status, CAST(value AS BLOB) FROM event ORDER BY task").fetchall()


BODIES = [b"[1]", b"", b'"\\u0000"', bytes(range(256)), b"x" * 100_000]


@pytest.mark.parametrize("parents", [None, 7, [1, 2, 3, 4, 5], [2**62, None, 1, None, 9], [None] * 5])
def test_tasks_keep_their_bodies_and_parents(db: apsw.Connection, parents: Sequence[int | None] | int | None) -> None:
    insert_tasks(db, 100, TaskColumns.of(NewTasks(100, "k", BODIES, parents)))
    column = [parents] * 5 if parents is None or isinstance(parents, int) else parents
    assert tasks(db) == [(100 + i, column[i], BODIES[i], None, None) for i in range(5)]


def test_keys_and_extras_go_along(db: apsw.Connection) -> None:
    keys, details = [b"k", None, b"\0", b"", b"z"], [None, b"{}", None, None, None]
    insert_tasks(db, 1, TaskColumns.of(NewTasks(1, "k", BODIES, 3, keys=keys, details=details)))
    insert_tasks(db, 10, TaskColumns.of(NewTasks(10, "k", BODIES, keys=keys)))
    assert [row[3:] for row in tasks(db)] == [*zip(keys, details, strict=True), *((key, None) for key in keys)]
    assert [row[1] for row in tasks(db)] == [3] * 5 + [None] * 5


@pytest.mark.parametrize("parents", [None, 7, [1, 2, None, 4, 5]])
@pytest.mark.parametrize(
    "keys", [[b"a", b"\0", b"", b"9" * 5000, bytes(range(256))], [b"a", None, b"c", None, b""], None]
)
@pytest.mark.parametrize("details", [None, [None, b"{}", None, None, b""], [b"{}", b"1", b"", b"\0", b"7" * 300]])
@pytest.mark.parametrize("lanes", [None, ["a", "\u00e9\u20ac", "0001", "x" * 255, "\U0001f600" * 9]])
def test_every_mix_of_columns_comes_back(
    db: apsw.Connection,
    parents: Sequence[int | None] | int | None,
    keys: list[bytes | None] | None,
    details: list[bytes | None] | None,
    lanes: list[str] | None,
) -> None:
    insert_tasks(db, 5, TaskColumns.of(NewTasks(5, "k", BODIES, parents, keys=keys, details=details, lanes=lanes)))
    each = NewTasks(5, "k", BODIES, parents).parent_column()
    nothing = [None] * 5
    assert tasks(db) == [*zip(range(5, 10), each, BODIES, keys or nothing, details or nothing, strict=True)]
    assert lanes_of(db) == (lanes or nothing)


def test_chosen_positions_close_ranks(db: apsw.Connection) -> None:
    keys: list[bytes | None] = [b"a", b"b", b"c", b"d", b"e"]
    insert_tasks(db, 7, TaskColumns.of(NewTasks(1, "k", BODIES, [1, 2, 3, 4, 5], keys=keys), [1, 3]))
    assert tasks(db) == [(7, 2, BODIES[1], b"b", None), (8, 4, BODIES[3], b"d", None)]


ALL_STATUSES = st.sampled_from([Status.DONE, Status.FAILED, Status.RETRYING, Status.SKIPPED])


@given(
    st.lists(
        st.tuples(st.integers(1, 2**62), st.integers(1, 3), ALL_STATUSES, st.one_of(st.none(), st.binary(max_size=20))),
        min_size=1,
        max_size=30,
        unique_by=lambda row: row[0],
    )
)
def test_any_columns_of_events_come_back(rows: list[tuple[int, int, Status, bytes | None]]) -> None:
    db = apsw.Connection(":memory:")
    db.execute(TABLES)
    chosen, numbers, statuses, values = (list(column) for column in zip(*rows, strict=True))
    insert_events(db, 9, chosen, numbers, statuses, values)
    assert events(db) == sorted((task, n, 9, status, value) for task, n, status, value in rows)
    db.close()


@pytest.mark.parametrize("chosen", [range(5, 9), range(5, 13, 2), range(12, 4, -2), [8, 5, 7, 6]])
@pytest.mark.parametrize("values", [None, [b"1", b"2", b"3", b"4"], [b"1", None, b"", b"4"]])
def test_a_range_is_no_different_from_its_members(
    db: apsw.Connection, chosen: Sequence[int], values: list[bytes | None] | None
) -> None:
    insert_events(db, 3, chosen, 1, Status.DONE, values)
    expected = zip(chosen, values or [None] * 4, strict=True)
    assert events(db) == sorted((task, 1, 3, Status.DONE, value) for task, value in expected)
