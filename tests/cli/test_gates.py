"""`ramify gates` and `ramify answer`: a person at a terminal, without the program that asks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ramify import Run, RunState, Steps, steps
from ramify.inspect.live import ROWS
from ramify.model.gate import GATE
from ramify.model.policy import PARKED, SECOND
from ramify.model.task import NewTasks
from ramify.testing import Workbench, using
from tests.cli.conftest import HOSTILE, RAW, Desk
from tests.engine import ordering


@pytest.fixture
def bench(desk: Desk) -> Iterator[Workbench]:
    """An engine on the store of the desk, with time that stands still."""
    with using(ordering.engine_on("unused.db"), desk.folder / "walk.db") as prepared:
        yield prepared


def began(bench: Workbench, pipeline: Steps[[str], Any, Any] = ordering.by_default, name: str = "o-17") -> Run[Any]:
    run = bench.engine.start(bench.engine.pipeline("order", pipeline).of("o-17"), name=name)
    bench.drain()
    return run


def test_without_gates_there_is_nothing_to_answer(desk: Desk) -> None:
    assert desk.out("gates") == "no gate waits for an answer\n"
    assert desk.json("gates") == []


def test_gates_lists_those_of_all_runs_by_task(desk: Desk, bench: Workbench) -> None:
    began(bench, name="first")
    bench.advance(1)
    began(bench, ordering.approval, name="second")
    head, first, second, hint = desk.out("gates").splitlines()
    assert head.split("  ")[0] == "run"
    assert first.startswith("first   approval")
    assert first.endswith("  {approved: boolean, note?: string}")
    assert second.startswith("second  approval")
    assert hint == "answer one with: ramify answer first approval JSON"
    assert len(desk.json("gates")) == 2
    assert [each["name"] for each in desk.json("gates", "second")] == ["second"]


def test_gates_are_listed_page_by_page(desk: Desk, bench: Workbench) -> None:
    run = began(bench, ordering.per_line)
    *_, hint, more = desk.out("gates", "-n", "2").splitlines()
    second = run["weigh[1].dock"].task
    assert (hint, more) == ("answer one with: ramify answer o-17 'weigh[0].dock' JSON", f"… more: --after {second}")
    _, line, hint = desk.out("gates", "o-17", "--limit", "2", "--after", str(second)).splitlines()
    assert line.startswith("o-17  weigh[2].dock")
    assert hint == "answer one with: ramify answer o-17 'weigh[2].dock' JSON"
    last = run["weigh[2].dock"].task
    assert desk.out("gates", "--after", str(last)) == "no more gates wait for an answer\n"
    assert [gate["task"] for gate in desk.json("gates", "-n", "2")][-1] == second
    assert desk.err("gates", "-n", "2", "--json").splitlines()[-1] == f"… more: --after {second}"
    assert "more" not in desk.err("gates", "--json")


def test_gates_behind_very_many_live_rows_are_listed_too(desk: Desk) -> None:
    house = desk.house
    day = house.store.now() + 86_400 * SECOND
    run, ids = house.any_run(house.tasks(due=day), name="walk"), house.store.reserve(ROWS)
    for low in range(0, ROWS, 1_000):
        some = range(low, low + 1_000)
        house.add(run, *(NewTasks(ids + place, "walk", [b"0"], due=day + place + 1) for place in some))
    house.any_run(house.tasks([b'[{"name":"approval"}]'], kind=GATE, keys=[b"approval"], due=PARKED), name="order")
    (gate,) = desk.json("gates")
    assert (gate["name"], gate["gate"], gate["since"]) == ("order", "approval", None)
    assert len(desk.json("gates", "order")) == 1
    assert "left: 50,001 due later (next in" in desk.out("status", "walk")
    assert desk.json("status", "walk")[0]["complete"]


def test_gates_tells_programs_all_there_is_to_know(desk: Desk, bench: Workbench) -> None:
    run = began(bench)
    (gate,) = desk.json("gates", "o-17")
    assert (gate["run"], gate["name"], gate["gate"], gate["task"]) == (run.id, "o-17", "approval", run["approval"].task)
    assert gate["asks_for"] == "{approved: boolean, note?: string}"
    assert gate["schema"]["$defs"]["Decision"]["required"] == ["approved"]
    assert gate["otherwise"] == {"value": {"approved": False, "note": ""}}
    assert gate["since"] < gate["until"]
    assert gate["age"] >= 0


def test_a_gate_whose_time_is_up_while_nobody_works_says_so(desk: Desk, bench: Workbench) -> None:
    began(bench, ordering.soon)
    assert "its time is up" in desk.out("gates")


def test_answer_answers(desk: Desk, bench: Workbench) -> None:
    run = began(bench)
    said = desk.out("answer", "o-17", "approval", '{"approved": true}', "--by", "ann", "--reason", "known")
    assert said.startswith("approval of o-17 is answered\n")
    assert "nobody works on this store" in said
    bench.drain()
    assert (run.state, run["decide"].result) == (RunState.DONE, "o-17: yes")
    told = desk.out("events", str(run["approval"].task))
    assert "decided by ann: known" in told
    assert 'counts as done: {"approved": true}' in told
    assert 'gate("approval")' in told
    assert all(process.reaped for process in desk.house.store.reads.processes())


def test_the_second_answer_is_refused_with_exit_code_1(desk: Desk, bench: Workbench) -> None:
    began(bench)
    assert desk.json("answer", "o-17", "approval", '{"approved": true}', "--by", "ann")[0]["gate"] == "approval"
    late = desk.err("answer", "o-17", "approval", '{"approved": false}', code=1)
    assert "the gate 'approval' of run" in late
    assert "has ended: answered by ann" in late


@pytest.mark.parametrize(
    ("gate", "value", "what"),
    [
        ("approval", "yes", """expected JSON, got 'yes'"""),
        ("approval", "yes", """Text needs quotes: '"yes"'"""),
        ("approval", "it's", """Text needs quotes: '"it'\\''s"'"""),
        ("approval", '{"approved": yes}', "expected JSON, got "),
        ("approval", "", "expected JSON, got "),
        ("approval", '"yes"', "the gate 'approval' does not take 'yes': it must be object"),
        ("approval", '"yes"', "It asks for {approved: boolean, note?: string}."),
        ("approval", "{}", "it lacks 'approved'. It asks for {approved: boolean, note?: string}."),
        ("aproval", "true", "Did you mean 'approval'?"),
        ("decide", "true", "is not a gate and takes no answer. Open gates: approval."),
    ],
)
def test_what_was_typed_wrong_is_told_and_leaves_the_gate_open(
    desk: Desk, bench: Workbench, gate: str, value: str, what: str
) -> None:
    began(bench)
    assert what in desk.err("answer", "o-17", gate, value, code=2)
    assert len(desk.json("gates")) == 1


def test_a_gate_of_a_branch_is_answered_by_its_whole_name(desk: Desk, bench: Workbench) -> None:
    run = began(bench, ordering.per_line)
    assert "ramify answer o-17 'weigh[0].dock' JSON" in desk.out("gates")
    for line in range(3):
        desk.out("answer", "o-17", f"weigh[{line}].dock", f'"dock {line}"')
    bench.drain()
    assert run["ship"].result == ["0 at dock 0", "1 at dock 1", "2 at dock 2"]


def test_the_open_gates_are_told_to_whoever_leaves_out_the_branch(desk: Desk, bench: Workbench) -> None:
    began(bench, ordering.per_line)
    said = desk.err("answer", "o-17", "dock", '"dock 1"', code=2)
    assert "Open gates: weigh[0].dock, weigh[1].dock, weigh[2].dock." in said


def test_resolve_takes_nothing_else_for_a_gate_than_an_answer(desk: Desk, bench: Workbench) -> None:
    run = began(bench)
    task = str(run["approval"].task)
    for wrong in ('"yes"', "null", "{}"):
        assert "the gate 'approval' does not take" in desk.err("resolve", task, "--result", wrong, code=2)
    desk.out("resolve", task, "--result", '{"approved": true}')
    bench.drain()
    assert run["decide"].result == "o-17: yes"


def test_status_and_runs_say_which_tasks_failed(desk: Desk, bench: Workbench) -> None:
    run = began(bench, ordering.in_time)
    assert desk.json("runs")[0]["reason"] is None
    bench.advance(timedelta(days=4))
    bench.drain(raising=False)
    assert (run.state, run.reason) == (RunState.HALTED, "1 task failed: approval")
    assert "because: 1 task failed: approval" in desk.out("status", "o-17")
    assert desk.json("runs")[0]["reason"] == "1 task failed: approval"


def test_why_and_status_point_to_the_answer(desk: Desk, bench: Workbench) -> None:
    run = began(bench)
    told = desk.out("why", str(run["approval"].task))
    assert "waits for an answer since" in told
    assert "ramify answer o-17 approval JSON" in told
    assert "1 open gate (`ramify gates` says what for)" in desk.out("status", "o-17")


def test_hostile_texts_are_never_raw(desk: Desk, bench: Workbench) -> None:
    run = began(bench, ordering.approval)
    run.answer("approval", {"approved": True, "note": HOSTILE}, by=HOSTILE, reason=HOSTILE)
    for command in (["events", "o-17"], ["events", str(run["approval"].task)], ["show", "o-17"]):
        assert not set(RAW) & set(desk.out(*command))
    said = desk.err("answer", "o-17", "approval", '{"approved": true}', code=1)
    assert not set(RAW) & set(said.replace("\n", ""))


def test_gates_need_no_user_code_and_may_be_read_only(desk: Desk, bench: Workbench, tmp_path: Path) -> None:
    began(bench)
    (desk.folder / "walk.db").chmod(0o444)
    assert "approval" in desk.out("gates")


def test_a_sleep_is_no_gate(desk: Desk, bench: Workbench) -> None:
    run = began(bench, steps(ordering.receive).sleep(timedelta(hours=1)).chain(ordering.receive))
    assert desk.json("gates") == []
    assert "is not a gate and takes no answer" in desk.err("answer", "o-17", "sleep", "1", code=2)
    assert run.state is RunState.OPEN
