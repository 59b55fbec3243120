"""`ramify limits`: what holds, who set it, and other numbers for it while programs run."""

from __future__ import annotations

import pytest

from ramify.inspect.limits import stored_limits
from ramify.model.limit import LIMITS, Limit, Numbers, Pace, StoredLimit, write_limit
from ramify.model.policy import SECOND
from ramify.model.value import Swap
from ramify.store.here import person
from ramify.testing import oracle
from tests.cli.conftest import Desk

MINUTE = 60 * SECOND


@pytest.fixture
def limits(desk: Desk) -> Desk:
    """A store with a limit in all and one per lane."""
    worker, store = desk.house.worker(), desk.house.store
    made = [
        StoredLimit(Limit("api", Numbers(3, Pace(100, MINUTE)), False, ("walk",)), "pid 1 on web", 5 * SECOND),
        StoredLimit(Limit("host", Numbers(1), True, ("copy",)), "pid 1 on web"),
    ]
    swaps = [Swap(LIMITS, each.name, 0, store.reserve(1), write_limit(each)) for each in made]
    assert worker.store.swap(worker.stamp(), swaps)
    worker.store.leave(worker.process)
    return desk


def numbers(desk: Desk, name: str = "api") -> Numbers:
    return stored_limits(desk.house.store.reads)[name][0].numbers


def test_a_store_without_limits_says_how_to_make_one(desk: Desk) -> None:
    assert desk.out("limits") == "no limits. Write @engine.task(max_running=5), and start a worker\n"
    assert desk.json("limits") == []


def test_each_limit_is_a_line(limits: Desk) -> None:
    limits.house.run(limits.house.tasks(9))
    worker = limits.house.worker()
    worker.take(2)
    head, api, host = limits.out("limits").splitlines()
    assert head.split() == ["limit", "per", "running", "waiting", "rate", "opens", "in", "held", "by", "set", "by"]
    assert "1 of 3" in api, "its rate lets one start at a time"
    assert "100/m" in api
    assert f"process {worker.process:x}" in api
    assert api.endswith("pid 1 on web")
    assert host.split()[:5] == ["host", "lane", "0", "(1", "each)"]


def test_json_has_all_of_it(limits: Desk) -> None:
    limits.house.run(limits.house.tasks(9))
    worker = limits.house.worker()
    worker.take(2)
    api, host = limits.json("limits")
    rate = {"count": 100, "seconds": 60.0, "burst": 0}
    assert api | {"opens": None} == {
        "limit": "api", "per": None, "max_running": 3, "max_rate": rate, "kinds": ["walk"], "queues": [],
        "running": 1, "held_by": {f"{worker.process:x}": 1}, "waiting": 0, "at_least": False, "opens": None,
        "declared": {"max_running": 3, "max_rate": rate, "by": "pid 1 on web", "at": "1970-01-01T00:00:05Z"},
        "set": None,
    }  # fmt: skip
    assert (host["limit"], host["per"], host["max_rate"]) == ("host", "lane", None)


def test_set_gives_other_numbers_and_reset_takes_them_back(limits: Desk) -> None:
    assert limits.out("limits", "set", "api", "20", "--reason", "sale") == (
        "api: at most 20 running, at most 100/m starting\n"
    )
    assert numbers(limits) == Numbers(20, Pace(100, MINUTE))
    api, _ = limits.json("limits")
    assert (api["max_running"], api["declared"]["max_running"]) == (20, 3)
    assert (api["set"]["by"], api["set"]["reason"], api["set"]["max_running"]) == (person(), "sale", 20)
    line = limits.out("limits").splitlines()[1]
    assert line.endswith(": sale (declared: at most 3 running, at most 100/m starting)")
    assert limits.out("limits", "reset", "api") == "api: at most 3 running, at most 100/m starting\n"
    assert numbers(limits) == Numbers(3, Pace(100, MINUTE))
    assert all(process.reaped for process in limits.house.store.reads.processes())
    assert oracle.check(limits.house.store) == []


@pytest.mark.parametrize(
    ("typed", "made"),
    [
        (["20"], Numbers(20, Pace(100, MINUTE))),
        (["none"], Numbers(None, Pace(100, MINUTE))),
        (["--rate", "5/s"], Numbers(3, Pace(5, SECOND))),
        (["--rate", "5/s", "--burst", "9"], Numbers(3, Pace(5, SECOND, 9))),
        (["--rate", "none"], Numbers(3)),
        (["none", "--rate", "none"], Numbers()),
        (["7", "--rate", "1/h"], Numbers(7, Pace(1, 60 * MINUTE))),
    ],
)
def test_a_number_that_is_not_given_stays_and_none_lifts_it(limits: Desk, typed: list[str], made: Numbers) -> None:
    limits.out("limits", "set", "api", *typed)
    assert numbers(limits) == made


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["set", "api", "0"], "expected a whole number, 1 or more, or none"),
        (["set", "api", "-1"], "No such option"),
        (["set", "api", "many"], "expected a whole number, 1 or more, or none"),
        (["set", "api", "--rate", "often"], 'Write "10/s"'),
        (["set", "api"], "Write `ramify limits set api 20`"),
        (["set", "pai", "5"], "no limit 'pai' in this store: api, host"),
        (["reset", "pai"], "no limit 'pai' in this store: api, host"),
    ],
)
def test_odd_lines_are_refused_with_what_to_type(limits: Desk, typed: list[str], said: str) -> None:
    assert said in limits.err("limits", *typed, code=2)
    assert numbers(limits) == Numbers(3, Pace(100, MINUTE))


def test_changes_answer_in_json_too(limits: Desk) -> None:
    rate = {"count": 100, "seconds": 60.0, "burst": 0}
    assert limits.json("limits", "set", "api", "9") == [
        {"limit": "api", "max_running": 9, "max_rate": rate, "set": True}
    ]
    assert limits.json("limits", "reset", "api") == [{"limit": "api", "max_running": 3, "max_rate": rate, "set": False}]


def test_status_health_and_why_say_what_is_full(limits: Desk) -> None:
    run = limits.house.run(limits.house.tasks(9), name="walk")
    worker = limits.house.worker()
    swap = StoredLimit(Limit("api", Numbers(3), False, ("walk",)))
    version = stored_limits(limits.house.store.reads)["api"][1]
    store = limits.house.store
    assert store.swap(worker.stamp(), [Swap(LIMITS, "api", version, store.reserve(1), write_limit(swap))])
    worker.take(3)
    assert worker.claim() == ()
    said = f"limit api is full (3 of 3), held by process {worker.process:x}"
    assert said in limits.out("status", "walk")
    assert said in limits.out("health")
    assert said in limits.out("why", str(limits.ids(run)[8]))
    (status,) = limits.json("status", "walk")
    assert (status["left"]["limited"], status["limits"][0]["limit"]) == (6, "api")
    (health,) = limits.json("health")
    assert (health["healthy"], health["limits"][0]["running"]) == (True, 3)
