"""The time by which a kernel waits is an argument: a test that owns it waits for nothing."""

from __future__ import annotations

from ramify.engine.library import StoreLibrary
from ramify.kernel.attempts.current import current
from ramify.kernel.kernel import Kernel
from ramify.kernel.machine import Machine
from ramify.kernel.settings import Settings
from ramify.model.policy import Backoff
from ramify.testing.clock import SECOND, FakeClock
from tests.kernel.shop import Gate, Shop, wait_until


def test_a_retry_that_waits_in_memory_is_ripe_when_the_kernels_clock_says_so(quick: Shop) -> None:
    came = Gate()
    came.open()

    def flaky() -> int:
        came.enter()
        if current().attempt == 1:
            raise ConnectionError
        return current().attempt

    run = quick.start(quick.task(flaky, backoff=Backoff(first=1e6, cap=1e6, jitter=False)).of())
    clock = FakeClock()
    settings = Settings(runs=frozenset({run}), until_ended=True, memory_wait=1e6, beat_every=0.03, flush_after=0.01)
    kernel = Kernel(
        quick.store, quick.handlers, StoreLibrary(quick.store, quick.handlers), settings,
        machine=Machine(clock=lambda: clock.monotonic() / SECOND),
    )  # fmt: skip
    quick.kernels.append(kernel)
    kernel.start()
    came.wait_for(1)
    assert not kernel.join(0.1)

    def is_over() -> bool:
        clock.advance(1e6)
        return kernel.join(0.05)

    wait_until(is_over)
    assert quick.results(run) == [2]
