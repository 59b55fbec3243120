"""Runs about which people decide while their workers are killed: they end as if nobody had disturbed them.

Two worker programs work on one file. People decide from a third process, and now and then a worker is killed with
`kill -9` and another one begins; see `tests/shapes/story.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from ramify import Engine
from tests.crash.clients import STORE, Client, Clients
from tests.crash.engine.story_program import MENDED
from tests.shapes.plot import dag_plot, pipeline_plot, quick_pipeline_plot
from tests.shapes.story import PLOTS, LiveStory, Plotting

Record = Callable[[str, object], None]
PROGRAM = "tests.crash.engine.story_program"
#: How late people decide, at most, in seconds.
LATE = 0.05


class Workers:
    """Two workers of one store, one of which is killed at a time."""

    def __init__(self, clients: Clients, shape: str, folder: Path, chance: random.Random) -> None:
        self._clients = clients
        self._shape, self._folder = shape, folder
        self._chance = chance
        self._working = [self._begin() for _ in range(2)]
        self.kills = 0

    def _begin(self) -> Client:
        client = self._clients.next()
        client.begin(self._shape, self._folder, self._chance.randrange(2))
        return client

    def go_on(self) -> None:
        """Let them work for a moment, and perhaps kill one."""
        at = self._chance.randrange(2)
        assert not self._working[at].ends_within(self._chance.uniform(0, LATE))
        if self._chance.random() < 0.4:
            self._working[at].kill()
            self._working[at] = self._begin()
            self.kills += 1

    def leave(self) -> None:
        """Kill both."""
        for client in self._working:
            client.kill()


def told(shape: str, plotted: Plotting, folder: Path, clients: Clients, seed: int) -> int:
    """Tell a story; how often somebody was killed in it."""
    folder.mkdir()
    chance = random.Random(seed)
    drawing, _ = PLOTS[shape]
    engine = Engine(folder / STORE, include=[drawing.tasks])
    story = LiveStory(engine, plotted(engine, chance), chance)
    print(f"{folder.name}: seed {seed}")
    workers = Workers(clients, shape, folder, chance)
    story.disturb(chance.randrange(4, 16), workers.go_on)
    (folder / MENDED).touch()
    story.end()
    workers.leave()
    engine.close()
    return workers.kills


def tell_some(
    many: int, shape: str, plotted: Plotting, folder: Path, clients: Clients, chance: random.Random
) -> tuple[int, int]:
    """Tell so many stories; how many, and how often somebody was killed in them."""
    return many, sum(
        told(shape, plotted, folder / f"story-{at}", clients, chance.getrandbits(32)) for at in range(many)
    )


@pytest.mark.parametrize(("shape", "plotted"), [("dag", dag_plot), ("pipeline", quick_pipeline_plot)])
def test_what_people_decide_while_workers_are_killed_leaves_what_must_come_of_it(
    shape: str, plotted: Plotting, tmp_path: Path, clients: Clients, seed: random.Random, record_property: Record
) -> None:
    stories, kills = tell_some(2, shape, plotted, tmp_path, clients, seed)
    record_property("stories", stories)
    record_property("kills", kills)


@pytest.mark.full
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("batch", range(5))
@pytest.mark.parametrize(("shape", "plotted"), [("dag", dag_plot), ("pipeline", pipeline_plot)])
def test_whatever_people_decide_while_workers_are_killed_leaves_what_must_come_of_it(
    shape: str,
    plotted: Plotting,
    batch: int,
    tmp_path: Path,
    clients: Clients,
    seed: random.Random,
    record_property: Record,
) -> None:
    stories, kills = tell_some(20, shape, plotted, tmp_path, clients, seed)
    record_property("stories", stories)
    record_property("kills", kills)
