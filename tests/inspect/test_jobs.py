"""Lists of jobs and where each stands, as they are read on each store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ramify import ConfigError, Engine, JobState, Spawns, Tasks
from ramify.inspect import jobs as inspected
from ramify.inspect.jobs import standing_of
from ramify.model.claim import Want
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.store.open import open_store
from ramify.testing import Workbench, using

here = Tasks()


@here.task(retries=0)
def mail(to: str, ok: bool = True) -> None:
    if not ok:
        raise ValueError("bounced")


@here.task
def newsletter() -> Spawns[None]:
    yield mail.of("ann")
    yield mail.of("bob")


@here.task(queue="slow")
def report(day: int) -> None:
    pass


@pytest.fixture(params=["memory", "sqlite"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workbench]:
    url = "memory:" if request.param == "memory" else tmp_path / "s.db"
    with using(Engine("unused.db", include=[here]), url) as prepared:
        yield prepared


def test_jobs_of_all_queues_are_merged_from_the_newest_back(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspected, "_PAGE", 2)
    engine = bench.engine
    added = [engine.enqueue(call).id for n in range(4) for call in (mail.of(str(n)), report.of(n))]
    engine.start(mail.of("no job"))
    assert [job.id for job in engine.jobs()] == added[::-1]
    assert [job.id for job in engine.jobs(before=added[4])] == added[3::-1]
    assert [job.id for job in engine.jobs(queue="slow")] == added[::-2]


def test_jobs_are_chosen_by_all_that_is_given(bench: Workbench) -> None:
    engine = bench.engine
    ann, bob = engine.enqueue_many([mail.of("ann").key("a"), mail.of("bob", False).headers(tenant="acme", region="eu")])
    bench.drain(raising=False)
    bench.advance(3_600)
    cid, day = engine.enqueue(mail.of("cid").priority(7)), engine.enqueue(report.of(1))
    bench.advance(60)

    def found(**wanted: Any) -> list[int]:
        return sorted(job.id for job in engine.jobs(**wanted))

    assert found(kind=mail) == found(kind="mail") == [ann.id, bob.id, cid.id]
    assert found(state=JobState.FAILED) == found(state="failed") == [bob.id]
    assert found(key="a") == found(state="done") == [ann.id]
    assert found(headers={"tenant": "acme"}) == [bob.id]
    assert found(headers={"tenant": "acme", "region": "us"}) == []
    assert found(older=timedelta(minutes=30)) == [ann.id, bob.id]
    assert found(newer=timedelta(minutes=30)) == [cid.id, day.id]
    assert found(newer=timedelta(hours=2), older=timedelta(minutes=30), state="done") == [ann.id]
    assert found(kind="mail", queue="slow") == []


@pytest.mark.parametrize("wrong", [{"state": "late"}, {"older": "5"}, {"newer": timedelta(-1)}])
def test_what_can_choose_nothing_is_refused(bench: Workbench, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="jobs"):
        bench.engine.jobs(**wrong)


def test_what_a_job_brought_forth_is_no_job(bench: Workbench) -> None:
    job = bench.engine.enqueue(newsletter.of())
    after = job.then(report.of(1))
    bench.drain()
    assert [each.id for each in bench.engine.jobs()] == [after.id, job.id]
    run = bench.engine.queue("default").run
    assert run is not None
    assert run.counts.done == 3


def test_a_job_that_a_dead_process_holds_is_not_running(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "s.db", include=[here])
    job, reads = engine.enqueue(mail.of("ann")), engine._runtime.store.reads
    other, process = open_store(tmp_path / "s.db"), new_process_id()
    other.enter(NewProcess(process))
    other.claim(Stamp(process, 1), Want(frozenset({"mail"}), 1))
    assert standing_of(reads, job.id, engine._runtime.store.now()).state is JobState.RUNNING
    other.close()
    assert standing_of(reads, job.id, engine._runtime.store.now()).state is JobState.QUEUED, (
        "although nobody has buried it yet"
    )
    engine.close()


def test_jobs_that_ended_with_their_queue_ended_when_it_was_cancelled(bench: Workbench) -> None:
    engine = bench.engine
    ann, bob = engine.enqueue_many([mail.of("ann"), mail.of("bob")])
    run = engine.queue("default").run
    assert run is not None
    bench.advance(3_600)
    run.cancel("no longer needed")
    bench.drain()
    bench.advance(60)
    assert engine.job_states([bob.id, ann.id]) == {bob.id: JobState.CANCELLED, ann.id: JobState.CANCELLED}
    assert list(engine.jobs(newer=timedelta(minutes=30))) == [bob, ann]
    assert list(engine.jobs(older=timedelta(minutes=30))) == []


def test_jobs_of_a_queue_that_was_forgotten_are_not_found(bench: Workbench) -> None:
    engine = bench.engine
    job = engine.enqueue(mail.of("ann"))
    bench.drain()
    run = engine.queue("default").run
    assert run is not None
    run.cancel("no longer needed")
    engine.enqueue(mail.of("bob"))
    run.forget()
    assert job.state is JobState.NOT_FOUND
    assert len(list(engine.jobs())) == 1
