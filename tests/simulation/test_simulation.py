"""Several kernels on one store through crashes, freezes, lost answers and changes of mind: nothing lost or done twice.

Each seed is a story of its own: its processes, settings, tasks and faults. The kernels are real, with loop, workers,
stand-in, event loop and heartbeat; their time and their threads are made up. After every turn the books of the cores
and the new contents of the store are checked, and once the faults have stopped the runs must end with exactly the tasks
that were planned. In half of the stories roots wait for each other, as nodes of a DAG do, and tasks
grow into branches, and these into others, as those of pipelines do. A seed that fails is told
again, aloud, by `python -m tests.simulation SEED`; add it to `seeds.txt`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ramify.model.join import Rule
from tests.simulation.watch import Violation
from tests.simulation.world import LINKED, SHARING, World

#: Stories in one test, so that a failure is near and a hang is found: 8 of them and the first 200 are 1,000 in all.
BATCH, LARGE_BATCH = 50, 250
#: In half of them roots wait for each other, and in half of both tasks share values.
SEEDS = 2 * SHARING
KNOWN = [int(line) for line in (Path(__file__).parent / "seeds.txt").read_text().splitlines() if line[:1] != "#"]


@pytest.fixture(autouse=True)
def one_core() -> Iterator[None]:
    """Keep the threads of a story on one core: they run one after the other, and a change of cores takes longest."""
    cores = os.sched_getaffinity(0)
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    os.sched_setaffinity(0, {sorted(cores)[int(worker.removeprefix("gw")) % len(cores)]})
    yield
    os.sched_setaffinity(0, cores)


def live(seeds: list[int], record: Callable[[str, object], None]) -> None:
    turns = 0
    for seed in seeds:
        world = World(seed)
        try:
            world.live()
        except Violation as violation:
            pytest.fail(f"{violation}\nTell it again with: python -m tests.simulation {seed}", pytrace=False)
        turns += world.turns
    record("stories", len(seeds))
    record("turns", turns)


@pytest.mark.parametrize("batch", range(6))
def test_every_story_keeps_its_promises_and_ends(
    batch: int, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    live([seed.randrange(SEEDS) for _ in range(BATCH)], record_property)


@pytest.mark.full
@pytest.mark.parametrize("batch", range(80))
def test_very_many_stories_keep_their_promises_and_end(
    batch: int, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    live([seed.randrange(SEEDS) for _ in range(LARGE_BATCH)], record_property)


def test_what_went_wrong_once_does_not_go_wrong_again(record_property: Callable[[str, object], None]) -> None:
    live(KNOWN, record_property)


def test_the_first_stories_of_all_keep_their_promises_and_end(
    record_property: Callable[[str, object], None],
) -> None:
    live(list(range(200)), record_property)


def test_in_stories_of_the_second_half_roots_wait_for_each_other_by_every_rule() -> None:
    nodes = [node for number in range(40) for node in World(LINKED + number).tree.nodes]
    assert {node.rule for node in nodes if node.waits} == set(Rule)
    assert max(len(node.waits) for node in nodes) == 3
    assert not any(node.waits for node in World(LINKED - 1).tree.nodes)


def test_in_stories_of_the_second_half_branches_grow_inside_of_branches() -> None:
    nested = 0
    for number in range(200):
        nodes = World(LINKED + number).tree.nodes
        inside = {each for node in nodes for each in node.grown}
        nested += sum(bool(nodes[each].grown) for each in inside)
    assert nested > 20


def test_in_stories_of_the_last_half_tasks_that_share_a_value_lose_it_and_run_again() -> None:
    lines: list[str] = []
    for number in range(30):
        World(SHARING + number, lines.append).live()
    assert sum("LOST by" in line for line in lines) > 50
    assert not any(node.counter for node in World(SHARING - 1).tree.nodes)


@pytest.mark.parametrize("seed_number", [15, 31, LINKED + 17, SHARING + 5])
def test_a_story_is_told_the_same_way_every_time(seed_number: int) -> None:
    told: list[list[str]] = [[], []]
    for lines in told:
        World(seed_number, lines.append).live()
    assert len(told[0]) > 20
    assert _without_sets(told[0]) == _without_sets(told[1])


def test_each_sort_of_fault_and_of_step_is_part_of_some_story() -> None:
    lines: list[str] = []
    for number in range(100):
        World(number, lines.append).live()
    told = "\n".join(lines)
    for word in (
        "CRASH", "FREEZE", "AWAY", "CANCEL", "PAUSE", "STOP", "echo of", "late ", "buried (", "was reaped", "PutBack",
        "ClaimWork", "Flush", "Move", "Look", "Die", "Leave", "Enter", "THREAD", "stands in", "blocks its loop",
        "in the thread of the loop", "inline",
    ):  # fmt: skip
        assert word in told, f"no story has {word!r}"


def _without_sets(lines: list[str]) -> list[str]:
    """Sets of names are printed in an order of their own."""
    return ["".join(sorted(line)) for line in lines]
