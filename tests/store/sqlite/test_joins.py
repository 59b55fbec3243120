"""What is written for many joins at once is what the reference store writes for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pytest

from ramify.model.claim import Details, Want
from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.join import SMALL, NewJoins, NewWaiters
from ramify.model.process import NewProcess, Stamp
from ramify.model.run import NewRun, Order
from ramify.model.task import NewTasks
from ramify.store.contract import Store
from ramify.store.open import open_store
from ramify.store.sqlite.joins import FEW

#: Of each claim in its turn: the round, the tasks, and what their joins say.
Story = list[tuple[int, list[int], Mapping[int, Details]]]

LAYERS, WIDTH = 4, 24


@pytest.mark.parametrize("needs", [(1, 3), (0, 5), (2, SMALL + 2)], ids=["alike", "some wait for nobody", "some large"])
@pytest.mark.parametrize("ends", [[Status.DONE], [Status.DONE, Status.FAILED, Status.SKIPPED]], ids=["done", "mixed"])
@pytest.mark.parametrize("order", Order)
def test_a_graph_is_run_as_the_reference_store_runs_it(
    tmp_path: Path, seed: Random, needs: tuple[int, int], ends: list[Status], order: Order
) -> None:
    above = [seed.sample(range(1000), seed.randint(*needs)) for _ in range((LAYERS - 1) * WIDTH)]
    chosen = seed.random()
    expected, told = (
        story(open_store(url, durability="process"), above, ends, order, Random(chosen))
        for url in ("memory:", tmp_path / "db")
    )
    assert sum(len(tasks) for _, tasks, _ in expected) == LAYERS * WIDTH > FEW
    assert told == expected


def story(store: Store, above: list[list[int]], ends: list[Status], order: Order, chance: Random) -> Story:
    """Run layers of tasks, of which each waits for some of the layer above, in claims of any size."""
    run = store.reserve(1 + LAYERS * WIDTH)
    first, process = run + 1, 1
    store.enter(NewProcess(id=process, pid=1))
    later = range(first + WIDTH, first + LAYERS * WIDTH)
    members = [
        [task - (task - first) % WIDTH - WIDTH + n % WIDTH for n in each]
        for task, each in zip(later, above, strict=True)
    ]
    waiters = NewWaiters(
        [member for each in members for member in each],
        [task for task, each in zip(later, members, strict=True) for _ in each],
        [slot for each in members for slot in range(len(each))],
    )
    groups = [NewTasks(first, "node", [b"[]"] * WIDTH), NewTasks(later.start, "node", [b"[]"] * len(later), waits=True)]
    store.start(NewRun(run, order=order), groups, [NewJoins(later, [len(each) for each in members])], [waiters])
    told: Story = []
    n, round = 0, -1
    while not store.advance([(run, round)])[0].state.is_end:
        round += 1
        while True:
            n += 1
            claims = store.claim(Stamp(process, n), Want(frozenset(["node"]), chance.randint(1, 2 * WIDTH))).claims
            if not claims:
                break
            told += ((claim.round, list(claim.tasks), claim.details) for claim in claims)
            n += 1
            store.commit(Stamp(process, n), [_ended(claim.token, claim.tasks, ends, chance) for claim in claims])
    store.close()
    return told


def _ended(token: bytes, tasks: Sequence[int], ends: list[Status], chance: Random) -> Part:
    return Part(token, tasks, ends[0] if len(ends) == 1 else [chance.choice(ends) for _ in tasks])
