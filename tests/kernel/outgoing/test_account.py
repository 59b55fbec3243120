"""What a process did, told with its beats: claims, commits, and what came of attempts by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from ramify.kernel.attempts.control import Defer, Skip
from ramify.kernel.outgoing.account import Account
from ramify.kernel.outgoing.outbox import Finished
from ramify.kernel.signals import Attempts, Signals, Worked
from ramify.kernel.tuning import BOUNDS
from ramify.model.call import Call
from ramify.model.event import Status
from tests.kernel.claims import claim
from tests.kernel.shop import Ear, Shop, wait_until


def told(ear: Ear) -> tuple[Counter[str], dict[tuple[str, str], int]]:
    """All that was told, added up: numbers by name, and outcomes by kind."""
    total: Counter[str] = Counter()
    outcomes: Counter[tuple[str, str]] = Counter()
    for worked in ear.of(Worked):
        total.update(claimed=worked.claimed, commits=worked.commits, refused=worked.refused)
        for each in worked.attempts:
            total["timed"] += sum(each.times)
            for outcome, count in each.outcomes:
                outcomes[each.kind, outcome] += count
    return total, dict(outcomes)


def test_what_a_process_did_is_told_before_it_leaves(shop: Shop) -> None:
    tries: Counter[int] = Counter()

    def root(n: int) -> Iterator[Call[Any]]:
        yield from map(leaf.of, range(n))

    def _leaf(n: int) -> int:
        tries[n] += 1
        if n == 0 and tries[n] == 1:
            raise ValueError
        if n == 1:
            raise Skip("nothing new")
        if n == 2 and tries[n] == 1:
            raise Defer(0.0)
        return n

    made = shop.task(root)
    leaf = shop.task(_leaf)
    ear, signals = Ear(), Signals()
    signals.listen(ear)
    shop.run(made.of(5), signals=signals)
    total, outcomes = told(ear)
    assert outcomes == {
        ("root", "done"): 1,
        ("leaf", "done"): 4,
        ("leaf", "skipped"): 1,
        ("leaf", "retrying"): 1,
        ("leaf", "deferred"): 1,
    }
    assert (total["refused"], total["timed"]) == (0, 7)
    assert total["commits"] >= 3
    assert total["claimed"] >= 6


def test_what_is_done_is_told_while_the_work_goes_on(quick: Shop) -> None:
    made = quick.task(lambda: 1, kind="work")
    ear, signals = Ear(), Signals()
    signals.listen(ear)
    quick.start(made.of())
    with quick.working(signals=signals):
        wait_until(lambda: told(ear)[1] == {("work", "done"): 1})


def test_attempts_are_sorted_by_how_long_they_took() -> None:
    ear, signals = Ear(), Signals()
    signals.listen(ear)
    account = Account(signals)
    statuses = [Status.DONE, Status.FAILED, Status.CANCELLED, Status.DONE]
    account.saved([Finished(claim(), [1, 2, 3, 4], statuses, took={1: 5_000, 2: 5_001}, seconds=0.25)], (), 0.5)
    account.saved([Finished(claim(), [5], took={5: 10**12}, seconds=10**6)], (), 0.25)
    account.tell()
    account.tell()
    (worked,) = ear.of(Worked)
    (attempts,) = worked.attempts
    times = [0] * (len(BOUNDS) + 1)
    times[0], times[BOUNDS.index(0.005)], times[BOUNDS.index(0.01)], times[-1] = 1, 1, 1, 1
    outcomes = (("done", 3), ("failed", 1), ("cancelled", 1))
    assert attempts == Attempts(claim().kind, claim().queue, outcomes, 10**6 + 0.25, tuple(times))
    assert (worked.commits, worked.seconds) == (2, 0.75)


def test_what_was_refused_is_not_counted_as_done() -> None:
    ear, signals = Ear(), Signals()
    signals.listen(ear)
    account = Account(signals)
    account.saved([Finished(claim(), [1, 2])], [claim().token], 0.5)
    account.tell()
    assert ear.of(Worked) == [Worked(0, 1, 0.5, 1, ())]


def test_who_did_nothing_tells_nothing() -> None:
    ear, signals = Ear(), Signals()
    signals.listen(ear)
    account = Account(signals)
    account.claimed([])
    account.tell()
    assert ear.heard == []
