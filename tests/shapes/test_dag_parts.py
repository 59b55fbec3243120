"""Parts of a DAG as runs of their own, nodes by their ids, and a definition that changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ramify import ConfigError, Engine, RunState, Settled, Stream, Tasks, UnknownTask
from ramify.testing import using

engine = Engine("memory:")

#: Numbers that break their tasks.
broken: set[int] = set()


@engine.task
def numbers() -> list[int]:
    return [1, 2, 3]


@engine.task(retries=0)
def times(number: int, by: int) -> int:
    if number in broken:
        raise ValueError(f"{number} is broken")
    return number * by


@engine.task
def total(rows: Stream[int]) -> int:
    return sum(rows)


@engine.task
def words(n: int) -> str:
    return f"{n} in all"


dag = engine.dag("sums")
source = dag.add(numbers.of())
tens = dag.map(times.of(source.each, 10), id="tens")
twice = dag.map(times.of(tens.each, 2), id="twice")
summed = dag.add(total.of(twice.out))
told = dag.add(words.of(summed.out))
free = dag.add(words.of(7), id="free")


@pytest.fixture(params=["memory", "sqlite"])
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    broken.clear()
    made = Engine("memory:" if request.param == "memory" else tmp_path / "dag.db", include=[engine])
    yield made
    made.close()


def test_a_node_is_found_by_its_id_and_an_item_by_its_place(here: Engine) -> None:
    run = here.run(dag.of())
    assert run.state is RunState.DONE
    node = run["words"]
    assert (node.state, node.attempts, node.kind, node.key, node.result) == ("done", 1, "words", "words", "120 in all")
    assert [run[f"tens[{n}]"].result for n in range(3)] == [10, 20, 30]
    gathered = run["twice"]
    assert (gathered.state, list(gathered.result)) == ("done", [20, 40, 60])
    for key in ("word", "tens[3]", "nothing[0]"):
        with pytest.raises(UnknownTask, match=re.escape(f"no task with the key {key!r}")):
            run[key]
    with pytest.raises(UnknownTask, match="Did you mean 'words'"):
        run["word"]
    for key, says in (
        ("tens[3]", "tens has 3 items. Give tens[0] to tens[2]"),
        ("tens[x]", "tens has 3 items. Give tens[0] to tens[2]"),
        ("words[0]", "words is not a map and has no items. Give 'words'"),
    ):
        with pytest.raises(UnknownTask, match=re.escape(says)):
            run[key]
    with pytest.raises(ConfigError, match="expected the key of a task"):
        run[7]  # type: ignore[index]


def test_nodes_that_did_not_run_say_why(here: Engine) -> None:
    broken.add(2)
    run = here.run(dag.of())
    assert run.state is RunState.FAILED
    failed = run["tens[1]"]
    assert (failed.state, failed.attempts) == ("failed", 1)
    assert failed.error is not None
    assert failed.error.failure.text == "2 is broken"
    assert {run[key].state for key in ("tens", "twice", "total", "words")} == {"skipped"}
    assert run["free"].state == "done"


def test_nodes_of_a_run_that_nobody_works_on_are_ready_or_wait(here: Engine) -> None:
    run = here.start(dag.of())
    assert {key: run[key].state for key in ("numbers", "free", "tens", "words")} == {
        "numbers": "ready",
        "free": "ready",
        "tens": "waiting",
        "words": "waiting",
    }


def test_a_retried_item_takes_along_all_that_follows_it(here: Engine) -> None:
    broken.add(2)
    run = here.run(dag.of(), name="r")
    broken.clear()
    assert run.retry("tens[1]").tasks == 6  # the item, its map, the next map, the sum, the words, and the end
    assert here.run(dag.of(), name="r").state is RunState.DONE
    assert run["words"].result == "120 in all"


def test_a_retried_node_runs_again_and_so_does_what_follows_it(here: Engine) -> None:
    run = here.run(dag.of(), name="r")
    before = run.counts
    for node in ("numbers", "tens", "total"):
        run.retry(node)
        assert here.run(dag.of(), name="r").state is RunState.DONE
        assert run["words"].result == "120 in all"
    assert (run.counts.done, run.counts.added) == (before.done, before.added)
    assert run.counts.replaced == 16


def test_a_map_that_is_tried_again_takes_those_of_its_items_that_were_not_done(here: Engine) -> None:
    broken.update({2, 3})
    run = here.run(dag.of(), name="r")
    assert run.retry("tens").tasks == 7  # two items, two maps, the sum, the words, and the end
    # Its items are on their way, so there is nothing to try again, and nothing else is.
    assert run.retry("tens").tasks == 0
    broken.clear()
    assert here.run(dag.of(), name="r").state is RunState.DONE
    assert run["words"].result == "120 in all"


def test_a_node_that_somebody_resolves_lets_those_run_that_were_skipped(here: Engine) -> None:
    broken.add(2)
    run = here.run(dag.of(), name="r")
    assert run.resolve("total", result=5, reason="counted by hand", by="me").settled is Settled.CERTAIN
    run = here.run(dag.of(), name="r")
    assert run["words"].result == "5 in all"
    assert run.state is RunState.FAILED  # an item still failed
    assert run.resolve("tens[1]", skip=True, by="me").settled is Settled.CERTAIN
    here.run(dag.of(), name="r")
    assert run["tens[1]"].state == "skipped"


def test_a_task_of_any_run_is_known_by_its_key(here: Engine) -> None:
    run = here.run([words.of(1).key("one"), words.of(2).key("two"), words.of(3).key("two")])
    assert run["one"].result == "1 in all"
    with pytest.raises(ConfigError, match="several tasks with the key 'two'"):
        run["two"]


def test_a_part_of_a_dag_takes_the_results_of_others_as_given(here: Engine) -> None:
    whole = here.run(dag.of())

    def result_of(node: str, **part: Any) -> object:
        run = here.run(dag.of().part(**part))
        assert run.state is RunState.DONE
        return run[node].result

    assert result_of("words", only=[told], given={"total": 42}) == "42 in all"
    assert result_of("total", upto="total", given={"tens": [1, 2, 3]}) == 12
    assert result_of("total", only=["twice", "total"], given=whole) == 120
    assert result_of("total", upto=summed, given={"numbers": [5]}) == 100
    assert list(result_of("twice", upto="twice")) == [20, 40, 60]  # type: ignore[call-overload]
    assert {run.definition for run in here.runs()} == {dag.name}
    assert result_of("words", given={"numbers": []}) == "0 in all"


def test_in_a_test_nodes_are_given_results_and_failures_and_tasks_are_replaced() -> None:
    broken.clear()
    with using(engine, tasks={numbers: lambda: [5, 6]}):
        assert engine.run(dag.of())["words"].result == "220 in all"
        run = engine.run(dag.of().part(given={"total": 7}))
        assert run["words"].result == "7 in all"
    with using(engine, tasks={times: KeyError("x")}) as bench:
        run = engine.start(dag.of())
        bench.drain(raising=False)
        assert [error.failure.type for error in run.errors()] == ["KeyError"] * 3
    with using(engine) as bench:
        run = engine.start(dag.of().part(given={"total": ValueError("no total")}))
        bench.drain(raising=False)
        failed = run["total"]
        assert failed.error is not None
        assert (failed.state, failed.error.failure.text) == ("failed", "ValueError: no total")
        assert (run["words"].state, run["free"].state) == ("skipped", "done")
    assert engine._runtime.handlers()["numbers"].fn is numbers.fn
    for tasks, says in (({"numbers": 1}, "expected tasks of this engine"), ({numbers: 7}, "expected a function")):
        with pytest.raises(ConfigError, match=says), using(engine, tasks=tasks):  # type: ignore[arg-type]
            pass


def test_nodes_that_are_not_needed_do_not_run(here: Engine) -> None:
    run = here.run(dag.of().part(upto="total", given={"tens": [1]}))
    with pytest.raises(UnknownTask):
        run["numbers"]
    with pytest.raises(UnknownTask):
        run["free"]


def test_what_is_missing_or_wrong_in_a_part_is_named(here: Engine) -> None:
    broken.add(2)
    failed = here.run(dag.of())
    for part, says in (
        ({"only": ["words"]}, "the result of total is needed, and it does not run. Give it: given={'total': …}."),
        ({"only": ["wrods"]}, "sums: unknown node 'wrods'. Did you mean 'words'?"),
        ({"upto": "wrods"}, "Did you mean 'words'?"),
        ({"given": {"nothing": 1}}, "sums: unknown node 'nothing'"),
        (
            {"only": ["words"], "given": {"total": "x"}},
            "given={'total': …}: total(): `return value`: expected int, got a str",
        ),
        ({"upto": "total", "given": {"twice": 7}}, "given={'twice': …}: 'int' object is not iterable"),
        ({"only": "words"}, "expected a list of nodes"),
        ({"only": ["words"], "given": failed}, f"given=run: total ended as skipped in run {failed.id}"),
        ({"upto": "total", "given": {"total": 7}}, "part(): nothing is left to run, because total are given"),
    ):
        with pytest.raises(ConfigError, match=re.escape(says)):
            dag.of().part(**part)


def test_a_changed_dag_under_an_unfinished_name_is_refused_with_what_changed(here: Engine) -> None:
    here.start(dag.of(), name="r")
    other = Tasks().dag("sums")
    first = other.add(numbers.of())
    other.map(times.of(first.each, 11), id="tens")
    other.add(words.of(7), id="spare")
    with pytest.raises(ConfigError, match=re.escape("(new: spare; gone: free, twice, total and words; changed: tens)")):
        here.start(other.of(), name="r")
    # The same nodes, of which one waits for another one more.
    again = Tasks().dag("sums")
    again.include(dag)
    again["free"].after(again["numbers"])
    with pytest.raises(ConfigError, match="its nodes wait for others than before"):
        here.start(again.of(), name="r")
    same = Tasks().dag("sums")
    same.include(dag)
    assert here.start(same.of(), name="r").begun is not None
