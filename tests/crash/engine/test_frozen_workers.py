"""Workers frozen in the middle of a task, buried, replaced, and thawed: nothing that they bring then is accepted.

Several are frozen at a time, each in a run of its own, at the same or at different places: before and after the effect
of the task, in the middle of a stream of children, and with the outcome in the outbox. This process buries them and
finishes their work.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ramify import Job, JobState, Settled
from ramify.inspect.audit import audit
from ramify.kernel.settings import Settings
from ramify.model.event import Status
from ramify.model.run import RunState
from ramify.testing import oracle
from tests.crash.clients import STORE, WITNESS, Client, Clients, wait_until
from tests.crash.engine import program
from tests.crash.engine.program import engine, held
from tests.crash.witness import Said

TOGETHER = 5
#: Where the process stops itself, and whether it must then try a commit that is refused: a beat may tell it first.
STOPS = {
    "before-effect": False,
    "after-effect": False,
    "in-stream": False,
    "after-attempt": False,
    "before-commit": True,
}
DEAD_AFTER = 0.7
SHORT = (f"dead_after={DEAD_AFTER}", "beat_every=0.05", "threads=1", "durability=process")
HERE = Settings(until_ended=True, threads=1, beat_every=0.05, dead_after=DEAD_AFTER)


@pytest.fixture
def freezers(request: pytest.FixtureRequest, tmp_path: Path, clients: Clients) -> Iterator[list[Client]]:
    """Programs that work on what they are told, and this process's own engine on the same store."""
    program.open_at(str(tmp_path / STORE), str(tmp_path / WITNESS), {"durability": "process"})
    _ = engine._runtime.store
    made = [clients.next() for _ in range(getattr(request, "param", TOGETHER))]
    for client in made:
        client.begin("freeze", tmp_path, 0, *SHORT)
    yield made
    engine.close()


one_freezer = pytest.mark.parametrize("freezers", [1], indirect=True)


def freeze_together(freezers: list[Client], stops: list[str]) -> None:
    """One freeze of each program, and the verdict about it."""
    runs = [engine.start(held.of(stop)) for stop in stops]
    for client, run, stop in zip(freezers, runs, stops, strict=True):
        client.tell(f"{run.id} {stop}")
    for client in freezers:
        client.wait_stopped()
    before = {process.id for process in engine._runtime.store.reads.processes() if process.reaped}
    # Whoever finishes must first have watched the frozen ones for as long as it takes.
    engine._runtime.kernel(replace(HERE, runs=frozenset(run.id for run in runs))).run()
    buried = {process.id: process for process in engine._runtime.store.reads.processes() if process.reaped}
    frozen = {process.pid: process.id for id, process in buried.items() if id not in before}
    events = {run.id: _events(run.id) for run in runs}
    said = len(engine.witness.lines())
    for client in freezers:
        client.thaw()
    for client in freezers:
        assert client.hear() == "over"
    late = engine.witness.lines()[said:]
    assert not [line for line in late if line.said is Said.COMMIT_ACK and line.tasks]
    refused = Counter(refusal.process for refusal in engine._runtime.store.reads.refusals())
    for client, run, stop in zip(freezers, runs, stops, strict=True):
        assert client.pid in frozen, f"the process frozen at {stop} was not buried"
        assert run.state is RunState.DONE
        assert _events(run.id) == events[run.id], f"a late commit after {stop} changed the log"
        found = audit(engine._runtime.store.reads, run.id)
        assert (found.tasks, found.ended, found.lost, found.recorded_twice) == (11, 11, 0, 0), f"{stop}: {found}"
        if STOPS[stop]:
            assert refused[frozen[client.pid]] == 1, f"the late commit after {stop} left no trace"


def _events(run: int) -> list[tuple[int, Status]]:
    reads = engine._runtime.store.reads
    return [
        (event.task, event.status)
        for span in reads.spans(run=run).rows
        for event in reads.events(span.first, span.last)
    ]


def freeze_often(times: int, freezers: list[Client], chance: random.Random) -> int:
    """So many freezes, each place as often as the others."""
    for _ in range(times // TOGETHER):
        stops = list(STOPS)
        chance.shuffle(stops)
        freeze_together(freezers, stops)
    assert oracle.check(engine._runtime.store) == []
    return times


def test_thirty_thawed_workers_change_nothing(
    freezers: list[Client], seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    record_property("freezes", freeze_often(30, freezers, seed))


@pytest.mark.full
@pytest.mark.timeout(900)
def test_three_hundred_thawed_workers_change_nothing(
    freezers: list[Client], seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    record_property("freezes", freeze_often(300, freezers, seed))


# jobs


@contextmanager
def working_here() -> Iterator[None]:
    """Let this process work beside the test, and bury whoever is silent."""
    kernel = engine._runtime.kernel(replace(HERE, until_ended=False))
    kernel.start()
    try:
        yield
    finally:
        kernel.stop()
        kernel.join()


def queue_run() -> int:
    """The run that the queue is."""
    run = engine.queue("default").run
    assert run is not None
    return run.id


def frozen_over(job: Job[str], client: Client, stop: str) -> int:
    """Let a program run a job until it is frozen over it; the id of its process."""
    client.tell(f"{queue_run()} {stop}")
    client.wait_stopped()
    assert job.state is JobState.RUNNING
    (process,) = (each.id for each in engine._runtime.store.reads.processes() if each.pid == client.pid)
    return process


def thaw(client: Client, process: int) -> None:
    """Let it go on, and bring what it has: it must be told that nobody wants that."""
    client.thaw()
    wait_until(lambda: process in {each.process for each in engine._runtime.store.reads.refusals()}, "the refusal")


@one_freezer
def test_a_job_whose_worker_is_frozen_is_run_elsewhere_and_what_comes_late_changes_nothing(
    freezers: list[Client],
) -> None:
    (client,) = freezers
    job = engine.enqueue(held.of("before-commit").unique("k"))
    process = frozen_over(job, client, "before-commit")
    assert engine.enqueue(held.of("").unique("k")) == job, "it has its key as long as it has not ended"
    with working_here():
        wait_until(lambda: job.ended, "the job to be run here")
        # With its children: the thawed one would run those that are left.
        wait_until(lambda: not engine._runtime.enqueuing.room.pending("default"), "what it brought forth")
    # The thawed one comes in anew, and must find nothing to do.
    after = engine.enqueue(held.of("").unique("k").delay(3_600), again=True)
    assert after != job
    events = _events(queue_run())
    thaw(client, process)
    assert _events(queue_run()) == events
    assert (job.state, job.result()) == (JobState.DONE, f"by {os.getpid()}")
    assert after.state is JobState.QUEUED
    assert engine.enqueue(held.of("").unique("k")) == after, "the late commit does not give up a key that is another's"
    client.kill()
    assert oracle.check(engine._runtime.store) == []


@one_freezer
def test_a_job_that_was_cancelled_while_its_worker_was_frozen_is_cancelled_and_stays_so(freezers: list[Client]) -> None:
    (client,) = freezers
    job = engine.enqueue(held.of("before-commit"))
    process = frozen_over(job, client, "before-commit")
    assert job.cancel("too late") is Settled.REQUESTED
    with working_here():
        wait_until(lambda: job.ended, "the job to end")
    thaw(client, process)
    assert job.state is JobState.CANCELLED
    client.kill()
    assert oracle.check(engine._runtime.store) == []
