"""13. One run and another.

A DAG may start a run of another one when it has ended. The other run has a name of its own, which follows from who
started it, so that it is there once, however often the program is killed.
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
    with pytest.raises(ConfigError, match="report: it cannot start etl: report -> etl -> report"):
        report.trigger(etl.of(day=date(2026, 1, 5)))
