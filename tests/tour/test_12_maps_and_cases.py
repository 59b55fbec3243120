"""12. Maps and cases.

Some parts of a DAG are known only when it runs. `dag.map(call)` makes a task for each item of a result, however many
there are; a node that takes the results of the map gets a `Stream`. `node.case(name)` lets a node choose which others
run.
"""

from __future__ import annotations

import pytest

from ramify import ConfigError, Engine, RunState, Stream

engine = Engine("maps.db")


@engine.task
def list_files(folder: str) -> list[str]:
    return [f"{folder}/{name}" for name in ("a.csv", "b.csv", "broken.csv", "c.csv")]


@engine.task(retries=0)
def load(file: str, table: str) -> int:
    if "broken" in file:
        raise ValueError(f"{file} cannot be read")
    return len(file)


@engine.task
def total(rows: Stream[int]) -> str:
    return f"{len(rows)} files with {sum(rows)} rows, {rows.broken} left out"


def test_a_map_makes_a_task_for_each_item() -> None:
    """`files.each` is one item of the list. `on_failed="skip"` leaves out items that fail."""
    dag = engine.dag("load")
    files = dag.add(list_files.of("in"))
    loads = dag.map(load.of(files.each, "orders"), on_failed="skip", max_items=1_000)
    dag.add(total.of(loads.out))
    run = engine.run(dag.of(), max_running=8)
    assert run.state is RunState.DONE
    assert list(run.results(total)) == ["3 files with 24 rows, 1 left out"]


def test_a_failed_item_fails_the_run_by_default() -> None:
    """Without `on_failed`, nodes that need the map are skipped when one of its items has failed."""
    dag = engine.dag("load all")
    loads = dag.map(load.of(dag.add(list_files.of("in")).each, "orders"))
    dag.add(total.of(loads.out))
    run = engine.run(dag.of())
    assert (run.state, run.counts.failed, list(run.results(total, partial=True))) == (RunState.FAILED, 1, [])


@engine.task
def double(rows: int) -> int:
    return 2 * rows


@engine.task
def in_order(numbers: Stream[int]) -> list[int]:
    return list(numbers)


def test_a_map_can_map_over_a_map() -> None:
    """Each item continues by itself. Results stay in the order of the list."""
    dag = engine.dag("two steps")
    first = dag.map(load.of(dag.add(list_files.of("in")).each, "orders"), on_failed="skip")
    dag.add(in_order.of(dag.map(double.of(first.each)).out))
    assert list(engine.run(dag.of()).results(in_order)) == [[16, 16, 16]]


@engine.task
def judge(score: float) -> str | list[str]:
    return "deploy" if score > 0.9 else ["tell", "train again"]


@engine.task
def act(what: str) -> str:
    return what


def model(score: float) -> list[str]:
    dag = engine.dag("model")
    verdict = dag.add(judge.of(dag.param("score", float)))
    for what in ("deploy", "tell", "train again"):
        dag.add(act.of(what), after=[verdict.case(what)], id=what)
    dag.add(act.of("write it down"), after=[verdict])
    run = engine.run(dag.of(score=score))
    assert run.state is RunState.DONE, "nodes that were not chosen are skipped"
    return sorted(run.results(act))


def test_a_node_chooses_which_others_run() -> None:
    """`judge` returns the name of a case, or several. Nodes of other cases are skipped, which is no failure."""
    assert model(0.95) == ["deploy", "write it down"]
    assert model(0.5) == ["tell", "train again", "write it down"]


def test_add_refuses_an_item_of_a_map() -> None:
    """`dag.add` takes one call; `dag.map` takes a call of `node.each`."""
    dag = engine.dag("mistaken")
    files = dag.add(list_files.of("in"))
    with pytest.raises(ConfigError, match=r"Use mistaken\.map\(…\), or pass all items as list_files\.out"):
        dag.add(load.of(files.each, "orders"))
