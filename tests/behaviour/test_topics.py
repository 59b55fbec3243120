"""Topics, readers and hooks: in one program, in several, and of several versions, on every store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ramify import BadPayload, ConfigError, Engine
from ramify.model.reader import READERS
from ramify.testing import attempt, oracle
from ramify.testing.using import Workbench, using
from tests.behaviour.conftest import NOON, STORES
from tests.behaviour.market import Order, engine, heard, north, orders, sell, south, take_in, trouble
from tests.kernel.shop import LONG, wait_until


@pytest.fixture(params=STORES)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workbench]:
    """The market on an empty store."""
    heard.clear()
    trouble.clear()
    with using(engine, STORES[request.param](tmp_path), now=NOON) as bench:
        yield bench
        assert oracle.check(engine._runtime.store) == []


def only(what: str) -> list[Any]:
    """What one of the handlers heard."""
    return [each[1:] for each in heard if each[0] == what]


def numbers(reader: str) -> list[int]:
    return [each.number for each in orders.read(reader)]


abroad = Engine("memory:")
far = abroad.topic("far", str)


@engine.task(name="tell far", retries=0)
def tell_far() -> None:
    """Publish elsewhere, and fail."""
    far.publish("told")
    raise ConnectionError


# publishing


def test_what_a_program_publishes_is_there_when_it_returns(bench: Workbench) -> None:
    orders.publish(Order("ann", 250), key="ann")
    orders.publish_many([Order("bob"), Order("cid")])
    orders.publish_many([])
    first, *others = orders.read("all")
    assert (first.topic, first.number, first.key, first.value, first.at) == (
        "orders",
        1,
        "ann",
        Order("ann", 250),
        NOON,
    )
    assert [(each.number, each.key, each.value.who) for each in others] == [(2, None, "bob"), (3, None, "cid")]


def test_what_a_task_publishes_goes_with_its_end(bench: Workbench) -> None:
    trouble["bob"], trouble["cid"] = 1, 9
    run = engine.start([sell.of("bob"), sell.of("cid"), sell.of("ann", 2)])
    bench.drain(raising=False)
    assert [each.value.who for each in orders.read("before")] == ["ann", "ann"]
    bench.advance(11)
    bench.drain(raising=False)
    assert [each.value.who for each in orders.read("all")] == ["ann", "ann", "bob"]
    found = engine._runtime.store.reads.publications("orders")
    assert len({each.task for each in found}) == 2
    assert run.counts.failed == 1


def test_a_task_that_is_tried_by_itself_publishes_nowhere(bench: Workbench) -> None:
    attempt(sell.of("ann"))
    assert numbers("all") == []


def test_a_task_publishes_to_a_topic_of_another_store_at_once(bench: Workbench) -> None:
    engine.start(tell_far.of())
    bench.drain(raising=False)
    assert [each.value for each in far.read("all")] == ["told"]
    abroad.close()


def test_values_that_do_not_fit_are_refused(bench: Workbench) -> None:
    with pytest.raises(BadPayload, match=r"topic 'orders': .*value"):
        orders.publish("an order")  # type: ignore[arg-type]
    with pytest.raises(BadPayload, match=r"takes 2,000,0\d\d bytes.*publish a reference"):
        orders.publish(Order("x" * 2_000_000))
    with pytest.raises(ConfigError, match="key of a publication"):
        orders.publish(Order("ann"), key="")
    with pytest.raises(ConfigError, match="expected a list of values"):
        engine.topic("words", str).publish_many("ann")
    with pytest.raises(ConfigError, match="published by the store itself"):
        engine.failures.publish(None)  # type: ignore[arg-type]
    assert numbers("all") == []


async def _published() -> list[str]:
    await orders.apublish(Order("ann"))
    await orders.apublish_many([Order("bob")])
    return [each.value.who async for each in _two(orders.follow(since=0))]


async def _two(following: Any) -> Any:
    count = 0
    async for each in following:
        yield each
        count += 1
        if count == 2:
            return


def test_coroutines_publish_and_follow(bench: Workbench) -> None:
    assert asyncio.run(_published()) == ["ann", "bob"]


# reading by hand


def test_a_reader_goes_on_where_its_name_stopped(bench: Workbench) -> None:
    orders.publish_many([Order("ann"), Order("bob")])
    assert numbers("billing") == [1, 2]
    assert numbers("billing") == []
    orders.publish(Order("cid"))
    assert orders.read("billing").lag == 1
    assert numbers("billing") == [3]
    assert numbers("another") == [1, 2, 3]


def test_a_program_that_leaves_the_loop_gets_the_last_one_again(bench: Workbench) -> None:
    orders.publish_many(Order(f"{n}") for n in range(4))
    for each in orders.read("billing"):
        if each.number == 2:
            break
    assert numbers("billing") == [2, 3, 4]


def test_the_place_of_a_reader_in_a_task_moves_with_the_end_of_the_task(bench: Workbench) -> None:
    orders.publish_many(Order(f"{n}") for n in range(4))
    trouble["billing"] = 1
    run = engine.start([take_in.of("billing", 2).retries(0)])
    bench.drain(raising=False)
    assert run.counts.failed == 1
    run = engine.start([take_in.of("billing", 3).retries(0)], name="again")
    trouble.clear()
    bench.drain()
    assert list(run.results()) == [[1, 2, 3]]
    assert numbers("billing") == [4]


def test_of_two_tasks_that_read_under_one_name_each_gets_what_the_other_did_not(bench: Workbench) -> None:
    orders.publish_many(Order(f"{n}") for n in range(6))
    run = engine.start([take_in.of("billing", 2) for _ in range(3)])
    bench.drain()
    assert sorted(number for result in run.results() for number in result) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("since", "first"),
    [(0, 1), (2, 3), (None, None), (timedelta(seconds=25), 2), (NOON + timedelta(seconds=11), 3), (NOON, 1)],
)
def test_a_reader_begins_where_it_says(bench: Workbench, since: Any, first: int | None) -> None:
    for _ in range(3):
        orders.publish(Order("ann"))
        bench.advance(10)
    assert [each.number for each in orders.read("new", since=since)][:1] == ([] if first is None else [first])


def test_a_reader_can_be_rewound(bench: Workbench) -> None:
    orders.publish_many(Order(f"{n}") for n in range(4))
    reader = orders.read("billing")
    assert len(list(reader)) == 4
    assert reader.rewind(2) == 2
    assert reader.lag == 2
    assert numbers("billing") == [3, 4]
    assert orders.read("billing").rewind(None) == 4


@pytest.mark.parametrize("since", [-1, True, "yesterday", timedelta(-1), datetime(2030, 1, 1)])
def test_what_is_no_place_is_refused(bench: Workbench, since: Any) -> None:
    with pytest.raises(ConfigError, match=r"since="):
        orders.read("billing", since=since)
    with pytest.raises(ConfigError, match=r"since="):
        orders.follow(since=since)


def test_a_name_reads_one_topic(bench: Workbench) -> None:
    assert numbers("billing") == []
    with pytest.raises(ConfigError, match="ramify topics remove billing"):
        list(north.read("billing"))
    bench.drain()
    with pytest.raises(ConfigError, match="for the task 'bill'"):
        list(orders.read("bill"))


# following


def test_a_follower_sees_what_is_published_from_then_on(bench: Workbench) -> None:
    orders.publish(Order("before"))
    following = iter(orders.follow())
    seen: list[str] = []
    thread = threading.Thread(target=lambda: seen.extend(next(following).value.who for _ in range(2)))
    thread.start()
    orders.publish(Order("ann"))
    orders.publish(Order("bob"))
    thread.join(LONG)
    assert seen == ["ann", "bob"]
    assert next(iter(orders.follow(since=0))).value.who == "before"


# handlers


def test_each_publication_becomes_a_task_of_each_reader(bench: Workbench) -> None:
    engine.start(sell.of("ann", 2))
    bench.drain()
    assert sorted(only("bill")) == [("ann", 1), ("ann", 2)]
    assert only("ship") == [("ann", 1), ("ann", 2)]
    assert bench.drain() == 0
    (job, *_) = engine.jobs(kind="bill")
    assert (job.key, job.kind) == ("ann", "bill")


def test_a_pattern_reads_topics_that_come_later(bench: Workbench) -> None:
    north.publish(1)
    bench.drain()
    south.publish(2)
    engine.topic("sales.south.far", int).publish(3)
    bench.drain()
    assert [each for each in heard if each[0].startswith("sales")] == [("sales.north", 1, 1), ("sales.south", 1, 2)]


def test_a_reader_that_is_declared_first_begins_at_the_end(bench: Workbench) -> None:
    old = other_program(bench)
    old.topic("orders", Order, keep=timedelta(days=7)).publish(Order("early"))
    bench.drain()
    assert only("bill") == []
    orders.publish(Order("late"))
    bench.drain()
    assert only("bill") == [("late", 1)]


def test_a_program_that_publishes_declares_its_readers_first(bench: Workbench) -> None:
    orders.publish(Order("first"))
    bench.drain()
    assert only("bill") == [("first", 1)]


def test_those_of_a_key_run_in_order_also_behind_one_that_waits_for_its_retry(bench: Workbench) -> None:
    trouble["ann1"] = 1
    orders.publish_many([Order("ann", 1), Order("bob", 1), Order("ann", 2), Order("ann", 3)], key=lambda each: each.who)
    bench.drain(raising=False)
    assert sorted(only("ship")) == [("ann", 1), ("bob", 1)]
    for _ in range(30):
        bench.advance(10)
        bench.drain(raising=False)
    assert [cents for who, cents in only("ship") if who == "ann"] == [1, 1, 2, 3]


def test_what_is_published_later_runs_behind_what_waits(bench: Workbench) -> None:
    trouble["ann1"] = 1
    orders.publish(Order("ann", 1), key="ann")
    bench.drain(raising=False)
    orders.publish_many([Order("ann", 2), Order("bob", 9)], key=lambda each: each.who)
    bench.drain(raising=False)
    assert sorted(only("ship")) == [("ann", 1), ("bob", 9)]
    bench.advance(1_000)
    bench.drain()
    orders.publish(Order("ann", 3), key="ann")
    bench.drain()
    assert [cents for who, cents in only("ship") if who == "ann"] == [1, 1, 2, 3]


def test_a_key_goes_on_behind_one_that_failed_for_good(bench: Workbench) -> None:
    trouble["ann1"] = 9
    orders.publish_many([Order("ann", 1), Order("ann", 2)], key=lambda each: each.who)
    for _ in range(30):
        bench.advance(10)
        bench.drain(raising=False)
    assert only("ship") == [("ann", 1), ("ann", 1), ("ann", 2)]


# hooks


def test_each_failure_is_told_once_and_that_of_its_handler_is_not(bench: Workbench) -> None:
    trouble["ann"] = 9
    engine.start(sell.of("ann").retries(0), name="sale")
    for _ in range(3):
        bench.drain(raising=False)
        bench.advance(1_000)
    bench.drain(raising=False)
    assert set(only("alarm")) == {("sell", "ann")}
    failures = [each.value for each in engine.failures.read("by hand")]
    assert [(each.kind, each.name, each.status) for each in failures] == [
        ("sell", "sale", "failed"),
        ("alarm", "jobs/default", "failed"),
    ]
    assert "ConnectionError" in failures[0].error.traceback


def test_ends_of_runs_are_told(bench: Workbench) -> None:
    bench.drain()
    engine.start(sell.of("ann"), name="sale")
    bench.drain()
    bench.drain()
    assert only("end") == [("sale", "done")]


def test_an_engine_that_nobody_listens_to_publishes_nothing(bench: Workbench) -> None:
    quiet = Engine("memory:")

    @quiet.task
    def fail() -> None:
        raise ValueError

    with using(quiet) as bench:
        quiet.start(fail.of().retries(0))
        bench.drain(raising=False)
        assert quiet._runtime.store.reads.topics() == []
        assert list(quiet.failures.read("late")) == []
        quiet.start(fail.of().retries(0), name="another")
        bench.drain(raising=False)
        assert [each.value.name for each in quiet.failures.read("late")] == ["another"]


# several programs and versions

others: list[Engine] = []


def other_program(bench: Workbench) -> Engine:
    """Another program on the same store."""
    made = Engine("memory:")
    made._runtime.use(engine._runtime.store)
    # An engine that nobody has any more closes its store.
    others.append(made)
    return made


def test_a_program_that_does_not_know_a_reader_leaves_it_alone(bench: Workbench) -> None:
    bench.drain()
    before = engine._runtime.store.reads.values(space=READERS)
    other = other_program(bench)
    theirs = other.topic("theirs", int)

    @other.on(theirs)
    def hear(number: int) -> None:
        heard.append(("theirs", number))

    theirs.publish(1)
    orders.publish(Order("ann"))
    other._runtime.topics.declare()
    pump = other._runtime.topics.pump()
    assert pump.step()
    after = engine._runtime.store.reads.values(space=READERS)
    assert {each.name for each in after} - {each.name for each in before} == {"hear"}
    assert [each for each in after if each.name != "hear"] == list(before)
    bench.drain()
    assert only("bill") == [("ann", 1)]


def test_the_program_that_was_started_last_decides(bench: Workbench) -> None:
    bench.drain()
    newer, older = other_program(bench), other_program(bench)
    newer._runtime.since, older._runtime.since = engine._runtime.since + 1, engine._runtime.since - 1
    for each, ordered in ((newer, True), (older, False)):
        topic = each.topic("orders", Order)
        each.on(topic, ordered=ordered)(_bill)
        each._runtime.topics.declare()
    (stored,) = [each for each in engine._runtime.store.reads.values(space=READERS) if each.name == "bill"]
    assert b'"ordered":true' in stored.value


def _bill(order: Order) -> None:
    heard.append(("shop", order.who))


_bill.__name__ = "bill"


def test_a_reader_of_a_name_that_another_topic_has_is_refused(bench: Workbench) -> None:
    bench.drain()
    other = other_program(bench)
    other.on(other.topic("theirs", Order))(_bill)
    with pytest.raises(ConfigError, match="a reader called 'bill' reads 'orders'"):
        other._runtime.topics.declare()


def test_an_unknown_topic_is_refused(bench: Workbench) -> None:
    bench.drain()
    other = other_program(bench)
    other.on("ordres")(_bill)
    orders.publish(Order("ann"))
    with pytest.raises(ConfigError, match="Did you mean 'orders'"):
        other._runtime.topics.declare()


def test_of_two_pumps_each_publication_becomes_one_task(bench: Workbench) -> None:
    bench.drain()
    programs = [other_program(bench), other_program(bench)]
    for each in programs:
        each.on(each.topic("orders", Order, keep=timedelta(days=7)))(_bill)
        each._runtime.topics.declare()
    orders.publish_many(Order("ann", n) for n in range(200))
    pumps = [each._runtime.topics.pump() for each in programs]
    threads = [threading.Thread(target=_pump, args=(each,)) for each in pumps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    bench.drain()
    assert sorted(cents for _, cents in only("bill")) == list(range(200))


def _pump(pump: Any) -> None:
    while pump.step():
        pass


def test_a_pump_takes_over_from_one_that_stays_away(bench: Workbench) -> None:
    bench.drain()
    other = other_program(bench)
    other.on(other.topic("orders", Order, keep=timedelta(days=7)))(_bill)
    other._runtime.topics.declare()
    pump = other._runtime.topics.pump()
    (line,) = pump._lines
    line._follows.add("orders")
    orders.publish(Order("ann"))
    assert not pump.step()
    bench.advance(1)
    assert pump.step()


# workers


def test_workers_hear_of_what_is_published(tmp_path: Path) -> None:
    heard.clear()
    shop = Engine(tmp_path / "shop.db", durability="process")
    topic = shop.topic("orders", Order)
    shop.on(topic)(_bill)
    with shop.working(threads=1):
        topic.publish(Order("ann"))
        wait_until(lambda: only("shop") == [("ann",)])
        topic.publish(Order("bob"))
        wait_until(lambda: only("shop") == [("ann",), ("bob",)])
    shop.close()


# what is written wrong


def test_functions_that_cannot_take_a_publication_are_refused() -> None:
    made = Engine("memory:")
    numbers = made.topic("numbers", int)

    def two(one: int, other: int) -> None: ...
    def none() -> None: ...
    def by_name(*, number: int) -> None: ...

    for fn in (two, none, by_name):
        with pytest.raises(ConfigError, match="expected one parameter"):
            made.on(numbers)(fn)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="in place of"):
        made.on(numbers)(made.task(two))  # type: ignore[arg-type]
    for source in (3, "", "ramify.others", "n" * 300):
        with pytest.raises(ConfigError, match="@on"):
            made.on(source)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="ordered=True keeps the order"):
        made.on(numbers, lane="number")(_bill)  # type: ignore[arg-type]


def test_topics_that_cannot_be_are_refused() -> None:
    made = Engine("memory:")
    assert made.topic("numbers", int, keep=60).name == made.topic("numbers", int, keep=60).name
    for name, of, keep in [("numbers", str, 60), ("numbers", int, None), ("numbers", int, 61)]:
        with pytest.raises(ConfigError, match="Give one another name"):
            made.topic(name, of, keep=keep)
    bad_names: list[Any] = ["", "ramify.mine", "a*", "n" * 300, 3]
    for bad in bad_names:
        with pytest.raises(ConfigError, match=r"topic\("):
            made.topic(bad, int)
    bad_times: list[Any] = [0, -1, "a week", float("inf")]
    for bad in bad_times:
        with pytest.raises(ConfigError, match=r"topic\(keep="):
            made.topic("kept", int, keep=bad)
    with pytest.raises(ConfigError, match="a type that JSON can hold"):
        made.topic("odd", list[set[int] | list[int]])


def test_old_publications_go(bench: Workbench) -> None:
    orders.publish(Order("old"))
    north.publish(1)
    bench.advance(timedelta(days=8))
    orders.publish(Order("new"))
    engine._runtime.store.vacuum()
    assert numbers("all") == [2]
    assert [each.value for each in north.read("north")] == [1]
