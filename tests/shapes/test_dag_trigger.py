"""Triggers: another run is started when all nodes have ended, once, under a name that follows from who starts it."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any, Literal

import pytest

from ramify import ConfigError, Engine, RunState
from ramify.kernel.settings import LaunchedRuns, Settings
from ramify.shapes.dag.dag import Dag
from tests.crash.clients import wait_until
from tests.shapes.dags import add, anything, end, listed, number, numbers, on_day, states, tasks

DAY = date(2026, 1, 5)


def report(engine: Engine) -> Dag:
    """A DAG that is started by others."""
    dag = engine.dag("report")
    dag.add(on_day.of(dag.param("day", date), dag.param("rows", int, 1)), id="shown")
    return dag


def etl(engine: Engine, **options: Any) -> Dag:
    """One that starts it."""
    other = report(engine)
    dag = engine.dag("etl")
    day = dag.param("day", date)
    rows = dag.add(number.of(7), id="rows")
    dag.trigger(other.of(day=day, rows=rows.out), **options)
    return dag


def named(engine: Engine) -> dict[str | None, RunState]:
    """How the runs of a store stand, by name."""
    return {run.name: run.state for run in engine.runs()}


def test_a_run_is_started_with_params_and_results_when_all_nodes_have_ended(both: Engine) -> None:
    run = both.run(etl(both).of(day=DAY), name="etl-0105")
    started = both.find("etl-0105/report")
    assert started is not None
    assert run["trigger:report"].result == started.id
    assert list(started.results()) == ["2026-01-05/7"], "the run that was started is worked on as well"
    assert (run.state, started.state) == (RunState.DONE, RunState.DONE)
    assert (run.definition, started.definition) == ("etl", "report")
    assert states(run) == {"rows": "done", "trigger:report": "done"}


def test_what_is_started_is_left_to_workers_when_the_run_is(both: Engine) -> None:
    run = both.start(etl(both).of(day=DAY), name="etl-0105")
    with both.working(threads=1):
        assert run.wait(30)
        started = both.find("etl-0105/report")
        assert started is not None
        assert started.wait(30)
    assert list(started.results()) == ["2026-01-05/7"]


def test_a_call_is_started_as_a_run_of_its_own(both: Engine) -> None:
    dag = both.dag("etl")
    day = dag.param("day", date)
    dag.trigger(on_day.of(day, n=dag.add(number.of(3)).out), id="told")
    run = both.run(dag.of(day=DAY))
    started = both.find(f"{run.id}/told")
    assert started is not None, "a run without a name goes by its id"
    assert list(started.results()) == ["2026-01-05/3"]


@pytest.mark.parametrize("how", ["done", "failed", "skipped"])
@pytest.mark.parametrize("when", ["done", "failed", "always"])
def test_it_is_started_by_how_the_nodes_ended(
    both: Engine, how: str, when: Literal["done", "failed", "always"]
) -> None:
    dag = both.dag("etl")
    first = dag.add(end.of(how))
    # What cleans up behind a failure does not make it undone.
    dag.add(end.of("done"), id="clean", after=[first], when="always")
    dag.trigger(anything.of(1), when=when)
    run = both.run(dag.of(), name="x")
    starts = when == "always" or (when == "failed") == (how == "failed")
    assert states(run)["trigger:anything"] == ("done" if starts else "skipped")
    assert (both.find("x/anything") is not None) == starts
    assert run.state is (RunState.FAILED if how == "failed" else RunState.DONE)


def test_nothing_is_started_for_want_of_a_result_that_was_skipped(both: Engine) -> None:
    dag = both.dag("etl")
    skipped = dag.add(end.of("skipped"))
    dag.trigger(on_day.of(DAY, dag.add(number.of(1), after=[skipped]).out))
    run = both.run(dag.of(), name="x")
    assert (run.state, states(run)["trigger:on_day"]) == (RunState.DONE, "skipped")
    assert both.find("x/on_day") is None


def test_a_run_of_that_name_with_the_same_roots_is_taken_as_started(both: Engine) -> None:
    dag, other = etl(both), report(both)
    there = both.start(other.of(day=DAY, rows=7), name="etl-0105/report")
    run = both.run(dag.of(day=DAY), name="etl-0105")
    assert run["trigger:report"].result == there.id
    assert len(named(both)) == 2


def test_a_run_of_that_name_with_other_roots_is_not_taken_for_the_one_to_be_started(both: Engine) -> None:
    both.start(anything.of("something else"), name="etl-0105/report")
    run = both.run(etl(both).of(day=DAY), name="etl-0105")
    error = run["trigger:report"].error
    assert error is not None
    assert "'etl-0105/report'" in str(error)
    assert "exists with other roots" in str(error)
    assert len(named(both)) == 2


def test_a_trigger_that_runs_again_starts_the_next_generation(both: Engine) -> None:
    run = both.run(etl(both).of(day=DAY), name="etl-0105")
    run.retry("rows")
    run = both.run(etl(both).of(day=DAY), name="etl-0105")
    started = both.find("etl-0105/report")
    assert started is not None
    assert (started._stored.generation, run["trigger:report"].result) == (2, started.id)


def test_a_trigger_that_failed_and_is_tried_again_starts_the_same_generation(both: Engine) -> None:
    dag = both.dag("etl")
    dag.trigger(on_day.of(DAY, dag.add(anything.of("no number"), id="rows").out), when="always")
    run = both.run(dag.of(), name="x")
    assert (run.state, states(run)["trigger:on_day"]) == (RunState.FAILED, "failed")
    run.resolve("rows", result=4)
    run = both.run(dag.of(), name="x")
    started = both.find("x/on_day")
    assert started is not None
    assert (started._stored.generation, list(started.results())) == (1, ["2026-01-05/4"])


def test_the_next_generation_of_a_run_starts_runs_of_its_own(both: Engine) -> None:
    dag = etl(both)
    both.run(dag.of(day=DAY), name="etl")
    both.run(dag.of(day=DAY), name="etl", again=True)
    assert set(named(both)) == {"etl", "etl/report", "etl#2/report"}


def test_a_part_of_a_dag_starts_nothing_that_is_behind_it(both: Engine) -> None:
    both.run(etl(both).of(day=DAY).part(upto="rows"), name="part")
    assert set(named(both)) == {"part"}


def test_two_triggers_of_one_dag_start_two_runs(both: Engine) -> None:
    other = report(both)
    dag = both.dag("etl")
    dag.add(number.of(1))
    dag.trigger(other.of(day=DAY, rows=1))
    dag.trigger(other.of(day=DAY, rows=2))
    both.run(dag.of(), name="x")
    assert set(named(both)) == {"x", "x/report", "x/report+2"}


def test_triggers_of_dags_that_were_taken_in_start_their_runs_at_the_end_of_the_whole(both: Engine) -> None:
    part, whole = etl(both), both.dag("whole")
    first, second = whole.include(part, "a."), whole.include(part, "b.")
    whole.add(add.of(first["rows"].out, second["rows"].out), id="sum")
    run = both.run(whole.of(day=DAY), name="x")
    assert set(named(both)) == {"x", "x/a.report", "x/b.report"}
    assert [node.id for node in whole.dependencies(whole["a.trigger:report"])] == ["a.rows", "sum"]
    assert run.state is RunState.DONE


def test_one_value_is_passed_on_as_several_params(both: Engine) -> None:
    other = both.dag("sum")
    other.add(add.of(other.param("left", int), other.param("right", int)))
    dag = both.dag("etl")
    n, m = dag.param("n", int), dag.add(number.of(5))
    dag.trigger(other.of(left=n, right=n), id="of params")
    dag.trigger(other.of(left=m.out, right=m.out), id="of results")
    dag.trigger(other.of(left=m.out, right=n), id="of both")
    both.run(dag.of(n=1), name="x")
    found = {run.name: list(run.results()) for run in both.runs() if run.name != "x"}
    assert found == {"x/of params": [2], "x/of results": [10], "x/of both": [6]}


def test_a_finished_line_goes_on_with_what_it_started(both: Engine) -> None:
    """The program was killed when its own run had ended, and what that had started had not."""
    dag = etl(both)
    run = both.start(dag.of(day=DAY), name="etl")
    _work_on_only(both, run.id)
    assert named(both) == {"etl": RunState.DONE, "etl/report": RunState.OPEN}
    both.run(dag.of(day=DAY), name="etl")
    assert named(both) == {"etl": RunState.DONE, "etl/report": RunState.DONE}


class Nothing(LaunchedRuns):
    """As if the program was killed before it came to what its run had started."""

    def add(self, run: int) -> None:
        pass


def _work_on_only(engine: Engine, run: int) -> None:
    engine._runtime.kernel(Settings(runs=frozenset({run}), launched=Nothing(), until_ended=True, threads=0)).run()


def test_a_trigger_waits_for_a_process_that_knows_its_dag(tmp_path: Path) -> None:
    knows, lacks = Engine(tmp_path / "s.db", include=[tasks]), Engine(tmp_path / "s.db", include=[tasks])
    dag = etl(knows)
    run = knows.start(dag.of(day=DAY), name="etl")
    with lacks.working(threads=1):
        logs = knows._runtime.store.reads.logs
        wait_until(lambda: logs(run.id).rows, "a line that says what it lacks")
    assert run["trigger:report"].state == "ready", "it is due later"
    assert "'report' is not defined here" in logs(run.id).rows[0].line.text
    lacks.close()
    knows.close()


def test_whoever_serves_the_nodes_serves_what_follows_them(both: Engine) -> None:
    dag = both.dag("etl")
    dag.add(number.of(1).queue("gpu")).produces("x")
    dag.trigger(anything.of(1).queue("gpu"))
    run = both.start(dag.of())
    with both.working(queues=["gpu"], threads=1):
        assert run.wait(30)
    assert run.state is RunState.DONE


# what is refused


def test_dags_that_start_each_other_are_refused_with_the_way(both: Engine) -> None:
    one, two, three = both.dag("one"), both.dag("two"), both.dag("three")
    for dag in (one, two, three):
        dag.add(number.of(1))
    with pytest.raises(ConfigError, match="one would start itself: one -> one"):
        one.trigger(one.of())
    one.trigger(two.of())
    two.trigger(three.of())
    before = len(three)
    with pytest.raises(ConfigError, match="three would start itself: three -> one -> two -> three"):
        three.trigger(one.of())
    assert len(three) == before
    one.trigger(three.of(), id="at once")  # two ways to one are no cycle
    with pytest.raises(ConfigError, match="three would start itself: three -> two -> three"):
        three.include(one, "in.")
    assert len(three) == before


def test_what_cannot_be_started_is_refused_where_it_is_written(both: Engine) -> None:
    other, dag, stranger = report(both), both.dag("etl"), both.dag("stranger")
    rows = dag.add(numbers.of(3))
    elsewhere = stranger.param("day", date)
    with pytest.raises(ConfigError, match=r"trigger\(\): expected a call or a run of a DAG, got"):
        dag.trigger(other)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="expected a whole DAG\\. Leave part\\(\\) out"):
        dag.trigger(other.of(day=DAY).part(only=["shown"]))
    with pytest.raises(ConfigError, match=r'trigger\(when=.any-done.\): expected "done" or "failed" or "always"'):
        dag.trigger(other.of(day=DAY), when="any-done")  # type: ignore[arg-type]
    with pytest.raises(
        ConfigError, match=r"report: rows: expected int, got the <result of numbers>, which is list\[int\]"
    ):
        other.of(day=DAY, rows=rows.out)
    with pytest.raises(ConfigError, match=r"expected a param of this DAG, got the <param day>"):
        dag.trigger(other.of(day=elsewhere))
    with pytest.raises(ConfigError, match=r"expected a node of this DAG, got .*\. include\(\) its DAG first"):
        dag.trigger(number.of(stranger.add(number.of(1)).out))
    with pytest.raises(ConfigError, match="id='numbers': this id is taken"):
        dag.trigger(other.of(day=DAY), id="numbers")
    assert dag.starts == {}
    mapped = dag.map(number.of(rows.each))
    with pytest.raises(ConfigError, match=r"expected one value, got .*\. Collect them in a node first"):
        dag.trigger(listed.of(mapped.out))


def test_nothing_waits_for_a_trigger(both: Engine) -> None:
    dag = both.dag("etl")
    first = dag.add(number.of(1), id="first")
    started = dag.trigger(anything.of(1))
    for wrong in (
        lambda: dag.add(number.of(started.out)),
        lambda: dag.add(number.of(1), id="next", after=[started]),
        lambda: first.after(started),
    ):
        with pytest.raises(ConfigError, match="cannot wait for trigger:anything, which starts after all other nodes"):
            wrong()


def test_a_run_to_be_that_takes_what_is_not_known_is_refused_elsewhere(both: Engine) -> None:
    dag = both.dag("etl")
    with pytest.raises(
        ConfigError, match="report: day: expected a value, got the <param day>\\. Only trigger\\(\\) takes it"
    ):
        both.start(report(both).of(day=dag.param("day", date)))
