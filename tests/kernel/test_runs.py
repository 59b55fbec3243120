"""Runs: every run moves on and ends, whatever else the process is busy with and whoever did the work before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from ramify.kernel.core.queues import Queues
from ramify.kernel.faults import arm, disarm
from ramify.kernel.signals import Moved, Signals
from ramify.model.call import Call
from ramify.model.claim import Want
from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import Follows, RunState
from tests.kernel.shop import LONG, Ear, Gate, Shop, wait_until


def chain(shop: Shop, length: int, kind: str = "link") -> Call[Any]:
    """A task whose child has a child, and so on: one round each."""

    def link(left: int) -> Iterator[Call[Any]]:
        if left:
            yield made.of(left - 1)

    made = shop.task(link, kind=kind)
    return made.of(length)


def test_a_run_that_has_ended_already_is_not_waited_for(shop: Shop) -> None:
    run = shop.run(chain(shop, 1))
    shop.finish(run)
    assert shop.state(run) is RunState.DONE


def test_a_run_whose_tasks_have_ended_but_that_nobody_moved_on_is_ended(shop: Shop) -> None:
    class Crash(BaseException):
        pass

    def crash() -> None:
        raise Crash

    arm("before-advance", crash)
    run = shop.start(chain(shop, 0))
    kernel = shop.kernel(run, dead_after=0.2)
    kernel.start()
    try:
        kernel.join(LONG)
    except Crash:
        pass
    else:
        raise AssertionError("the point was not reached")
    disarm()
    assert shop.state(run) is RunState.OPEN
    shop.finish(run, store=shop.open(), dead_after=0.2)
    assert shop.state(run) is RunState.DONE


def test_a_run_with_rounds_goes_on_while_a_task_of_another_run_takes_long(shop: Shop) -> None:
    gate = Gate()

    def slow() -> None:
        gate.enter()

    busy, call = shop.start(shop.task(slow).of()), chain(shop, 5)
    with shop.working():
        gate.wait_for(1)
        run = shop.start(call)
        wait_until(lambda: shop.state(run) is RunState.DONE)
        assert shop.state(busy) is RunState.OPEN
        gate.open()


def test_a_process_that_is_busy_with_one_run_ends_another_whose_worker_has_gone(shop: Shop) -> None:
    gate, store = Gate(), shop.open()

    def slow() -> None:
        gate.enter()

    shop.start(shop.task(slow).of())
    call = chain(shop, 0)
    with shop.working(queues=Queues.of({"default"})):
        gate.wait_for(1)
        # Somebody does all of it, and is gone before the run is moved on.
        run = shop.start(call.queue("elsewhere"))
        worker = NewProcess(new_process_id(), pid=os.getpid())
        store.enter(worker)
        (claim,) = store.claim(Stamp(worker.id, 1), Want(frozenset({"link"}), 1, frozenset({"elsewhere"}))).claims
        store.commit(Stamp(worker.id, 2), [Part(claim.token, claim.tasks)])
        store.leave(worker.id)
        wait_until(lambda: shop.state(run) is RunState.DONE)
        gate.open()


def test_a_follower_goes_on_when_its_leader_does(shop: Shop) -> None:
    leader = shop.start(chain(shop, 4))
    follower = shop.start(chain(shop, 4, "other"), follows=Follows(leader, 1))
    ear, signals = Ear(), Signals()
    signals.listen(ear)
    shop.finish(leader, follower, signals=signals)
    assert shop.count(follower, Status.DONE) == 5
    moves = [(moved.run, moved.round) for moved in ear.of(Moved)]
    assert moves.index((follower, 0)) > moves.index((leader, 1))


def test_a_run_of_a_kind_nobody_knows_waits(shop: Shop) -> None:
    call = chain(shop, 0)
    run = shop.start(call)
    del shop.handlers["link"]
    shop.task(lambda: None, kind="other")
    with shop.working():
        wait_until(lambda: shop.store.reads.processes())
    assert shop.statuses(shop.tasks(run)[0]) == []
    assert shop.state(run) is RunState.OPEN


def test_two_kernels_share_a_run_and_nothing_runs_twice(shop: Shop) -> None:
    ran: list[int] = []

    def leaf(n: int) -> None:
        ran.append(n)

    def root(n: int) -> Iterator[Call[Any]]:
        for k in range(20):
            yield made.of(20 * n + k)

    made = shop.task(leaf)
    other = shop.task(root)
    run = shop.start(*(other.of(n) for n in range(50)))
    first, second = shop.kernel(run), shop.kernel(run, store=shop.open())
    first.start()
    second.start()
    assert first.join(LONG)
    assert second.join(LONG)
    assert sorted(ran) == list(range(1_000))
    assert shop.state(run) is RunState.DONE
