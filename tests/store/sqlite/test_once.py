"""Keys that are held for ever stay held, whichever level they are in."""

from collections.abc import Iterator
from random import Random

import apsw
import pytest

from ramify.model.key import HASH, Hold, digest, scope
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
    monkeypatch.setattr(once, "SLICE", 20)
    held: dict[bytes, int] = {}
    seen: set[tuple[bool, ...]] = set()
    for _ in range(200):
        fresh = sorted(seed.randbytes(16) for _ in range(seed.randrange(1, 30)))
        assert once.find(db, fresh) == [None] * len(fresh)
        tasks = [len(held) + i + 1 for i in range(len(fresh))]
        once.add(db, fresh, tasks)
        held.update(zip(fresh, tasks, strict=True))
        seen.add(tuple(size > 0 for size in sizes(db)))
        asked = sorted(seed.sample(sorted(held), min(len(held), 40)))
        assert once.find(db, asked) == [held[digest] for digest in asked]
    assert sum(sizes(db)) == len(held)
    assert (True, True, True) in seen
    (first, second, _) = db.execute("SELECT * FROM once_sizes").fetchall()[0]
    assert [first, second] == sizes(db)[:2]


def test_the_keys_of_many_runs_are_moved_from_the_first_to_the_last(
    db: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(once, "FIRST_LIMIT", 1)
    monkeypatch.setattr(once, "SECOND_LIMIT", 40)
    monkeypatch.setattr(once, "SLICE", 4)
    runs = [0, 1, 255, 256, 2**62, 2**63 - 1]
    edges = sorted(scope(Hold.ONCE, run) + end for run in runs for end in (b"\0" * HASH, b"\xff" * HASH))
    once.add(db, edges, range(1, 1 + len(edges)))
    for n in range(40):
        once.add(db, [digest(Hold.ONCE, 7, "page", b"%d" % n)], [100 + n])
    assert once.find(db, edges) == list(range(1, 1 + len(edges)))
    moved = {digest for (digest,) in db.execute("SELECT digest FROM once_2")}
    assert moved >= set(edges)
    assert len(moved) >= 40


def test_nothing_offered_is_nothing_found(db: apsw.Connection) -> None:
    once.add(db, [], [])
    assert not once.find(db, [])
