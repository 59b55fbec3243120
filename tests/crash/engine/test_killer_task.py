"""One task that kills every process that runs it, among many that do nothing: it is found, and only it is blamed.

Each death costs one process. What a dead process ran is told from what it held, and once that happened to a task too
often it runs apart, with fewer and fewer others, until it is alone; then it is put away for good.
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

#: Commits beyond those that the tasks need: what the search for the killer may cost.
EXTRA = 500
#: How a task kills, in how many worker processes (0: the program itself), and the most deaths until it is found.
KILLERS = {
    "crash-in-threads": ("crash", 0, 5),
    "exit-in-a-process": ("exit", 1, 5),
    "crash-just-after": ("after", 0, 7),
}


def hunt(tasks: int, killer: str, folder: Path, clients: Clients, chance: random.Random) -> int:
    """Start the program until it ends by itself; how often it, or its worker, died."""
    end, processes, most = ("kill", 0, 25) if killer == "kill" else KILLERS[killer]
    number = chance.randrange(tasks // 4, tasks // 2)
    codes: list[int] = []
    while not codes or codes[-1]:
        program = clients.next()
        options = (f"tasks={tasks}", f"end={end}", f"processes={processes}", "durability=process")
        program.begin("killer", folder, number, *options)
        codes.append(program.code_within(LIMIT))
        assert len(codes) <= most + 1, "the killer is not found"
    store = SqliteStore(folder / STORE)
    run = store.reads.find_run(RUN_NAME)
    assert run is not None
    counts = store.reads.counts(run.id)["victim"]
    starts = [task for line in Witness(folder / WITNESS).lines() if line.said is Said.START for task in line.tasks]
    (quarantined,) = set(starts)
    ended = store.reads.history(quarantined).ended
    if end == "after" and ended is Status.DONE:
        # Its end was recorded before it killed: then it is done, and kills nobody any more.
        assert counts[Status.DONE] == tasks
    else:
        assert (run.state, ended) == (RunState.FAILED, Status.QUARANTINED)
        assert (counts[Status.QUARANTINED], counts[Status.DONE]) == (1, tasks - 1)
    assert len(starts) <= most
    found = audit(store.reads, run.id)
    assert found.clean
    assert store.reads.tail(0).commits[-1].seq <= EXTRA
    store.close()
    return len(starts)


@pytest.mark.parametrize("killer", KILLERS)
def test_one_killer_among_many_is_found_and_nobody_else_is_blamed(
    killer: str, tmp_path: Path, clients: Clients, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    record_property("deaths", hunt(4_096, killer, tmp_path, clients, seed))


@pytest.mark.full
@pytest.mark.parametrize("killer", [*KILLERS, "kill"])
def test_one_killer_among_very_many_is_found_and_nobody_else_is_blamed(
    killer: str, tmp_path: Path, clients: Clients, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    record_property("deaths", hunt(16_384, killer, tmp_path, clients, seed))
