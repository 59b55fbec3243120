"""A market: orders that tasks and programs publish, and a trace of who heard of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from ramify import Backoff, EndedRun, Engine, FailedTask, Published, current

engine = Engine("market.db")
#: What handlers heard, in order.
heard: list[Any] = []
#: Names of orders whose handling fails, with how often.
trouble: dict[str, int] = {}


class Order(msgspec.Struct, frozen=True):
    """Something that somebody wants."""

    who: str
    cents: int = 1


orders = engine.topic("orders", Order, keep=timedelta(days=7))
north = engine.topic("sales.north", int)
south = engine.topic("sales.south", int)


@engine.task(retries=1, backoff=Backoff(first=10.0, jitter=False))
def sell(who: str, many: int = 1) -> None:
    """Publish orders, and fail where that was asked for."""
    orders.publish_many((Order(who, cents) for cents in range(1, many + 1)), key=lambda order: order.who)
    if trouble.get(who, 0) >= current().attempt:
        raise ConnectionError(who)


@engine.on(orders)
def bill(order: Order) -> None:
    """Hear of the value."""
    heard.append(("bill", order.who, order.cents))


@engine.on(orders, name="ship", ordered=True, retries=1, backoff=Backoff(first=100.0, jitter=False))
def ship_in_order(event: Published[Order]) -> None:
    """Hear of all that is known, in order."""
    name = f"{event.value.who}{event.value.cents}"
    heard.append(("ship", event.key, event.value.cents))
    if trouble.get(name, 0) >= current().attempt:
        raise ConnectionError(name)


@engine.on("sales.*", name="sum up", since=0, queue="sums")
def sum_up(event: Published[int]) -> None:
    """Hear of several topics."""
    heard.append((event.topic, event.number, event.value))


@engine.task
def take_in(reader: str, most: int = 1_000) -> list[int]:
    """Read by hand, and fail where that was asked for."""
    taken: list[int] = []
    for each in orders.read(reader):
        taken.append(each.number)
        if len(taken) == most:
            break
    if trouble.get(reader, 0) >= current().attempt:
        raise ConnectionError(reader)
    return taken


@engine.on(engine.failures)
def alarm(failure: FailedTask) -> None:
    """Hear of failures, and fail."""
    heard.append(("alarm", failure.kind, failure.error.text))
    raise ValueError("the line is dead")


@engine.on(engine.run_ends, name="note end")
def note_end(end: Published[EndedRun]) -> None:
    """Hear of runs that end."""
    heard.append(("end", end.value.name, end.value.state))
