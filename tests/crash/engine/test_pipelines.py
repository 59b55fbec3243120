"""Pipelines under `kill -9`: at each crash point in the middle of fan-outs, at gates and sleeps, and at any moment.

What must come of a pipeline is known beforehand (`tests/shapes/drawn_pipeline.py`); each begun step is a line of a file
that outlives its process. Nothing is lost, nothing is recorded twice, and nothing begins again that was recorded.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from ramify.model.event import Status
from ramify.model.key import key_text
from ramify.model.run import RunState
from ramify.store.sqlite import SqliteStore
from ramify.testing import oracle
from ramify.testing.paging import every
from tests.crash.clients import LIMIT, STORE, WITNESS, Client, Clients
from tests.crash.engine.pipeline_program import ASKED, LATE, NAME, drawing_of
from tests.shapes.drawn_pipeline import carried_out, complaints

#: Points that a run of the scene comes past, by how often at least.
POINTS = {
    "entered": 1, "before-claim": 4, "after-claim": 4, "leased": 9, "before-attempt": 9, "after-attempt": 9,
    "before-commit": 7, "after-commit": 7, "before-advance": 1, "after-advance": 1, "before-reserve": 1,
    "after-reserve": 1, "before-leave": 1, "after-leave": 1,
}  # fmt: skip
#: Those of the pipeline with a gate: in the middle of its step, its sleeps and its gate.
GATE_POINTS = {"before-claim": 2, "leased": 3, "before-attempt": 3, "before-commit": 3, "after-commit": 3}


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """The programs of this file."""
    made = Clients(tmp_path_factory.mktemp("programs"), "tests.crash.engine.pipeline_program")
    yield made
    made.dispose()


def begin(clients: Clients, folder: Path, seed: int, *options: str, work: str = "drawn") -> Client:
    client = clients.next()
    client.begin(work, folder, seed, *options)
    return client


def verdict(folder: Path, seed: int, kills: int) -> list[str]:
    """What is wrong with a run that has ended after so many kills."""
    store = SqliteStore(folder / STORE)
    run = store.reads.find_run(NAME)
    assert run is not None
    drawing, value = drawing_of(seed)
    found = complaints(store, run.id, drawing, value)
    store.close()
    expected = carried_out(drawing, value)
    begun = Counter((folder / WITNESS).read_text().split("\n")[:-1])
    found += [f"{name} was begun {times} times" for name, times in begun.items() if times > 1 + kills]
    found += [f"{name} never began" for name in (*expected.results, *expected.failed) if not begun[name]]
    return found


def kill_at(clients: Clients, folder: Path, point: str, at: int) -> None:
    folder.mkdir()
    assert begin(clients, folder, 0, f"point={point}", f"at={at}").code_within(LIMIT) == -9, f"{point} was not reached"
    assert begin(clients, folder, 0).ends_within(LIMIT)
    assert verdict(folder, 0, kills=1) == []


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_in_the_middle_of_a_pipeline_loses_nothing(
    point: str, tmp_path: Path, clients: Clients
) -> None:
    kill_at(clients, tmp_path / "store", point, (POINTS[point] + 1) // 2)


@pytest.mark.full
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_of_a_pipeline_at_any_time_loses_nothing(
    point: str, tmp_path: Path, clients: Clients
) -> None:
    for at in range(1, POINTS[point] + 1):
        kill_at(clients, tmp_path / f"store-{at}", point, at)


@pytest.mark.parametrize("answer", ["before", "after", "never"])
@pytest.mark.parametrize("point", GATE_POINTS)
def test_a_kill_around_gates_and_sleeps_loses_no_answer_and_no_time(
    point: str, answer: str, tmp_path: Path, clients: Clients
) -> None:
    at = 1 if answer == "before" else GATE_POINTS[point]
    options = (f"answer={answer}", f"point={point}", f"at={at}")
    assert begin(clients, tmp_path, 0, *options, work="gate").code_within(LIMIT) == -9
    assert begin(clients, tmp_path, 0, options[0], work="gate").ends_within(LIMIT)
    store = SqliteStore(tmp_path / STORE)
    run = store.reads.find_run(NAME)
    assert run is not None
    assert (run.state, oracle.check(store)) == (RunState.DONE, [])
    rows = every(lambda after: store.reads.tasks(run.id, after=after))
    ends = {}
    for row in rows:
        events = store.reads.events(row.id, row.id)
        assert [event.status for event in events if event.status.is_end] == [Status.DONE], row
        ends[key_text(row.key)] = msgspec.json.decode(events[-1].value or b"null")
    store.close()
    assert ends["ok"] == (LATE if answer == "never" else ASKED)
    assert ends["end"] == ends["told"] == f"7 {ends['ok']}"
    begun = Counter((tmp_path / WITNESS).read_text().split())
    assert set(begun) == {"ask", "told", "end"}
    assert max(begun.values()) <= 2


def hunt(clients: Clients, folder: Path, chance: random.Random) -> int:
    """Kill whoever runs a random pipeline, up to four times, until one is quicker; how many were killed."""
    folder.mkdir()
    seed, kills = chance.randrange(1, 2**31), 0
    print(f"{folder.name}: drawing {seed}")
    while True:
        client = begin(clients, folder, seed, f"threads={chance.choice((0, 1, 2))}")
        if client.ends_within(LIMIT if kills == 4 else chance.uniform(0.01, 0.2)):
            break
        client.kill()
        kills += 1
    assert verdict(folder, seed, kills) == []
    return kills


def test_random_pipelines_end_as_they_must_however_often_they_are_killed(
    tmp_path: Path, clients: Clients, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    record_property("kills", sum(hunt(clients, tmp_path / f"pipeline-{at}", seed) for at in range(2)))


@pytest.mark.full
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("batch", range(10))
def test_many_random_pipelines_end_as_they_must_however_often_they_are_killed(
    batch: int, tmp_path: Path, clients: Clients, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    record_property("kills", sum(hunt(clients, tmp_path / f"pipeline-{at}", seed) for at in range(20)))
