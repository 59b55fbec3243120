"""14. Pipelines.

A pipeline passes a value from step to step: `steps(receive).chain(charge).chain(ship)`. Each step gets the result of
the one before. Steps can part and meet again: `divide` goes several ways at once, `expand` makes a branch for each
element of a list, `divert` takes one way of several. A run with a failed step halts; fix the cause, retry, and it
continues.
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


def test_each_step_gets_the_result_of_the_one_before() -> None:
    """Start it with the arguments of the first step."""
    order = engine.pipeline("order", steps(receive).chain(count))
    run = engine.run(order.of("o-17", 3), name="o-17")  # the arguments of the first step
    assert run.state is RunState.DONE
    assert run["count"].result == 3


def test_divide_and_combine() -> None:
    """All ways get the same value. `combine` gets their results, by name or as a list."""
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


def test_expand_and_collapse() -> None:
    """Each element has a branch of its own. Steps chained between `expand` and `collapse` belong to each branch."""
    tape[:] = ["roll"]
    order = engine.pipeline("order", steps(receive).expand(pack).chain(label).collapse(ship))
    run = engine.run(order.of("o", 3))
    assert run["ship"].result == "[o/0]! [o/1]! [o/2]!"  # in the order of the list
    assert run["pack[2].label"].result == "[o/2]!"  # a step of one branch


def test_an_empty_list_skips_the_rest() -> None:
    """A run with nothing to do is done."""
    run = engine.run(engine.pipeline("order", steps(receive).expand(pack).collapse(ship)).of("o", 0))
    assert (run.state, run["ship"].state) == (RunState.DONE, "skipped")


def test_a_halted_run_can_be_revived() -> None:
    """One box fails, so the run halts; its siblings were packed all the same. After a retry, only the failed box and
    the steps behind it run.
    """
    tape.clear()
    run = engine.run(engine.pipeline("order", steps(receive).expand(pack).collapse(ship)).of("o", 3), name="revived")
    assert run.state is RunState.HALTED
    assert [error.failure.text for error in run.errors()] == ["there is no tape left"]
    assert (run["pack[2]"].state, run["ship"].state) == ("done", "skipped")  # siblings continue

    tape.append("roll")
    run.retry(reason="there is tape again")  # stored with the retry
    run = engine.run(engine.pipeline("order", steps(receive).expand(pack).collapse(ship)).of("o", 3), name="revived")
    assert (run.state, run["ship"].result) == (RunState.DONE, "[o/0] [o/1] [o/2]")


@engine.task
def decide(items: list[str]) -> Route[list[str]]:
    return Route("large" if len(items) > 2 else "small", items)


@engine.task
def tell(what: int) -> str:
    return f"it is {what}"


def test_divert_and_converge() -> None:
    """`Route(name, value)` chooses the way. `converge` continues with its result."""
    ways = steps(receive).chain(decide).divert({"large": price}, otherwise=count).converge(tell)
    order = engine.pipeline("order", ways)
    run = engine.run(order.of("o", 3))
    assert (run["tell"].result, run["count"].state) == ("it is 30", "skipped")
    run = engine.run(order.of("o", 1))
    assert (run["tell"].result, run["price"].state) == ("it is 1", "skipped")


def test_a_sleep_holds_no_worker() -> None:
    """A sleep of 30 days is a row with a due time. Here the test moves the clock."""
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
        os.kill(os.getpid(), signal.SIGKILL)      # kill -9
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


def test_a_killed_pipeline_continues() -> None:
    """The program dies among its 200 branches. The second start runs the rest."""
    Path("program.py").write_text(PROGRAM)

    def start() -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "program.py"], capture_output=True, text=True, timeout=60)

    assert start().returncode == -signal.SIGKILL
    assert start().stdout == "continued 19900 200\n"
