"""Maps: a task for each item of a result, and their results as a stream, on each store."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from ramify import Engine, RunState, Skip, Status, Stream, Tasks, current
from ramify.testing import oracle
from tests.shapes.dags import add, anything, listed, made, number, numbers, on_day, states, texts, total

here = Tasks()


@here.task(retries=0)
def placed(n: int, title: str, other: int, day: date) -> list[Any]:
    return [n, title, other, day.isoformat()]


@here.task(retries=0)
def spread(n: int) -> list[int]:
    return [n] * n


@here.task(retries=0)
def two(left: Stream[int], right: Stream[int], title: str) -> list[Any]:
    return [list(left), list(right), title, len(left), len(right)]


@here.task(retries=0)
def even_only(n: int) -> int:
    if n % 2:
        raise Skip("odd")
    return n


@here.task(retries=0)
def broken(parts: Stream[int]) -> list[int]:
    return [len(parts), parts.broken, *parts]


@here.task
def told(n: int) -> list[Any]:
    me = current()
    return [me.lane, dict(me.headers)]


@pytest.fixture(autouse=True)
def known(both: Engine) -> None:
    both.include(here)


@pytest.mark.parametrize("many", [0, 1, 5, 62, 63, 300])
def test_each_item_is_a_task_and_results_come_in_the_order_of_items(both: Engine, many: int) -> None:
    dag = both.dag("x")
    mapped = dag.map(number.of(dag.add(numbers.of(many)).each))
    dag.add(listed.of(mapped.out))
    dag.add(total.of(mapped.out))
    run = both.run(dag.of(), threads=4)
    assert run.state is RunState.DONE
    assert list(run.results(listed)) == [list(range(many))]
    assert list(run.results(total)) == [sum(range(many))]
    assert made(run, "number") == many
    assert oracle.check(both._runtime.store) == []


def test_a_call_that_is_mapped_takes_params_and_results_of_others_as_well(both: Engine) -> None:
    dag = both.dag("x")
    day, title = dag.param("day", date), dag.param("title", str)
    ten = dag.add(number.of(10))
    mapped = dag.map(placed.of(dag.add(numbers.of(2)).each, title, other=ten.out, day=day))
    dag.add(listed.of(mapped.out))
    run = both.run(dag.of(day=date(2026, 1, 5), title="~b0 \udcff"))
    assert list(run.results(listed)) == [[[n, "~b0 \udcff", 10, "2026-01-05"] for n in range(2)]]


def test_an_item_may_be_inside_lists_and_dicts_and_there_twice(both: Engine) -> None:
    dag = both.dag("x")
    each = dag.add(numbers.of(2)).each
    dag.add(listed.of(dag.map(anything.of([each, {"a": [each]}, "x"])).out))
    assert list(both.run(dag.of()).results(listed)) == [[[n, {"a": [n]}, "x"] for n in range(2)]]


STRANGE = ["~", "~r0", "~b0", "a\udcffb", '"quoted" \\', "nul\0", "", "Zürich → 東京", "\ud800~"]


def test_strange_texts_are_items_like_others(both: Engine) -> None:
    dag = both.dag("x")
    given = dag.param("given", list[str])
    items = dag.add(texts.of(given))
    mapped = dag.map(anything.of([items.each, "~r0", given]))
    dag.add(listed.of(mapped.out))
    assert list(both.run(dag.of(given=STRANGE)).results(listed)) == [[[each, "~r0", STRANGE] for each in STRANGE]]


@pytest.mark.parametrize("value", ["text", 7, None, {"a": 1}], ids=str)
def test_what_is_no_list_is_a_failure_that_says_so(both: Engine, value: Any) -> None:
    dag = both.dag("x")
    items: Any = dag.add(anything.of(value), id="source")
    dag.add(listed.of(dag.map(anything.of(items.each)).out))
    run = both.run(dag.of())
    assert run.state is RunState.FAILED
    assert states(run) == {"source": "done", "anything": "failed", "listed": "skipped"}
    (error,) = run.errors()
    assert error.failure.text.startswith("source: expected a list to map over, got ")
    assert error.failure.text.endswith("Return a list.")


@pytest.mark.parametrize(("most", "state"), [(3, "done"), (2, "failed"), (0, "failed")])
def test_more_items_than_allowed_are_a_failure_before_any_is_made(both: Engine, most: int, state: str) -> None:
    dag = both.dag("x")
    dag.map(number.of(dag.add(numbers.of(3)).each), max_items=most, id="map")
    run = both.run(dag.of())
    assert (states(run)["map"], run.state.value) == (state, state)
    assert made(run, "number") == (3 if state == "done" else 0)
    said = [error.failure.text for error in run.errors()]
    assert [each.startswith("numbers: expected at most ") and "max_items" in each for each in said] == [True] * (
        state == "failed"
    )


def test_results_of_a_map_are_counted_as_items_as_well(both: Engine) -> None:
    dag = both.dag("x")
    first = dag.map(number.of(dag.add(numbers.of(3)).each))
    dag.map(number.of(first.each), max_items=2, id="second")
    run = both.run(dag.of())
    (error,) = run.errors()
    assert "number: expected at most 2 results" in error.failure.text
    assert "max_items" in error.failure.text


def minus_one_for(both: Engine, on_failed: Any) -> Any:
    dag = both.dag("x")
    items = dag.add(anything.of([1, -1, 3]))
    mapped = dag.map(number.of(items.each), on_failed=on_failed)
    dag.add(broken.of(mapped.out), id="behind")
    dag.add(broken.of(mapped.out), id="in any case", when="always")
    dag.on_end(anything.of("failed"), when="failed")
    return both.run(dag.of())


def test_an_item_that_fails_fails_the_run_and_skips_what_gathers(both: Engine) -> None:
    run = minus_one_for(both, "fail")
    assert run.state is RunState.FAILED
    assert states(run)["behind"] == "skipped"
    assert made(run, "number") == 2
    assert list(run.results(broken, partial=True)) == [[0, 0]]
    assert "failed" in list(run.results(anything, partial=True))


def test_an_item_that_fails_may_be_left_out_and_the_run_is_done(both: Engine) -> None:
    run = minus_one_for(both, "skip")
    assert run.state is RunState.DONE
    assert list(run.results(broken)) == [[2, 1, 1, 3]] * 2
    assert (made(run, "number"), made(run, "number", Status.SKIPPED)) == (2, 1)
    assert list(run.results(anything)) == [[1, -1, 3]]


def test_items_that_skip_themselves_are_left_out_where_failures_are(both: Engine) -> None:
    dag = both.dag("x")
    mapped = dag.map(even_only.of(dag.add(numbers.of(5)).each), on_failed="skip")
    dag.add(listed.of(mapped.out))
    assert list(both.run(dag.of()).results(listed)) == [[0, 2, 4]]


def test_a_map_over_a_map_takes_its_results_one_by_one(both: Engine) -> None:
    dag = both.dag("x")
    first = dag.map(number.of(dag.add(numbers.of(70)).each))
    second = dag.map(add.of(first.each, 1))
    third = dag.map(add.of(second.each, dag.add(number.of(100)).out))
    dag.add(listed.of(third.out))
    assert list(both.run(dag.of()).results(listed)) == [[n + 101 for n in range(70)]]


def test_lists_that_a_map_gives_are_items_of_the_next(both: Engine) -> None:
    @both.task(retries=0)
    def length(several: list[int]) -> int:
        return len(several)

    dag = both.dag("x")
    lists = dag.map(spread.of(dag.add(numbers.of(4)).each))
    dag.add(listed.of(dag.map(length.of(lists.each)).out))
    assert list(both.run(dag.of()).results(listed)) == [[0, 1, 2, 3]]


def test_a_map_over_one_that_left_items_out_has_those_that_are_there(both: Engine) -> None:
    dag = both.dag("x")
    first = dag.map(number.of(dag.add(anything.of([1, -1, 3])).each), on_failed="skip")
    dag.add(listed.of(dag.map(add.of(first.each, 10)).out))
    assert list(both.run(dag.of()).results(listed)) == [[11, 13]]


def test_two_streams_are_two_arguments(both: Engine) -> None:
    dag = both.dag("x")
    left = dag.map(number.of(dag.add(numbers.of(3)).each))
    right = dag.map(add.of(dag.add(numbers.of(70)).each, 1))
    dag.add(two.of(left.out, right.out, title="both"))
    dag.add(two.of(title="again", right=left.out, left=right.out))
    found = list(both.run(dag.of()).results(two))
    threes, seventies = list(range(3)), list(range(1, 71))
    assert [threes, seventies, "both", 3, 70] in found
    assert [seventies, threes, "again", 70, 3] in found


def test_what_a_call_carries_is_carried_by_each(both: Engine) -> None:
    dag = both.dag("x")
    call = told.of(dag.add(numbers.of(2)).each).lane("here").headers(trace="t").queue("default").priority(-1)
    dag.add(listed.of(dag.map(call, on_failed="skip").out))
    assert list(both.run(dag.of()).results(listed)) == [[["here", {"trace": "t"}]] * 2]


def test_arguments_that_are_too_large_for_one_item_are_a_failure_of_the_map(both: Engine) -> None:
    dag = both.dag("x")
    long = dag.param("long", str)
    dag.map(anything.of([long, long, dag.add(numbers.of(2)).each]), id="map")
    run = both.run(dag.of(long="x" * 600_000))
    assert states(run)["map"] == "failed"
    (error,) = run.errors()
    assert error.failure.text == (
        "anything: expected arguments of at most 1,048,576 bytes (1 MiB), got 1,200,011 for 0. "
        "Pass a path or a key instead."
    )


def test_whoever_serves_the_queue_of_the_nodes_serves_all_of_the_run(both: Engine) -> None:
    dag = both.dag("x")
    items = dag.add(numbers.of(3).queue("mine"))
    mapped = dag.map(number.of(items.each).queue("mine"))
    second = dag.map(number.of(mapped.each).queue("mine"))
    pick = dag.add(anything.of("a").queue("mine"))
    dag.add(total.of(second.out).queue("mine"), after=[pick.case("a")])
    dag.on_end(anything.of("end").queue("mine"))
    with both.working(queues=["mine"]):
        run = both.start(dag.of())
        assert run.wait(20)
    assert (run.state, list(run.results(total))) == (RunState.DONE, [3])


def test_a_map_waits_for_others_and_obeys_its_when(both: Engine) -> None:
    dag = both.dag("x")
    items, bad = dag.add(numbers.of(2)), dag.add(number.of(-1), id="bad")
    dag.map(add.of(items.each), after=[bad], id="never")
    dag.map(on_day.of(dag.param("day", date), items.each), after=[bad], when="any-done", id="any")
    run = both.run(dag.of(day=date(2026, 1, 5)))
    assert (states(run)["never"], states(run)["any"]) == ("skipped", "done")
    assert sorted(run.results(on_day, partial=True)) == ["2026-01-05/0", "2026-01-05/1"]


def test_a_map_over_what_did_not_end_well_fails_where_its_when_lets_it_run(both: Engine) -> None:
    dag = both.dag("x")
    items = dag.add(anything.of([1]), id="items")
    bad: Any = dag.add(number.of(-1), id="bad")
    dag.map(anything.of(dag.add(numbers.of(bad.out), id="skipped").each), when="always", after=[items], id="map")
    run = both.run(dag.of())
    assert states(run)["map"] == "failed"
    assert any("skipped: expected a list to map over, got None" in error.failure.text for error in run.errors())


def test_a_dag_that_was_taken_in_runs_like_its_own(both: Engine) -> None:
    inner = both.dag("inner")
    day = inner.param("day", date)
    items = inner.add(numbers.of(2), id="items")
    mapped = inner.map(on_day.of(day, items.each), id="map")
    inner.add(listed.of(mapped.out), id="list")
    pick = inner.add(anything.of("a"), id="pick")
    inner.add(anything.of("in a"), after=[pick.case("a")], id="in a")
    inner.add(anything.of("in b"), after=[pick.case("b")], id="in b")
    inner.on_end(anything.of("end"))
    dag = both.dag("x")
    left, right = dag.include(inner, prefix="l."), dag.include(inner, prefix="r.")
    dag.add(anything.of([left["list"].out, right["list"].out]), id="all")
    run = both.run(dag.of(day=date(2026, 1, 5)))
    days = ["2026-01-05/0", "2026-01-05/1"]
    assert run.state is RunState.DONE
    assert [days, days] in list(run.results(anything))
    assert list(run.results(anything)).count("end") == 2
    found = states(run)
    assert (found["l.in a"], found["r.in a"], found["l.in b"], found["r.in b"]) == (
        "done",
        "done",
        "skipped",
        "skipped",
    )


def test_tasks_of_ours_are_no_results_of_the_run(both: Engine) -> None:
    dag = both.dag("x")
    dag.map(number.of(dag.add(numbers.of(2)).each))
    assert sorted(both.run(dag.of()).results(), key=str) == [0, 1, [0, 1]]
