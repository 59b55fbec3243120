"""Late means late: a process that was not heard of for half of `dead_after` starts no task, whatever it holds."""

from __future__ import annotations

import itertools
import time
from typing import Any, cast

import pytest

from ramify.engine.library import StoreLibrary
from ramify.kernel.attempts.attempt import run_chunk
from ramify.kernel.attempts.attempt_env import AttemptEnv
from ramify.kernel.attempts.notes import Notes
from ramify.kernel.core.start_fence import StartFence
from ramify.kernel.core.work import Chunk, Interrupted
from ramify.kernel.kernel import Kernel
from ramify.kernel.machine import Machine
from ramify.kernel.settings import Settings
from ramify.store.contract import Beat
from tests.kernel.claims import claim, core, handler
from tests.kernel.shop import Shop, wait_until

TASKS = 400
FROZEN_AT = 250
HALF = 30.0


@pytest.mark.parametrize(
    ("colour", "settings"),
    [
        ("plain", {"threads": 1}),
        ("plain", {"threads": 0}),
        ("async", {"coroutines": 64}),
        ("async", {"threads": 0, "coroutines": 64}),
    ],
    ids=str,
)
def test_a_process_that_was_frozen_starts_nothing_of_what_it_had_leased(
    quick: Shop, colour: str, settings: dict[str, Any]
) -> None:
    frozen, seen = 0.0, list[int]()

    def plain(n: int) -> None:
        nonlocal frozen
        seen.append(n)
        if n == FROZEN_AT:
            # All of its threads stand still, and then go on as if nothing had happened.
            frozen = HALF

    async def coroutine(n: int) -> None:
        plain(n)

    task = quick.task(plain if colour == "plain" else coroutine, kind="work")
    run = quick.start(*(task.of(n) for n in range(TASKS)))
    # Nobody beats again: what a beat would change is not the question here.
    slow = Settings(runs=frozenset({run}), dead_after=2 * HALF, beat_every=1e6, flush_after=0.01, **settings)
    library = StoreLibrary(quick.store, quick.handlers)
    kernel = Kernel(
        quick.store, quick.handlers, library, slow, machine=Machine(clock=lambda: time.monotonic() + frozen)
    )
    quick.kernels.append(kernel)
    kernel.start()
    wait_until(lambda: FROZEN_AT in seen and not kernel.core.leases.running)
    # What was unsent is committed: then all that is left can be handed out again.
    held = kernel.core.holdings
    wait_until(lambda: sum(h.left for h in list(held.values())) == sum(h.available for h in list(held.values())))
    assert seen == list(range(FROZEN_AT + 1))
    assert all(holding.adds_up() for holding in held.values())


def test_a_worker_looks_before_each_task_of_its_chunk() -> None:
    times, nobody = itertools.count(), cast("Any", None)
    attempt_env = AttemptEnv(
        nobody, nobody, Notes(0), {}, {}, clock=lambda: next(times) * 1e-6, start_fence=StartFence(2.5e-6)
    )
    chunk = Chunk(claim(4), handler(), range(4), {})
    ran = run_chunk(chunk, attempt_env)
    assert ran.done == chunk.tasks[:2]
    assert ran.others == [(task, Interrupted()) for task in chunk.tasks[2:]]


def test_a_beat_counts_from_when_it_was_sent() -> None:
    made = core(dead_after=10.0)
    assert made.start_fence.until == 5.0
    made.heard(Beat(), 3.0)
    assert made.start_fence.until == 8.0
    made.heard(Beat(reaped=True), 4.0)
    assert made.start_fence.until < 0
