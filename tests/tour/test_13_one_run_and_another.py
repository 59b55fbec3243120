"""13. One run and another.

A DAG may start a run of another one when it has ended. The other run has a name of its own, which follows from who
started it, so that it is there once, however often the program is killed. And a node may wait for something that is
not its own: for another run, or for anything that a task can look for.
"""

from __future__ import annotations

from datetime import date

import pytest

from ramify import ConfigError, Engine, RunState

engine = Engine("several.db")


@engine.task
def load(day: date) -> int:
    return 120


@engine.task
def publish(day: date, rows: int) -> str:
    return f"{day}: {rows} rows"


report = engine.dag("report")
report.add(publish.of(report.param("day", date), report.param("rows", int)))

etl = engine.dag("etl")
day = etl.param("day", date)
rows = etl.add(load.of(day))
etl.trigger(report.of(day=day, rows=rows.out))  # or when="failed", or "always"; a call of a task will do as well


def test_a_dag_starts_another_when_it_has_ended() -> None:
    run = engine.run(etl.of(day=date(2026, 1, 5)), name="etl-0105")
    started = engine.find("etl-0105/report")
    assert started is not None
    assert started.state is RunState.DONE, "whoever works on the first run goes on with what it started"
    assert list(started.results()) == ["2026-01-05: 120 rows"]
    assert run["trigger:report"].result == started.id, "a trigger is a node like others, and this is what it gives"


def test_dags_that_start_each_other_for_ever_are_refused() -> None:
    with pytest.raises(ConfigError, match="report would start itself: report -> etl -> report"):
        report.trigger(etl.of(day=date(2026, 1, 5)))


@engine.task
def compare(one: int, other: int) -> bool:
    return one == other


def test_a_node_waits_for_another_run() -> None:
    check = engine.dag("check")
    # It need not be there yet; without a node its end is waited for, and `timeout=` says how long.
    check.add(compare.of(check.wait("etl-0106", "load").out, 120))
    run = engine.start(check.of())
    engine.start(etl.of(day=date(2026, 1, 6)), name="etl-0106")
    with engine.working():
        assert run.wait(60)
    assert list(run.results()) == [True]


arrived: list[str] = []


@engine.task
def file_is_there(name: str) -> bool:
    if name in arrived:
        return True
    arrived.append(name)  # somebody else would do that
    return False


def test_a_task_is_called_again_until_it_gives_something() -> None:
    dag = engine.dag("look for it")
    # Between two looks nobody waits. False and None are nothing; without anything for an hour, it fails.
    there = dag.add(file_is_there.of("orders.csv").poll(0.01, timeout=3_600))
    dag.add(load.of(date(2026, 1, 7)), after=[there])
    assert list(engine.run(dag.of()).results(load)) == [120]


customers = engine.dag("customers")
customers.add(load.of(date(2026, 1, 5))).produces("customers")
orders = engine.dag("orders")
orders.add(load.of(date(2026, 1, 5))).produces("orders")
joint = engine.dag("joint")
# A param that is called like a dataset gets what was produced. when="any" starts a run for each of them.
joint.add(compare.of(joint.param("orders", int), joint.param("customers", int)))
joint.start_on("orders", "customers")


def test_a_dag_starts_when_what_it_needs_was_produced() -> None:
    engine.run(orders.of())
    assert not [run for run in engine.runs(RunState.DONE) if str(run.name).startswith("joint/")]
    engine.run(customers.of())
    (started,) = [run for run in engine.runs(RunState.DONE) if str(run.name).startswith("joint/")]
    assert list(started.results()) == [True]
