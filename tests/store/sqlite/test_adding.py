"""Groups that are added together leave the same behind as groups that are added one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from ramify.errors import BadPayload
from ramify.model.addition import Addition
from ramify.model.key import Hold
from ramify.model.run import NewRun
from ramify.model.task import NewTasks
from ramify.store.sqlite import SqliteStore, adding
from ramify.testing.clock import FakeClock

TABLES = {"span": "first", "task": "id", "segment": "id", "counter": "kind, what", "key": "digest", "label": "digest"}


def rows(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        return {
            table: db.execute(f"SELECT * FROM {table} ORDER BY {order}").fetchall() for table, order in TABLES.items()
        }
    finally:
        db.close()


def groups(store: SqliteStore) -> list[NewTasks]:
    """Groups of one task and wider ones, of two kinds, with keys in between and duplicates among them."""
    found: list[NewTasks] = []
    for i in range(23):
        bodies = [b"[%d]" % j for j in range(1 if i % 4 else 3)]
        more: dict[str, Any] = {"keys": [b"k%d" % (i % 2)] * len(bodies), "hold": Hold.UNIQUE} if i % 5 == 0 else {}
        more |= {"details": [b"{}"] * len(bodies)} if i % 7 == 0 else {}
        kind = "walk" if i % 3 else "look"
        found.append(NewTasks(store.reserve(len(bodies)), kind, bodies, lane=str(i), priority=i % 2, **more))
    return found


@pytest.mark.parametrize("at_once", [1, 2, 512])
def test_groups_added_together_are_as_if_added_one_by_one(
    at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adding, "BATCH", at_once)
    left: list[dict[str, list[tuple[Any, ...]]]] = []
    for name in ("together", "alone"):
        (tmp_path / name).mkdir()
        store = SqliteStore(tmp_path / name / "walk.db", clock=FakeClock())
        run = store.reserve(1)
        store.start(NewRun(run, endless=True))
        found = groups(store)
        for batch in [found] if name == "together" else [[group] for group in found]:
            store.append([Addition(run, batch)])
        left.append(rows(tmp_path / name / "walk.db"))
        store.close()
    assert left[0] == left[1]


def test_groups_without_keys_share_their_statements(tmp_path: Path) -> None:
    seen: list[str] = []
    store = SqliteStore(tmp_path / "walk.db")
    run = store.reserve(1)
    store.start(NewRun(run))
    first = store.reserve(100)
    row = store.reads.run(run)
    with store._link.write() as db:

        class Counted:
            """The connection, listened to."""

            def execute(self, statement: str, values: Any = ()) -> Any:
                seen.append(statement)
                return db.execute(statement, values)

            def executemany(self, statement: str, values: Any) -> Any:
                seen.append(statement)
                return db.executemany(statement, values)

        lanes = [NewTasks(first + i, "walk", [b"[]"], lane=str(i)) for i in range(100)]
        adding.check_room(Counted(), lanes)  # type: ignore[arg-type]
        adding.add(Counted(), row, lanes, 0, 0, 0)  # type: ignore[arg-type]
    store.close()
    assert len(seen) < 10


def test_one_group_whose_ids_are_taken_is_named_among_many(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "walk.db")
    run, first = store.reserve(1), store.reserve(9)
    store.start(NewRun(run), [NewTasks(first + 4, "walk", [b"[]"])])
    another = store.reserve(1)
    taken = [NewTasks(first + i, "walk", [b"[]"], lane=str(i)) for i in (0, 4, 8)]
    with pytest.raises(BadPayload, match=f"ids {first + 4} to {first + 4} are already in the log"):
        store.start(NewRun(another), taken)
    around = [group for group in taken if group.first != first + 4]
    assert store.start(NewRun(another), around).created
    store.close()
