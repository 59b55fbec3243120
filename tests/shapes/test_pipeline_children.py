"""Steps that run something else as a run of its own: `steps(...).run(other)`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ramify import ConfigError, Engine, Fatal, Pipeline, Route, RunState, Skip, Steps, Stream, Tasks, current, steps
from ramify.inspect.run_graph import graph_of
from ramify.inspect.why import why
from ramify.shapes.launch import LONGEST_LOOK, look_again_after
from ramify.testing import using
from ramify.testing.using import Workbench

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)

family = Tasks()
#: What fails, for as long as it is in here.
broken: set[str] = set()
#: What tasks were called with, and what one is to give.
noted: list[int] = []
attempts_of_double: list[int] = []
inputs: list[int] = []


@family.task
def words(many: int) -> list[str]:
    """Texts of 1, 2, 3 and so on characters."""
    return ["x" * length for length in range(1, many + 1)]


@family.task
def length(text: str) -> int:
    """How long a text is."""
    return len(text)


@family.task
def upper(text: str) -> str:
    """In capitals."""
    return text.upper()


@family.task(retries=0)
def double(number: int) -> int:
    """Twice as much."""
    attempts_of_double.append(number)
    if "double" in broken:
        raise Fatal("it is broken")
    return 2 * number


@family.task
def sized(text: str) -> Route[str]:
    """Which way a text goes."""
    return Route("short" if len(text) < 5 else "long", text)


@family.task
def joined(parts: list[Any]) -> str:
    """All in one."""
    return "".join(map(str, parts))


@family.task
def note(number: int) -> int:
    """The same, noted."""
    noted.append(number)
    return number


@family.task
def given(number: int) -> int:
    """What is put in, whatever was asked for."""
    return inputs[-1]


@family.task
def allowed(number: int, answer: bool) -> int:
    """The same, if that is allowed."""
    return number if answer else 0


@family.task
def total(numbers: Stream[int] = Stream()) -> int:
    """All of them together."""
    return sum(numbers)


@family.task
def anything(value: Any) -> Any:
    """The same."""
    return value


@family.task
def nothing_to_do(text: str) -> int:
    """It is skipped."""
    raise Skip("it is old")


@family.task
def forked(text: str) -> None:
    """Goes on with the length of its characters."""
    current().spawn(*map(length.of, text), then=total.of())


@pytest.fixture(autouse=True)
def nothing_is_broken() -> None:
    for each in (broken, noted, attempts_of_double, inputs):
        each.clear()


def generations(engine: Engine, name: str) -> list[int]:
    return sorted(run._stored.generation for run in engine.runs() if run.name == name)


@pytest.fixture(params=["memory", "sqlite"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workbench]:
    """An engine on one store and on the other, with time in the hands of the test."""
    engine = Engine("memory:", include=[family])
    with using(engine, "memory:" if request.param == "memory" else str(tmp_path / "s.db"), now=NOON) as made:
        yield made


def test_a_step_runs_another_pipeline_and_goes_on_with_its_result(bench: Workbench) -> None:
    engine = bench.engine
    inner = engine.pipeline("inner", steps(length).chain(double))
    outer = engine.pipeline("outer", steps(words).expand(steps(upper).run(inner)).collapse(total).chain(double))
    run = engine.start(outer.of(3), name="o")
    bench.finish()
    assert (run.state, run["double"].result) == (RunState.DONE, 24)
    names = {each.name for each in engine.runs() if each.name is not None and each.name.startswith("o/")}
    assert names == {f"o/upper[{at}].inner" for at in range(3)}


def test_a_step_runs_a_task_or_a_dag_with_one_param(bench: Workbench) -> None:
    engine = bench.engine
    dag = engine.dag("twice")
    number = dag.param("number", int)
    dag.add(double.of(dag.add(double.of(number)).out))
    run = engine.start(engine.pipeline("p", steps(length).run(double, id="task").run(dag)).of("abc"), name="p")
    bench.finish()
    assert [run[step].result for step in ("task", "twice")] == [6, 24]
    assert {each.name for each in engine.runs()} == {"p", "p/task", "p/twice"}


def test_a_revival_tries_again_what_failed_in_the_run_of_a_step_and_nothing_else(bench: Workbench) -> None:
    engine = bench.engine
    inner = engine.pipeline("inner", steps(note).chain(double))
    run = engine.start(engine.pipeline("p", steps(length).run(inner).chain(double)).of("abc"), name="p")
    broken.add("double")
    bench.finish()
    assert (run.state, run["inner"].state, run["double"].state) == (RunState.HALTED, "failed", "skipped")
    error = run["inner"].error
    assert error is not None
    assert "p/inner" in str(error)
    assert "ended as halted" in str(error)
    run.retry(reason="mended, as they say")
    bench.finish()
    assert run.state is RunState.HALTED, "it is tried once for each revival"
    assert attempts_of_double == [3, 3]
    broken.clear()
    run.retry(reason="mended")
    bench.finish()
    assert (run.state, run["double"].result) == (RunState.DONE, 12)
    assert noted == [3], "what was done in it is not repeated"
    assert generations(engine, "p/inner") == [1]


def test_a_revival_takes_a_run_that_somebody_else_has_mended(bench: Workbench) -> None:
    engine = bench.engine
    inner = engine.pipeline("inner", steps(double))
    run = engine.start(engine.pipeline("p", steps(length).run(inner).chain(double)).of("abc"), name="p")
    broken.add("double")
    bench.finish()
    broken.clear()
    other = engine.find("p/inner")
    assert other is not None
    other.retry(reason="mended")
    bench.finish()
    run.retry(reason="mended")
    bench.finish()
    assert (run.state, run["double"].result) == (RunState.DONE, 12)
    assert attempts_of_double == [3, 3, 6]


def test_a_revival_in_the_same_moment_in_which_the_run_of_a_step_failed_tries_it_again(bench: Workbench) -> None:
    engine = bench.engine
    inner = engine.pipeline("inner", steps(double))
    run = engine.start(engine.pipeline("p", steps(length).run(inner).chain(double)).of("abc"), name="p")
    broken.add("double")
    bench.finish()
    other = engine.find("p/inner")
    assert other is not None
    other.retry(reason="not mended")
    bench.drain(raising=False)
    assert (other.state, other._stored.ended) == (RunState.HALTED, bench.clock.now())
    broken.clear()
    run.retry(reason="mended")
    bench.finish()
    assert (run.state, run["double"].result, attempts_of_double) == (RunState.DONE, 12, [3, 3, 3, 6])


def test_a_revival_starts_the_run_of_a_step_anew_that_was_forgotten_in_the_same_moment(bench: Workbench) -> None:
    engine = bench.engine
    inner = engine.pipeline("inner", steps(double))
    run = engine.start(engine.pipeline("p", steps(length).run(inner).chain(double)).of("abc"), name="p")
    broken.add("double")
    bench.drain(raising=False)
    other = engine.find("p/inner")
    assert other is not None
    other.forget()
    broken.clear()
    run.retry(reason="mended")
    bench.finish()
    assert (run.state, run["double"].result, attempts_of_double) == (RunState.DONE, 12, [3, 3, 6])
    assert generations(engine, "p/inner") == [1, 2]


def test_a_run_to_the_end_goes_on_when_a_look_revives_the_run_of_a_step(bench: Workbench) -> None:
    engine = bench.engine
    inner = engine.pipeline("inner", steps(double).chain(note))
    run = engine.start(engine.pipeline("p", steps(length).run(inner).chain(double)).of("abc"), name="p")
    broken.add("double")
    bench.finish()
    other = engine.find("p/inner")
    assert other is not None
    other.retry("note", reason="in vain, because what it waits for failed")
    run.retry(reason="mended")
    broken.clear()
    bench.finish([run.id])
    assert (run.state, other.state) == (RunState.DONE, RunState.DONE)


def test_a_revival_runs_anew_what_was_cancelled(bench: Workbench) -> None:
    engine = bench.engine
    inner = engine.pipeline("inner", steps(double).gate("go", bool).chain(allowed))
    run = engine.start(engine.pipeline("p", steps(length).run(inner)).of("abc"), name="p")
    bench.drain()
    first = engine.find("p/inner")
    assert first is not None
    first.cancel("not like this")
    bench.finish()
    assert run.state is RunState.HALTED
    run.retry(reason="like this")
    bench.drain()
    second = engine.find("p/inner")
    assert second is not None
    assert second.id != first.id
    second.answer("go", True)
    bench.finish()
    assert (run.state, run["inner"].result) == (RunState.DONE, 6)
    assert generations(engine, "p/inner") == [1, 2]


def test_other_input_runs_it_anew_and_the_old_result_is_not_taken(bench: Workbench) -> None:
    engine = bench.engine
    inner = engine.pipeline("inner", steps(double))
    run = engine.start(engine.pipeline("p", steps(given).run(inner)).of(0), name="p")
    inputs[:] = [3]
    broken.add("double")
    bench.finish()
    assert run.state is RunState.HALTED
    broken.clear()
    for number, generation in ((4, 2), (5, 3)):
        inputs[:] = [number]
        run.retry("given", reason="other input")
        bench.finish()
        assert (run.state, run["inner"].result) == (RunState.DONE, 2 * number)
        assert generations(engine, "p/inner")[-1] == generation


def test_a_run_that_goes_on_with_other_input_is_not_waited_for(bench: Workbench) -> None:
    engine = bench.engine
    inner = engine.pipeline("inner", steps(double).gate("go", bool).chain(allowed))
    run = engine.start(engine.pipeline("p", steps(given).run(inner)).of(0), name="p")
    inputs[:] = [3]
    bench.drain()
    inputs[:] = [4]
    run.retry("given", reason="other input")
    bench.finish()
    error = run["inner"].error
    assert error is not None
    assert "still runs inner: double(3)" in str(error)
    first = engine.find("p/inner")
    assert first is not None
    first.cancel("its input was wrong")
    run.retry(reason="it is gone")
    bench.drain()
    second = engine.find("p/inner")
    assert second is not None
    second.answer("go", True)
    bench.finish()
    assert (run.state, run["inner"].result) == (RunState.DONE, 8)


def test_a_run_of_somebody_else_under_that_name_is_refused(bench: Workbench) -> None:
    engine = bench.engine
    engine.run(engine.pipeline("alien", steps(upper)).of("something else"), name="p/inner")
    run = engine.start(
        engine.pipeline("p", steps(length).run(engine.pipeline("inner", steps(double)))).of("a"), name="p"
    )
    bench.finish()
    assert run.state is RunState.HALTED
    assert "run 'p/inner'" in str(run["inner"].error)
    assert "exists with other roots" in str(run["inner"].error)


def test_a_run_goes_on_as_it_was_when_its_pipeline_is_defined_anew_meanwhile(tmp_path: Path) -> None:
    first = steps(double).gate("go", bool).chain(allowed)
    for number, inner in enumerate((first, first.chain(note))):
        engine = Engine("memory:", include=[family])
        outer = engine.pipeline("p", steps(length).run(engine.pipeline("inner", inner)))
        with using(engine, str(tmp_path / "s.db"), now=NOON + number * timedelta(hours=1)) as bench:
            run = engine.find("p") or engine.start(outer.of("abc"), name="p")
            bench.drain()
            bench.advance(timedelta(minutes=2))
            bench.drain()
            if number:
                other = engine.find("p/inner")
                assert other is not None
                other.answer("go", True)
                bench.finish()
                assert (run.state, run["inner"].result, noted) == (RunState.DONE, 6, [])


def test_a_route_that_comes_out_of_another_run_is_followed(bench: Workbench) -> None:
    engine = bench.engine
    dag = engine.dag("dag")
    dag.add(sized.of(dag.param("text", str)))
    piped = engine.pipeline("piped", steps(sized))
    ways = engine.pipeline("ways", steps(upper).divert({"A": sized}, otherwise=sized))
    for other in (dag, piped, ways, sized):
        there = steps(upper).run(other, id="other").divert({"short": length}, otherwise=upper)
        name = f"outer {getattr(other, 'name', 'task')}"
        run = engine.start(engine.pipeline(name, there).of("abc"), name=name)
        bench.finish()
        assert (run.state, run["length"].state) == (RunState.DONE, "done"), name


def test_what_came_of_ways_that_stay_apart_is_what_the_one_that_was_taken_gave(bench: Workbench) -> None:
    engine = bench.engine
    long = steps(upper).divide([upper, length]).combine(joined).chain(upper)
    ways = steps(sized).divert({"short": steps(length).chain(double)}, otherwise=long)
    outer = engine.pipeline("outer", steps(upper).run(engine.pipeline("ways", ways)))
    for text, result in (("ab", 4), ("abcdefgh", "ABCDEFGH8")):
        run = engine.start(outer.of(text), name=text)
        bench.finish()
        assert (run.state, run["ways"].result) == (RunState.DONE, result)


def test_what_came_of_branches_that_stay_apart_is_all_of_it(bench: Workbench) -> None:
    engine = bench.engine
    apart = engine.pipeline("apart", steps(upper).divide([length, upper]))
    each = engine.pipeline("each", steps(length).chain(words).expand(length))
    run = engine.start(
        engine.pipeline("outer", steps(upper).divide([steps(upper).run(apart), steps(upper).run(each)])).of("ab"),
        name="o",
    )
    bench.finish()
    assert (run["apart"].result, run["each"].result) == ({"length": 2, "upper#2": "AB"}, [1, 2])


@pytest.mark.parametrize(
    ("what", "result"),
    [
        (steps(words).expand(steps(length).chain(words).expand(length)), [[1], [1, 2]]),
        (steps(words).expand(steps(sized).divert({"short": length}, otherwise=upper)), [1, 2]),
        (steps(words).expand(steps(upper).divide([length, upper])), [{"length": 1, "upper#2": "X"}] * 2),
    ],
    ids=["expand", "divert", "divide"],
)
def test_what_came_of_each_element_is_told_also_where_its_branches_stay_apart(
    bench: Workbench, what: Steps[[int], Any, Any], result: list[Any]
) -> None:
    engine = bench.engine
    inner = engine.pipeline("inner", what)
    run = engine.start(engine.pipeline("outer", steps(length).run(inner)).of("ab"), name="o")
    bench.finish()
    if isinstance(result[0], dict):
        result = [{"length": size, "upper#2": "X" * size} for size in (1, 2)]
    assert run["inner"].result == result


@pytest.mark.parametrize("what", ["empty", "open", "skipped"])
def test_a_step_whose_run_had_nothing_to_do_is_skipped(bench: Workbench, what: str) -> None:
    engine = bench.engine
    expanded = steps(length).chain(words).expand(length)
    others: dict[str, Any] = {
        "empty": engine.pipeline("empty", expanded.collapse(total)),
        "open": engine.pipeline("open", expanded),
        "skipped": nothing_to_do,
    }
    run = engine.start(
        engine.pipeline("outer", steps(upper).run(others[what], id="other").chain(anything)).of(""), name="o"
    )
    bench.finish()
    assert (run.state, run["other"].state, run["anything"].state) == (RunState.DONE, "skipped", "skipped")
    assert "had nothing to do" in str(run["other"].error)


def test_a_step_whose_run_was_left_without_its_last_step_is_skipped(bench: Workbench) -> None:
    engine = bench.engine
    inner = engine.pipeline("inner", steps(length).gate("go", bool).chain(allowed))
    run = engine.start(engine.pipeline("p", steps(upper).run(inner).chain(double)).of("abc"), name="p")
    bench.drain()
    other = engine.find("p/inner")
    assert other is not None
    other.cancel("it can do without", task="allowed")
    other.answer("go", True)
    bench.finish()
    assert other.state is RunState.DONE
    assert (run.state, run["inner"].state, run["double"].state) == (RunState.DONE, "skipped", "skipped")


def test_a_task_that_goes_on_with_a_continuation_gives_what_that_gives(bench: Workbench) -> None:
    engine = bench.engine
    run = engine.start(engine.pipeline("outer", steps(upper).run(forked)).of("abc"), name="o")
    bench.finish()
    assert run["forked"].result == 3


def test_looks_at_another_run_become_ever_more_seldom_and_stay_once_a_minute() -> None:
    waits = [look_again_after(looks) for looks in range(25)]
    assert (waits[0], waits[-1], waits) == (1.0, LONGEST_LOOK, sorted(waits))
    # After weeks, too.
    assert look_again_after(100_000) == LONGEST_LOOK


def test_runs_of_two_steps_alike_are_told_from_generations(bench: Workbench) -> None:
    engine = bench.engine
    inner = engine.pipeline("inner", steps(length).gate("ok", bool).chain(allowed))
    both = steps(upper).divide([steps(upper).run(inner), steps(upper).run(inner)]).combine(joined)
    run = engine.start(engine.pipeline("p", both).of("ab"), name="p")
    bench.drain()
    assert {each.name for each in engine.runs()} == {"p", "p/inner", "p/inner+2"}
    with pytest.raises(ConfigError, match=r"'p/inner#2': generation 2 of 'p/inner' has this name"):
        engine.start(inner.of("x"), name="p/inner#2")
    for name in ("p/inner", "p/inner+2"):
        found = engine.find(name)
        assert found is not None
        found.answer("ok", True)
    bench.finish()
    assert run["joined"].result == "22"


def test_the_longest_names_can_be_run_in_branches_of_the_longest_names(bench: Workbench) -> None:
    engine = bench.engine
    branch = steps(length, id="b" * 255).run(double, id="c" * 255)
    run = engine.start(engine.pipeline("p", steps(words).expand(branch).collapse(total)).of(2), name="o" * 255)
    bench.finish()
    assert (run.state, run["total"].result) == (RunState.DONE, 6)


def test_one_run_works_on_those_that_its_steps_start(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "s.db", include=[family])
    inner = engine.pipeline("inner", steps(length).chain(double))
    outer = engine.pipeline("outer", steps(upper).run(inner).chain(double))
    run = engine.run(outer.of("abc"), name="o")
    assert (run.state, run["double"].result) == (RunState.DONE, 12)
    engine.close()


def test_pipelines_that_would_run_each_other_for_ever_are_refused() -> None:
    engine = Engine("memory:", include=[family])

    def first(of: Steps[Any, Any, Any]) -> Pipeline[Any, Any]:
        return engine.pipeline("first", of)

    second = engine.pipeline("second", steps(double).run(first(steps(double))))
    with pytest.raises(ConfigError, match="first would start itself: first -> second -> first"):
        first(steps(words).expand(steps(length).run(second)))


def test_a_name_means_one_pipeline_or_dag_of_a_program() -> None:
    shared = Tasks(include=[family])
    engine = Engine("memory:", include=[shared])
    kept = shared.pipeline("twice", steps(double))
    for define in (
        lambda: engine.pipeline("twice", steps(length).chain(double)),
        lambda: engine.dag("twice"),
        lambda: shared.dag("twice"),
    ):
        with pytest.raises(
            ConfigError, match=r"two pipelines or DAGs are called 'twice': .*py:\d+ and .*py:\d+\. Rename"
        ):
            define()
    other = Tasks()
    another = other.dag("twice")
    with pytest.raises(ConfigError, match="two pipelines or DAGs are called 'twice'"):
        engine.include(other)
    del kept, another
    assert engine.dag("twice") is not None, "of one that nobody has any more the name is free"


def test_what_is_defined_again_at_the_same_place_is_the_one_that_runs(bench: Workbench) -> None:
    engine = bench.engine

    def inner(of: Steps[Any, Any, Any]) -> Pipeline[Any, Any]:
        return engine.pipeline("inner", of)

    first = inner(steps(double))
    outer = engine.pipeline("outer", steps(length).run(first))
    inner(steps(double).chain(double))
    runs = [engine.start(outer.of("abc"), name="newest")]
    bench.finish()
    runs.append(engine.start(engine.pipeline("again", steps(length).run(first)).of("abc"), name="named"))
    bench.finish()
    assert [run["inner"].result for run in runs] == [12, 6]


def test_a_dag_of_several_params_or_something_that_is_none_of_these_is_refused(bench: Workbench) -> None:
    engine = bench.engine
    with pytest.raises(ConfigError, match="expected a pipeline, a DAG with one param, or a task"):
        steps(length).run(5)  # type: ignore[call-overload]
    dag = engine.dag("two")
    dag.add(double.of(dag.param("a", int)))
    dag.add(double.of(dag.param("b", int)))
    run = engine.start(engine.pipeline("p", steps(length).run(dag)).of("abc"))
    bench.finish()
    error = run["two"].error
    assert error is not None
    assert "expected one param, because it is given one value, got 2" in str(error)


def test_a_step_that_waits_for_its_run_says_so(bench: Workbench) -> None:
    engine = bench.engine
    inner = engine.pipeline("inner", steps(note).gate("ok", bool).chain(allowed))
    outer = engine.pipeline("outer", steps(double).run(inner).chain(note))
    run = engine.start(outer.of(1), name="o")
    bench.drain()
    store = engine._runtime.store
    graph = graph_of(store, run._stored)
    assert graph is not None
    (node,) = (each for each in graph.nodes if each.id == "inner")
    assert node.reason == "waits for run o/inner"
    assert node.task is not None
    assert why(store, node.task).text.endswith("when it looks again: waits for run o/inner")
