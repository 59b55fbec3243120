"""Every crash point of the kernel, killed, broken and frozen at: the work goes on to its end and is right.

The program runs a scenario that takes it past all points (see `program.scenario`). Killed, another process finishes.
When a point raises, the kernel stops with that error or goes on by itself, and the same process finishes in either
case. Frozen, the process is buried by another one that finishes, and when it thaws it changes nothing any more.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from ramify.kernel.faults import POINTS
from ramify.store.sqlite import SqliteStore
from tests.crash import judge
from tests.crash.clients import LIMIT, ROOT, STORE, WITNESS, Client, Clients, wait_until
from tests.crash.engine.program import engine, finish_points, held, open_at, scenario
from tests.crash.engine.scene import Scene
from tests.crash.witness import Line, Said, Witness
from tests.crash.worker import RUN_NAME

#: Long enough for a busy machine, short enough to wait for a burial.
SHORT = ("dead_after=1", "beat_every=0.05")


class Stage:
    """A folder for the scenario, and the verdict about it."""

    def __init__(self, folder: Path, clients: Clients) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self._clients = folder, clients
        self._witness = Witness(folder / WITNESS)

    def play(self, *options: str) -> Client:
        """Let a program begin."""
        client = self._clients.next()
        client.begin("points", self.folder, 0, *options)
        return client

    def lines(self) -> list[Line]:
        """What was said."""
        return self._witness.lines()

    def verdict(self, lines: list[Line] | None = None, deaths: int = 0) -> list[str]:
        """What is wrong with the end of it."""
        store = SqliteStore(self.folder / STORE)
        complaints = judge.at_the_end(store, scenario(), self.lines() if lines is None else lines, deaths)
        store.close()
        return complaints


@cache
def reached(folder: Path) -> dict[str, int]:
    """How often an undisturbed program reaches each point."""
    clients = Clients(folder, "tests.crash.engine.program")
    stage = Stage(folder / "undisturbed", clients)
    program = stage.play()
    counts: dict[str, int] = json.loads(program.hear())
    assert program.ends_within(LIMIT)
    clients.dispose()
    assert stage.verdict() == []
    return counts


@pytest.fixture
def counts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """How often each point is reached."""
    return reached(tmp_path_factory.getbasetemp())


def test_the_scenario_reaches_every_point(counts: dict[str, int]) -> None:
    assert {point for point in POINTS if not counts.get(point)} == set()


def test_the_list_of_points_is_that_of_the_code() -> None:
    code = "".join(file.read_text() for file in (ROOT / "src/ramify/kernel").rglob("*.py") if file.name != "faults.py")
    named = [name for call in re.findall(r"\breach\(([^)]*)\)", code) for name in re.findall(r'"([^"]+)"', call)]
    assert sorted(named) == sorted(POINTS)


def times(counts: dict[str, int], point: str) -> set[int]:
    """The first time a point is reached, one in the middle and the last, where there are so many."""
    return {1, (counts[point] + 1) // 2, counts[point]} - {0}


def kill_at(point: str, at: int, stage: Stage) -> bool:
    """Let a program kill itself there, and another one finish; False when it did not come by so often."""
    first = stage.play(f"point={point}", "action=kill", f"at={at}")
    code = first.code_within(LIMIT)
    if code == 0:
        return False
    assert code == -9
    finish_points(stage.folder / STORE, stage.folder / WITNESS)
    assert stage.verdict(deaths=1) == []
    return True


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_loses_nothing(point: str, tmp_path: Path, clients: Clients) -> None:
    assert kill_at(point, 1, Stage(tmp_path / "store", clients))


@pytest.mark.full
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_at_any_time_loses_nothing(
    point: str, tmp_path: Path, clients: Clients, counts: dict[str, int]
) -> None:
    # How often a point is reached varies a little from run to run; the last time may not come.
    for at in times(counts, point) - {1}:
        kill_at(point, at, Stage(tmp_path / f"store-{at}", clients))


def raise_at(point: str, stage: Stage) -> None:
    """Let a point raise; the same process must finish all the same, and soon."""
    program = stage.play(f"point={point}", "action=raise")
    # A thread that dies says so on the error output, as any Python thread does; the code is what counts.
    assert program.code_within(LIMIT) == 0
    assert stage.verdict(deaths=1) == []


#: What happens inside an attempt is no reason for the kernel to stop: the task is given back and run again.
IN_WORKERS = {"leased", "before-attempt", "before-retry", "after-attempt", "before-stage", "after-stage"}
#: Ids are taken for streams in a worker and for children in the loop.
IN_BOTH = {"before-reserve", "after-reserve"}


@pytest.mark.full
@pytest.mark.parametrize("point", POINTS)
def test_an_error_at_any_point_stops_the_kernel_or_is_survived(point: str, tmp_path: Path, clients: Clients) -> None:
    stage = Stage(tmp_path / "store", clients)
    raise_at(point, stage)
    broke = any(line.said is Said.BROKE for line in stage.lines())
    assert broke == (point not in IN_WORKERS) or point in IN_BOTH


@pytest.mark.parametrize("point", ["leased", "before-stage", "before-beat", "after-commit"])
def test_an_error_in_each_thread_of_a_kernel_is_survived(point: str, tmp_path: Path, clients: Clients) -> None:
    raise_at(point, Stage(tmp_path / "store", clients))


@pytest.mark.full
@pytest.mark.parametrize("point", POINTS)
def test_a_freeze_at_any_point_changes_nothing_once_thawed(point: str, tmp_path: Path, clients: Clients) -> None:
    stage = Stage(tmp_path / "store", clients)
    frozen = stage.play(f"point={point}", "action=freeze", *SHORT)
    frozen.wait_stopped()
    other = stage.play(*SHORT)
    assert other.ends_within(LIMIT)
    assert stage.verdict(deaths=1) == []
    before = len(stage.lines())
    frozen.thaw()
    frozen.hear()
    assert frozen.ends_within(LIMIT)
    # A thawed worker may go on with what it had in its hands; nothing of that may be recorded.
    lines = stage.lines()
    after = [line for line in lines[before:] if line.said not in (Said.START, Said.CLAIM)]
    assert not [line for line in after if line.said is Said.COMMIT_ACK and line.tasks]
    assert stage.verdict(lines[:before] + after, deaths=1) == []


def test_a_stream_of_several_pieces_is_published_whole(scene: Scene) -> None:
    open_at(str(scene.folder / STORE), None, {})
    run = engine.start(held.of("nowhere"), name=RUN_NAME)
    engine.close()
    assert scene.play("run", run.id, "threads=1").ends_within(LIMIT)
    scene.check_done(11)


def test_an_unknown_point_cannot_be_armed() -> None:
    from ramify.kernel.faults import arm

    with pytest.raises(ValueError, match="no crash point 'nowhere'"):
        arm("nowhere", lambda: None)


def test_waiting_for_a_fact_that_never_comes_fails() -> None:
    with pytest.raises(AssertionError, match="in vain"):
        wait_until(lambda: False, "nothing", limit=0.01)
