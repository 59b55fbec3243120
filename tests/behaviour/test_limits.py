"""Limits of a whole store: how many run, how many start, in all and per lane, for every shape and on every store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ramify import Engine, JobState, Rate, RunState, Tasks
from ramify.engine.limits import change_limits, with_numbers
from ramify.inspect.limits import statuses_of, stored_limits
from ramify.inspect.status import status_of
from ramify.inspect.why import Cause, why
from ramify.kernel.settings import Settings
from ramify.model.limit import Numbers, StoredLimit
from ramify.model.segment import SegmentState
from ramify.store.memory import MemoryStore, MemoryTables
from ramify.store.open import open_store
from ramify.testing import oracle
from ramify.testing.conformance.house import Worker
from ramify.testing.using import Workbench, using
from tests.behaviour.conftest import NOON, STORES
from tests.behaviour.hall import Hall, acts, caller, free, meter, shut

#: How many come.
MANY = 40
Place = Callable[[Hall], None]


@pytest.fixture(autouse=True)
def nobody_is_inside() -> Iterator[None]:
    meter.clear()
    acts.clear()
    yield
    assert not +meter.inside


@pytest.fixture(params=STORES)
def put(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Puts programs on one store, with real time."""
    tables, halls = MemoryTables(), list[Hall]()

    def put(hall: Hall) -> None:
        file = tmp_path / "hall.db"
        hall.engine._runtime.use(
            MemoryStore(tables) if request.param == "memory" else open_store(file, durability="process")
        )
        halls.append(hall)

    yield put
    assert oracle.check(halls[0].store) == []
    for hall in halls:
        hall.engine.close()


@pytest.fixture
def hall(put: Place) -> Hall:
    """A program on a store."""
    made = Hall()
    put(made)
    return made


@pytest.fixture(params=STORES)
def still(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Hall, Workbench]]:
    """A program on a store on which time stands still."""
    made = Hall()
    with using(made.engine, STORES[request.param](tmp_path), now=NOON) as bench:
        yield made, bench
        assert oracle.check(made.store) == []


def names(many: int = MANY) -> list[str]:
    return [str(number) for number in range(many)]


# how many run


def test_tasks_of_a_run(hall: Hall) -> None:
    run = hall.engine.run([hall.guest.of(name) for name in names()], threads=6)
    assert (run.counts.done, meter.most) == (MANY, {"hall": 2})


def test_jobs(hall: Hall) -> None:
    jobs = hall.engine.enqueue_many([hall.guest.of(name) for name in names()])
    with hall.engine.working(threads=6):
        assert [job.result(30) for job in jobs] == names()
    assert meter.most == {"hall": 2}


def test_nodes_of_a_dag(hall: Hall) -> None:
    assert hall.engine.run(hall.dag.of(), threads=6).state is RunState.DONE
    assert meter.most == {"hall": 2}


def test_steps_of_pipelines(hall: Hall) -> None:
    runs = [hall.engine.start(hall.party.of(name), name=name) for name in names(8)]
    with hall.engine.working(threads=6):
        for run in runs:
            run.wait(30)
    assert (meter.most, len(meter.entered)) == ({"hall": 2}, 24)


def test_tasks_of_a_queue(hall: Hall) -> None:
    hall.engine.queue("mail", max_running=3)
    jobs = hall.engine.enqueue_many([hall.post.of(name) for name in names()])
    with hall.engine.working(threads=6):
        assert [job.result(30) for job in jobs] == names()
    assert meter.most == {"mail": 3}


def test_lanes_each_by_itself(hall: Hall) -> None:
    run = hall.engine.run([hall.caller.of("abcde"[number % 5], str(number)) for number in range(MANY)], threads=6)
    assert (run.counts.done, meter.most) == (MANY, dict.fromkeys("abcde", 1))


def test_a_limit_in_all_and_one_per_lane_together(hall: Hall) -> None:
    calls = [hall.visitor.of("abcde"[number % 5], str(number)) for number in range(MANY)]
    run = hall.engine.run([*calls, *(hall.guest.of(name) for name in names())], threads=6)
    assert (run.counts.done, meter.most) == (2 * MANY, {"hall": 2})


def test_two_programs_keep_to_a_limit_together(hall: Hall, put: Place) -> None:
    other = Hall()
    put(other)
    jobs = hall.engine.enqueue_many([hall.guest.of(name) for name in names()])
    with hall.engine.working(threads=4), other.engine.working(threads=4):
        assert [job.result(30) for job in jobs] == names()
    assert meter.most == {"hall": 2}


def test_an_older_version_that_does_not_know_the_limit_keeps_to_it(hall: Hall, put: Place) -> None:
    older = Hall()
    older.engine = Engine("memory:")
    task = older.engine.task(hall.guest.fn)
    older.engine._runtime.since = hall.engine._runtime.since - 1
    put(older)
    jobs = hall.engine.enqueue_many([hall.guest.of(name) for name in names()])
    with hall.engine.working(threads=4), older.engine.working(threads=4):
        jobs += older.engine.enqueue_many([task.of(name) for name in names()])
        assert [job.result(30) for job in jobs] == 2 * names()
    assert meter.most == {"hall": 2}


def test_a_program_that_knows_neither_the_limit_nor_its_kinds_changes_nothing_of_it(hall: Hall, put: Place) -> None:
    stranger = Hall()
    stranger.engine = Engine("memory:")
    task = stranger.engine.task(free)
    put(stranger)
    jobs = hall.engine.enqueue_many([hall.guest.of(name) for name in names()])
    with hall.engine.working(threads=6), stranger.engine.working(threads=2):
        assert stranger.engine.enqueue(task.of("free")).result(30) == "free"
        assert [job.result(30) for job in jobs] == names()
    assert meter.most == {"hall": 2}
    assert "hall" in stored_limits(hall.store.reads)


def test_a_row_that_nobody_serves_does_not_keep_others_of_its_limit_waiting(hall: Hall, put: Place) -> None:
    stranger = Hall()
    stranger.engine = Engine("memory:")
    limit = stranger.engine.limit("hall", max_running=2)
    strange = stranger.engine.task(name="strange", limit=limit)(free)
    put(stranger)
    with stranger.engine.working():
        pass
    left = stranger.engine.enqueue_many([strange.of(name) for name in names(5)])
    jobs = hall.engine.enqueue_many([hall.guest.of(name) for name in names()])
    with hall.engine.working(threads=6):
        assert [job.result(30) for job in jobs] == names()
    assert {job.state for job in left} == {JobState.QUEUED}
    assert meter.most == {"hall": 2}


def test_a_run_that_is_worked_on_alone_passes_rows_of_runs_that_nobody_works_on(hall: Hall) -> None:
    assert hall.engine.run(hall.guest.of("first")).state is RunState.DONE
    worker = Worker(hall.store)
    left = hall.engine.start([hall.guest.of(name) for name in names(5)], name="left alone")
    set_limit(hall, "hall", Numbers(1))
    (held,) = worker.claim(1, kinds=["guest"])
    assert worker.claim(kinds=["guest"]) == ()
    run = hall.engine.start([hall.guest.of(name) for name in names(5)], name="alone")
    assert worker.claim(kinds=["guest"]) == ()
    worker.release(held)
    worker.store.leave(worker.process)
    kernel = hall.engine._runtime.kernel(Settings(runs=frozenset({run.id}), until_ended=True))
    kernel.start()
    try:
        assert kernel.join(5)
    finally:
        kernel.stop(0)
        kernel.join(5)
    assert left.state is RunState.OPEN


# changed while programs run


def set_limit(hall: Hall, name: str, numbers: Numbers | None) -> None:
    """What `ramify limits set` and `reset` do."""
    runtime = hall.engine._runtime

    def change(stored: Any) -> dict[str, StoredLimit | None]:
        return {name: with_numbers(stored[name], numbers, "ann", "", runtime.store.now())}

    change_limits(runtime.store, runtime.guest.send, runtime.reserve_ids, change)


def test_numbers_that_a_person_sets_hold_at_once_and_for_programs_that_come_later(hall: Hall, put: Place) -> None:
    with hall.engine.working(threads=8):
        set_limit(hall, "hall", Numbers(5))
        jobs = hall.engine.enqueue_many([hall.guest.of(name) for name in names()])
        assert [job.result(30) for job in jobs] == names()
    assert meter.most == {"hall": 5}
    newer = Hall(most=3)
    put(newer)
    meter.clear()
    jobs = newer.engine.enqueue_many([newer.guest.of(name) for name in names()])
    with newer.engine.working(threads=8):
        assert [job.result(30) for job in jobs] == names()
        assert meter.most == {"hall": 5}
        set_limit(newer, "hall", None)
        meter.clear()
        jobs = newer.engine.enqueue_many([newer.guest.of(name) for name in names()])
        assert [job.result(30) for job in jobs] == names()
    assert meter.most == {"hall": 3}, "what the newest program declares"


def test_who_waits_in_a_full_line_goes_on_when_the_limit_is_lifted(still: tuple[Hall, Workbench]) -> None:
    hall, bench = still
    shut("0", 60.0, "limit")
    jobs = hall.engine.enqueue_many([hall.guest.of(name) for name in names(9)])
    bench.drain()
    assert {job.state for job in jobs} == {JobState.QUEUED}
    newer = Hall()
    newer.engine = Engine("memory:")
    newer.engine.task(hall.guest.fn)
    newer.engine._runtime.use(hall.store)
    Workbench(newer.engine, bench.clock).drain()
    assert [job.state for job in jobs] == [JobState.QUEUED] + 8 * [JobState.DONE]
    newer.engine._runtime._opened.clear()


# how many start


def test_starts_keep_their_pace_and_go_on_when_their_time_has_come(still: tuple[Hall, Workbench]) -> None:
    hall, bench = still
    jobs = hall.engine.enqueue_many([hall.runner.of(name) for name in names(30)])
    began = []
    for _ in range(20):
        bench.drain()
        began.append(len(meter.entered))
        bench.advance(0.1)
    assert began[0] <= 3, "one, and what may be caught up on"
    assert all(later - sooner <= 2 for sooner, later in pairwise(began))
    assert 19 <= began[-1] <= 22
    assert sorted(job.state for job in jobs).count(JobState.DONE) == began[-1]


def test_a_burst_starts_at_once() -> None:
    hall = Hall(rate=Rate("6/m", burst=4))
    with using(hall.engine, now=NOON) as bench:
        hall.engine.enqueue_many([hall.runner.of(name) for name in names(30)])
        bench.drain()
        assert len(meter.entered) == 5
        bench.advance(10)
        bench.drain()
        assert len(meter.entered) == 6


def test_what_finish_waits_for_is_the_opening_of_a_limit(still: tuple[Hall, Workbench]) -> None:
    hall, bench = still
    before = bench.now
    run = hall.engine.run([hall.runner.of(name) for name in names(21)])
    assert run.counts.done == 21
    assert 1.7 <= (bench.now - before).total_seconds() <= 2.1


# a service that throttles


def test_a_task_closes_its_lane_for_all(still: tuple[Hall, Workbench]) -> None:
    hall, bench = still
    shut("a0", 30.0, "lane")
    jobs = hall.engine.enqueue_many([hall.caller.of(at, f"{at}{number}") for at in "ab" for number in range(5)])
    bench.drain()
    done = [job.state is JobState.DONE for job in jobs]
    assert (done[:5], done[5:]) == ([False] * 5, [True] * 5)
    found = why(hall.store, jobs[1].id)
    assert (found.cause, found.text) == (Cause.LIMIT, "limit host in lane a opens in 30 s")
    bench.advance(30)
    bench.drain()
    assert {job.state for job in jobs} == {JobState.DONE}


def test_a_task_closes_its_whole_limit_and_no_other(still: tuple[Hall, Workbench]) -> None:
    hall, bench = still
    shut("0", 30.0, "limit")
    jobs = hall.engine.enqueue_many([hall.guest.of(name) for name in names(5)])
    others = hall.engine.enqueue_many([hall.caller.of("a", name) for name in names(5)])
    bench.drain()
    assert ({job.state for job in jobs}, {job.state for job in others}) == ({JobState.QUEUED}, {JobState.DONE})
    bench.advance(29)
    bench.drain()
    assert {job.state for job in jobs} == {JobState.QUEUED}
    bench.advance(1)
    bench.drain()
    assert {job.state for job in jobs} == {JobState.DONE}


def test_a_task_closes_the_limit_of_its_queue(still: tuple[Hall, Workbench]) -> None:
    hall, bench = still
    hall.engine.queue("walk", max_running=5)
    free_job = hall.engine.enqueue(hall.free.of("first"))
    bench.drain()
    assert free_job.state is JobState.DONE
    shut("0", 30.0, "limit")
    jobs = hall.engine.enqueue_many([hall.guest.of(name).queue("walk") for name in names(3)])
    bench.drain()
    assert {job.state for job in jobs} == {JobState.QUEUED}
    assert {each.name for each in statuses_of(hall.store) if each.opens is not None} == {"hall", "queue/walk"}


@pytest.mark.parametrize("closes", ["lane", "limit"])
def test_a_task_without_such_a_limit_is_told_so(still: tuple[Hall, Workbench], closes: str) -> None:
    hall, bench = still
    shut("x", 30.0, closes)
    job = hall.engine.enqueue(hall.guest.of("x") if closes == "lane" else hall.caller.of("a", "x"))
    bench.drain(raising=False)
    assert job.state is JobState.FAILED
    assert job.error is not None
    assert f"Defer(closes='{closes}'): no limit" in (job.error.failure.text or "")


# who waits


def test_a_task_that_waits_for_a_place_is_limited_and_says_what_for(still: tuple[Hall, Workbench]) -> None:
    hall, bench = still
    hall.engine.enqueue(hall.guest.of("nobody waits yet"))
    bench.drain()
    run = hall.engine.start(hall.dag.of(), name="feast")
    worker = Worker(hall.store)
    (held,) = worker.claim(kinds=["guest"])
    assert len(held.tasks) == 2
    assert worker.claim(kinds=["guest"]) == ()
    states = Counter(run[f"g{number}"].state for number in range(20))
    assert states == {"running": 2, "limited": 18}
    found = why(hall.store, run["g9"].task)
    assert found.cause is Cause.LIMIT
    assert found.text.startswith(f"limit hall is full (2 of 2), held by process {worker.process:x} (pid ")
    assert found.advice == "`ramify limits set hall NUMBER` changes it"
    status = status_of(hall.store, run.id)
    assert (status.live.run.limited, [each.limit for each in status.limits]) == (18, ["hall"])
    assert [each.text for each in hall.engine.health().limits] == [found.text]
    (of_hall,) = (each for each in statuses_of(hall.store) if each.name == "hall")
    assert (of_hall.running, of_hall.waiting, of_hall.opens) == ({worker.process: 2}, 18, None)
    worker.release(held)
    worker.store.leave(worker.process)
    bench.drain()
    assert run.state is RunState.DONE


def test_a_new_task_of_another_lane_starts_within_two_claims_however_many_wait_in_the_first(hall: Hall) -> None:
    took = hall.took()
    late: list[int] = []

    def enqueue() -> None:
        before = len(took)
        acts["late"] = lambda: late.append(len(took) - before)
        hall.engine.enqueue(hall.caller.of("b", "late"))

    acts["100"] = enqueue
    run = hall.engine.start([hall.caller.of("a", str(number)) for number in range(3_000)], name="many")
    with hall.engine.working(threads=2):
        while not late:
            assert run.state is RunState.OPEN
        run.cancel()
    assert late[0] <= 2, took[-10:]


def test_what_waits_for_a_limit_can_be_cancelled_paused_and_forgotten(still: tuple[Hall, Workbench]) -> None:
    hall, bench = still
    shut("0", 30.0, "limit")
    first = hall.engine.start([hall.guest.of(name) for name in names(9)], name="first")
    run = hall.engine.start([hall.guest.of(name) for name in names(9)], name="guests")
    bench.drain()
    rows = Counter(row.state for row in hall.store.reads.segments().rows)
    assert rows[SegmentState.LIMITED] == 1, "of one run, behind the head of the line, which is of the other"
    run.pause()
    bench.advance(30)
    bench.drain()
    assert (first.state, len(meter.entered)) == (RunState.DONE, 10), "the paused one is passed over"
    run.resume()
    bench.drain()
    assert (run.state, len(meter.entered)) == (RunState.DONE, 19)
    shut("0", 30.0, "limit")
    other = hall.engine.start([hall.guest.of(name) for name in names(9)], name="others")
    bench.drain()
    other.cancel()
    bench.drain()
    assert other.state is RunState.CANCELLED
    other.forget()
    bench.advance(30)
    assert hall.engine.run([hall.guest.of("last")]).counts.done == 1


def test_tasks_without_limits_pass_those_that_wait(still: tuple[Hall, Workbench]) -> None:
    hall, bench = still
    shut("0", 30.0, "limit")
    hall.engine.enqueue_many([hall.guest.of(name) for name in names(500)])
    jobs = hall.engine.enqueue_many([hall.free.of(name) for name in names(500)])
    bench.drain()
    assert {job.state for job in jobs} == {JobState.DONE}


def test_a_job_that_expires_in_line_gives_up_its_key(still: tuple[Hall, Workbench]) -> None:
    hall, bench = still
    shut("0", 600.0, "limit")
    hall.engine.enqueue(hall.guest.of("0"))
    bench.drain()
    first, second = hall.engine.enqueue_many([hall.guest.of(name).unique("k" + name).expires(60) for name in "ab"])
    bench.drain()
    bench.advance(61)
    assert first.state is JobState.CANCELLED
    again = hall.engine.enqueue(hall.guest.of("a").unique("ka"))
    assert (again.id != first.id, again.state) == (True, JobState.QUEUED)
    assert second.state is JobState.CANCELLED


def test_a_limit_of_a_set_holds_wherever_it_is_included(put: Place) -> None:
    made = Hall()
    outer = Engine("memory:", include=[Tasks(include=[made.tasks])])
    made.engine = outer
    put(made)
    run = outer.run([made.caller.of("a", name) for name in names(9)], threads=4)
    assert (run.counts.done, meter.most) == (9, {"a": 1})
    assert made.caller.fn is caller
