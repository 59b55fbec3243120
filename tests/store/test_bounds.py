"""The bound on how many tasks of a run are claimed at a time, when many processes claim at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ramify.model.commit import Part
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import NewRun, Order
from ramify.model.task import NewTasks
from ramify.store.contract import Store
from ramify.store.memory import MemoryStore, MemoryTables
from ramify.store.sqlite import SqliteStore
from ramify.testing.conformance.house import want

PROCESSES, ROUNDS, BOUND = 4, 10, 3


@pytest.fixture(params=["memory", "sqlite"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    place = MemoryTables()
    return lambda: MemoryStore(place) if request.param == "memory" else SqliteStore(tmp_path / "bounds.db")


def test_claims_that_go_on_at_once_take_no_more_than_the_run_may_have(open_store: Callable[[], Store]) -> None:
    front = open_store()
    tasks = ROUNDS * BOUND + 1
    run = front.reserve(1 + tasks)
    front.start(NewRun(run, order=Order.ANY, max_running=BOUND), [NewTasks(run + 1, "walk", [b"[]"] * tasks)])
    together = threading.Barrier(PROCESSES, timeout=60)
    granted: list[list[int]] = [[] for _ in range(ROUNDS)]

    def work() -> None:
        store, process = open_store(), new_process_id()
        store.enter(NewProcess(process))
        for n, round in enumerate(granted):
            together.wait()
            claims = store.claim(Stamp(process, 2 * n + 1), want(2)).claims
            round += [task for claim in claims for task in claim.tasks]
            together.wait()
            store.commit(Stamp(process, 2 * n + 2), [Part(claim.token, claim.tasks) for claim in claims])
        store.leave(process)
        store.close()

    threads = [threading.Thread(target=work) for _ in range(PROCESSES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert [len(round) for round in granted] == [BOUND] * ROUNDS
    front.close()
