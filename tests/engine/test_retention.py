"""Old jobs go by themselves, each as late as was promised, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

import pytest

from ramify import Engine, JobState, Tasks
from ramify.engine import retention
from ramify.engine.retention import Janitor
from ramify.kernel.signals import Took
from ramify.testing import Workbench, using

here = Tasks()


@here.task(retries=0)
def check(ok: bool) -> None:
    if not ok:
        raise ValueError("no")


@here.task(keep=timedelta(days=3))
def kept_longer() -> None:
    pass


class Rounds:
    """A janitor, with a clock that goes on by a round after each step."""

    def __init__(self, bench: Workbench, keeps: Callable[[], Mapping[str, float]]) -> None:
        self._now = 0.0
        self._janitor = Janitor(bench.engine._inside.store, keeps, clock=lambda: self._now)

    def clean(self) -> None:
        for _ in range(20):
            self._now += retention.ROUND
            self._janitor(Took(0))


def test_each_job_stays_as_long_as_its_kind_and_its_end_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "STEP", 2)
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
        day, rounds = 0.0, Rounds(bench, engine._inside.keeps)
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
        Rounds(bench, engine._inside.keeps).clean()
        assert engine.job_states([job.id]) == {job.id: JobState.NOT_FOUND}


def test_a_busy_program_does_not_clean_up_and_an_idle_one_rests_in_between() -> None:
    engine = Engine("memory:", include=[here])
    with using(engine) as bench:
        job = engine.enqueue(check.of(True))
        bench.drain()
        bench.advance(2 * 86_400)
        now = [0.0]
        janitor = Janitor(engine._inside.store, engine._inside.keeps, clock=lambda: now[0])
        janitor(Took(0))
        now[0] = 5.0
        janitor(Took(7))
        assert [each.id for each in engine.jobs()] == [job.id]
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


def test_workers_clean_up_when_they_find_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BETWEEN", -1.0)
    engine = Engine("memory:", include=[here])
    with using(engine) as bench:
        job = engine.enqueue(check.of(True))
        bench.drain()
        bench.advance(2 * 86_400)
        bench.drain()
        assert job.state is JobState.NOT_FOUND
