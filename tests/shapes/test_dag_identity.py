"""When a start of a DAG is the same one: as long as nodes, edges, arguments and params are."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from ramify import ConfigError, Dag, Engine, How, RunState, Tasks
from tests.shapes.dags import add, end, number, numbers, on_day, tasks, total


@pytest.fixture
def here() -> Engine:
    return Engine("memory:", include=[tasks])


def etl(engine: Engine, change: str = "") -> Dag:
    """A DAG with something of everything, and one thing changed."""
    made = engine.dag("other" if change == "name" else "etl")
    day = made.param("day", date)
    files = made.add(numbers.of(4 if change == "argument" else 3), id="list" if change == "id" else "files")
    loads = made.map(
        number.of(files.each),
        id="loads",
        max_items=7 if change == "max_items" else None,
        on_failed="skip" if change == "on_failed" else "fail",
    )
    rows = made.add(total.of(loads.out), id="rows", when="always" if change == "when" else "done")
    late = made.add(on_day.of(day), id="day", after=[files] if change == "edge" else [])
    made.add(add.of(rows.out) if change == "fewer results" else add.of(rows.out, rows.out), id="sum", after=[late])
    if change == "node":
        made.add(number.of(1))
    if change != "on_end":
        made.on_end(end.of("y" if change == "argument at the end" else "x"))
    if change == "case":
        files.case("x")
    return made


CHANGES = [
    "name", "id", "argument", "max_items", "on_failed", "when", "edge", "fewer results", "node", "on_end",
    "argument at the end", "case",
]  # fmt: skip

DAY = date(2026, 1, 5)


def test_the_same_start_goes_on_with_its_run(here: Engine) -> None:
    first = here.start(etl(here).of(day=DAY), name="x")
    again = here.start(etl(here).of(day=DAY), name="x")
    assert (again.id, again.begun) == (first.id, How.CONTINUED)
    done = here.run(etl(here).of(day=DAY), name="x")
    assert (done.id, done.state) == (first.id, RunState.DONE)
    assert here.run(etl(here).of(day=DAY), name="x").begun is How.FINISHED
    next_one = here.run(etl(here).of(day=DAY), name="x", again=True)
    assert (next_one.begun, next_one.id != first.id, next_one.state) == (How.NEW, True, RunState.DONE)


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_dag_is_refused_under_an_unfinished_name_and_both_are_shown(here: Engine, change: str) -> None:
    here.start(etl(here).of(day=DAY), name="x")
    says = "exists with other roots: expected etl(day='2026-01-05'), 5 nodes"
    with pytest.raises(ConfigError, match=re.escape(says)):
        here.start(etl(here, change).of(day=DAY), name="x")


def test_another_value_for_a_param_is_another_start(here: Engine) -> None:
    here.start(etl(here).of(day=DAY), name="x")
    with pytest.raises(ConfigError, match="other roots"):
        here.start(etl(here).of(day=date(2026, 1, 6)), name="x")


def test_a_run_that_has_started_does_not_change_with_its_dag(here: Engine) -> None:
    made = here.dag("etl")
    first = made.add(number.of(1))
    plan = made.of()
    made.add(add.of(first.out, 1))
    assert list(here.run(plan).results()) == [1]
    assert sorted(here.run(made.of()).results()) == [1, 2]


def named(kind: str, *older: str) -> Callable[[Engine], Dag]:
    """A DAG with a task that was renamed, in each of the places where a kind can be."""

    def make(engine: Engine) -> Dag:
        own = Tasks()

        @own.task(name=kind, aliases=older)
        def load(n: int) -> int:
            return n

        engine.include(own)
        made = engine.dag("etl")
        files = made.add(numbers.of(3))
        made.add(load.of(1), id="one")
        loads = made.map(load.of(files.each), id="loads")
        made.add(total.of(loads.out))
        made.on_end(load.of(7))
        return made

    return make


def test_a_renamed_task_goes_on_under_its_alias(tmp_path: Path) -> None:
    before = Engine(tmp_path / "x.db", include=[tasks])
    before.start(named("load")(before).of(), name="x")
    before.close()
    after = Engine(tmp_path / "x.db", include=[tasks])
    done = after.run(named("fetch", "load")(after).of(), name="x")
    assert (done.begun, done.state) == (How.CONTINUED, RunState.DONE)
    assert sorted(done.results("fetch")) == [0, 1, 1, 2, 7]
    after.close()
