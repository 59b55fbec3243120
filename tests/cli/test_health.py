"""`ramify health`: what it says to people and to monitors."""

import pytest

from ramify.model.policy import SECOND
from tests.cli.conftest import Desk


def test_health_of_workers_that_work_ends_with_zero_and_of_dead_ones_with_one_however_many(desk: Desk) -> None:
    house = desk.house
    house.run(house.tasks(3), name="walk")
    dead = [house.worker() for _ in range(3)]
    house.worker().claim()
    told = desk.out("health")
    assert told.count("working") == 4
    assert told.endswith("\nhealthy\n")
    for each in dead[:2]:
        each.store.close()
    told = desk.out("health", code=1)
    assert told.count("which holds 0 tasks: it died, and nobody has offered its work again yet") == 2
    assert told.endswith("\nnot healthy\n")


def test_health_tells_what_is_first_late_and_stuck(desk: Desk) -> None:
    house = desk.house
    house.run(tasks := house.tasks(3, due=house.store.now()), name="walk")
    told = desk.out("health", code=1)
    assert told.startswith(f"sqlite {desk.folder / 'walk.db'}\n  keeps every commit that returned, through power loss;")
    assert " MB of write-ahead log\n" in told
    assert "nobody works on this store\n" in told
    assert f"oldest ready: task {tasks.first} ('walk', queue 'default'), for " in told
    assert f"late 3 tasks, the oldest task {tasks.first} " in told
    assert f"wrong run walk is stuck: task {tasks.first} is ready, and no process works on this store\n" in told
    assert told.endswith("\nnot healthy\n")


def test_work_that_nobody_takes_makes_health_and_doctor_end_with_one_until_somebody_does(desk: Desk) -> None:
    desk.house.run(tasks := desk.house.tasks(3), name="walk")
    words = f"run walk is stuck: task {tasks.first} is ready, and no process works on this store\n"
    for command in ("health", "doctor"):
        told = desk.out(command, code=1)
        assert words in told
        assert told.endswith("\nnot healthy\n")
    desk.house.worker()
    for command in ("health", "doctor"):
        told = desk.out(command)
        assert "stuck" not in told
        assert told.endswith("\nhealthy\n")


def test_health_ends_with_one_when_a_task_waits_for_too_long_or_too_few_workers_live(desk: Desk) -> None:
    house = desk.house
    now = house.store.now()
    house.run(tasks := house.tasks(due=now - 90 * SECOND), name="walk")
    house.worker()
    assert desk.out("health", "--max-age", "600", "--min-workers", "1").endswith("\nhealthy\n")
    told = desk.out("health", "--max-age", "60", code=1)
    assert f"wrong task {tasks.first} ('walk', queue 'default') has been ready for 1 min 3" in told
    assert "; the limit is 1 min 0 s\n" in told
    told = desk.out("health", "--min-workers", "2", code=1)
    assert "wrong 1 process takes work from this store; there should be at least 2\n" in told
    assert told.endswith("\nnot healthy\n")
    (found,) = desk.json("health", "--max-age", "60", "--min-workers", "2", code=1)
    assert [each["about"] for each in found["problems"]] == ["age", "workers"]


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (2, ["health", "--max-age", "-1"]),
        (2, ["health", "--max-age", "nan"]),
        (2, ["health", "--min-workers", "many"]),
        (2, ["health", "--min-worker-count", "1"]),
        (3, ["health", "-s", "gone.db"]),
        (3, ["health", "-s", "postgresql://host/x"]),
    ],
)
def test_health_that_cannot_tell_says_why_on_standard_error_and_nothing_else(
    desk: Desk, code: int, line: list[str]
) -> None:
    told = desk.type(*line, code=code)
    assert told.stdout == ""
    assert told.stderr.startswith("ramify: ")


def test_health_of_a_damaged_store_ends_with_three(desk: Desk) -> None:
    desk.house.close()
    file = desk.folder / "walk.db"
    with file.open("r+b") as store:
        store.truncate(file.stat().st_size // 2)
    assert "damaged" in desk.err("health", code=3)


def test_health_as_json_is_one_object(desk: Desk) -> None:
    house = desk.house
    run = house.run(tasks := house.tasks(3), name="walk")
    dead = house.worker()
    dead.store.close()
    (found,) = desk.json("health", code=1)
    assert (found["store"]["name"], found["unhealthy"], found["healthy"]) == ("sqlite", 1, False)
    assert [(each["about"], each["advice"]) for each in found["problems"]] == [
        ("process", "the next process that works here offers its work again"),
        ("run", "start one"),
    ]
    assert found["store"]["bytes"] > 0
    (process,) = found["processes"]
    assert (process["state"], process["host"], process["tasks"]) == ("dead", "house", 0)
    assert process["process"] == f"{dead.process:x}"
    assert (found["oldest"]["task"], found["oldest"]["run"]) == (tasks.first, run)
    assert found["late"] == {"tasks": 0, "at_least": False, "oldest": None}
    (stuck,) = found["stuck"]
    assert (stuck["run"], stuck["title"], stuck["advice"]) == (run, "walk", "start one")
