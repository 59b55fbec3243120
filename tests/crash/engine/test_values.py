"""Values under `kill -9`: several programs change the same ones, at once, and are killed at any moment.

Each task that is done has counted itself once, whoever was killed and however often it ran: the count is the number of
those tasks, and the numbers that they got are all different. What was moved between accounts is neither lost nor
doubled, and who looked at all of them saw them at one time. Who was answered outside of tasks has counted, once.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from ramify.model.run import RunState
from ramify.testing import oracle
from tests.crash.clients import LIMIT, STORE, WITNESS, Client, Clients
from tests.crash.engine.hunting import Hunt
from tests.crash.engine.value_program import ACCOUNTS, FUNDS, RUN, engine, open_at

PROGRAM = "tests.crash.engine.value_program"
#: Points that a program comes past on its way, by how often at least.
POINTS = {"after-claim": 4, "after-attempt": 20, "before-commit": 20, "after-commit": 20, "after-reserve": 1}
TOGETHER = 3
Record = Callable[[str, object], None]


def verdict(folder: Path, seed: int, kills: int) -> list[str]:
    """What is wrong with the values once all tasks are done."""
    open_at(folder / STORE)
    try:
        return [*_complaints(folder), *oracle.check(engine._runtime.store)]
    finally:
        engine.close()


def _complaints(folder: Path) -> list[str]:
    run = engine.find(RUN)
    assert run is not None
    assert (run.state, run.counts.retries) == (RunState.DONE, 0)
    numbers = sorted(run.results("count"))
    counters, accounts = (dict(engine.values(space, int).items()) for space in ("counter", "account"))
    found: list[str] = []
    if numbers != list(range(1, counters["done"] + 1)):
        found.append(f"{counters['done']} were counted, and got {numbers}")
    if sum(accounts.values()) + (ACCOUNTS - len(accounts)) * FUNDS // ACCOUNTS != FUNDS:
        found.append(f"the accounts have {accounts}")
    found += [f"a look saw {seen}" for seen in run.results("look") if sum(seen) != FUNDS]
    found += [f"look {at} saw {seen}" for at, seen in engine.values("look", int).items() if seen != FUNDS]
    if len(run.context) != len(numbers):
        found.append(f"{len(run.context)} names for {len(numbers)} tasks")
    said = (folder / WITNESS).read_text().split()
    asked, got, ticks = said.count("ask"), said.count("got"), counters.get("ticks", 0)
    if not got <= ticks <= asked:
        found.append(f"{ticks} ticks, of which {got} were answered and {asked} asked for")
    return found


def chased(folder: Path, clients: Clients, chance: random.Random, tasks: int, late: float) -> int:
    """Let several programs work together, killing one after the other, until one is through; how many were killed."""
    folder.mkdir()

    def begin() -> Client:
        client = clients.next()
        client.begin("count", folder, 0, f"tasks={tasks}", f"threads={chance.choice((0, 1, 4))}")
        return client

    working, kills = [begin() for _ in range(TOGETHER)], 0
    while True:
        at = chance.randrange(TOGETHER)
        if working[at].ends_within(chance.uniform(0.02, late * (1 + kills / 10))):
            break
        working[at].kill()
        working[at] = begin()
        kills += 1
    for client in working:
        assert client is working[at] or client.ends_within(LIMIT)
    assert verdict(folder, 0, kills) == []
    return kills


@pytest.fixture
def hunt(clients: Clients) -> Hunt:
    return Hunt(clients, "count", verdict)


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_counts_each_task_once(point: str, tmp_path: Path, hunt: Hunt) -> None:
    hunt.kill_at(tmp_path, point, (POINTS[point] + 1) // 2, "threads=1")


def test_tasks_of_several_programs_that_are_killed_count_themselves_once(
    tmp_path: Path, clients: Clients, seed: random.Random, record_property: Record
) -> None:
    record_property("kills", chased(tmp_path / "store", clients, seed, 40, 0.2))


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(4))
def test_many_tasks_of_several_programs_that_are_killed_count_themselves_once(
    part: int, tmp_path: Path, clients: Clients, seed: random.Random, record_property: Record
) -> None:
    stores = [chased(tmp_path / f"store-{at}", clients, seed, 200, 0.15) for at in range(2)]
    record_property("kills", sum(stores))
