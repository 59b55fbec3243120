"""11. DAGs.

When you know beforehand which call needs which result, declare a DAG: `dag.add(call)` makes a node, and `node.out`
stands for its result in the arguments of other calls. That is the dependency. A DAG is started like any other run, and
continues after a kill like any other run.
"""

from __future__ import annotations

from datetime import date

import pytest

from ramify import ConfigError, Defer, Engine, RunState, Skip, current

engine = Engine("dag.db")


@engine.task
def orders(day: date) -> list[int]:
    return [3, 4, 5] if day.day < 20 else []


@engine.task
def prices(day: date) -> dict[str, int]:
    return {"each": 10}


@engine.task
def revenue(sold: list[int], price: dict[str, int]) -> int:
    if not sold:
        raise Skip("nothing was sold")  # neither done nor failed; its dependents are skipped
    return sum(sold) * price["each"]


@engine.task
def publish(day: date, amounts: list[int]) -> str:
    return f"{day}: {sum(amounts)}"


sales = engine.dag("sales")
day = sales.param("day", date)  # each run gets one
sold = sales.add(orders.of(day))
price = sales.add(prices.of(day))
income = sales.add(revenue.of(sold.out, price.out))
report = sales.add(publish.of(day, [income.out]).retries(5), id="report")  # results may be inside lists and dicts


def test_nodes_run_when_their_inputs_are_ready() -> None:
    """Give the params of the DAG when you start it."""
    run = engine.run(sales.of(day=date(2026, 1, 5)), name="sales-0105")
    assert run.state is RunState.DONE
    assert list(run.results(publish)) == ["2026-01-05: 120"]


def test_what_is_wrong_is_refused_where_it_is_written() -> None:
    with pytest.raises(ConfigError, match="sales: missing params without a default\\. Give day=…"):
        sales.of()
    with pytest.raises(ConfigError, match="id='report': this id is taken"):
        sales.add(orders.of(day), id="report")
    with pytest.raises(
        ConfigError, match="orders: after: nodes cannot wait for each other: orders waits for report waits for"
    ):
        sold.after(report)


def test_a_dag_answers_questions() -> None:
    """Its levels, the nodes that could run next, everything downstream of a node, the critical path."""
    assert [[node.id for node in level] for level in sales.levels] == [["orders", "prices"], ["revenue"], ["report"]]
    assert [node.id for node in sales.ready([sold])] == ["prices"]
    assert [node.id for node in sales.dependents(sold, transitive=True)] == ["revenue", "report"]
    way, seconds = sales.critical_path({"orders": 1.0, "prices": 4.0, "revenue": 2.0, "report": 0.5})
    assert ([node.id for node in way], seconds) == (["prices", "revenue", "report"], 6.5)


@engine.task(retries=0)
def fetch(source: str) -> str:
    if source == "broken":
        raise ConnectionError(source)
    return source


@engine.task
def merge(one: str | None, other: str | None) -> list[str]:
    return [each for each in (one, other) if each is not None]


@engine.task
def clean_up(what: str) -> str:
    ends = current().run.ends
    return f"{what}: {ends.done} done, {ends.failed} failed, {ends.skipped} skipped"


def test_a_failure_skips_what_depends_on_it() -> None:
    """Other branches continue. `when=` decides otherwise for a node, and `dag.on_end` runs at the end in any case."""
    dag = engine.dag("two sources")
    good, bad = dag.add(fetch.of("good"), id="good"), dag.add(fetch.of("broken"), id="bad")
    dag.add(merge.of(good.out, bad.out), id="both")  # skipped
    dag.add(merge.of(good.out, bad.out), id="what is there", when="any-done")  # a failed input is None here
    dag.add(clean_up.of("after a failure"), after=[good, bad], when="failed")
    dag.on_end(clean_up.of("at the end"))  # when every node has ended
    run = engine.run(dag.of())
    assert run.state is RunState.FAILED, "cleaning up does not change that"
    assert list(run.results(merge, partial=True)) == [["good"]]
    assert sorted(run.results(clean_up, partial=True))[1] == "at the end: 3 done, 1 failed, 1 skipped"


def test_a_node_can_skip_itself() -> None:
    """`revenue` raises `Skip` when nothing was sold: the node and its dependents are skipped, and the run is done."""
    run = engine.run(sales.of(day=date(2026, 1, 25)))
    assert run.state is RunState.DONE
    assert (run.counts.skipped, list(run.results(publish))) == (2, [])


arrived: list[str] = []


@engine.task
def file_is_there(name: str) -> str:
    if name not in arrived:
        arrived.append(name)  # another system would do that
        raise Defer(0.01)  # look again in a moment
    return name


def test_a_sensor_waits_for_something_outside() -> None:
    """A task that raises `Defer` is a sensor: it looks again later, and no worker waits."""
    dag = engine.dag("wait for it")
    dag.add(fetch.of(dag.add(file_is_there.of("orders.csv")).out))
    assert list(engine.run(dag.of()).results(fetch)) == ["orders.csv"]


def test_a_dag_can_include_another() -> None:
    """`include` adds all nodes of another DAG, with a prefix for their ids."""
    year = engine.dag("two days")
    first = year.include(sales, prefix="first.")
    second = year.include(sales, prefix="second.")
    year.add(publish.of(date(2026, 1, 1), [first["revenue"].out, second["revenue"].out]), id="both")
    run = engine.run(year.of(day=date(2026, 1, 5)))
    assert "2026-01-01: 240" in list(run.results(publish))
