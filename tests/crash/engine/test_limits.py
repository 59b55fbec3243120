"""Limits under `kill -9`: a service counts the requests that three programs make, which are killed at any moment.

At no time does it serve more than a limit allows, in all or in a lane, but for requests of a killed process that still
run; of a rate, no stretch of its time has more starts than the rate, and one second's worth. And no place is lost: all
tasks are done.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ramify.model.run import RunState
from ramify.model.segment import SegmentState
from ramify.testing import oracle
from tests.crash.clients import LIMIT, STORE, Client, Clients
from tests.crash.engine.limit_program import (
    IN_LANE,
    LANES,
    MOST,
    RUN,
    SECONDS,
    STARTS,
    alone,
    both,
    engine,
    open_at,
    paced,
    shared,
)
from tests.crash.engine.limit_witness import Witness

PROGRAM = "tests.crash.engine.limit_program"
#: Points that a program comes past on its way, by how often at least.
POINTS = {"after-claim": 2, "after-attempt": 8, "before-commit": 8, "after-commit": 8, "leased": 8}
TOGETHER = 3
KINDS = 4
Record = Callable[[str, object], None]


@pytest.fixture
def witness() -> Iterator[Witness]:
    made = Witness()
    yield made
    made.close()


def complaints(folder: Path, witness: Witness, tasks: int) -> list[str]:
    """What is wrong once all tasks are done."""
    open_at(folder / STORE)
    try:
        run = engine.find(RUN)
        assert run is not None
        found = oracle.check(engine._runtime.store)
        if (run.state, run.counts.done) != (RunState.DONE, KINDS * tasks):
            found.append(f"{run.state} with {run.counts}")
        for kind in (shared, both, alone, paced):
            if sorted(run.results(kind)) != list(range(tasks)):
                found.append(f"{kind.kind} gave {sorted(run.results(kind))}")
        rows = engine._runtime.store.reads.segments().rows
        found += [f"left: {row}" for row in rows if row.state in (SegmentState.LIMITED, SegmentState.CLAIMED)]
    finally:
        engine.close()
    most = {"api": MOST, **{f"host-{lane}": IN_LANE for lane in range(LANES)}}
    found += [f"{name}: {witness.most[name]} at a time" for name, many in most.items() if witness.most[name] > many]
    starts, allowed = witness.most_within("pace", SECONDS), STARTS + round(STARTS / SECONDS)
    if starts > allowed:
        found.append(f"{starts} starts within {SECONDS} s")
    return found


def begin(clients: Clients, folder: Path, witness: Witness, tasks: int, *options: str, threads: int = 4) -> Client:
    client = clients.next()
    client.begin("ask", folder, 0, f"port={witness.port}", f"tasks={tasks}", f"threads={threads}", *options)
    return client


def chased(folder: Path, clients: Clients, witness: Witness, chance: random.Random, tasks: int, late: float) -> int:
    """Let several programs work together, killing one after the other, until one is through; how many were killed."""
    folder.mkdir(exist_ok=True)

    def hire() -> Client:
        return begin(clients, folder, witness, tasks, threads=chance.choice((1, 4, 8)))

    working, kills = [hire() for _ in range(TOGETHER)], 0
    while True:
        at = chance.randrange(TOGETHER)
        if working[at].ends_within(chance.uniform(0.05, late * (1 + kills / 10))):
            break
        witness.is_killed(working[at].pid)
        working[at].kill()
        working[at] = hire()
        kills += 1
    for client in working:
        assert client is working[at] or client.ends_within(LIMIT)
    assert complaints(folder, witness, tasks) == []
    return kills


def test_without_kills_limits_are_kept_and_used(tmp_path: Path, clients: Clients, witness: Witness) -> None:
    working = [begin(clients, tmp_path, witness, 20) for _ in range(TOGETHER)]
    assert all(client.ends_within(LIMIT) for client in working)
    assert complaints(tmp_path, witness, 20) == []
    assert witness.most["api"] == MOST


@pytest.mark.parametrize("point", POINTS)
def test_a_program_that_dies_at_a_point_leaves_no_place_taken(
    point: str, tmp_path: Path, clients: Clients, witness: Witness
) -> None:
    for at in sorted({1, POINTS[point]}):
        folder = tmp_path / f"{at}"
        folder.mkdir()
        dying = begin(clients, folder, witness, 5, f"point={point}", f"at={at}")
        assert dying.code_within(LIMIT) == -9, f"{point} was not reached {at} times"
        witness.is_killed(dying.pid)
        assert begin(clients, folder, witness, 5).ends_within(LIMIT)
        assert complaints(folder, witness, 5) == []


def test_programs_that_are_killed_at_any_moment_exceed_no_limit_and_lose_no_place(
    tmp_path: Path, clients: Clients, witness: Witness, seed: random.Random, record_property: Record
) -> None:
    record_property("kills", chased(tmp_path, clients, witness, seed, 40, 0.3))


@pytest.mark.full
@pytest.mark.alone
def test_hundreds_of_kills_exceed_no_limit_and_lose_no_place(
    tmp_path: Path, clients: Clients, seed: random.Random, record_property: Record
) -> None:
    kills = 0
    for at in range(12):
        witness = Witness()
        try:
            kills += chased(tmp_path / f"{at}", clients, witness, seed, 120, 0.4)
        finally:
            witness.close()
    record_property("kills", kills)
