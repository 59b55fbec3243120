"""Behind one task on a server: those who come at the same moment, while the task ends and others are worked off."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from ramify.model.addition import Addition
from ramify.model.claim import Want
from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.join import AHEAD, BEFORE, NewJoins, NewWaiters, Rule
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import NewRun, Order
from ramify.model.task import NewTasks
from ramify.store.contract import Store
from ramify.store.postgres import PostgresStore
from ramify.testing import oracle
from tests.postgres import emptied

PATIENCE = 60.0
EACH = 25


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[list[PostgresStore]]:
    url = emptied()
    opened = [PostgresStore(url, folder=tmp_path) for _ in range(4)]
    yield opened
    for store in opened:
        store.close()


def add_behind(store: Store, run: int, ahead: int) -> int:
    join = store.reserve(1)
    waiters = [
        NewWaiters([ahead] * len(AHEAD), [join] * len(AHEAD), AHEAD),
        NewWaiters((ahead,), (join,), (BEFORE,), behind=True),
    ]
    joins = [NewJoins.one(join, BEFORE + 1, rule=Rule.BEHIND)]
    store.append([Addition(run, [NewTasks(join, "copy", [b""], waits=True)], joins, waiters)])
    return join


def test_clients_that_come_behind_one_task_at_once_come_one_after_the_other(stores: list[PostgresStore]) -> None:
    run = stores[0].reserve(2)
    ahead = run + 1
    stores[0].start(NewRun(run, order=Order.ANY, endless=True), [NewTasks(ahead, "walk", [b""])])
    together = Barrier(len(stores))

    def come(store: PostgresStore) -> list[int]:
        together.wait(PATIENCE)
        return [add_behind(store, run, ahead) for _ in range(EACH)]

    def work(store: PostgresStore) -> list[int]:
        """End the task when some have come, and work off whoever may start; in which order they did."""
        process, n, started = new_process_id(), 0, list[int]()
        store.enter(NewProcess(process, host="here"))
        together.wait(PATIENCE)
        while len(started) <= EACH * (len(stores) - 1):
            n += 2
            claims = store.claim(Stamp(process, n - 1), Want(frozenset({"walk", "copy"}), 100)).claims
            tasks = [task for claim in claims for task in claim.tasks]
            assert len(tasks) <= 1, "nobody starts before the one before has ended"
            started += tasks
            status = Status.FAILED if n % 3 == 0 and tasks != [ahead] else Status.DONE
            store.commit(Stamp(process, n), [Part(claim.token, claim.tasks, status) for claim in claims])
        return started

    *clients, worker = stores
    with ThreadPoolExecutor(len(stores)) as pool:
        working = pool.submit(work, worker)
        came = list(pool.map(come, clients))
        started = working.result(PATIENCE)
    reads = stores[0].reads
    before = {task: dict(reads.members(task).rows)[BEFORE] for some in came for task in some}
    assert [before[task] for task in started[1:]] == started[:-1]
    for some in came:
        assert sorted(some, key=started.index) == some, "each client's own keep its order"
    assert oracle.check(stores[0]) == []
