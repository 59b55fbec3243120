"""Very much is published and handled by three readers, in programs that are killed one after the other.

None of it is missed, and none is handled twice in the log: each reader has one task for each publication, and each of
these is done once.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from ramify.model.event import Status
from ramify.model.job import QUEUES
from ramify.store.reads import PAGE_LIMIT
from tests.crash.clients import STORE, Client, Clients
from tests.crash.engine.flood_program import READERS, engine, open_at

PROGRAM = "tests.crash.engine.flood_program"
TOGETHER = 2
Record = Callable[[str, object], None]


def flood(folder: Path, clients: Clients, chance: random.Random, tasks: int, each: int, kills: int, late: float) -> int:
    """Let programs publish and handle, and kill one after the other so often; how often one was."""
    open_at(folder / STORE)
    engine._runtime.topics.declare()
    engine.close()

    def begin() -> Client:
        client = clients.next()
        client.begin("pour", folder, 0, f"tasks={tasks}", f"each={each}", "threads=1")
        return client

    working, killed = [begin() for _ in range(TOGETHER)], 0
    while killed < kills:
        at = chance.randrange(TOGETHER)
        if working[at].ends_within(chance.uniform(0.2, late)):
            break
        working[at].kill()
        working[at] = begin()
        killed += 1
    for client in working:
        assert client.ends_within(1_500)
    open_at(folder / STORE)
    try:
        check(tasks * each)
    finally:
        engine.close()
    return killed


def check(many: int) -> None:
    """Refuse a store in which something was missed, or handled twice."""
    reads = engine._runtime.store.reads
    (topic,) = reads.topics()
    assert (topic.first, topic.last) == (1, many)
    for kind, queue in zip(READERS, ("default", "second", "third"), strict=True):
        run = reads.find_run(QUEUES + queue)
        assert run is not None
        counts = reads.counts(run.id)[kind]
        assert counts[Status.DONE] == many, f"{kind}: {counts}"
        handled = set[bytes]()
        after, rows, more = 0, 0, True
        while more:
            page = reads.tasks(run.id, kind=kind, after=after, limit=PAGE_LIMIT)
            handled.update(row.body for row in page.rows)
            rows, after, more = rows + len(page.rows), page.after, page.more
        assert (rows, len(handled)) == (many, many), f"{kind} has {rows} tasks of {len(handled)} publications"


def test_what_is_published_is_handled_once_by_each_reader(
    tmp_path: Path, clients: Clients, seed: random.Random, record_property: Record
) -> None:
    record_property("kills", flood(tmp_path, clients, seed, 10, 500, 3, 0.6))


@pytest.mark.full
@pytest.mark.alone
@pytest.mark.timeout(3_000)
def test_a_million_publications_are_handled_once_by_each_of_three_readers(
    tmp_path: Path, clients: Clients, seed: random.Random, record_property: Record
) -> None:
    killed = flood(tmp_path, clients, seed, 1_000, 1_000, 50, 2.0)
    record_property("kills", killed)
    assert killed == 50, "it was through before"
