"""13. Pipelines.

When a value goes from hand to hand, write it as steps: `steps(receive).chain(charge).chain(ship)`. Each step gets what
the one before returned. Steps may part and meet again: `divide` goes several ways at once, `expand` makes a branch for
each element of a list, `divert` takes one way of several. A run in which a step failed is halted, and not over: mend
what was wrong and retry, and it goes on from there.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from ramify import ConfigError, Engine, Route, RunState, Stream, steps
from ramify.testing import using

engine = Engine("orders.db")


@engine.task
def receive(order: str, items: int) -> list[str]:
    return [f"{order}/{number}" for number in range(items)]


@engine.task
def count(items: list[str]) -> int:
    return len(items)


@engine.task
def price(items: list[str]) -> int:
    return 10 * len(items)


@engine.task
def invoice(parts: dict[str, int]) -> str:
    return f"{parts['items']} items for {parts['price']}"


def test_each_step_gets_what_the_one_before_returned() -> None:
    order = engine.pipeline("order", steps(receive).chain(count))
    run = engine.run(order.of("o-17", 3), name="o-17")  # the arguments of the first step
    assert run.state is RunState.DONE
    assert run["count"].result == 3


def test_divide_goes_several_ways_at_once_and_combine_gets_all_of_them() -> None:
    ways = {"items": steps(count), "price": steps(price)}  # without names, combine gets a list
    order = engine.pipeline("order", steps(receive).divide(ways).combine(invoice))
    assert engine.run(order.of("o-17", 3))["invoice"].result == "3 items for 30"


tape: list[str] = []


@engine.task(retries=0)
def pack(item: str) -> str:
    if item.endswith("/1") and not tape:
        raise RuntimeError("there is no tape left")
    return f"[{item}]"


@engine.task
def label(box: str) -> str:
    return f"{box}!"


@engine.task
def ship(boxes: Stream[str]) -> str:
    return " ".join(boxes)


def test_expand_makes_a_branch_for_each_element_and_collapse_gets_what_came_of_them() -> None:
    tape[:] = ["roll"]
    # What is chained while branches are open belongs to each of them.
    order = engine.pipeline("order", steps(receive).expand(pack).chain(label).collapse(ship))
    run = engine.run(order.of("o", 3))
    assert run["ship"].result == "[o/0]! [o/1]! [o/2]!"  # in the order of the list
    assert run["pack[2].label"].result == "[o/2]!"  # a step of one branch


def test_without_elements_the_rest_is_skipped() -> None:
    run = engine.run(engine.pipeline("order", steps(receive).expand(pack).collapse(ship)).of("o", 0))
    assert (run.state, run["ship"].state) == (RunState.DONE, "skipped")


def test_a_run_that_failed_is_halted_and_can_be_revived() -> None:
    tape.clear()
    run = engine.run(engine.pipeline("order", steps(receive).expand(pack).collapse(ship)).of("o", 3), name="revived")
    assert run.state is RunState.HALTED
    assert [error.failure.text for error in run.errors()] == ["there is no tape left"]
    assert (run["pack[2]"].state, run["ship"].state) == ("done", "skipped")  # siblings of what failed went on

    tape.append("roll")
    run.retry(reason="there is tape again")  # who and why are kept
    run = engine.run(engine.pipeline("order", steps(receive).expand(pack).collapse(ship)).of("o", 3), name="revived")
    assert (run.state, run["ship"].result) == (RunState.DONE, "[o/0] [o/1] [o/2]")


@engine.task
def decide(items: list[str]) -> Route[list[str]]:
    return Route("large" if len(items) > 2 else "small", items)


@engine.task
def tell(what: int) -> str:
    return f"it is {what}"


@pytest.mark.parametrize(("items", "said", "other"), [(3, "it is 30", "count"), (1, "it is 1", "price")])
def test_divert_takes_one_way_and_converge_gets_what_came_of_it(items: int, said: str, other: str) -> None:
    ways = steps(receive).chain(decide).divert({"large": price}, otherwise=count).converge(tell)
    run = engine.run(engine.pipeline("order", ways).of("o", items))
    assert (run["tell"].result, run[other].state) == (said, "skipped")


def test_a_sleep_is_a_time_and_not_a_worker_that_waits() -> None:
    order = engine.pipeline("order", steps(receive).sleep(timedelta(days=30)).chain(count))
    with using(engine) as bench:
        run = engine.start(order.of("o", 3))
        bench.drain()
        assert run["count"].state == "waiting"
        bench.advance(timedelta(days=30))
        bench.drain()
        assert run["count"].result == 3


def test_what_is_wrong_is_refused_where_it_is_written() -> None:
    with pytest.raises(ConfigError, match=r"collapse\(ship\): no open branch to join\. Write expand\(…\) first"):
        steps(receive).collapse(ship)  # type: ignore[misc]
    with pytest.raises(ConfigError, match=r"expected a way for any other value\. Give otherwise=…"):
        steps(decide).divert({"large": price})  # type: ignore[call-overload]


PROGRAM = """
import os, pathlib, signal
from ramify import Engine, Stream, steps

engine = Engine("orders.db")

@engine.task
def receive(items: int) -> list[int]:
    return list(range(items))

@engine.task
def pack(item: int) -> int:
    if item == 150 and not pathlib.Path("killed").exists():
        pathlib.Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)      # the plug is pulled
    return item

@engine.task
def label(item: int) -> int:
    return item

@engine.task
def ship(items: Stream[int]) -> int:
    return sum(items)

order = engine.pipeline("order", steps(receive).expand(pack).chain(label).collapse(ship))

if __name__ == "__main__":
    run = engine.run(order.of(200), name="order")
    print(run.begun.value, *run.results(ship), len(list(run.results(label))))
"""


def test_it_goes_on_after_a_kill_in_the_middle_of_its_branches() -> None:
    Path("program.py").write_text(PROGRAM)

    def start() -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "program.py"], capture_output=True, text=True, timeout=60)

    assert start().returncode == -signal.SIGKILL
    assert start().stdout == "continued 19900 200\n"
