"""A small program to test the test kit on: an engine with tasks of every calling."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator

from ramify import AsyncSpawns, Backoff, Call, Defer, Engine, Fatal, Return, Spawns, Stream, current

engine = Engine("never-opened.db")
log = logging.getLogger("shop")


class OutOfPaper(Exception):
    """What the printer says."""


@engine.resource
def ledger() -> Iterator[list[str]]:
    yield []


@engine.task
def double(n: int) -> int:
    return 2 * n


@engine.task
def count_down(n: int) -> Spawns[int]:
    if n:
        yield count_down.of(n - 1)
        yield double.of(n)
    return n


@engine.task
async def slow_double(n: int) -> int:
    await asyncio.sleep(0)
    return 2 * n


@engine.task
async def slow_count(n: int) -> AsyncSpawns[int]:
    for each in range(n):
        await asyncio.sleep(0)
        yield slow_double.of(each)
    yield Return(n)


@engine.task
def welcome(name: str) -> None:
    current().spawn(remind.of(name).delay(3600))
    ledger().append(f"welcome {name}")


@engine.task
def remind(name: str) -> None:
    ledger().append(f"remind {name}")


@engine.task
def numbers() -> list[int]:
    return [1, 2]


@engine.task
def total(rows: Stream[int]) -> tuple[int, list[str]]:
    return sum(rows), [each.failure.text for each in rows.failures]


@engine.task
def between(before: Stream[int], one: int, after: Stream[int]) -> tuple[list[int], int, list[int]]:
    return list(before), one, list(after)


@engine.task
def mixed(first: int, rows: Stream[int], last: int) -> list[int]:
    return [first, *rows, last]


@engine.task
def two(left: Stream[int], right: Stream[int]) -> list[list[int]]:
    return [list(left), list(right)]


@engine.task(retries=2, backoff=Backoff(first=60))
def print_bill(name: str) -> None:
    ledger().append(f"try {name}")
    raise OutOfPaper(name)


@engine.task(retries=0)
async def slow_bill(name: str) -> None:
    await asyncio.sleep(0)
    raise OutOfPaper(name)


@engine.task(timeout=0.01)
async def sleepy() -> None:
    await asyncio.Event().wait()


@engine.task
def wait_for_ink() -> str:
    if not ledger():
        raise Defer(120)
    return ledger()[0]


@engine.task
def add_up(title: str, numbers: Stream[int] = Stream()) -> tuple[str, int]:
    return title, sum(numbers)


@engine.task
def review(title: str, numbers: Stream[int] = Stream()) -> tuple[list[int], int, list[str]]:
    return list(numbers), numbers.broken, [f"{each.kind}: {each.failure.text}" for each in numbers.failures]


@engine.resource
async def client() -> AsyncIterator[str]:
    yield "a real client"


@engine.task
async def ask() -> str:
    return await client()


@engine.task
def fan_out(n: int) -> None:
    current().spawn(*(double.of(each) for each in range(n)), then=add_up.of("doubles"))


@engine.task
def chatty() -> str:
    log.warning("careful")
    current().log.info("attempt %d of %s", current().attempt, current().params["who"])
    current().progress(1, 2, "half")
    return f"{current().kind} {current().run.params['who']}"


@engine.task
def unstorable() -> object:
    return object()


@engine.task
def give_up() -> None:
    raise Fatal("no use")


@engine.task(max_children=3)
def many(n: int) -> Iterator[Call[int]]:
    for each in range(n):
        yield double.of(each)


@engine.task(key="path")
def compare(path: str) -> list[str]:
    return sorted(set(current().leader.get(path)) - {"same"})


@engine.task
def pay(cents: int) -> str:
    """The key that goes to the bank."""
    return current().idempotency_key


@engine.task
def halt() -> None:
    current().run.stop("seen enough")


@engine.task(rate="2/s")
def rated(n: int) -> int:
    return n


@engine.task
async def children_only(n: int) -> AsyncIterator[Call[int]]:
    yield slow_double.of(n)


@engine.task
def weigh(name: str, grams: int) -> int:
    here = current().context
    here.set(f"weight of {name}", grams)
    here.set("total", here.get("total", 0) + grams, overwrite=True)
    return int(here["total"])


@engine.task
def spend(who: str, amount: int) -> int:
    quotas = current().values("quota", int)
    if quotas.get(who, 0) < amount:
        raise Fatal(f"{who} has not enough")
    if quotas.update(who, lambda left: left - amount) == 0:
        quotas.delete(who)
    current().values("last", str).set("spender", who)
    current().spawn(double.of(amount))
    return amount


@engine.task
async def slow_spend(who: str) -> None:
    current().values("quota", int).update(who, lambda left: left - 1, default=await slow_double(1))
    if who == "later":
        raise Defer(5)


@engine.task
async def slow_weigh(name: str) -> None:
    current().context.set(name, await slow_double(1))
    if name == "later":
        raise Defer(5)
