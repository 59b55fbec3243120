"""Values that tasks and programs share: changed with the end of a task or at once, exactly once, on every store."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import cast

import pytest

from ramify import Fatal, JobState, RunState, Values, current
from ramify.kernel.settings import Settings
from ramify.kernel.tuning import PIECE
from ramify.model.event import Status
from ramify.model.value import MOST_TRIES
from ramify.shapes import start
from ramify.store.contract import Store
from ramify.store.open import open_store
from ramify.testing import oracle
from ramify.testing.using import Workbench
from tests.behaviour.conftest import STORES
from tests.behaviour.office import acts, engine, letter, memo, post, sell, trace
from tests.shapes.losing import Losing, Way


@pytest.fixture(autouse=True)
def nothing_contradicts_itself(bench: Workbench) -> Iterator[None]:
    """Whatever a test did, the log is whole."""
    yield
    acts.clear()
    assert oracle.check(engine._runtime.store) == []


@pytest.fixture
def stamps(bench: Workbench) -> Values[int]:
    """How many stamps each of the office has."""
    return engine.values("stamps", int)


def take(who: str, many: int = 1) -> int:
    """Take stamps, in a task."""
    return current().values("stamps", int).update(who, lambda left: left - many)


def test_what_tasks_and_programs_change_is_the_same_to_both(bench: Workbench, stamps: Values[int]) -> None:
    stamps.set("ann", 5)
    acts["ann"] = lambda: take("ann", 2)
    engine.enqueue(letter.of("ann"))
    assert stamps.get("ann") == 5
    bench.drain()
    assert stamps.get("ann") == 3
    assert stamps.update("ann", lambda left: left * 10) == 30
    acts["bob"] = lambda: current().values("stamps", int).delete("ann")
    engine.enqueue(letter.of("bob"))
    bench.drain()
    assert list(stamps.items()) == []


def test_a_task_that_fails_has_changed_nothing_and_its_next_attempt_begins_anew(
    bench: Workbench, stamps: Values[int]
) -> None:
    stamps.set("ann", 5)

    def fail() -> None:
        take("ann")
        raise ConnectionError("no ink")

    acts["ann"] = fail
    job = engine.enqueue(letter.of("ann"))
    bench.drain(raising=False)
    assert stamps.get("ann") == 5
    acts["ann"] = lambda: take("ann")
    bench.advance(300)
    bench.drain()
    assert (job.state, stamps.get("ann")) == (JobState.DONE, 4)


def test_every_job_of_a_queue_that_changes_one_value_counts_once(bench: Workbench, stamps: Values[int]) -> None:
    stamps.set("all", 300)
    jobs = engine.enqueue_many([sell.of("all") for _ in range(300)])
    bench.drain()
    assert {job.state for job in jobs} == {JobState.DONE}
    assert stamps.get("all") == 0
    assert sorted(job.result() for job in jobs) == list(range(300)), "each saw what another one had left"
    assert len(trace) < 5 * 300


def test_a_task_whose_value_was_changed_meanwhile_leaves_nothing_of_its_first_try(
    bench: Workbench, stamps: Values[int]
) -> None:
    stamps.set("ann", 5)

    def act() -> None:
        number = len(trace)
        current().enqueue(post.of(f"try {number}"))
        current().context.set(f"try {number}", True)
        current().spawn(memo.of(f"note {number}-{at}") for at in range(PIECE + 1 if number == 1 else 1))
        take("ann")
        if number == 1:
            stamps.set("ann", 50)
            acts["ann"] = act

    acts["ann"] = act
    run = engine.start(letter.of("ann"), name="writing")
    bench.drain()
    assert stamps.get("ann") == 49
    assert (run.state, run.counts.done, run.counts.retries, list(run.context)) == (RunState.DONE, 2, 0, ["try 2"])
    assert [job.result() for job in engine.jobs()] == ["sent try 2"]
    assert trace[:2] == ["ann", "ann"]
    (root,) = run.roots
    assert root.task is not None
    assert [event.status for event in engine._runtime.store.reads.events(root.task, root.task)] == [Status.DONE]


def test_a_task_that_always_loses_fails_and_says_which_value_it_was(bench: Workbench, stamps: Values[int]) -> None:
    stamps.set("ann", 5)

    def act() -> None:
        take("ann")
        stamps.set("ann", 500)
        acts["ann"] = act

    acts["ann"] = act
    job = engine.enqueue(letter.of("ann").retries(0))
    bench.drain(raising=False)
    assert (job.state, len(trace)) == (JobState.FAILED, MOST_TRIES + 1)
    assert job.error is not None
    assert job.error.failure.type == "ramify.errors.ValueContended"
    assert "'ann' of 'stamps'" in job.error.failure.text


def test_a_decision_that_a_task_takes_by_a_value_is_about_what_is_there_when_it_ends(
    bench: Workbench, stamps: Values[int]
) -> None:
    stamps.set("ann", 1)

    def act() -> None:
        if not current().values("stamps", int).get("ann"):
            raise Fatal("no stamps left")
        take("ann")

    acts["ann"] = acts["bob"] = act
    jobs = engine.enqueue_many([letter.of("ann"), letter.of("bob")])
    bench.drain(raising=False)
    assert sorted(job.state for job in jobs) == [JobState.DONE, JobState.FAILED]
    assert stamps.get("ann") == 0


def test_a_value_expires_and_vacuum_removes_it(bench: Workbench, stamps: Values[int]) -> None:
    acts["ann"] = lambda: current().values("stamps", int).set("ann", 5, ttl=60)
    engine.enqueue(letter.of("ann"))
    bench.drain()
    bench.advance(59)
    assert stamps.get("ann") == 5
    bench.advance(2)
    assert (stamps.get("ann"), stamps.update("ann", lambda left: left + 1, default=0)) == (None, 1)
    stamps.set("bob", 1, ttl=1)
    bench.advance(2)
    assert engine._runtime.store.vacuum().values == 1
    assert list(stamps.items()) == [("ann", 1)]


@pytest.mark.parametrize("way", ["never sent", "not answered"])
def test_each_change_is_made_once_though_each_verb_gets_lost(
    way: Way, bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "_PAUSES", (0.0,) * 12)
    (tmp_path / "losing").mkdir()
    inner = open_store(STORES[engine._runtime.store.describe().name](tmp_path / "losing"), durability="process")
    losing = Losing(inner, {verb: cycle((way, "answered")) for verb in ("reserve", "enter", "leave", "swap", "commit")})
    engine._runtime.use(cast(Store, losing))
    stamps = engine.values("stamps", int)
    assert [stamps.update("all", lambda left: left + 1, default=0) for _ in range(3)] == [1, 2, 3]
    engine.enqueue_many([sell.of("all") for _ in range(10)])
    engine._runtime.kernel(Settings(threads=0, until_idle=True)).run()
    assert stamps.get("all") == -7
    assert oracle.check(inner) == []
    assert {"swap", "commit"} <= set(losing.lost)


def test_who_changes_values_at_random_from_both_sides_loses_none(
    bench: Workbench, stamps: Values[int], seed: random.Random
) -> None:
    added = 0
    stamps.set("all", 0)
    for _ in range(60):
        if seed.random() < 0.5:
            stamps.update("all", lambda left: left + 1)
            added += 1
        else:
            engine.enqueue(sell.of("all"))
            added -= 1
        if seed.random() < 0.3:
            bench.drain()
    bench.drain()
    assert stamps.get("all") == added
