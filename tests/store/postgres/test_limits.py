"""Limits on a server: what several who claim at once may take together, and limits that come in between."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Lock

import pytest

from ramify.model.claim import Want
from ramify.model.commit import Part
from ramify.model.limit import LIMITS, Limit, Numbers, StoredLimit, write_limit
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import NewRun, Order
from ramify.model.task import NewTasks
from ramify.model.value import Swap
from ramify.store.postgres import PostgresStore
from ramify.store.postgres.link import Transaction
from ramify.store.postgres.tables import PgTables
from ramify.store.verbs.claim import claim
from tests.postgres import emptied
from tests.store.sqlite.real import wait_until

MOST = 3
PATIENCE = 60.0
WAITING = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[list[PostgresStore]]:
    url = emptied()
    opened = [PostgresStore(url, folder=tmp_path) for _ in range(4)]
    yield opened
    for store in opened:
        store.close()


def entered(store: PostgresStore) -> int:
    process = new_process_id()
    store.enter(NewProcess(process, host="here"))
    return process


def wants(limit: int) -> Want:
    return Want(frozenset({"walk"}), limit)


def begin(store: PostgresStore, count: int) -> NewTasks:
    first = store.reserve(count + 1)
    tasks = NewTasks(first + 1, "walk", [b""] * count)
    store.start(NewRun(first, order=Order.ANY, endless=True), [tasks])
    return tasks


def declare(store: PostgresStore, most: int = MOST) -> None:
    value = write_limit(StoredLimit(Limit("api", Numbers(most), kinds=("walk",))))
    assert store.swap(Stamp(entered(store), 1), [Swap(LIMITS, "api", None, store.reserve(1), value)])


def test_four_who_claim_at_once_never_hold_more_than_a_limit_allows(stores: list[PostgresStore]) -> None:
    tasks = begin(stores[0], 120)
    declare(stores[0])
    workers = [(store, entered(store)) for store in stores]
    together, lock = Barrier(len(workers)), Lock()
    held, most = 0, 0
    done: list[int] = []

    def work(worker: tuple[PostgresStore, int]) -> None:
        nonlocal held, most
        store, process = worker
        together.wait(PATIENCE)
        n = 0
        while len(done) < len(tasks.ids):
            n += 1
            claims = store.claim(Stamp(process, n), wants(2)).claims
            mine = [task for each in claims for task in each.tasks]
            with lock:
                held += len(mine)
                most = max(most, held)
            with lock:
                held -= len(mine)
            for each in claims:
                n += 1
                assert not store.commit(Stamp(process, n), [Part(each.token, each.tasks)]).refused
            done.extend(mine)

    with ThreadPoolExecutor(len(workers)) as pool:
        list(pool.map(work, workers))
    assert sorted(done) == list(tasks.ids)
    assert most <= MOST


def claiming(store: PostgresStore, db: Transaction, process: int, limit: int) -> None:
    claim(PgTables(db, writes=True), Stamp(process, 1), wants(limit), 0, store.now())


def test_two_who_claim_at_once_count_each_other(stores: list[PostgresStore]) -> None:
    slow, quick, *_ = stores
    begin(slow, 10)
    declare(slow)
    mine, theirs = entered(slow), entered(quick)
    waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with ThreadPoolExecutor(1) as pool:

        def both(db: Transaction) -> Future[int]:
            claiming(slow, db, mine, 2)
            other = pool.submit(lambda: sum(len(c.tasks) for c in quick.claim(Stamp(theirs, 1), wants(2)).claims))
            wait_until(lambda: other.done() or bool(slow._link.alone((waits, ()))[0]), PATIENCE)
            return other

        other, _ = slow._link.write(both)
        assert other.result(PATIENCE) == 1


def test_a_limit_that_comes_while_somebody_claims_counts_what_he_gets(stores: list[PostgresStore]) -> None:
    slow, quick, *_ = stores
    begin(slow, 10)
    mine, theirs = entered(slow), entered(quick)
    with ThreadPoolExecutor(1) as pool:

        def both(db: Transaction) -> Future[None]:
            claiming(slow, db, mine, MOST)
            declared = pool.submit(declare, quick)
            wait_until(lambda: declared.done() or bool(slow._link.alone((WAITING, ()))[0]), PATIENCE)
            return declared

        declared, _ = slow._link.write(both)
        declared.result(PATIENCE)
    assert quick.claim(Stamp(theirs, 1), wants(1)).claims == ()
