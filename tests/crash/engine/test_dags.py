"""DAGs under `kill -9`: at each crash point in the middle of fan-out, fan-in and map, and at any moment.

What must come of a DAG is known beforehand (`tests/shapes/drawn.py`); each begun node is a line of a file that outlives
its process. Nothing is lost, nothing is recorded twice, and nothing begins again that was recorded.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from ramify.model.event import Status
from ramify.model.run import RunState
from ramify.store.sqlite import SqliteStore
from ramify.testing import oracle
from tests.crash.clients import LIMIT, STORE, WITNESS, Clients
from tests.crash.engine.dag_program import JOINS, NAME, drawing_of
from tests.crash.engine.hunting import Hunt
from tests.shapes.drawn import carried_out
from tests.shapes.drawn_judge import complaints

PROGRAM = "tests.crash.engine.dag_program"
#: Points that a run of the scene comes past, by how often at least.
POINTS = {
    "entered": 1, "before-claim": 2, "after-claim": 2, "leased": 9, "before-attempt": 9, "after-attempt": 9,
    "before-stage": 1, "after-stage": 1, "before-commit": 5, "after-commit": 5, "before-advance": 1, "after-advance": 1,
    "before-reserve": 1, "after-reserve": 1, "before-leave": 1, "after-leave": 1,
}  # fmt: skip


def verdict(folder: Path, seed: int, kills: int) -> list[str]:
    """What is wrong with a run that has ended after so many kills."""
    store = SqliteStore(folder / STORE)
    run = store.reads.find_run(NAME)
    assert run is not None
    found = complaints(store, run.id, drawing_of(seed))
    store.close()
    ends, _, _ = carried_out(drawing_of(seed))
    begun = Counter((folder / WITNESS).read_text().split())
    for name, times in begun.items():
        if times > 1 + kills:
            found.append(f"{name} was begun {times} times")
    found += [f"n{at} ended as {how} and never began" for at, how in enumerate(ends)
              if how in ("done", "failed") and not begun[f"n{at}"] and drawing_of(seed)[at].sort != "map"]  # fmt: skip
    return found


@pytest.fixture
def hunt(clients: Clients) -> Hunt:
    return Hunt(clients, "drawn", verdict)


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_in_the_middle_of_a_dag_loses_nothing(point: str, tmp_path: Path, hunt: Hunt) -> None:
    hunt.kill_at(tmp_path / "store", point, (POINTS[point] + 1) // 2)


@pytest.mark.full
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_of_a_dag_at_any_time_loses_nothing(point: str, tmp_path: Path, hunt: Hunt) -> None:
    hunt.kill_at_each(tmp_path, point, POINTS[point])


def test_random_dags_end_as_they_must_however_often_they_are_killed(
    tmp_path: Path, hunt: Hunt, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    record_property("kills", hunt.kill_often(tmp_path, seed, 2))


@pytest.mark.full
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("batch", range(10))
def test_many_random_dags_end_as_they_must_however_often_they_are_killed(
    batch: int, tmp_path: Path, hunt: Hunt, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    record_property("kills", hunt.kill_often(tmp_path, seed, 20))


def test_two_processes_that_race_on_a_join_make_its_task_ready_once(tmp_path: Path, clients: Clients) -> None:
    pair = [clients.next(), clients.next()]
    for client in pair:
        client.load()
    for client, side in zip(pair, ("left", "right"), strict=True):
        client.begin("race", tmp_path, 0, f"queues={side}")
    for client in pair:
        assert client.ends_within(LIMIT)
    store = SqliteStore(tmp_path / STORE)
    run = store.reads.find_run(NAME)
    assert run is not None
    assert run.state is RunState.DONE
    assert oracle.check(store) == []
    assert store.reads.counts(run.id)["joined"].get(Status.DONE) == JOINS
    store.close()
    begun = Counter((tmp_path / WITNESS).read_text().splitlines())
    assert begun == Counter(f"joined {number}" for number in range(JOINS))
