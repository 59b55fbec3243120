"""Quick tasks run in the loop's own thread; one that is not quick after all holds up nothing but its own chunk."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ramify.errors import StoreBroken
from ramify.kernel.attempts.stand_in import StandIn
from ramify.kernel.machine import Machine
from ramify.model.call import Call
from ramify.model.event import Status
from ramify.model.run import Order, RunState
from tests.kernel.shop import LONG, Gate, Shop, wait_until

QUICK = 5_000


def with_one_that_is_not_quick(shop: Shop) -> tuple[int, Gate]:
    """A run of quick tasks, one of which waits at a gate."""
    gate = Gate()

    def leaf(n: int) -> None:
        if n == QUICK // 2:
            gate.enter()

    def root() -> Iterator[Call[Any]]:
        for n in range(QUICK):
            yield made.of(n)

    made = shop.task(leaf)
    return shop.start(shop.task(root).of(), order=Order.ANY), gate


def test_quick_tasks_run_in_the_thread_of_the_loop(quick: Shop) -> None:
    seen: set[str] = set()

    def leaf(n: int) -> None:
        seen.add(threading.current_thread().name)

    def root() -> Iterator[Call[Any]]:
        for n in range(QUICK):
            yield made.of(n)

    made = quick.task(leaf)
    quick.run(quick.task(root).of(), threads=1)
    assert "ramify-loop" in seen


def test_a_task_that_is_not_quick_after_all_does_not_hold_up_commits_nor_the_others(shop: Shop) -> None:
    run, gate = with_one_that_is_not_quick(shop)
    with shop.working(run, threads=1):
        wait_until(lambda: gate.inside == 1)
        # What was finished before it is committed meanwhile, although the thread that commits is caught.
        wait_until(lambda: shop.count(run, Status.DONE) > 1)
        gate.open()
        wait_until(lambda: shop.state(run).is_end)
    assert shop.state(run) is RunState.DONE
    assert shop.count(run, Status.DONE) == QUICK + 1


def test_a_stop_saves_everything_while_the_thread_of_the_loop_is_caught(shop: Shop) -> None:
    run, gate = with_one_that_is_not_quick(shop)
    kernel = shop.kernel(run, threads=1, grace=0.05)
    kernel.start()
    wait_until(lambda: gate.inside == 1)
    kernel.stop()
    # The session has ended, and whatever it held is offered to others, before the caught task comes back.
    wait_until(lambda: not any(not process.reaped for process in shop.store.reads.processes()), LONG / 2)
    gate.open()
    assert kernel.join(30)
    shop.finish(run)
    assert shop.count(run, Status.DONE) == QUICK + 1


def test_what_breaks_the_stand_in_is_raised_in_the_thread_of_the_loop() -> None:
    def turn() -> bool:
        raise StoreBroken("it contradicts itself")

    told: list[bool] = []
    stand_in = StandIn(told.append)
    stand_in.go(turn)
    wait_until(lambda: told == [True, False])
    with pytest.raises(StoreBroken, match="contradicts"):
        stand_in.come_back()
    stand_in.close()


def test_the_loop_goes_on_when_the_stand_in_has_finished_its_round_and_not_before() -> None:
    begun, waits, finish = threading.Event(), threading.Event(), threading.Event()
    order: list[str] = []

    class Watched(threading.Condition):
        def wait_for(self, *args: Any, **kwargs: Any) -> Any:
            waits.set()
            return super().wait_for(*args, **kwargs)

    def turn() -> bool:
        begun.set()
        finish.wait(20)
        order.append("stand-in")
        return True

    def finish_when_awaited() -> None:
        waits.wait(20)
        finish.set()

    stand_in = StandIn(lambda caught: None, machine=Machine(condition=Watched))
    stand_in.go(turn)
    assert begun.wait(20)
    # Only who waits for it lets it finish.
    helper = threading.Thread(target=finish_when_awaited)
    helper.start()
    stand_in.come_back()
    order.append("loop")
    seen = list(order)
    waits.set()
    helper.join()
    stand_in.close()
    assert seen == ["stand-in", "loop"]


def test_only_one_of_the_two_carries_out_steps_at_a_time() -> None:
    inside = threading.Lock()
    turns = 0

    def turn() -> bool:
        nonlocal turns
        assert inside.acquire(blocking=False), "two threads carry out steps"
        turns += 1
        inside.release()
        return True

    stand_in = StandIn(lambda caught: None)
    for _ in range(20):
        stand_in.go(turn)
        before = turns
        wait_until(lambda before=before: turns > before)  # type: ignore[misc]
        stand_in.come_back()
        turn()
    stand_in.close()
