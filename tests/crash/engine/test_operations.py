"""Operations behind creations under `kill -9`: in the middle of an `enqueue`, at crash points, and at any moment.

Whatever is killed, an operation that somebody was told of is there once. None starts unless its creation is done, none
starts before the one before it has ended, and each ends as it must by itself.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from ramify import Job, JobState
from ramify.model.join import AHEAD, BEFORE
from ramify.testing import oracle
from tests.crash.clients import LIMIT, STORE, WITNESS, Client, Clients
from tests.crash.engine.hunting import Hunt
from tests.crash.engine.job_program import answers
from tests.crash.engine.operation_program import CANCELLED, FAILED, LEAVES, engine, fails, open_at

PROGRAM = "tests.crash.engine.operation_program"
#: Points that the scene comes past, by how often at least.
POINTS = {
    "before-append": 40, "after-append": 40, "before-cancel": 8, "after-cancel": 8, "after-claim": 20, "leased": 20,
    "before-attempt": 20, "after-attempt": 20, "before-commit": 20, "after-commit": 20,
}  # fmt: skip
CREATIONS, EACH, KILLS = 500, 5, 20


@pytest.fixture
def hunt(clients: Clients) -> Hunt:
    return Hunt(clients, "play", verdict, late=0.4, threads=(1, 2))


class Account:
    """What is in the store, and what was said."""

    def __init__(self, witness: Path) -> None:
        self.reads = engine._runtime.store.reads
        said = [line.split() for line in witness.read_text().splitlines()]
        self.known = {name: ids[0] for name, ids in answers(witness).items()}
        self.asked = Counter(words[1] for words in said if words[0] == "ask")
        #: Where in the file each attempt of a job began.
        self.begun: dict[int, list[int]] = defaultdict(list)
        for at, words in enumerate(said):
            if words[0] == "run":
                self.begun[int(words[1])].append(at)
        self.jobs = {job.id: job for job in engine.jobs()}
        #: By creation, the operations behind it, in their order.
        self.behind: dict[int, list[int]] = defaultdict(list)
        for job in self.jobs.values():
            if job.kind == "change":
                self.behind[dict(self.reads.members(job.id).rows)[AHEAD[0]]].append(job.id)

    def complaints(self) -> Iterator[str]:
        """What is wrong with the jobs."""
        for name, id in self.known.items():
            if id not in self.jobs:
                yield f"{name}: answered with {id}, which is not there"
        times = Counter(self._name(job) for job in self.jobs.values())
        for name, many in times.items():
            # A creation is asked for by each program, and one that was perhaps added by a killed one once more.
            most = sum(asked for each, asked in self.asked.items() if each == name or each.startswith(f"{name}/"))
            if many > most:
                yield f"{name}: there are {many}, and it was asked for {most} times"
        for creation, operations in self.behind.items():
            yield from self._of_creation(self.jobs[creation], [self.jobs[id] for id in operations])

    def _of_creation(self, creation: Job[object], operations: list[Job[object]]) -> Iterator[str]:
        number = int(self._name(creation))
        ends = {JobState.FAILED} if fails(number) else {JobState.DONE}
        # It may have been begun before it was cancelled.
        ends |= {JobState.CANCELLED} if number == CANCELLED else set()
        if creation.state not in ends:
            yield f"creation {number} is {creation.state}"
        for job in operations:
            at = int(self._name(job).rpartition(".")[2])
            expected = {JobState.FAILED if at == FAILED else JobState.DONE}
            if creation.state is not JobState.DONE:
                expected = {JobState.CANCELLED}
            elif at == LEAVES:
                expected.add(JobState.CANCELLED)
            if job.state not in expected:
                yield f"{self._name(job)} is {job.state}, and its creation {creation.state}"
            if job.state is JobState.CANCELLED and at != LEAVES:
                how = "failed" if creation.state is JobState.FAILED else "was cancelled"
                if job.error is None or job.error.failure.text != f"the job it waited for {how}":
                    yield f"{self._name(job)} was cancelled for {job.error}"
            if creation.state is not JobState.DONE and self.begun[job.id]:
                yield f"{self._name(job)} was begun, and its creation {creation.state}"
            if self.begun[job.id] and self.begun[job.id][0] < self.begun[creation.id][-1]:
                yield f"{self._name(job)} was begun before its creation had ended"
        began = sorted((self.begun[job.id] for job in operations if self.begun[job.id]), key=min)
        for one, after in pairwise(began):
            if one[-1] > after[0]:
                yield f"creation {number}: an operation was begun before the one before it had ended"
        yield from self._of_order(number, operations, creation)

    def _of_order(self, number: int, operations: list[Job[object]], creation: Job[object]) -> Iterator[str]:
        """Nobody overtakes whoever was answered before it was asked for by the same program."""
        names = {self._name(job).partition(".")[0] for job in operations}
        for name in names:
            mine = [self.known.get(f"{name}.{at}") for at in range(100)]
            here = [id for id in mine if id in {job.id for job in operations} and self.begun[id]]
            if here != sorted(here, key=lambda id: self.begun[id][0]):
                yield f"creation {number}: operations of {name} were begun out of order"
        # Whoever came next to one that left the line waited for the one before that.
        ran = [job.id for job in operations if self.begun[job.id]]
        before = [dict(self.reads.members(id).rows).get(BEFORE) for id in ran]
        if len(set(before)) != len(before):
            yield f"creation {number}: two operations came next to the same one"

    def _name(self, job: Job[object]) -> str:
        row = self.reads.task(job.id)
        assert row is not None
        return str(job.key)


def verdict(folder: Path, seed: int, kills: int) -> list[str]:
    """What is wrong with jobs that have ended after so many kills."""
    open_at(folder / STORE)
    try:
        return [*Account(folder / WITNESS).complaints(), *oracle.check(engine._runtime.store)]
    finally:
        engine.close()


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_loses_no_operation_and_lets_none_go_first(point: str, tmp_path: Path, hunt: Hunt) -> None:
    hunt.kill_at(tmp_path, point, POINTS[point] // 2)


def test_operations_end_as_they_must_however_often_their_programs_are_killed(
    tmp_path: Path, hunt: Hunt, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    record_property("kills", hunt.kill_often(tmp_path, seed, 2))


@pytest.mark.full
@pytest.mark.timeout(1_800)
def test_thousands_of_operations_of_two_programs_end_as_they_must_under_kills(
    tmp_path: Path, clients: Clients, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    """Behind hundreds of creations, of which a tenth fail; one of two programs is killed again and again."""
    options = (f"many={CREATIONS}", f"each={EACH}", "threads=2")

    def begin(name: str) -> Client:
        client = clients.next()
        client.begin("play", tmp_path, 0, f"name={name}", *options)
        return client

    running = {name: begin(name) for name in "ab"}
    kills = 0
    while kills < KILLS:
        name = seed.choice("ab")
        if running[name].ends_within(seed.uniform(0.1, 1.0)):
            break
        running[name].kill()
        kills += 1
        running[name] = begin(name)
    for client in running.values():
        assert client.ends_within(10 * LIMIT)
    assert verdict(tmp_path, 0, kills) == []
    open_at(tmp_path / STORE)
    states = Counter((job.kind, job.state.value) for job in engine.jobs())
    engine.close()
    for what, many in {"kills": kills, **{f"{kind} {state}": many for (kind, state), many in states.items()}}.items():
        record_property(what, many)
    assert kills >= KILLS // 2
    assert states["create", "failed"] >= CREATIONS // 10
    assert sum(many for (kind, _), many in states.items() if kind == "change") >= 2 * CREATIONS * EACH
