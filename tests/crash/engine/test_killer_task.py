"""One task that kills every process that runs it, among many that do nothing: it is found, and only it is blamed.

Each death costs one process. The rows of a dead process are offered again in parts, each to a process that holds
nothing else, until the killer is alone; then it is put away for good.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from ramify.inspect.audit import audit
from ramify.model.event import Status
from ramify.model.run import RunState
from ramify.store.sqlite import SqliteStore
from tests.crash.clients import LIMIT, STORE, WITNESS, Clients
from tests.crash.witness import Said, Witness
from tests.crash.worker import RUN_NAME

MAX_CRASHES = 5
#: Commits beyond those that the tasks need: what the search for the killer may cost.
EXTRA = 500


def hunt(tasks: int, folder: Path, clients: Clients, luck: random.Random) -> int:
    """Start the program until it ends by itself; how often it died."""
    killer, deaths = luck.randrange(tasks), 0
    while True:
        program = clients.next()
        program.begin("killer", folder, killer, f"tasks={tasks}", "durability=process")
        if program.code_within(LIMIT) == 0:
            break
        deaths += 1
        assert deaths <= MAX_CRASHES, "the killer is not found"
    store = SqliteStore(folder / STORE)
    run = store.reads.find_run(RUN_NAME)
    assert run is not None
    assert run.state is RunState.FAILED
    counts = store.reads.counts(run.id)["victim"]
    assert counts[Status.QUARANTINED] == 1
    assert counts[Status.DONE] == tasks - 1
    started = {task for line in Witness(folder / WITNESS).lines() if line.said is Said.START for task in line.tasks}
    (quarantined,) = started
    assert store.reads.history(quarantined).ended is Status.QUARANTINED
    found = audit(store.reads, run.id)
    assert found.clean
    assert store.reads.tail(0).commits[-1].seq <= EXTRA
    store.close()
    return deaths


def test_one_killer_among_many_is_found_and_nobody_else_is_blamed(
    tmp_path: Path, clients: Clients, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    record_property("deaths", hunt(512, tmp_path, clients, seed))


@pytest.mark.full
def test_one_killer_among_very_many_is_found_and_nobody_else_is_blamed(
    tmp_path: Path, clients: Clients, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    record_property("deaths", hunt(16_384, tmp_path, clients, seed))
