"""Trips on a connection: all values come back as they were, and a refused trip leaves the connection as it was."""

from collections.abc import Iterator

import pytest

from ramify.store.postgres.pipe import Lost, Pipe, Refused
from tests.postgres import server


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe(server(), patience=20)
    yield made
    made.close()


def test_values_come_back_as_they_were(pipe: Pipe) -> None:
    values = (2**62, -1, 7, b"\0\xff", "é\U0010ffff", True, None)
    text = "SELECT $1::bigint, $2::int, $3::smallint, $4::bytea, $5::text, $6::bool, $7::bigint"
    assert list(pipe.trip([(text, values)])[0]) == [values]


def test_columns_come_back_as_they_were(pipe: Pipe) -> None:
    numbers, texts, blobs = [1, None, -(2**62)], ["a", None, ""], [b"", b"\0", None]
    text = "SELECT * FROM unnest($1::bigint[], $2::text[], $3::bytea[])"
    assert list(pipe.trip([(text, (numbers, texts, blobs))])[0]) == list(zip(numbers, texts, blobs, strict=True))
    ids = "SELECT * FROM unnest($1::bigint[])"
    assert [list(found) for found in pipe.trip([(ids, (range(3),)), (ids, ([],))])] == [[(0,), (1,), (2,)], []]


def test_nothing_after_a_refused_statement_is_carried_out_and_the_next_trip_is_as_ever(pipe: Pipe) -> None:
    pipe.trip([("CREATE TEMP TABLE t (x bigint)", ())])
    with pytest.raises(Refused) as refused:
        pipe.trip([("INSERT INTO t VALUES (1)", ()), ("SELECT 1 / (SELECT 0)", ()), ("INSERT INTO t VALUES (2)", ())])
    assert refused.value.code == "22012"
    assert not pipe.is_amiss
    assert list(pipe.trip([("SELECT count(*) FROM t", ())])[0]) == [(0,)]


def test_a_statement_that_was_not_prepared_because_of_another_is_prepared_the_next_time(pipe: Pipe) -> None:
    later = "SELECT 40 + $1::bigint"
    with pytest.raises(Refused):
        pipe.trip([("SELECT 1 / (SELECT 0)", ()), (later, (2,))])
    assert list(pipe.trip([(later, (2,))])[0]) == [(42,)]


def test_answers_that_nobody_waits_for_do_not_get_in_the_way(pipe: Pipe) -> None:
    pipe.send([("SELECT 1", ())])
    pipe.send([("SELECT 1 / (SELECT 0)", ())])
    assert list(pipe.trip([("SELECT 2", ())])[0]) == [(2,)]


def test_a_connection_that_the_server_ended_is_lost(pipe: Pipe) -> None:
    other = Pipe(server(), patience=20)
    other.trip([("SELECT pg_terminate_backend($1::int)", (pipe.pid,))])
    other.close()
    with pytest.raises((Lost, Refused), match=r"terminat|closed|connection"):
        pipe.trip([("SELECT 1", ())])


def test_a_server_that_is_not_there_is_lost() -> None:
    with pytest.raises(Lost):
        Pipe("postgresql://nobody@/x?host=/nowhere", patience=5)
