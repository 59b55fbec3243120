"""Numbers of a topic while others are in the middle of theirs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ramify.model.claim import Want
from ramify.model.commit import Committed, Part
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import NewRun, Order
from ramify.model.task import NewTasks
from ramify.model.topic import Publication
from ramify.store.postgres import PostgresStore, topics
from ramify.store.postgres.link import Transaction
from tests.postgres import emptied

WALK = Want(frozenset({"walk"}), 100)
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"
BILL = Publication("bills", b"1")
Open = Callable[[], PostgresStore]


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Open]:
    url, opened = emptied(), list[PostgresStore]()

    def opener() -> PostgresStore:
        opened.append(PostgresStore(url, folder=tmp_path))
        return opened[-1]

    yield opener
    for store in opened:
        store.close()


def entered(store: PostgresStore) -> int:
    process = new_process_id()
    store.enter(NewProcess(process, host="here"))
    return process


def publish(store: PostgresStore, *publications: Publication) -> bool:
    return store.swap(Stamp(entered(store), 1), (), publications=publications)


def claimed(store: PostgresStore) -> tuple[int, Part]:
    """A process, and the part that ends the task it holds."""
    first = store.reserve(2)
    store.start(NewRun(first, order=Order.ANY, endless=True), [NewTasks(first + 1, "walk", [b""])])
    process = entered(store)
    (claim,) = store.claim(Stamp(process, 1), WALK).claims
    return process, Part(claim.token, claim.tasks)


def until_somebody_waits(db: Transaction, future: Future[Any]) -> None:
    end = time.monotonic() + 30
    while not db.ask(WAITING)[0][0]:
        assert not future.done(), "it waited for nobody"
        assert time.monotonic() < end


def test_who_publishes_waits_for_the_one_before_and_no_reader_sees_it_earlier(open_store: Open) -> None:
    slow, store = open_store(), open_store()
    assert publish(store, BILL)

    with ThreadPoolExecutor(1) as pool:

        def hold(db: Transaction) -> Future[bool]:
            topics.write(db, [Publication("bills", b"2")], store.now())
            db.ask("SELECT 1")
            later = pool.submit(publish, store, Publication("bills", b"3"))
            until_somebody_waits(db, later)
            assert [each.value for each in slow.reads.publications("bills")] == [b"1"]
            return later

        later, _ = slow._link.write(hold)
        assert later.result(30)
    found = store.reads.publications("bills")
    assert [(each.number, each.value) for each in found] == [(1, b"1"), (2, b"2"), (3, b"3")]


def test_who_publishes_nothing_waits_for_no_topic(open_store: Open) -> None:
    slow, store = open_store(), open_store()
    process, part = claimed(store)

    def hold(db: Transaction) -> None:
        topics.write(db, [BILL], store.now())
        db.ask("SELECT 1")
        assert not store.commit(Stamp(process, 2), [part]).refused
        assert publish(store, Publication("other", b"1"))

    slow._link.write(hold)


def test_who_waits_for_something_else_holds_no_topic_up(open_store: Open) -> None:
    slow, store, other = open_store(), open_store(), open_store()
    process, part = claimed(store)
    publishing = Part(part.token, part.tasks, publications=[BILL])

    with ThreadPoolExecutor(1) as pool:

        def hold(db: Transaction) -> Future[Committed]:
            db.later("LOCK TABLE @counter IN SHARE MODE")
            db.ask("SELECT 1")
            later = pool.submit(store.commit, Stamp(process, 2), [publishing])
            until_somebody_waits(db, later)
            assert publish(other, Publication("bills", b"first"))
            return later

        later, _ = slow._link.write(hold)
        later.result(30)
    assert [each.value for each in store.reads.publications("bills")] == [b"first", b"1"]
