"""`ramify health`: what it says to people and to monitors."""

import pytest

from ramify.cli.commands import health
from tests.cli.conftest import Desk


def test_health_ends_with_the_number_of_unhealthy_processes(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    house = desk.house
    house.run(house.tasks(3), name="walk")
    dead = [house.worker() for _ in range(3)]
    house.worker().claim()
    told = desk.out("health")
    assert told.count("working") == 4
    assert told.endswith("healthy\n")
    for each in dead[:2]:
        each.store.close()
    told = desk.out("health", code=2)
    assert told.count("it died, and nobody has offered its work again yet") == 2
    assert told.endswith("2 processes unhealthy\n")
    monkeypatch.setattr(health, "MOST", 1)
    assert desk.out("health", code=1).endswith("2 processes unhealthy\n")
    assert health.MOST <= 100


def test_health_tells_what_is_first_late_and_stuck(desk: Desk) -> None:
    house = desk.house
    house.run(tasks := house.tasks(3, due=house.store.now()), name="walk")
    told = desk.out("health")
    assert told.startswith(f"sqlite {desk.folder / 'walk.db'}\n  keeps every commit that returned, through power loss;")
    assert " MB of write-ahead log\n" in told
    assert "nobody works on this store\n" in told
    assert f"oldest ready: task {tasks.first} ('walk', queue 'default'), for " in told
    assert f"late 3 tasks, the oldest task {tasks.first} " in told
    assert f"stuck walk: task {tasks.first} is ready, and no process works on this store\n" in told


def test_health_as_json_is_one_object(desk: Desk) -> None:
    house = desk.house
    run = house.run(tasks := house.tasks(3), name="walk")
    dead = house.worker()
    dead.store.close()
    (found,) = desk.json("health", code=1)
    assert (found["store"]["name"], found["unhealthy"]) == ("sqlite", 1)
    assert found["store"]["bytes"] > 0
    (process,) = found["processes"]
    assert (process["state"], process["host"], process["tasks"]) == ("dead", "house", 0)
    assert process["process"] == f"{dead.process:x}"
    assert (found["oldest"]["task"], found["oldest"]["run"]) == (tasks.first, run)
    assert found["late"] == {"tasks": 0, "at_least": False, "oldest": None}
    (stuck,) = found["stuck"]
    assert (stuck["run"], stuck["title"], stuck["advice"]) == (run, "walk", "start one")
