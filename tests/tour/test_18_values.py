"""18. Values.

A value is a small named fact that all processes of a store share: a quota, a cursor, a setting. A task changes values
together with its end; a program changes them at once.
"""

from __future__ import annotations

from datetime import timedelta

from ramify import Backoff, Engine, JobState, current
from ramify.testing import attempt, using

engine = Engine("shop.db")

pages = {0: ["a", "b"], 2: ["c"], 3: []}


@engine.task(backoff=Backoff(first=1))
def charge(customer: str, cents: int) -> int:
    credit = current().values("credit", int)
    left = credit.update(customer, lambda cents_left: cents_left - cents, default=100)
    if current().attempt == 1 and cents > 50:
        raise ConnectionError("the bank is away")
    return left


@engine.task
def pull() -> list[str]:
    cursors = current().values("cursor", int)
    start = cursors.get("orders", 0)
    cursors.set("orders", start + len(pages[start]))
    return pages[start]


def test_a_program_changes_values_at_once() -> None:
    """`engine.values(space, type)` is a handle for values of one type. `update` loses no change of others."""
    with using(engine):
        credit = engine.values("credit", int)
        credit.set("ann", 100)
        assert credit.update("ann", lambda cents: cents - 30) == 70
        assert (credit.get("ann"), credit.get("bob", 0)) == (70, 0)
        assert list(credit.items()) == [("ann", 70)]
        assert credit.delete("ann")


def test_a_task_changes_values_with_its_end() -> None:
    """An attempt that fails has changed nothing, so a retry does not charge twice."""
    with using(engine) as bench:
        credit = engine.values("credit", int)
        job = engine.enqueue(charge.of("ann", 60))
        bench.drain(raising=False)
        assert credit.get("ann") is None
        bench.advance(1)
        bench.drain()
        assert (job.state, credit.get("ann")) == (JobState.DONE, 40)


def test_a_task_whose_value_was_changed_meanwhile_runs_again() -> None:
    """Two tasks read the same cursor, and only one of them can move it. The other one runs again at once, as the same
    attempt, and finds the next page.
    """
    with using(engine):
        run = engine.run([pull.of(), pull.of(), pull.of()])
        assert sorted(run.results()) == [[], ["a", "b"], ["c"]]
        assert engine.values("cursor", int).get("orders") == 3


def test_a_value_can_expire() -> None:
    """`ttl` is seconds or a `timedelta`, by the clock of the store."""
    with using(engine) as bench:
        codes = engine.values("code", str)
        codes.set("ann", "4711", ttl=timedelta(minutes=5))
        bench.advance(timedelta(minutes=5))
        assert codes.get("ann") is None


def test_one_attempt_is_given_values() -> None:
    """`done.values` has all values as the attempt left them."""
    done = attempt(charge.of("ann", 20), values={"credit": {"ann": 50, "bob": 5}})
    assert done.result == 30
    assert done.values == {"credit": {"ann": 30, "bob": 5}}
