"""How long an attempt took is in its event, unless it was quick."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any, cast

import pytest

from ramify.kernel.attempts.attempt import run_chunk
from ramify.kernel.attempts.attempt_env import AttemptEnv
from ramify.kernel.attempts.control import Defer
from ramify.kernel.attempts.current import current
from ramify.kernel.attempts.notes import Notes
from ramify.kernel.core.work import Chunk, Interrupted, Raised, Ran
from ramify.kernel.outgoing.outbox import Finished, part_of
from ramify.model.event import UNTIMED, Status
from ramify.model.outcome import Failure
from tests.kernel.claims import claim, handler
from tests.kernel.shop import Shop

FAILURE = Raised(Failure("ValueError"))


def busy(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


@pytest.mark.parametrize("threads", [None, 0], ids=["workers", "inline"])
def test_an_attempt_that_was_not_quick_says_how_long_it_took(shop: Shop, threads: int | None) -> None:
    def work(n: int) -> None:
        if n % 4 == 0:
            busy(0.003)
        if n == 4 and current().attempt == 1:
            raise ValueError
        if n == 8 and current().attempt == 1 and not deferred:
            deferred.append(n)
            raise Defer(0)

    deferred: list[int] = []
    made = shop.task(work)
    run = shop.run(*(made.of(n) for n in range(12)), threads=threads)
    slow = [shop.events(task) for task in shop.tasks(run, "work")[::4]]
    assert [[event.status for event in events] for events in slow] == [
        [Status.DONE],
        [Status.RETRYING, Status.DONE],
        [Status.DEFERRED, Status.DONE],
    ]
    assert all(3_000 <= (event.took or 0) < 10_000_000 for events in slow for event in events)


def test_a_coroutine_says_so_too_and_so_does_one_that_is_out_of_time(quick: Shop) -> None:
    async def wait(seconds: float) -> None:
        await asyncio.sleep(seconds)

    made = quick.task(wait, retries=0, timeout=0.05)
    run = quick.run(made.of(0.004), made.of(30.0))
    (one,), (two,) = (quick.events(task) for task in quick.tasks(run, "wait"))
    assert (one.status, two.status) == (Status.DONE, Status.FAILED)
    assert (one.took or 0) >= 4_000
    assert (two.took or 0) >= 50_000


class Ticks:
    """A clock that goes on by what it is told, each time somebody looks."""

    def __init__(self, *steps: float) -> None:
        self._times = itertools.accumulate(steps)
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return next(self._times)


def test_one_look_at_the_clock_says_whether_a_task_may_begin_and_how_long_the_one_before_took() -> None:
    chunk, nobody = Chunk(claim(5), handler(), range(5), {}), cast("Any", None)
    clock = Ticks(9.0, 0.03, 0.0004, 0.002, 0.0009, 0.0, 0.25)
    ran = run_chunk(chunk, AttemptEnv(nobody, nobody, Notes(0), {}, {}, clock=clock))
    first, second, *_, last = chunk.claim.tasks
    assert ran.times == {second: 2_000, last: 250_000}
    assert first not in ran.times
    # One more when it begins and one when it is over.
    assert clock.looks == len(chunk.positions) + 2


def test_what_did_not_come_to_an_end_has_no_time() -> None:
    chunk = Chunk(claim(), handler(), range(4), {})
    tasks = chunk.claim.tasks
    ran = Ran(chunk, [tasks[0]], None, [(tasks[1], Interrupted()), (tasks[2], FAILURE)])
    ran.took = dict.fromkeys(tasks[:3], 5_000)
    assert ran.times == {tasks[0]: 5_000, tasks[2]: 5_000}
    finished = Finished(chunk.claim)
    finished.done(ran)
    finished.add(tasks[2], Status.FAILED, None)
    assert part_of(finished, lambda many, above: 1, 0).took == ran.times
    assert Ran(chunk, others=[(tasks[0], Interrupted())], seconds=3.0).times == {}
    assert Ran(chunk, [tasks[0]], seconds=UNTIMED / 1_000_000).times == {}
    assert Ran(chunk, [tasks[0]], seconds=1.5).times == {tasks[0]: 1_500_000}


def test_what_is_left_of_a_chunk_that_takes_too_long_comes_back_as_it_was() -> None:
    chunk, nobody = Chunk(claim(5), handler(), range(5), {}), cast("Any", None)
    clock = Ticks(9.0, 0.0, 0.0004, 3.0, 0.0, 0.0, 0.0)
    ran = run_chunk(chunk, AttemptEnv(nobody, nobody, Notes(0), {}, {}, clock=clock))
    first, second, *rest = chunk.claim.tasks
    assert ran.tried == ran.done == [first, second]
    assert ran.others == [(task, Interrupted()) for task in rest]
    assert list(ran.stretches(2)) == [(1, pytest.approx(0.0004)), (1, 3.0)]


def test_tasks_that_were_all_quick_or_a_single_one_are_measured_together() -> None:
    chunk = Chunk(claim(), handler(), range(4), {})
    tasks = list(chunk.claim.tasks)
    assert list(Ran(chunk, tasks, seconds=0.002).stretches(4)) == [(4, 0.002)]
    assert list(Ran(chunk, tasks[:1], seconds=0.5).stretches(1)) == [(1, 0.5)]
