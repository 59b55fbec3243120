"""9. Logs, and the current attempt.

`current()` is the running attempt. It knows its task, its number, its run, and a key for side effects that is the same
in every attempt. Log lines of a task are stored with its run: `ramify logs RUN`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from ramify import Backoff, Call, Current, Engine, OverwriteError, RunState, current

engine = Engine("logs.db")
log = logging.getLogger("shop")


@engine.task(key="order", retries=1, backoff=Backoff(first=0))
def charge(order: str, cents: int) -> dict[str, object]:
    me = current()
    if me.attempt == 1:
        raise ConnectionError("the bank does not answer")
    return {
        "key": me.key,
        "attempt": me.attempt,
        "run": me.run.name,
        "currency": me.params["currency"],
        "trace": me.headers["trace"],
        "pay_once": me.idempotency_key,  # the same in both attempts: give it to the bank
    }


def test_an_attempt_knows_its_run_and_its_call() -> None:
    """Give `idempotency_key` to a payment service: retries and crashes do not change it, and no other task in any store
    has it.
    """
    call = charge.of("order 7", 1250).headers(trace="abc")
    run = engine.run(call, name="bills", params={"currency": "EUR"})
    (row,) = run.results(rows=True)
    pay_once = str(row.result.pop("pay_once"))
    assert pay_once.endswith(f"-{run.id}-{row.task}"), "after the id of the store"
    assert row.result == {
        "key": "order 7",
        "attempt": 2,
        "run": "bills",
        "currency": "EUR",
        "trace": "abc",
    }


@engine.task
def pack(count: int) -> None:
    log.warning("the box is small")
    for n in range(count):
        current().progress(n + 1, count, "things")
    current().log.info("packed %d things", count)


def test_log_lines_are_stored_with_the_run(caplog: pytest.LogCaptureFixture) -> None:
    """Plain `logging` works, and so does `current().log`. Log records carry the run, the task and the attempt for your
    own handlers.
    """
    run = engine.run(pack.of(3))
    kept = [text for (text,) in run.sql("SELECT text FROM note WHERE run = :run ORDER BY seq").rows]
    assert kept[0] == "the box is small"
    assert kept[-2:] == ["3 of 3 things", "packed 3 things"]
    (record,) = [each for each in caplog.records if each.name == "shop"]
    assert (record.run, record.kind, record.attempt) == (run.id, "pack", 1)  # type: ignore[attr-defined]


tenant: ContextVar[str] = ContextVar("tenant")


@engine.around
def with_tenant(me: Current) -> Iterator[None]:  # around every attempt of this engine's tasks
    token = tenant.set((me.params or {}).get("tenant", "nobody"))
    try:
        yield  # the task runs here; what it raises is raised here, too
    finally:
        tenant.reset(token)


@engine.task
def greet() -> str:
    return f"hello, {tenant.get()}"


def test_a_hook_wraps_every_attempt() -> None:
    """`@engine.around` runs your code before and after every attempt of the engine: to set a tenant, open a
    transaction, or measure.
    """
    assert list(engine.run(greet.of(), params={"tenant": "ann"}).results()) == ["hello, ann"]


@engine.task(retries=1, backoff=Backoff(first=0))
def open_box(size: int) -> Iterator[Call[Any]]:
    context = current().context
    context.set("box", {"size": size, "attempt": current().attempt})  # stored when this task ends
    if current().attempt == 1:
        raise ConnectionError("no box today")
    yield fill_box.of("pears")
    yield fill_box.of("plums")


@engine.task
def fill_box(fruit: str) -> int:
    context = current().context
    context.set(f"found {fruit}", True)
    context.set("last", fruit, overwrite=True)
    try:
        context.set("box", "another one")
    except OverwriteError as error:  # the name is taken
        current().log.info("%s", error)
    size: int = context["box"]["size"]
    return size


def test_tasks_of_a_run_share_its_context() -> None:
    """The context holds named values of a run. A value is stored when the task that set it ends. A name is set once,
    unless a task says `overwrite=True`.
    """
    run = engine.run(open_box.of(12))
    assert list(run.results(fill_box)) == [12, 12]
    assert run.context["box"] == {"size": 12, "attempt": 2}
    assert run.context["found pears"] is run.context["found plums"] is True
    assert run.context["last"] in ("pears", "plums")


both = asyncio.Barrier(2)


@engine.task
async def race(name: str) -> str:
    current().context.set("winner", name)
    await both.wait()  # both have set it, and neither has ended
    return name


def test_the_first_commit_of_a_name_wins() -> None:
    """When two tasks set the same name at the same time, the first commit wins. The other task is done all the same,
    and an event records that its value was dropped.
    """
    run = engine.run([race.of("hare"), race.of("hedgehog")])
    winner = run.context["winner"]
    assert sorted(run.results()) == ["hare", "hedgehog"]  # both are done; one of them has one more event
    dropped = run.sql("SELECT count(*) FROM event WHERE status = 11").rows
    assert (winner in ("hare", "hedgehog"), dropped) == (True, [(1,)])


@engine.task
def search(n: int) -> Iterator[Call[Any]]:
    if n == 30:
        current().run.stop("found it")
    yield search.of(n + 1)


def test_a_task_can_end_its_run() -> None:
    """`current().run.stop(reason)` finishes what runs and cancels what has not started."""
    run = engine.run(search.of(0))  # endless without the stop
    assert (run.state, run.reason) == (RunState.HALTED, "found it")
    # The task that called stop() is done; its child never started.
    assert (run.counts.done, run.counts.cancelled) == (31, 1)
