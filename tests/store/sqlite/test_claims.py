"""Claims in SQLite: what is found must not cost what lies beside it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from ramify.model.claim import Want
from ramify.model.run import NewRun, Order
from ramify.model.task import NewTasks
from ramify.store.sqlite.claims import NEXT_DUE_PLACE, NEXT_PLACE, _places
from ramify.store.sqlite.store import SqliteStore

FEW, MANY = 2, 60
STEPS = 10


@pytest.mark.parametrize(("statement", "due"), [(NEXT_PLACE, None), (NEXT_DUE_PLACE, 10**18)], ids=["ready", "due"])
def test_kinds_are_found_by_skipping_all_that_wait_in_one_place(
    tmp_path: Path, statement: str, due: int | None
) -> None:
    def steps(rows: int) -> int:
        """How many steps of SQLite's machine, in tens, it takes to find three places of so many rows."""
        with closing(SqliteStore(tmp_path / f"{rows}.db", durability="process")) as store:
            for _ in range(rows):
                run = store.reserve(4)
                tasks = (("a", "default"), ("a", "other"), ("b", "default"))
                store.start(
                    NewRun(run, order=Order.ANY),
                    [
                        NewTasks(run + 1 + n, kind, [b"[]"], queue=queue, due=due)
                        for n, (kind, queue) in enumerate(tasks)
                    ],
                )
            ticks = 0

            def tick() -> bool:
                nonlocal ticks
                ticks += 1
                return False

            with store._link.read() as db:
                assert isinstance(db, apsw.Connection)
                db.set_progress_handler(tick, STEPS)
                found = list(_places(db, statement, Want(frozenset("ab"), 1)))
                db.set_progress_handler(None)
            assert found == list(tasks)
            return ticks

    assert steps(MANY) <= steps(FEW) + 1
