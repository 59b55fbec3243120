"""Keys that are held for ever stay held, whichever level they are in."""

from collections.abc import Iterator
from random import Random

import apsw
import pytest

from ramify.store.sqlite import once
from ramify.store.sqlite.schema import TABLES


@pytest.fixture
def db() -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    connection.execute(TABLES)
    yield connection
    connection.close()


def sizes(db: apsw.Connection) -> list[int]:
    return [len(db.execute(f"SELECT digest FROM once_{level}").fetchall()) for level in range(3)]


def test_every_key_is_found_on_its_way_through_the_levels(
    db: apsw.Connection, seed: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(once, "FIRST_LIMIT", 50)
    monkeypatch.setattr(once, "SECOND_LIMIT", 200)
    held: dict[bytes, int] = {}
    seen: set[tuple[bool, ...]] = set()
    for _ in range(200):
        fresh = sorted(seed.randbytes(16) for _ in range(seed.randrange(1, 30)))
        assert once.find(db, fresh) == ({}, fresh)
        tasks = [len(held) + i + 1 for i in range(len(fresh))]
        once.add(db, fresh, tasks)
        held.update(zip(fresh, tasks, strict=True))
        seen.add(tuple(size > 0 for size in sizes(db)))
        asked = sorted(seed.sample(sorted(held), min(len(held), 40)))
        assert once.find(db, asked) == ({digest: held[digest] for digest in asked}, [])
    assert sum(sizes(db)) == len(held)
    assert (True, True, True) in seen
    (first, second, _) = db.execute("SELECT * FROM once_sizes").fetchall()[0]
    assert [first, second] == sizes(db)[:2]


def test_the_edges_of_the_last_slice_are_moved_too(db: apsw.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once, "FIRST_LIMIT", 1)
    monkeypatch.setattr(once, "SECOND_LIMIT", 1)
    edges = [b"\x00" * 16, b"\x0f" + b"\xff" * 15, b"\x10" + b"\x00" * 15, b"\xf0" + b"\x00" * 15, b"\xff" * 16]
    once.add(db, edges, [1, 2, 3, 4, 5])
    for n in range(16):
        once.add(db, [b"\x80" + bytes([n]) + b"\x00" * 14], [10 + n])
    assert once.find(db, edges) == (dict(zip(edges, [1, 2, 3, 4, 5], strict=True)), [])
    assert db.execute("SELECT count(*) FROM once_2 WHERE digest IN (?, ?)", (edges[0], edges[-1])).fetchall() == [(2,)]


def test_nothing_offered_is_nothing_found(db: apsw.Connection) -> None:
    once.add(db, [], [])
    assert once.find(db, []) == ({}, [])
