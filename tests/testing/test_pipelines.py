"""Pipelines in a test: steps given results, gates answered or given, and time that passes when the test says so."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from ramify import ConfigError, RunState, steps
from ramify.testing import Workbench, using
from tests.engine import ordering
from tests.engine.ordering import DAYS, Decision

engine = ordering.engine_on("unused.db")
order = engine.pipeline("order", ordering.by_default)
lines = engine.pipeline("lines", ordering.per_line)


@pytest.fixture(params=["memory:", "test.db"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workbench]:
    with using(engine, request.param if request.param == "memory:" else tmp_path / request.param) as prepared:
        yield prepared


def test_gates_are_answered_between_two_drains(bench: Workbench) -> None:
    run = engine.start(order.of("o-17"))
    bench.drain()
    assert (bench.gates(), bench.gates(run), run["approval"].state) == (["approval"], ["approval"], "waiting")
    run.answer("approval", Decision(True))
    assert bench.gates() == []
    bench.drain()
    assert (run.state, run["decide"].result) == (RunState.DONE, "o-17: yes")


def test_time_passes_for_gates_and_sleeps_when_the_test_says_so(bench: Workbench) -> None:
    slow = engine.pipeline("slow", steps(ordering.receive).sleep(timedelta(hours=3)).chain(ordering.receive, id="late"))
    asleep, asking = engine.start(slow.of("a")), engine.start(order.of("b"))
    bench.drain()
    assert (asleep["sleep"].state, asleep["late"].state) == ("waiting", "waiting")
    bench.advance(timedelta(hours=3))
    bench.drain()
    assert (asleep["late"].result, bench.gates(asking)) == ("a", ["approval"])
    bench.advance(DAYS)
    bench.drain()
    assert asking["decide"].result == "b: no"


def test_a_run_to_the_end_goes_to_the_time_out_of_a_gate(bench: Workbench) -> None:
    began = bench.now
    run = engine.run(order.of("o-17"))
    assert (run["decide"].result, bench.now - began) == ("o-17: no", DAYS)


def test_a_run_to_the_end_of_what_waits_for_ever_says_which_gate_is_open(bench: Workbench) -> None:
    patient = engine.pipeline("patient", ordering.approval)
    with pytest.raises(ConfigError, match=r"the gate 'approval' waits for an answer.*run\.answer\('approval', …\)"):
        engine.run(patient.of("o-17"))


def test_a_run_to_the_end_says_which_gate_is_open_in_a_run_that_it_waits_for(bench: Workbench) -> None:
    patient = engine.pipeline("patient", ordering.approval)
    between = engine.pipeline("between", steps(ordering.receive).run(patient))
    outer = engine.pipeline("outer", steps(ordering.receive).run(between))
    awaited = r"it waits for run a/between/patient, in which the gate 'approval' waits for an answer"
    with pytest.raises(ConfigError, match=rf"{awaited}.*find\('a/between/patient'\)\.answer\('approval', …\)"):
        engine.run(outer.of("o-17"), name="a")


def test_a_run_to_the_end_says_which_run_it_waits_for_when_that_is_paused(bench: Workbench) -> None:
    slow = engine.pipeline("slow", steps(ordering.receive).sleep(timedelta(hours=3)))
    run = engine.start(engine.pipeline("outer", steps(ordering.receive).run(slow)).of("o-17"), name="a")
    bench.drain()
    awaited = engine.find("a/slow")
    assert awaited is not None
    awaited.pause()
    with pytest.raises(ConfigError, match=r"it waits for run a/slow, and nothing of that can run"):
        run.wait()


def test_a_run_to_the_end_goes_to_the_time_out_of_a_gate_in_a_run_that_it_waits_for(bench: Workbench) -> None:
    outer = engine.pipeline("outer", steps(ordering.receive).divide([steps(ordering.receive).run(order)]))
    began = bench.now
    run = engine.run(outer.of("o-17"))
    assert (run["order"].result, (bench.now - began).days) == ("o-17: no", DAYS.days)
    looks = engine._runtime.store.reads.events(run["order"].task, run["order"].task)
    assert len(looks) < 10, "nobody looks once a minute for three days"


def test_a_step_hears_of_its_run_soon_although_another_one_waits_for_long(bench: Workbench) -> None:
    short = engine.pipeline("short", steps(ordering.receive).sleep(timedelta(seconds=80.5)))
    late = steps(ordering.receive)
    for _ in range(8):  # meanwhile the other one looks ever more seldom
        late = late.sleep(timedelta(seconds=10))
    ways = [late.run(order), steps(ordering.receive).run(short).chain(ordering.receive, id="heard")]
    began = bench.now
    run = engine.run(engine.pipeline("outer", steps(ordering.receive).divide(ways)).of("o-17"))
    heard = max(each.end for each in run.timeline() if each.node == "heard")
    assert heard - began < timedelta(minutes=5)
    assert bench.now - began > DAYS


def test_a_gate_is_given_its_answer_like_any_step(bench: Workbench) -> None:
    run = engine.run(order.of("o-17").part(given={"approval": Decision(True)}))
    assert (run.state, run["decide"].result) == (RunState.DONE, "o-17: yes")
    with pytest.raises(ConfigError, match=r"given=\{'approval': …\}: .*it.approved must be boolean"):
        order.of("o-17").part(given={"approval": {"approved": "yes"}})


def test_the_first_step_is_given_its_result_too(bench: Workbench) -> None:
    given = {"receive": "another", "approval": Decision(False)}
    run = engine.run(order.of("o-17").part(given=given))
    assert (run["decide"].result, run.state) == ("another: no", RunState.DONE)


def test_a_part_ends_where_it_is_told_to(bench: Workbench) -> None:
    run = engine.run(order.of("o-17").part(upto="receive"))
    assert (run["receive"].result, run.state, bench.gates()) == ("o-17", RunState.DONE, [])


def test_what_came_of_branches_is_given_as_a_list(bench: Workbench) -> None:
    run = engine.run(lines.of("o-17").part(given={"weigh": ["a", "b"]}))
    assert run["ship"].result == ["a", "b"]
    none = engine.run(lines.of("o-17").part(given={"weigh": []}))
    assert none["ship"].state == "skipped", "as it is when there was nothing to expand"


def test_a_step_that_is_given_a_failure_halts_the_run(bench: Workbench) -> None:
    run = engine.run(order.of("o-17").part(given={"receive": ValueError("lost")}))
    assert (run.state, run["decide"].state) == (RunState.HALTED, "skipped")


def test_steps_are_replaced_by_others() -> None:
    with using(engine, tasks={ordering.decide: lambda order, decision: f"{order} {decision}"}) as bench:
        run = engine.start(order.of("o-17"))
        bench.drain()
        run.answer("approval", {"approved": True})
        bench.drain()
        assert run["decide"].result == "o-17 Decision(approved=True, note='')"


def test_gates_of_branches_are_answered_one_by_one(bench: Workbench) -> None:
    run = engine.start(lines.of("o-17"))
    bench.drain()
    for gate in bench.gates(run):
        run.answer(gate, gate[6])
    bench.drain()
    assert run["ship"].result == ["0 at 0", "1 at 1", "2 at 2"]
