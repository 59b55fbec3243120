"""13. One run and another.

A DAG can start a run of another DAG when it ends. The started run has a name derived from the one that started it, so
it exists once, however often the program is killed. A node can also wait for another run, or for anything that a task
can look for.
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
etl.trigger(report.of(day=day, rows=rows.out))  # a call of a task works as well


def test_a_dag_triggers_another() -> None:
    """`etl.trigger(...)` is a node like others. `when="failed"` or `when="always"` choose other moments."""
    run = engine.run(etl.of(day=date(2026, 1, 5)), name="etl-0105")
    started = engine.find("etl-0105/report")
    assert started is not None
    assert started.state is RunState.DONE, "the same worker continues with the run it started"
    assert list(started.results()) == ["2026-01-05: 120 rows"]
    assert run["trigger:report"].result == started.id, "the result of the trigger"


def test_trigger_cycles_are_refused() -> None:
    """A DAG that would start itself, directly or through others, is refused when it is declared."""
    with pytest.raises(ConfigError, match="report would start itself: report -> etl -> report"):
        report.trigger(etl.of(day=date(2026, 1, 5)))


@engine.task
def compare(one: int, other: int) -> bool:
    return one == other


def test_a_node_waits_for_another_run() -> None:
    """The other run need not exist yet. Without a node, `wait` waits for its end; `timeout=` limits the wait."""
    check = engine.dag("check")
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
    arrived.append(name)  # another system would do that
    return False


def test_poll_calls_a_task_until_it_returns_something() -> None:
    """`.poll(seconds)` calls the task again while it returns False or None. Between two calls nothing waits in memory.
    After `timeout` seconds it fails.
    """
    dag = engine.dag("look for it")
    there = dag.add(file_is_there.of("orders.csv").poll(0.01, timeout=3_600))
    dag.add(load.of(date(2026, 1, 7)), after=[there])
    assert list(engine.run(dag.of()).results(load)) == [120]


customers = engine.dag("customers")
customers.add(load.of(date(2026, 1, 5))).produces("customers")
orders = engine.dag("orders")
orders.add(load.of(date(2026, 1, 5))).produces("orders")
joint = engine.dag("joint")
# With when="any", each dataset starts a run by itself.
joint.add(compare.of(joint.param("orders", int), joint.param("customers", int)))
joint.start_on("orders", "customers")


def test_a_dag_starts_when_its_datasets_are_ready() -> None:
    """A node `produces` a dataset; another DAG `start_on` some. A param with the name of a dataset gets the value."""
    engine.run(orders.of())
    assert not [run for run in engine.runs(RunState.DONE) if str(run.name).startswith("joint/")]
    engine.run(customers.of())
    (started,) = [run for run in engine.runs(RunState.DONE) if str(run.name).startswith("joint/")]
    assert list(started.results()) == [True]
