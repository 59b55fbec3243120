"""22. Topics and hooks.

A topic is a named, numbered sequence of publications. Publishers do not know its readers. Each reader has a place in
the topic, which moves together with the work that was made of what it passed, so it misses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from ramify import EndedRun, Engine, FailedTask, Published
from ramify.testing import using

engine = Engine("shop.db")
heard: list[object] = []


@dataclass
class Order:
    id: str
    cents: int


orders = engine.topic("orders", Order, keep=timedelta(days=7))


@engine.task(retries=0)
def buy(id: str, cents: int) -> None:
    orders.publish(Order(id, cents), key=id)
    if cents < 0:
        raise ValueError("nobody is paid for buying")


@engine.on(orders)
def bill(order: Order) -> None:
    heard.append(f"bill {order.id}")


@engine.on(orders, ordered=True)
def ship(event: Published[Order]) -> None:
    heard.append((event.key, event.number))


@engine.on(engine.failures)
def alarm(failure: FailedTask) -> None:
    heard.append(f"{failure.kind}: {failure.error.text}")


@engine.on(engine.run_ends)
def note(end: EndedRun) -> None:
    heard.append(f"{end.name} is {end.state}")


def test_a_task_publishes_with_its_end() -> None:
    """A task that fails publishes nothing. Outside of tasks a publication is stored when `publish` returns."""
    with using(engine) as bench:
        engine.start([buy.of("o-1", 250), buy.of("o-2", -1)])
        bench.drain(raising=False)
        orders.publish(Order("o-3", 90))
        assert [event.value.id for event in orders.read("report")] == ["o-1", "o-3"]


def test_each_publication_becomes_a_task_of_each_reader() -> None:
    """The function takes the value, or all that is known of the publication."""
    heard.clear()
    with using(engine) as bench:
        orders.publish(Order("o-1", 250), key="ann")
        orders.publish(Order("o-2", 90), key="ann")
        bench.drain()
        assert sorted(map(str, heard)) == ["('ann', 1)", "('ann', 2)", "bill o-1", "bill o-2"]


def test_a_reader_by_hand_goes_on_where_its_name_stopped() -> None:
    """Its place can be moved, to read again or to step over."""
    with using(engine):
        orders.publish_many([Order("o-1", 1), Order("o-2", 2), Order("o-3", 3)])
        report = orders.read("report")
        assert [event.number for event in report] == [1, 2, 3]
        assert list(report) == []
        report.rewind(since=2)
        assert [event.number for event in report] == [3]


def test_who_follows_sees_what_comes() -> None:
    """Without end, and nothing is stored for it; `async for` does the same in a coroutine."""
    with using(engine):
        following = iter(orders.follow())
        orders.publish(Order("o-1", 1))
        assert next(following).value == Order("o-1", 1)


def test_failures_and_ends_of_runs_are_published_by_the_store() -> None:
    """Once each, in the transaction that writes the end, while somebody listens."""
    heard.clear()
    with using(engine) as bench:
        bench.drain()
        engine.start(buy.of("o-1", -1), name="sale")
        bench.drain(raising=False)
        assert sorted(map(str, heard)) == ["buy: nobody is paid for buying", "sale is failed"]
