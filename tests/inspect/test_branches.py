"""The graph of a run of a pipeline: gates, sleeps, ways and branches as what they are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ramify import Engine, Run, Steps, Stream, Tasks, steps
from ramify.cli import definition
from ramify.inspect.branches import answer_lines, with_branches
from ramify.inspect.folding import boxes_of, remarks_of
from ramify.inspect.graph import Graph, GraphNode, Role
from ramify.inspect.run_graph import graph_of
from ramify.inspect.words import moment
from ramify.testing import Workbench, using

jobs = Tasks()


@jobs.task
def numbers(count: int) -> list[int]:
    return list(range(count))


@jobs.task(retries=0)
def check(n: int) -> int:
    if n == 2:
        raise ValueError(f"{n} is broken")
    return n


@jobs.task
def load(n: int, dock: str = "") -> int:
    return n


@jobs.task
def total(loaded: Stream[int]) -> int:
    return sum(loaded)


@jobs.task
def last(n: int) -> int:
    return n


shipping = steps(numbers).expand(steps(check).gate("dock", str).chain(load)).collapse(total)


@pytest.fixture(params=["memory:", "shown.db"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workbench]:
    """An engine with these tasks on each store, and time that stands still."""
    engine = Engine("unused.db", include=[jobs])
    with using(engine, request.param if request.param == "memory:" else tmp_path / request.param) as prepared:
        yield prepared


def began(bench: Workbench, what: Steps[[int], Any, Any], count: int = 4) -> Run[Any]:
    run = bench.engine.start(bench.engine.pipeline("shipping", what).of(count), name="shipping")
    bench.drain(raising=False)
    return run


def look(bench: Workbench, run: Run[Any], limit: int | None = None) -> Graph:
    store = bench.engine._runtime.store
    graph = graph_of(store, store.reads.run(run.id))
    assert graph is not None
    return with_branches(store, graph, limit)


def node(graph: Graph, id: str) -> GraphNode:
    (found,) = [each for each in graph.nodes if each.id == id]
    return found


def remarks(graph: Graph, id: str) -> list[str]:
    (box,) = [box for box in boxes_of(graph) if graph.nodes[box.nodes[0]].id == id]
    return remarks_of(graph, box)


def test_a_gate_says_since_when_until_when_and_what_for(bench: Workbench) -> None:
    days = timedelta(days=3)
    run = began(bench, steps(last).gate("dock", str, timeout=days).chain(load))
    now = bench.clock.now()
    until = now + round(days / timedelta(microseconds=1))
    graph = look(bench, run)
    gate = node(graph, "dock")
    assert (gate.role, gate.state, gate.since, gate.due, gate.gates) == (Role.GATE, "waiting", now, until, ("dock",))
    assert remarks(graph, "dock") == [f"waits for an answer since {moment(now)} until {moment(until)}: string"]
    assert list(answer_lines(graph, 3)) == ["answer with: ramify answer shipping dock JSON"]
    run.answer("dock", "east", by="ann", reason="it is free")
    graph = look(bench, run)
    assert (node(graph, "dock").gates, remarks(graph, "dock")) == ((), ["gate", "answered by ann: it is free"])
    assert list(answer_lines(graph, 3)) == []


def test_a_gate_that_took_what_was_said_for_its_time_out_says_so(bench: Workbench) -> None:
    run = began(bench, steps(last).gate("dock", str, timeout=timedelta(hours=1), otherwise="west").chain(load))
    bench.advance(3600)
    bench.drain()
    assert remarks(look(bench, run), "dock") == ["gate", "its time was up"]


def test_a_sleep_says_until_when(bench: Workbench) -> None:
    run = began(bench, steps(last).sleep(timedelta(hours=1)).chain(last, id="later"))
    graph = look(bench, run)
    assert (node(graph, "sleep").role, node(graph, "sleep").state) == (Role.SLEEP, "waiting")
    assert remarks(graph, "sleep") == [f"due {moment(bench.clock.now() + 3_600_000_000)}"]


def test_the_way_that_was_taken_is_told_from_the_others(bench: Workbench) -> None:
    run = began(bench, steps(last).divert({4: load}, otherwise=check).converge(last, id="met"))
    graph = look(bench, run)
    assert (node(graph, "last=4").state, node(graph, "load").state) == ("done", "done")
    assert remarks(graph, "last=4") == ["the way that was taken"]
    assert remarks(graph, "last=otherwise") == ["a way that was not taken", "4 was chosen"]
    assert remarks(graph, "check") == ["last=otherwise was skipped"]
    assert (node(graph, "(met)").role, remarks(graph, "(met)")) == (Role.MEET, ["where ways meet"])


def test_branches_that_failed_or_wait_are_told_with_what_each_is_at(bench: Workbench) -> None:
    run = began(bench, shipping)
    graph = look(bench, run)
    since = moment(bench.clock.now())
    branches = [(each.id, each.state, each.reason, each.gates) for each in graph.nodes if each.role is Role.BRANCH]
    assert branches == [
        ("check[2]", "failed", "check: ValueError: 2 is broken", ()),
        *(
            (f"check[{n}]", "waiting", f"dock waits for an answer since {since}: string", (f"check[{n}].dock",))
            for n in (0, 1, 3)
        ),
    ]
    assert node(graph, "check").parts == {"waiting": 3, "failed": 1}
    assert remarks(graph, "check") == ["1 failed, 3 waiting", "branches of check, dock, load"]
    assert list(answer_lines(graph, 2)) == [
        "answer with: ramify answer shipping 'check[0].dock' JSON",
        "answer with: ramify answer shipping 'check[1].dock' JSON",
        "`ramify gates` lists all of them",
    ]
    run.answer("check[1].dock", "east")
    bench.drain()
    assert node(look(bench, run), "check").parts == {"waiting": 2, "done": 1, "failed": 1}


def test_a_branch_that_waits_for_a_run_says_for_which(bench: Workbench) -> None:
    inner = bench.engine.pipeline("inner", steps(last).gate("ok", str).chain(load))
    run = began(bench, steps(numbers).expand(steps(last).run(inner)).collapse(total), 1)
    due = moment(bench.clock.now() + 1_000_000)
    assert node(look(bench, run), "last[0]").reason == f"inner: waits for run shipping/last[0].inner, due {due}"


def test_of_many_branches_some_are_told_and_how_many_others_there_are(bench: Workbench) -> None:
    run = began(bench, shipping, 30)
    graph = look(bench, run, 5)
    branches = [each for each in graph.nodes if each.role is Role.BRANCH]
    assert [each.id for each in branches] == ["check[2]", "check[0]", "check[1]", "check[3]", "check[4]", "…"]
    assert branches[-1].reason == "25 others"
    assert len([each for each in look(bench, run).nodes if each.role is Role.BRANCH]) == 30
    assert node(graph, "check").parts == {"waiting": 29, "failed": 1}


def test_branches_within_branches_are_told_by_their_whole_names(bench: Workbench) -> None:
    inner = steps(numbers).expand(steps(last).gate("dock", str).chain(load)).collapse(total)
    run = began(bench, steps(numbers).expand(inner).collapse(total, id="grand"), 3)
    graph = look(bench, run)
    found = [each.id for each in graph.nodes if each.role is Role.BRANCH]
    assert found == ["numbers#2[1].last[0]", "numbers#2[2].last[0]", "numbers#2[2].last[1]"]


def test_a_single_step_of_an_expansion_is_a_branch_too(bench: Workbench) -> None:
    run = began(bench, steps(numbers).expand(check).collapse(total))
    graph = look(bench, run)
    (branch,) = [each for each in graph.nodes if each.role is Role.BRANCH]
    assert (branch.id, branch.state, branch.reason) == ("check[2]", "failed", "check: ValueError: 2 is broken")
    assert node(graph, "check").parts == {"done": 3, "failed": 1}


def test_a_definition_shows_what_gates_ask_for_and_what_branches_do(bench: Workbench) -> None:
    pipeline = bench.engine.pipeline("shipping", shipping)
    graph = definition.graph_of(pipeline._dag)
    assert [each.id for each in graph.nodes] == ["numbers", "check", "total"]
    assert remarks(graph, "check") == ["branches of check, dock, load"]
    gated = definition.graph_of(bench.engine.pipeline("gated", steps(last).gate("dock", str).chain(load))._dag)
    assert remarks(gated, "dock") == ["gate: string"]
