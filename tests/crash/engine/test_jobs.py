"""Jobs under `kill -9`: in the middle of each verb that adds or steers them, at each crash point, and at any moment.

What must come of each job is known beforehand; what programs asked for, what they were answered and which jobs began
are lines of a file that outlives them. A job that somebody was told of is there, once. Nothing is recorded twice, no
group is there in part, and a key has one job at a time.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ramify import Job, JobState
from ramify.kernel.settings import Settings
from ramify.model.event import Status
from ramify.testing import oracle
from tests.crash.clients import LIMIT, STORE, WITNESS, Clients, wait_until
from tests.crash.engine.hunting import Hunt
from tests.crash.engine.job_program import PARTS, Move, answers, engine, moves_of, open_at, pending

PROGRAM = "tests.crash.engine.job_program"
#: Points that the scene comes past, by how often at least.
POINTS = {
    "before-append": 18, "after-append": 18, "before-cancel": 2, "after-cancel": 2,
    "before-reopen": 1, "after-reopen": 1, "before-reserve": 1, "after-reserve": 1, "after-claim": 8, "leased": 12,
    "before-attempt": 12, "after-attempt": 12, "before-commit": 8, "after-commit": 8, "before-retry": 1,
}  # fmt: skip
ENQUEUERS = 4
ENQUEUED = 10_000

DONE, FAILED, CANCELLED = JobState.DONE, JobState.FAILED, JobState.CANCELLED


@pytest.fixture
def hunt(clients: Clients) -> Hunt:
    # Without a thread of its own, nobody would hear of the cancel of a coroutine that runs.
    return Hunt(clients, "play", verdict, threads=(1, 2))


# what must come of them


def expected(move: Move) -> dict[str, tuple[JobState, tuple[str, ...]]]:
    """How the jobs of a move end, by their names, with the questions that they answer."""
    sort, name = move
    match sort:
        case "cancelled" | "expired" | "stopped":
            return {name: (CANCELLED, (name,))}
        case "group" | "spread":
            return dict.fromkeys((*parts(name), name), (DONE, (name,)))
        case "chain":
            return {f"{name}.0": (DONE, (f"{name}.0",)), name: (DONE, (name,))}
        case "broken":
            ends = {f"{name}.0": FAILED, f"{name}-": CANCELLED, f"{name}+": DONE}
            return {each: (end, (each,)) for each, end in ends.items()}
        case "keyed":
            return {name: (DONE, tuple(f"{name}/{time}" for time in "abc"))}
        case "again":
            return {name: (DONE, (f"{name}/a", f"{name}/b"))}
        case _:
            return {name: (DONE, (name,))}


def parts(name: str) -> list[str]:
    return [f"{name}.{part}" for part in range(PARTS)]


class Account:
    """What is in the store, and what was said."""

    def __init__(self, witness: Path, kills: int) -> None:
        self.kills = kills
        self.known = answers(witness)
        said = [line.split()[:2] for line in witness.read_text().splitlines()]
        self.asked = Counter(name for what, name in said if what == "ask")
        self.begun = Counter(name for what, name in said if what == "run")
        self.jobs: dict[str, list[Job[Any]]] = defaultdict(list)
        for job in engine.jobs():
            self.jobs[self._name(job)].append(job)

    def _name(self, job: Job[Any]) -> str:
        row = engine._runtime.store.reads.task(job.id)
        assert row is not None
        (name, *_), _ = engine._runtime.handlers()[row.kind].signature.decode(row.body)
        return str(name)

    def complaints(self, move: Move) -> Iterator[str]:
        """What is wrong with the jobs of a move."""
        sort, name = move
        for each, (end, questions) in expected(move).items():
            yield from self._of_name(each, sort, end, questions)
        if sort == "keyed" and len(self.jobs[name]) != 1:
            yield f"{name}: its key had {len(self.jobs[name])} jobs"
        if sort == "again" and self.known[f"{name}/a"] == self.known[f"{name}/b"]:
            yield f"{name}: nothing came again"
        if sort == "group" and len({len(self.jobs[each]) for each in (*parts(name), name)}) != 1:
            yield f"{name}: a group is there in part"
        follow = {"group": (name, parts(name)), "spread": (name, parts(name)), "chain": (name, [f"{name}.0"])}
        each, result = follow.get(sort, (f"{name}+", []))
        yield from (f"{each} gave {it}" for job in self.jobs[each] if (it := job.result(0)) != result)

    def _of_name(self, name: str, sort: str, end: JobState, questions: tuple[str, ...]) -> Iterator[str]:
        found = {job.id: job for job in self.jobs[name]}
        told = {id for question in questions for id in self.known[question]}
        # The answer to a group names all its jobs; each of them must be one of those with the right name.
        missing = told - {job.id for jobs in self.jobs.values() for job in jobs}
        if missing or not told & found.keys():
            yield f"{name}: answered with {told}, of which {missing} are not there; there are {set(found)}"
        if len(found) > sum(self.asked[question] for question in questions):
            yield f"{name}: {len(found)} jobs, and asked for {[self.asked[question] for question in questions]} times"
        for id, job in found.items():
            # One that nobody was told of was tried again by nobody.
            fine = {end} if id in told or sort != "retried" else {end, FAILED}
            if job.state not in fine:
                yield f"{name}: job {id} is {job.state}"
            if [status for status in self._life(id) if status.is_end] != self._life(id)[-1:]:
                yield f"{name}: job {id} ended more than once: {self._life(id)}"
        tries = 2 if sort in ("setback", "retried") else 1
        fewest = sum(job.state is DONE for job in found.values())
        most = 0 if sort in ("cancelled", "expired") or name.endswith("-") else len(found) * (tries + self.kills)
        if not fewest <= self.begun[name] <= most:
            yield f"{name}: begun {self.begun[name]} times for {len(found)} jobs"

    def _life(self, task: int) -> list[Status]:
        """What was recorded in its present life."""
        statuses = [event.status for event in engine._runtime.store.reads.events(task, task)]
        opened = [at for at, status in enumerate(statuses) if status is Status.REOPENED]
        return statuses[opened[-1] + 1 if opened else 0 :]


def verdict(folder: Path, seed: int, kills: int) -> list[str]:
    """What is wrong with jobs that have ended after so many kills."""
    open_at(folder / STORE)
    try:
        account = Account(folder / WITNESS, kills)
        found = [complaint for move in moves_of(seed) for complaint in account.complaints(move)]
        return found + oracle.check(engine._runtime.store)
    finally:
        engine.close()


# kills


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_loses_no_job_and_doubles_none(point: str, tmp_path: Path, hunt: Hunt) -> None:
    hunt.kill_at(tmp_path, point, (POINTS[point] + 1) // 2)


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_at_any_time_loses_no_job_and_doubles_none(point: str, tmp_path: Path, hunt: Hunt) -> None:
    hunt.kill_at_each(tmp_path, point, POINTS[point])


def test_jobs_end_as_they_must_however_often_their_programs_are_killed(
    tmp_path: Path, hunt: Hunt, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    record_property("kills", hunt.kill_often(tmp_path, seed, 2))


@pytest.mark.full
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("batch", range(10))
def test_many_jobs_end_as_they_must_however_often_their_programs_are_killed(
    batch: int, tmp_path: Path, hunt: Hunt, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    record_property("kills", hunt.kill_often(tmp_path, seed, 20))


# keys


def enqueue_together(many: int, folder: Path, clients: Clients, chance: random.Random) -> None:
    """Enqueue so often under a few keys from four processes, while this one works, and look at what came of it."""
    open_at(folder / STORE)
    enqueuers = [clients.next() for _ in range(ENQUEUERS)]
    for client in enqueuers:
        client.load()
    kernel = engine._runtime.kernel(Settings(threads=2))
    try:
        for client in enqueuers:
            client.begin("keys", folder, chance.randrange(2**31), f"many={many // ENQUEUERS}", "threads=4")
        kernel.start()
        for client in enqueuers:
            assert client.ends_within(5 * LIMIT)
        wait_until(lambda: not pending(), "the jobs to end")
        kernel.stop()
        kernel.join()
        answered = [line.split()[1:] for line in (folder / WITNESS).read_text().splitlines() if line.startswith("got")]
        assert len(answered) == many
        check_keys([(key, int(id), bool(int(new)), int(a), int(b)) for key, id, new, a, b in answered])
        assert oracle.check(engine._runtime.store) == []
    finally:
        engine.close()


def check_keys(answered: list[tuple[str, int, bool, int, int]]) -> None:
    """That each answer is a job with that key which had not ended, and that no two of a key were there at a time.

    With an answer come the number of commits before it was asked for and after.
    """
    reads = engine._runtime.store.reads
    ends: dict[int, int] = {}
    for id in {id for _, id, *_ in answered}:
        (end,) = (event for event in reads.events(id, id) if event.status.is_end)
        assert end.status is Status.DONE
        ends[id] = end.seq
    added: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for key, id, is_new, before, after in answered:
        assert engine.job(id).key == key
        assert ends[id] > before, f"job {id} had ended before somebody asked for its key"
        if is_new:
            added[key].append((ends[id], after))
    assert added.keys() == {key for key, *_ in answered}
    assert sum(map(len, added.values())) == len(ends) == len(list(engine.jobs())), "each was new to one, and only one"
    for key, lives in added.items():
        for (before, _), (_, there) in pairwise(sorted(lives)):
            assert there >= before, f"{key}: a job was there by commit {there}, and the one before ended in {before}"


def test_a_key_has_one_job_at_a_time_whoever_enqueues_it(tmp_path: Path, clients: Clients, seed: random.Random) -> None:
    enqueue_together(ENQUEUED // 10, tmp_path, clients, seed)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_key_has_one_job_at_a_time_however_many_enqueue_it(
    tmp_path: Path, clients: Clients, seed: random.Random
) -> None:
    enqueue_together(ENQUEUED, tmp_path, clients, seed)
