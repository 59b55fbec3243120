"""Old jobs go by themselves, each as late as was promised, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ramify import Engine, JobState, Tasks
from ramify.engine.jobs import retention
from ramify.engine.jobs.retention import Janitor
from ramify.kernel.signals import Took
from ramify.testing import Workbench, using
from ramify.testing.conformance.house import Worker

here = Tasks()


@here.task(retries=0)
def check(ok: bool) -> None:
    if not ok:
        raise ValueError("no")


@here.task(keep=timedelta(hours=1))
def kept_shortly(number: int) -> int:
    return number


@here.task
def weighs(text: str) -> str:
    return text


@here.task(keep=timedelta(days=3))
def kept_longer() -> None:
    pass


class Rounds:
    """A janitor whose steps take no time, so that each time it hears a claim it makes a whole round."""

    def __init__(self, bench: Workbench, keeps: Callable[[], Mapping[str, float]]) -> None:
        self._now = 0.0
        self._janitor = Janitor(bench.engine._runtime.store, keeps, lambda: self._now, lambda: 0.0)

    def clean(self) -> None:
        self._now += retention.ROUND
        self._janitor(Took(7))


def test_each_job_stays_as_long_as_its_kind_and_its_end_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "SMALLEST", 2)
    monkeypatch.setattr(retention, "LARGEST", 2)
    engine = Engine("memory:", include=[here])
    with using(engine) as bench:
        done, failed, longer = engine.enqueue_many([check.of(True), check.of(False), kept_longer.of()])
        cancelled = engine.enqueue(check.of(True))
        cancelled.cancel()
        run = engine.run(check.of(True), name="a run")
        bench.drain(raising=False)
        waits = engine.enqueue(check.of(True).delay(90 * 86_400))
        gone: dict[float, list[str]] = {}
        named = {"done": done, "failed": failed, "longer": longer, "cancelled": cancelled, "waits": waits}
        day, rounds = 0.0, Rounds(bench, engine._runtime.keeps)
        for next_day in (0.9, 1.1, 2.9, 3.1, 13.9, 14.1):
            bench.advance((next_day - day) * 86_400)
            day = next_day
            before = {name for name, job in named.items() if job.state is not JobState.NOT_FOUND}
            rounds.clean()
            now = {name for name, job in named.items() if job.state is not JobState.NOT_FOUND}
            gone[day] = sorted(before - now)
        assert gone == {0.9: [], 1.1: ["cancelled", "done"], 2.9: [], 3.1: ["longer"], 13.9: [], 14.1: ["failed"]}
        assert run.counts.done == 1


def test_jobs_of_a_kind_that_is_not_known_here_stay() -> None:
    engine = Engine("memory:", include=[here])
    with using(engine) as bench:
        job = engine.enqueue(kept_longer.of())
        bench.drain()
        bench.advance(100 * 86_400)
        Rounds(bench, lambda: {"check": 60.0}).clean()
        assert engine.job_states([job.id]) == {job.id: JobState.DONE}
        Rounds(bench, engine._runtime.keeps).clean()
        assert engine.job_states([job.id]) == {job.id: JobState.NOT_FOUND}


def test_a_janitor_rests_for_an_hour_when_it_has_looked_at_everything() -> None:
    engine = Engine("memory:", include=[here])
    with using(engine) as bench:
        now = [0.0]
        janitor = Janitor(engine._runtime.store, engine._runtime.keeps, lambda: now[0], lambda: 0.0)
        janitor(Took(0))
        job = engine.enqueue(check.of(True))
        bench.drain()
        bench.advance(2 * 86_400)
        janitor(Took(0))
        assert [each.id for each in engine.jobs()] == [job.id], "it has just begun"
        now[0] = retention.FIRST
        janitor(Took(0))
        assert list(engine.jobs()) == []
        second = engine.enqueue(check.of(True))
        bench.drain()
        bench.advance(2 * 86_400)
        now[0] += retention.ROUND - 1
        janitor(Took(0))
        assert [each.id for each in engine.jobs()] == [second.id]
        now[0] += 1
        janitor(Took(0))
        assert list(engine.jobs()) == []


class Toil:
    """A janitor in made-up time, with more to do than can be done: each of its steps takes 10 ms."""

    def __init__(self, bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now, self._steps = 0.0, 0
        store = bench.engine._runtime.store
        forget = store.forget

        def slowly(*args: Any, **rest: Any) -> Any:
            self._now, self._steps = self._now + 0.01, self._steps + 1
            return forget(*args, **rest)

        monkeypatch.setattr(store, "forget", slowly)
        self._janitor = Janitor(store, bench.engine._runtime.keeps, lambda: self._now, lambda: self._now)

    def share(self) -> float:
        """The share of the time that goes into steps, where a busy kernel claims all the time."""
        while self._now < 100:
            self._janitor(Took(9))
            self._now += 0.005
        return self._steps * 0.01 / self._now


def test_steps_take_a_small_share_of_the_time_of_all_workers_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "SMALLEST", 1)
    monkeypatch.setattr(retention, "LARGEST", 1)
    engine = Engine("memory:", include=[here])
    with using(engine) as bench:
        engine.enqueue_many([check.of(True) for _ in range(2_000)])
        bench.drain()
        bench.advance(2 * 86_400)
        with monkeypatch.context() as patch:
            alone = Toil(bench, patch).share()
        assert 0.03 < alone <= 0.042
        for _ in range(4):
            Worker(engine._runtime.store)
        assert Toil(bench, monkeypatch).share() < alone / 2


class Sizes:
    """A janitor in made-up time whose steps take what is said, and how many jobs each looks at."""

    def __init__(self, bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now, self._busy = 100.0, 0.0
        self._takes, self._sizes = list[tuple[float, float]](), list[int]()
        store = bench.engine._runtime.store
        forget = store.forget

        def step(*args: Any, **rest: Any) -> Any:
            self._sizes.append(rest["limit"])
            took, computed = self._takes.pop(0) if self._takes else (0.0, 0.0)
            self._now, self._busy = self._now + took, self._busy + computed
            return forget(*args, **rest)

        monkeypatch.setattr(store, "forget", step)
        self._janitor = Janitor(store, bench.engine._runtime.keeps, lambda: self._now, lambda: self._busy)

    def after(self, *takes: tuple[float, float]) -> list[int]:
        """The size of each step, and of the next, if they take so many seconds by the clock and of the processor."""
        self._takes[:] = takes
        while len(self._sizes) <= len(takes):
            self._now += 1_000
            self._janitor(Took(7))
        return self._sizes[: len(takes) + 1]


def test_a_step_is_as_large_as_it_may_compute_however_long_it_waits_for_the_interpreter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retention, "SMALLEST", 8)
    monkeypatch.setattr(retention, "LARGEST", 64)
    engine = Engine("memory:", include=[here])
    with using(engine) as bench:
        engine.enqueue_many([check.of(True) for _ in range(900)])
        bench.drain()
        bench.advance(2 * 86_400)
        # Waits of a busy worker, much to compute, twice; little, as it should be, and a slow disk, twice.
        busy, much, disk = (0.4, 0.01), (0.1, 0.08), (1.1, 0.01)
        takes = (busy, much, much, (0.2, 0.01), (0.2, 0.02), disk, (0.002, 0.001), disk)
        assert Sizes(bench, monkeypatch).after(*takes) == [32, 64, 16, 8, 16, 16, 8, 32, 16]


def test_schedules_at_rest_are_looked_at_in_passing(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine("memory:", include=[here])
    for number in range(200):
        engine.schedule(check.of(True), name=f"schedule-{number}", every=timedelta(days=90))
    with using(engine) as bench:
        bench.drain()
        assert Toil(bench, monkeypatch).share() < 0.003


def test_space_of_forgotten_jobs_goes_back_to_the_disk(tmp_path: Path) -> None:
    file = tmp_path / "jobs.db"
    engine = Engine("memory:", include=[here])
    with using(engine, file) as bench:
        engine.enqueue_many([weighs.of("x" * 10_000) for _ in range(500)])
        bench.drain()
        bench.advance(2 * 86_400)
        Rounds(bench, engine._runtime.keeps).clean()
        assert list(engine.jobs()) == []
    engine.close()
    assert file.stat().st_size < 1_000_000


@pytest.mark.full
def test_a_week_of_jobs_that_are_kept_for_an_hour_stays_small(tmp_path: Path) -> None:
    """100,000 jobs a day. They stay for a day all the same, so that none is added twice."""
    file, largest = tmp_path / "jobs.db", 0
    engine = Engine("memory:", include=[here])
    with using(engine, file) as bench:
        rounds = Rounds(bench, engine._runtime.keeps)
        for _ in range(7 * 24):
            engine.enqueue_many([kept_shortly.of(number) for number in range(4_167)])
            bench.drain()
            bench.advance(3_600)
            rounds.clean()
            largest = max(largest, sum(each.stat().st_size for each in tmp_path.glob("jobs.db*") if each.is_file()))
        assert sum(1 for _ in engine.jobs()) < 110_000
    engine.close()
    assert largest < 100_000_000


def test_workers_clean_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "FIRST", -1.0)
    engine = Engine("memory:", include=[here])
    with using(engine) as bench:
        job = engine.enqueue(check.of(True))
        bench.drain()
        bench.advance(2 * 86_400)
        bench.drain()
        assert job.state is JobState.NOT_FOUND
