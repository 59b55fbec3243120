"""Datasets: a run starts when others have produced what it waits for, once for each production, or set of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ramify import ConfigError, Engine, Run, RunState
from ramify.shapes.dag.dag import Dag
from ramify.shapes.dag.dataset import PRODUCED
from ramify.testing import oracle
from tests.shapes.dags import add, anything, end, number, numbers, seen, states


def producer(engine: Engine, dataset: str, n: int = 1) -> Dag:
    dag = engine.dag(f"makes {dataset}")
    dag.add(number.of(n), id="made").produces(dataset)
    return dag


def consumer(engine: Engine, *datasets: str, when: Any = "all") -> Dag:
    dag = engine.dag("report")
    params = [dag.param(name, int, 0) for name in datasets]
    dag.add(seen.of(params))
    dag.start_on(*datasets, when=when)
    return dag


def started(engine: Engine) -> Iterator[Any]:
    """What runs of the consumer came to, in the order in which they were started."""
    for run in sorted(engine.runs(RunState.DONE), key=lambda run: run.id):
        yield from run.results(seen, partial=True)


def log(engine: Engine) -> Run[Any]:
    found = engine.find("report/datasets")
    assert found is not None
    return found


def test_each_production_of_the_one_dataset_starts_a_run_with_what_was_produced(both: Engine) -> None:
    consumer(both, "orders")
    makes = producer(both, "orders", 5)
    both.run(makes.of(), name="monday")
    both.run(makes.of(), name="tuesday")
    assert list(started(both)) == [[5], [5]]
    assert both.find("monday/orders/report") is not None


def test_any_of_several_starts_a_run(both: Engine) -> None:
    consumer(both, "orders", "customers", when="any")
    both.run(producer(both, "orders", 5).of())
    both.run(producer(both, "customers", 6).of())
    assert list(started(both)) == [[5, 0], [0, 6]]


def test_a_run_starts_when_all_were_produced_since_the_last_start(both: Engine) -> None:
    consumer(both, "orders", "customers")
    orders, customers = producer(both, "orders", 5), producer(both, "customers", 6)
    both.run(orders.of())
    both.run(orders.of())
    assert list(started(both)) == []
    both.run(customers.of())
    assert list(started(both)) == [[5, 6]]
    both.run(customers.of())
    assert list(started(both)) == [[5, 6]], "what was used for a start is not used again"
    both.run(producer(both, "orders", 7).of())
    assert list(started(both)) == [[5, 6], [7, 6]]
    assert log(both).state is RunState.OPEN
    assert not both._runtime.store.reads.segments(run=log(both).id).rows, "there is nothing to do for what is noted"
    assert oracle.check(both._runtime.store) == []


def test_what_did_not_end_well_produces_nothing(both: Engine) -> None:
    consumer(both, "orders")
    for how in ("failed", "skipped"):
        dag = both.dag(f"makes none: {how}")
        dag.add(end.of(how), id="made").produces("orders")
        assert states(both.run(dag.of()))["made produces"] == "skipped"
    assert list(started(both)) == []


def test_a_node_may_produce_several_and_several_may_wait_for_one(both: Engine) -> None:
    consumer(both, "orders", "customers")
    other = both.dag("other")
    other.add(anything.of("other"))
    other.start_on("customers")
    dag = both.dag("makes both")
    dag.add(number.of(3), id="made").produces("orders", "customers")
    run = both.run(dag.of(), name="x")
    assert list(started(both)) == [[3, 3]]
    assert both.find("x/customers/other") is not None
    assert len(run["made produces"].result) == 2


def test_a_map_produces_when_all_of_it_is_done(both: Engine) -> None:
    dag = both.dag("report")
    dag.add(seen.of([1]))
    dag.start_on("orders")
    makes = both.dag("makes")
    makes.map(number.of(makes.add(numbers.of(3)).each)).produces("orders")
    both.run(makes.of())
    assert list(started(both)) == [[1]]


def test_nobody_needs_to_wait_for_what_is_produced(both: Engine) -> None:
    run = both.run(producer(both, "orders").of())
    assert (run.state, run["made produces"].result) == (RunState.DONE, [])


def test_a_node_that_is_retried_produces_again(both: Engine) -> None:
    consumer(both, "orders", "customers")
    both.run(producer(both, "orders").of(), name="orders")
    run = both.find("orders")
    assert run is not None
    run.retry("made")
    both.run(producer(both, "orders").of(), name="orders")
    both.run(producer(both, "customers").of())
    assert list(started(both)) == [[1, 1]]
    assert log(both).counts.done == 3


def test_a_part_that_ends_before_produces_nothing(both: Engine) -> None:
    consumer(both, "orders")
    both.run(producer(both, "orders").of().part(upto="made"))
    assert list(started(both)) == []


def test_a_dag_that_was_taken_in_produces_as_before(both: Engine) -> None:
    consumer(both, "orders")
    whole = both.dag("whole")
    whole.include(producer(both, "orders", 4), "in.")
    both.run(whole.of())
    assert list(started(both)) == [[4]]


def test_productions_at_the_same_moment_are_noted_one_after_the_other(both: Engine) -> None:
    consumer(both, "orders", "customers")
    makes = [producer(both, "orders"), producer(both, "customers")]
    runs = [both.start(makes[n % 2].of(), name=f"{n}") for n in range(24)]
    with both.working(threads=6):
        for run in runs:
            assert run.wait(60)
    rows = both._runtime.store.reads.tasks(log(both).id, kind=PRODUCED).rows
    assert len(rows) == 24
    assert [row.key for row in rows] == [b"0", *(str(row.id).encode() for row in rows[:-1])], "each behind another"
    expected, there = 0, set()
    for row in rows:
        entry = both._runtime.handlers()[PRODUCED].signature.decode(row.body)[0][0]
        there.add("orders" if int(entry.production.split("/")[0]) in {run.id for run in runs[::2]} else "customers")
        assert entry.whole == (len(there) == 2)
        if entry.whole:
            expected, there = expected + 1, set()
    names = [run.name for run in both.runs() if str(run.name).startswith("report/")]
    assert len(names) - 1 == expected, "and the log itself"


def test_a_log_that_somebody_cancelled_is_begun_anew(both: Engine) -> None:
    consumer(both, "orders", "customers")
    both.run(producer(both, "orders").of())
    log(both).cancel()
    with both.working(threads=1):
        assert log(both).wait(30)
    both.run(producer(both, "customers").of())
    assert list(started(both)) == []
    both.run(producer(both, "orders").of())
    assert list(started(both)) == [[1, 1]]


# what is refused


def test_dags_that_start_each_other_by_what_they_produce_are_refused(both: Engine) -> None:
    one, two = both.dag("one"), both.dag("two")
    first, second = one.add(number.of(1)), two.add(number.of(1))
    first.produces("x")
    two.start_on("x")
    one.start_on("y")
    with pytest.raises(ConfigError, match="two would start itself: two -> one -> two"):
        second.produces("y")
    with pytest.raises(ConfigError, match="two would start itself: two -> one -> two"):
        two.trigger(one.of())
    assert (len(two), two.produces, two.starts) == (1, set(), {})
    three = both.dag("three")
    three.add(number.of(1)).produces("z", "y")
    with pytest.raises(ConfigError, match="three would start itself: three -> one -> three"):
        three.start_on("x")
    assert three.awaits == {}


def test_datasets_that_make_no_sense_are_refused_where_they_are_written(both: Engine) -> None:
    dag = both.dag("etl")
    dag.param("day", str)
    node = dag.add(add.of(1, 2))
    with pytest.raises(ConfigError, match=r"produces\(\): expected the names of datasets, got none"):
        node.produces()
    with pytest.raises(ConfigError, match="the name of a dataset is empty"):
        node.produces("")
    node.produces("x")
    with pytest.raises(ConfigError, match="produces\\(\\): add produces datasets already\\. Name all of them at once"):
        node.produces("y")
    with pytest.raises(ConfigError, match="start_on\\(\\): no dataset gives the param 'day'\\. Give it a default"):
        dag.start_on("z")
    with pytest.raises(ConfigError, match=r'start_on\(when=.some.\): expected "all" or "any"'):
        dag.start_on("z", when="some")  # type: ignore[arg-type]
    other = both.dag("other")
    other.start_on("z")
    with pytest.raises(ConfigError, match="start_on\\(\\): it starts on z already\\. Name all datasets at once"):
        other.start_on("y")
    with pytest.raises(ConfigError, match="starts another run\\. Declare there what that run produces"):
        dag.trigger(anything.of(1)).produces("y")
