"""Runs that start other runs, and wait for them, under `kill -9` at each point where something is just not yet known.

Nothing is lost and nothing is doubled: what was to be started is there once, with what it was to be given.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ramify import Engine, RunState
from ramify.testing import oracle
from tests.crash.clients import STORE, WITNESS, Clients
from tests.crash.engine.hunting import Hunt

PROGRAM = "tests.crash.engine.launch_program"
#: Points that a run with two triggers comes past, by how often. The second time is that of the triggers.
POINTS = {"after-claim": 3, "before-attempt": 4, "after-attempt": 4, "before-commit": 4, "after-commit": 4}


def killed_and_gone_on_with(clients: Clients, work: str, folder: Path, point: str, at: int) -> Engine:
    """The store of a program that was killed at a point, and started again with the same line."""
    engine = Engine(folder / STORE)
    Hunt(clients, work, lambda folder, seed, kills: oracle.check(engine._runtime.store)).kill_at(folder, point, at)
    return engine


def check_triggers(clients: Clients, folder: Path, point: str, at: int) -> None:
    engine = killed_and_gone_on_with(clients, "trigger", folder, point, at)
    found = [(run.name, run.state, list(run.results(partial=True))) for run in engine.runs()]
    assert sorted(found) == [
        ("upstream", RunState.DONE, [7]),
        ("upstream/report", RunState.DONE, ["7 rows"]),
        ("upstream/shown", RunState.DONE, ["8 rows"]),
    ]
    engine.close()


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_neither_loses_nor_doubles_what_a_run_starts(point: str, tmp_path: Path, clients: Clients) -> None:
    check_triggers(clients, tmp_path / "store", point, 2)


@pytest.mark.full
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_time_neither_loses_nor_doubles_what_a_run_starts(
    point: str, tmp_path: Path, clients: Clients
) -> None:
    for at in range(1, POINTS[point] + 1):
        check_triggers(clients, tmp_path / f"store-{at}", point, at)


#: With those in which the run of the step ends, and wakes it.
@pytest.mark.parametrize(
    ("point", "at"),
    [
        *((point, at) for point in ("before-attempt", "after-attempt", "after-commit") for at in (5, 8)),
        *((point, at) for point in ("before-advance", "after-advance") for at in (2, 3, 4)),
    ],
)
def test_a_kill_neither_loses_nor_doubles_the_run_of_a_step_and_its_revival(
    point: str, at: int, tmp_path: Path, clients: Clients
) -> None:
    engine = killed_and_gone_on_with(clients, "child", tmp_path / "store", point, at)
    found = {run.name: (run.state, sorted(map(str, run.results(partial=True)))) for run in engine.runs()}
    assert found == {
        "upstream": (RunState.DONE, ["7", "7 rows"]),
        "upstream/inner": (RunState.DONE, ["7", "7 rows"]),
    }
    assert len(list(engine.runs())) == 2, "there is one generation of it"
    engine.close()


@pytest.mark.parametrize("point", ["before-attempt", "after-attempt", "after-commit"])
def test_a_kill_while_a_run_waits_for_another_and_looks_for_something_loses_nothing(
    point: str, tmp_path: Path, clients: Clients
) -> None:
    engine = killed_and_gone_on_with(clients, "wait", tmp_path / "store", point, 3)
    run = engine.find("upstream")
    assert run is not None
    assert (run.state, run["shown"].result) == (RunState.DONE, "7 rows")
    looks = (tmp_path / "store" / WITNESS).read_text().splitlines()
    assert len(looks) in (3, 4), "what was looked for when the process was killed is looked for again"
    engine.close()


def check_datasets(clients: Clients, folder: Path, point: str, at: int) -> None:
    engine = killed_and_gone_on_with(clients, "dataset", folder, point, at)
    ended = {run.name: list(run.results(partial=True)) for run in engine.runs(RunState.DONE)}
    assert [ended.pop(name) for name in ("orders", "customers", "orders again")] == [[7]] * 3
    assert list(ended.values()) == [["7 rows"]], "both were there once, and one of them a second time"
    log = engine.find("joint/datasets")
    assert log is not None
    assert len(engine._runtime.store.reads.tasks(log.id).rows) == 3
    engine.close()


#: Of the run that produces the second dataset: its node, what starts others, and the end; the first has as many.
@pytest.mark.parametrize(("point", "at"), [("before-attempt", 5), ("after-attempt", 5), ("before-commit", 5)])
def test_a_kill_neither_loses_nor_doubles_what_datasets_start(
    point: str, at: int, tmp_path: Path, clients: Clients
) -> None:
    check_datasets(clients, tmp_path / "store", point, at)


@pytest.mark.full
@pytest.mark.parametrize("point", ["before-attempt", "after-attempt", "before-commit", "after-commit"])
def test_a_kill_at_any_time_neither_loses_nor_doubles_what_datasets_start(
    point: str, tmp_path: Path, clients: Clients
) -> None:
    for at in range(1, 10):
        check_datasets(clients, tmp_path / f"store-{at}", point, at)
