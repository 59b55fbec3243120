"""Runs that are judged together go on as runs that are asked one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from ramify.model.claim import Want
from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.process import NewProcess, Stamp
from ramify.model.run import Advanced, Follows, NewRun, Order, RunState
from ramify.model.task import NewTasks
from ramify.store.sqlite import SqliteStore
from ramify.testing.clock import FakeClock

PROCESS = 77
TABLES = {
    "run": "id, state, round, reason, ended",
    "segment": "run, round, first, last, mask, state",
    "event": "task, n, status",
    "sweep": "run, first, last, mask",
    "counter": "*",
    "joins": "*",
    "mark": "*",
}


class Town:
    """A store with runs that all have something to move on to, in every way there is."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.path = folder / "walk.db"
        self.clock = FakeClock()
        self.store = SqliteStore(self.path, clock=self.clock)
        self.store.enter(NewProcess(PROCESS))
        self.runs: list[int] = []

    def settle(self, tie: str) -> None:
        """Start runs and end their first tasks; `tie` is what they have to do with one another."""
        done = [self._start(order=order) for order in Order for _ in range(3)]
        self._start(tolerates_failures=True)
        if tie == "leader":
            self._start(follows=Follows(done[0], 0))
        elif tie == "sweep":
            self._start(deadline=self.store.now() + 10)
            self._start(waits_for=self._start() + 1)
        claims = self.store.claim(Stamp(PROCESS, 1), Want(frozenset(["walk"]), 1_000)).claims
        parts = []
        for i, claim in enumerate(claims):
            first = self.store.reserve(2)
            born = [NewTasks(first, "walk", [b"[]"] * 2, claim.tasks[0])]
            status = Status.FAILED if i % 4 == 3 else Status.DONE
            parts.append(Part(claim.token, claim.tasks, status, children=born if i % 3 == 1 else ()))
        self.store.commit(Stamp(PROCESS, 2), parts)
        self.clock.advance(60)

    def _start(
        self,
        *,
        order: Order = Order.ROUNDS,
        follows: Follows | None = None,
        deadline: int | None = None,
        tolerates_failures: bool = False,
        waits_for: int | None = None,
    ) -> int:
        run = self.store.reserve(4)
        fails_as = RunState.HALTED if tolerates_failures else RunState.FAILED
        tasks, joins, waiters = [NewTasks(run + 1, "walk", [b"[]"])], [], []
        if waits_for is not None:
            tasks.append(NewTasks(run + 2, "walk", [b"[]"], waits=True))
            joins, waiters = [NewJoins.one(run + 2, 2)], [NewWaiters.one(waits_for, run + 2, 0)]
        self.store.start(
            NewRun(run, order=order, follows=follows, deadline=deadline, fails_as=fails_as), tasks, joins, waiters
        )
        self.runs.append(run)
        return run

    def asked(self) -> list[tuple[int, int]]:
        return [(run, self.store.reads.run(run).round) for run in self.runs]

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        db = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            return {
                table: sorted(db.execute(f"SELECT {columns} FROM {table}").fetchall(), key=repr)
                for table, columns in TABLES.items()
            }
        finally:
            db.close()


@pytest.mark.parametrize("tie", ["none", "leader", "sweep"])
@pytest.mark.parametrize("twice", [False, True])
def test_runs_asked_together_go_on_as_those_asked_one_by_one(tie: str, twice: bool, tmp_path: Path) -> None:
    left: list[tuple[tuple[Advanced, ...], dict[str, list[tuple[Any, ...]]]]] = []
    for name in ("together", "one by one"):
        town = Town(tmp_path / name)
        town.settle(tie)
        asked = [*town.asked(), *reversed(town.asked())] if twice else town.asked()
        if name == "together":
            answers = town.store.advance(asked)
        else:
            answers = tuple(answer for each in asked for answer in town.store.advance([each]))
        assert {RunState.DONE, RunState.FAILED, RunState.OPEN} <= {answer.state for answer in answers}
        left.append((answers, town.rows()))
        town.store.close()
    assert left[0] == left[1]
