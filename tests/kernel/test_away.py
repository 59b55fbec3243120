"""Stores that are away, broken or have buried us: nothing is lost, nothing is done twice, and somebody is told."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ramify.errors import StoreBroken, StoreUnavailable
from ramify.kernel.attempts.current import current
from ramify.kernel.attempts.stream import Stream
from ramify.kernel.faults import arm, disarm
from ramify.kernel.outgoing.sender import Sender
from ramify.kernel.settings import Settings
from ramify.kernel.signals import Buried, Entered, Saved, Signals, Stopping, StoreAway, StoreBack
from ramify.kernel.tuning import PIECE
from ramify.model.call import Call
from ramify.model.event import Status
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import RunState
from ramify.store.contract import Store
from tests.kernel.shop import LONG, Away, Ear, Gate, Shop, wait_until


@pytest.mark.parametrize("lose_answers", [False, True], ids=["nothing happens", "answers are lost"])
def test_a_store_that_goes_away_and_comes_back_loses_nothing(shop: Shop, lose_answers: bool) -> None:
    ran: list[int] = []

    def root(n: int) -> Iterator[Call[Any]]:
        ran.append(n)
        if n in outages:
            away.go()
        for k in range(3 if n < 40 else 0):
            yield made.of(3 * n + k + 1)

    ear, signals = Ear(), Signals()
    signals.listen(ear)
    made = shop.task(root)
    run = shop.start(made.of(0))
    # One in each of three rounds: a round cannot be over before the store is back.
    outages = (0, 8, 60)
    away = Away(shop.open())
    away.lose_answers = lose_answers
    kernel = shop.kernel(run, store=away, signals=signals)
    kernel.start()
    for number in range(1, len(outages) + 1):
        ear.wait_for(StoreAway, number)
        away.wait_for_tries(away.tries + 3)
        away.come_back()
        ear.wait_for(StoreBack, number)
    assert kernel.join(LONG)
    assert sorted(ran) == list(range(121))
    assert shop.count(run, Status.DONE) == 121
    assert shop.state(run) is RunState.DONE
    assert sum(saved.outcomes for saved in ear.of(Saved)) == 121
    assert "away" in ear.of(StoreAway)[0].why


def test_a_store_that_is_away_at_the_start_is_waited_for(quick: Shop) -> None:
    def work() -> int:
        return 1

    ear, signals = Ear(), Signals()
    signals.listen(ear)
    run = quick.start(quick.task(work).of())
    away = Away(quick.open())
    away.go()
    kernel = quick.kernel(run, store=away, signals=signals)
    kernel.start()
    ear.wait_for(StoreAway)
    away.come_back()
    assert kernel.join(LONG)
    assert quick.results(run) == [1]


def test_a_store_that_several_threads_miss_is_told_once_and_once_when_all_have_it_back(quick: Shop) -> None:
    ear, signals, give_up = Ear(), Signals(), threading.Event()
    signals.listen(ear)
    sender = Sender(quick.store, Settings(), signals, give_up)
    tried, back = threading.Semaphore(0), threading.Event()

    def verb() -> int:
        tried.release()
        if not back.is_set():
            raise StoreUnavailable("the disk is full")
        return 1

    threads = [threading.Thread(target=sender.until_answered, args=(verb,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(6):
        assert tried.acquire(timeout=LONG)
    back.set()
    for thread in threads:
        thread.join(LONG)
    assert ear.of(StoreAway) == [StoreAway("the disk is full")]
    assert len(ear.of(StoreBack)) == 1


def test_a_store_that_goes_away_while_a_task_streams_children_gets_all_of_them(shop: Shop) -> None:
    gate = Gate()

    def root() -> Iterator[Call[Any]]:
        for n in range(3 * PIECE):
            if n == PIECE:
                gate.enter()
            yield made.of(n)

    def leaf(n: int) -> None: ...

    ear, signals = Ear(), Signals()
    signals.listen(ear)
    made = shop.task(leaf)
    run = shop.start(shop.task(root).of())
    away = Away(shop.open())
    kernel = shop.kernel(run, store=away, signals=signals)
    kernel.start()
    gate.wait_for(1)
    away.lose_answers = True
    away.go()
    gate.open()
    away.wait_for_tries(4)
    away.come_back()
    assert kernel.join(LONG)
    assert shop.store.reads.counts(run)["leaf"][Status.DONE] == 3 * PIECE


def test_a_process_not_heard_of_for_long_starts_nothing_by_itself(quick: Shop) -> None:
    gate = Gate()

    def work(n: int) -> int:
        gate.enter()
        return n

    task = quick.task(work)
    run = quick.start(*(task.of(n) for n in range(6)))
    away = Away(quick.open())
    kernel = quick.kernel(run, store=away, threads=1, dead_after=0.6)
    kernel.start()
    gate.wait_for(1)
    away.go()
    threading.Event().wait(0.4)
    gate.open()
    threading.Event().wait(0.1)
    assert gate.came == 1
    away.come_back()
    assert kernel.join(LONG)
    assert quick.results(run) == list(range(6))


class Broken:
    """A store that breaks when told to."""

    def __init__(self, store: Store, verbs: frozenset[str]) -> None:
        self._store = store
        self._verbs = verbs
        self.is_broken = False

    def __getattr__(self, name: str) -> Any:
        if self.is_broken and name in self._verbs:
            return self._break
        return getattr(self._store, name)

    def _break(self, *args: Any, **kwargs: Any) -> Any:
        raise StoreBroken("a page is damaged")


@pytest.mark.parametrize("verbs", [{"commit"}, {"claim"}, {"beat"}, {"commit", "claim", "beat", "advance", "leave"}])
@pytest.mark.parametrize("how", ["run", "join"])
def test_a_broken_store_stops_the_kernel_and_is_raised(quick: Shop, verbs: set[str], how: str) -> None:
    def work(n: int) -> Iterator[Call[Any]]:
        store.is_broken = n >= 3
        yield made.of(n + 1)

    made = quick.task(work)
    run = quick.start(made.of(0))
    store = Broken(quick.open(), frozenset(verbs))
    kernel = quick.kernel(run, store=store)
    if how == "run":
        with pytest.raises(StoreBroken, match="damaged"):
            kernel.run()
    else:
        kernel.start()
        with pytest.raises(StoreBroken, match="damaged"):
            kernel.join(LONG)


def test_a_process_that_was_buried_enters_again_and_its_late_commit_is_refused(shop: Shop) -> None:
    gate, tries = Gate(), []

    def work(n: int) -> int:
        tries.append(n)
        if n == 0 and tries.count(0) == 1:
            gate.enter()
            return -1
        return n

    ear, signals = Ear(), Signals()
    signals.listen(ear)
    task = shop.task(work)
    run = shop.start(*(task.of(n) for n in range(5)))
    kernel = shop.kernel(run, signals=signals, threads=1)
    kernel.start()
    gate.wait_for(1)
    first = kernel.sender.process
    bury(shop.store, first)
    entered = ear.wait_for(Entered, 2)
    assert entered.again
    assert entered.process != first
    wait_until(lambda: tries.count(0) == 1 or shop.count(run, Status.DONE))
    gate.open()
    assert kernel.join(LONG)
    assert shop.results(run) == [0, 1, 2, 3, 4]
    assert tries.count(0) == 2
    rows = {row.id: row for row in shop.store.reads.processes()}
    assert rows[first].reaped


def bury(store: Store, process: int) -> None:
    """Void what a process holds, as a reaper would, but without waiting for it to look dead."""
    store.leave(process)


def test_what_a_buried_process_commits_late_is_refused(shop: Shop) -> None:
    tries = []

    def work() -> int:
        tries.append(1)
        return len(tries)

    def too_late() -> None:
        disarm()
        bury(other, kernel.sender.process)

    ear, signals = Ear(), Signals()
    signals.listen(ear)
    run, other = shop.start(shop.task(work).of()), shop.open()
    kernel = shop.kernel(run, signals=signals)
    arm("before-commit", too_late)
    kernel.start()
    assert kernel.join(LONG)
    assert shop.results(run) == [2]
    assert shop.count(run, Status.DONE) == 1
    assert [refusal.tasks for refusal in shop.store.reads.refusals()] == [1]
    assert [entered.again for entered in ear.of(Entered)] == [False, True]


def test_a_process_that_was_buried_while_it_streams_children_writes_none_of_them(shop: Shop) -> None:
    gate = Gate()

    def root() -> Iterator[Call[Any]]:
        for n in range(2 * PIECE if gate.came == 0 else 2):
            if n == PIECE + 5:
                gate.enter()
            yield made.of(n)

    def leaf(n: int) -> None: ...

    made = shop.task(leaf)
    run = shop.start(shop.task(root).of())
    kernel = shop.kernel(run)
    kernel.start()
    gate.wait_for(1)
    bury(shop.open(), kernel.sender.process)
    gate.open()
    assert kernel.join(LONG)
    assert shop.store.reads.counts(run)["leaf"][Status.DONE] == 2
    assert shop.store.vacuum().tasks == PIECE


def test_a_kernel_buries_the_dead_and_does_their_work(shop: Shop) -> None:
    from ramify.model.claim import Want

    def work(n: int) -> list[int]:
        return [n, current().attempt]

    task = shop.task(work)
    run = shop.start(*(task.of(n) for n in range(5)))
    dead = NewProcess(new_process_id(), pid=os.getpid())
    other = shop.open()
    other.enter(dead)
    assert other.claim(Stamp(dead.id, 1), Want(frozenset({"work"}), 100)).claims
    other.close()
    ear, signals = Ear(), Signals()
    signals.listen(ear)
    shop.finish(run, signals=signals, dead_after=0.3)
    assert ear.of(Buried)[0].processes == (dead.id,)
    assert ear.of(Buried)[0].tasks == 5
    assert shop.results(run) == [[n, 1] for n in range(5)]


def test_a_kernel_that_raises_in_its_loop_says_so_where_it_is_joined(quick: Shop) -> None:
    def oops() -> None:
        raise RuntimeError("planted")

    def work() -> None: ...

    arm("before-commit", oops)
    run = quick.start(quick.task(work).of())
    kernel = quick.kernel(run)
    kernel.start()
    with pytest.raises(RuntimeError, match="planted"):
        kernel.join(LONG)
    disarm()


def test_what_was_claimed_just_before_a_burial_is_not_started(quick: Shop) -> None:
    tries = []

    def work(n: int) -> int:
        tries.append(n)
        return n

    def too_late() -> None:
        disarm()
        bury(other, kernel.sender.process)
        wait_until(lambda: not kernel.core.is_in)

    task = quick.task(work)
    run, other = quick.start(*(task.of(n) for n in range(5))), quick.open()
    kernel = quick.kernel(run)
    arm("after-claim", too_late)
    kernel.start()
    assert kernel.join(LONG)
    assert quick.results(run) == [0, 1, 2, 3, 4]
    assert sorted(tries) == [0, 1, 2, 3, 4]


def test_a_kernel_whose_loop_broke_starts_nothing_more(quick: Shop) -> None:
    gate, began = Gate(), list[int]()

    def work(n: int) -> int:
        began.append(n)
        if n:
            gate.enter()
        return n

    def oops() -> None:
        disarm()
        gate.wait_for(2)
        raise RuntimeError("planted")

    arm("before-commit", oops)
    # All are held, and two may run.
    task = quick.task(work, concurrency=2)
    quick.start(*(task.of(n) for n in range(4)))
    kernel = quick.kernel(threads=4)
    kernel.start()
    with pytest.raises(RuntimeError, match="planted"):
        kernel.join(LONG)
    gate.open()
    wait_until(lambda: not kernel.workers._pool._threads)
    assert sorted(began) == [0, 1, 2], "what was held and had not begun was begun after the kernel's end"


def test_a_stream_whose_claim_was_taken_away_is_not_tried_again_and_again(shop: Shop) -> None:
    gate, tries = Gate(), list[int]()

    def member() -> int:
        return 1

    def root() -> None:
        current().spawn(made_member.of(), then=then.of())

    def many(ones: Stream[int] = Stream()) -> Iterator[Call[Any]]:
        tries.append(1)
        if len(tries) == 1:
            gate.enter()
        for n in range(PIECE + 1):
            yield made_leaf.of(n)

    def leaf(n: int) -> None: ...

    made_member, made_leaf, then = shop.task(member), shop.task(leaf), shop.task(many, stream_of=int)
    run = shop.start(shop.task(root).of())
    kernel = shop.kernel(run)
    kernel.start()
    gate.wait_for(1)
    other, process = shop.open(), new_process_id()
    other.enter(NewProcess(process))
    # Whoever holds the continuation of a member that begins a new life loses it, and is not told.
    other.reopen(Stamp(process, 1), run, [*shop.tasks(run, "member"), *shop.tasks(run, "many")])
    other.leave(process)
    gate.open()
    assert kernel.join(LONG)
    assert len(tries) == 2
    assert shop.store.reads.counts(run)["leaf"][Status.DONE] == PIECE + 1


def test_a_stop_waits_no_longer_than_its_grace_period_for_a_store_and_says_what_is_not_saved(quick: Shop) -> None:
    away: Any = Away(quick.open())
    ear, signals, grace = Ear(), Signals(), 2.0
    signals.listen(ear)

    def once() -> None:
        away.go()

    run = quick.start(quick.task(once).of(), store=away)
    kernel = quick.kernel(run, store=away, signals=signals, grace=grace)
    kernel.start()
    away.wait_for_tries(1)
    began = time.monotonic()
    kernel.stop()
    with pytest.raises(StoreUnavailable, match=r"Not saved when this process stopped: 1 finished and 0 unfinished"):
        kernel.join(LONG)
    assert time.monotonic() - began < grace
    assert not [stop for stop in ear.of(Stopping) if stop.phase == "done"]
    quick.finish(run, dead_after=0.5)
    assert quick.count(run, Status.DONE) == 1


def test_a_stop_with_everything_saved_needs_no_store_to_end(quick: Shop) -> None:
    away: Any = Away(quick.open())
    ear, signals = Ear(), Signals()
    signals.listen(ear)

    def once() -> None: ...

    task = quick.task(once)
    run = quick.start(task.of(), task.of().delay(3600), store=away)
    kernel = quick.kernel(run, store=away, signals=signals)
    kernel.start()
    wait_until(lambda: quick.count(run, Status.DONE) == 1)
    wait_until(lambda: ear.of(Saved))
    away.go()
    kernel.stop()
    assert kernel.join(LONG)
    assert [(stop.phase, stop.running) for stop in ear.of(Stopping)][-1] == ("done", 0)


def test_a_stop_without_a_store_ends_while_the_thread_of_the_loop_is_caught(quick: Shop) -> None:
    away: Any = Away(quick.open())
    gate = Gate()

    def leaf(n: int) -> None:
        if n == 2_500:
            away.go()
            gate.enter()

    task = quick.task(leaf)
    run = quick.start(*(task.of(n) for n in range(5_000)), store=away)
    kernel = quick.kernel(run, store=away, threads=1, grace=0.5)
    kernel.start()
    gate.wait_for(1)
    kernel.stop()
    with pytest.raises(StoreUnavailable, match="Not saved when this process stopped"):
        kernel.join(LONG)
    assert gate.inside == 1, "it waited for the task"
    gate.open()
