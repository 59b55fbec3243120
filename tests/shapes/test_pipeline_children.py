"""Steps that run something else as a run of its own: `steps(...).run(other)`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ramify import ConfigError, Engine, Fatal, RunState, Stream, Tasks, steps
from ramify.testing import using
from ramify.testing.using import Workbench

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)

family = Tasks()
#: What fails, for as long as it is in here.
broken: set[str] = set()


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
    if "double" in broken:
        raise Fatal("it is broken")
    return 2 * number


@family.task
def total(numbers: Stream[int]) -> int:
    """All of them together."""
    return sum(numbers)


@pytest.fixture(autouse=True)
def nothing_is_broken() -> None:
    broken.clear()


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


def test_a_run_that_does_not_end_well_halts_the_step_and_a_revival_runs_it_anew(bench: Workbench) -> None:
    engine = bench.engine
    inner = engine.pipeline("inner", steps(double))
    run = engine.start(engine.pipeline("p", steps(length).run(inner).chain(double)).of("abc"), name="p")
    broken.add("double")
    bench.finish()
    assert (run.state, run["inner"].state, run["double"].state) == (RunState.HALTED, "failed", "skipped")
    error = run["inner"].error
    assert error is not None
    assert "p/inner" in str(error)
    assert "ended as halted" in str(error)
    broken.clear()
    other = engine.find("p/inner")
    assert other is not None
    other.retry(reason="mended")
    bench.finish()
    run.retry(reason="mended")
    bench.finish()
    assert (run.state, run["double"].result) == (RunState.DONE, 12)


def test_one_run_works_on_those_that_its_steps_start(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "s.db", include=[family])
    inner = engine.pipeline("inner", steps(length).chain(double))
    outer = engine.pipeline("outer", steps(upper).run(inner).chain(double))
    run = engine.run(outer.of("abc"), name="o")
    assert (run.state, run["double"].result) == (RunState.DONE, 12)
    engine.close()


def test_pipelines_that_would_run_each_other_for_ever_are_refused() -> None:
    engine = Engine("memory:", include=[family])
    first = engine.pipeline("first", steps(double))
    second = engine.pipeline("second", steps(double).run(first))
    with pytest.raises(ConfigError, match="first would start itself: first -> second -> first"):
        engine.pipeline("first", steps(words).expand(steps(length).run(second)))


def test_a_dag_of_several_params_or_something_that_is_none_of_these_is_refused(bench: Workbench) -> None:
    engine = bench.engine
    with pytest.raises(ConfigError, match="give a task"):
        steps(length).run(5)  # type: ignore[call-overload]
    dag = engine.dag("two")
    dag.add(double.of(dag.param("a", int)))
    dag.add(double.of(dag.param("b", int)))
    run = engine.start(engine.pipeline("p", steps(length).run(dag)).of("abc"))
    bench.finish()
    error = run["two"].error
    assert error is not None
    assert "it has 2 params, and is given one value" in str(error)
