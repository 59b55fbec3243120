"""Runs that can be moved, in SQLite: of very many, those that certainly cannot are not judged."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from ramify.model.claim import Want
from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.process import NewProcess, Stamp
from ramify.model.run import NewRun, Order
from ramify.model.task import NewTasks
from ramify.store.sqlite.store import SqliteStore
from ramify.store.sqlite.tables import MAY_MOVE


@pytest.mark.parametrize("order", [Order.ANY, Order.DEPTH_FIRST])
def test_of_runs_without_rounds_only_those_with_nothing_left_are_judged(tmp_path: Path, order: Order) -> None:
    with closing(SqliteStore(tmp_path / "a.db")) as store:
        store.enter(NewProcess(id=1, pid=1))
        run = store.reserve(3)
        first, second = NewTasks(run + 1, "task", [b"[]"]), NewTasks(run + 2, "task", [b"[]"], waits=True)
        joins, waiters = NewJoins((run + 2,), (1,)), NewWaiters((run + 1,), (run + 2,), (0,))
        store.start(NewRun(run, order=order), [first, second], [joins], [waiters])
        for n, left in enumerate([[], [run]]):
            store.advance([(run, 0)])
            (claim,) = store.claim(Stamp(1, 2 * n + 1), Want(frozenset(["task"]), 1)).claims
            store.commit(Stamp(1, 2 * n + 2), [Part(claim.token, claim.tasks, Status.DONE)])
            with store._link.read() as db:
                # Its second task is of a later round than that at which the run stands.
                assert [row[0] for row in db.execute(MAY_MOVE, (0,)).fetchall()] == left
