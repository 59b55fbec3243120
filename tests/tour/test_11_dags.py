"""11. DAGs.

When it is known beforehand which call needs what, write it down: `dag.add(call)` gives a node, and `node.out` stands
for its result in the arguments of other calls. That is the dependency. A run is started like any other, and goes on
after a kill like any other.
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
        raise Skip("nothing was sold")  # neither done nor failed: what takes its result is skipped too
    return sum(sold) * price["each"]


@engine.task
def publish(day: date, amounts: list[int]) -> str:
    return f"{day}: {sum(amounts)}"


sales = engine.dag("sales")
day = sales.param("day", date)  # each run is given one
sold = sales.add(orders.of(day))
price = sales.add(prices.of(day))
income = sales.add(revenue.of(sold.out, price.out))
report = sales.add(publish.of(day, [income.out]).retries(5), id="report")  # results may be inside lists and dicts


def test_calls_run_as_soon_as_what_they_need_is_there() -> None:
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


def test_a_dag_can_be_asked_about() -> None:
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


def test_what_failed_takes_along_what_needs_it_and_nothing_else() -> None:
    dag = engine.dag("two sources")
    good, bad = dag.add(fetch.of("good"), id="good"), dag.add(fetch.of("broken"), id="bad")
    dag.add(merge.of(good.out, bad.out), id="both")  # skipped
    dag.add(merge.of(good.out, bad.out), id="what is there", when="any-done")  # what failed is None here
    dag.add(clean_up.of("after a failure"), after=[good, bad], when="failed")
    dag.on_end(clean_up.of("at the end"))  # when every node has ended, however it did
    run = engine.run(dag.of())
    assert run.state is RunState.FAILED, "a node failed, and that somebody cleaned up does not change it"
    assert list(run.results(merge, partial=True)) == [["good"]]
    assert sorted(run.results(clean_up, partial=True))[1] == "at the end: 3 done, 1 failed, 1 skipped"


def test_a_node_may_find_that_there_is_nothing_to_do() -> None:
    run = engine.run(sales.of(day=date(2026, 1, 25)))
    assert run.state is RunState.DONE
    assert (run.counts.skipped, list(run.results(publish))) == (2, [])


arrived: list[str] = []


@engine.task
def file_is_there(name: str) -> str:
    if name not in arrived:
        arrived.append(name)  # somebody else would do that
        raise Defer(0.01)  # look again in a moment; this uses up no attempt
    return name


def test_a_sensor_is_a_node_that_looks_again_until_it_is_time() -> None:
    dag = engine.dag("wait for it")
    dag.add(fetch.of(dag.add(file_is_there.of("orders.csv")).out))
    assert list(engine.run(dag.of()).results(fetch)) == ["orders.csv"]


def test_one_dag_is_part_of_another() -> None:
    year = engine.dag("two days")
    first = year.include(sales, prefix="first.")
    second = year.include(sales, prefix="second.")
    year.add(publish.of(date(2026, 1, 1), [first["revenue"].out, second["revenue"].out]), id="both")
    run = engine.run(year.of(day=date(2026, 1, 5)))
    assert "2026-01-01: 240" in list(run.results(publish))
