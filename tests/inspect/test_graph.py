"""The graph of a run: every node with its state, what it waits for and how long it took, on every store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ramify import Engine
from ramify.cli import definition
from ramify.inspect.graph import Graph, NodeState, Role
from ramify.inspect.run_graph import graph_of
from ramify.model.commit import Later
from ramify.model.decision import Said
from ramify.model.event import Status
from ramify.model.outcome import Failure
from ramify.model.policy import SECOND
from ramify.testing.conformance import House
from tests.inspect.dags import (
    add,
    begun,
    diamond,
    fork,
    gate,
    held,
    jobs,
    name,
    node,
    numbers,
    odd,
    started,
    states,
    waits,
    walk,
)


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An engine with the tasks to look at."""
    gate.clear()
    begun.clear()
    engine = Engine("memory:" if request.param == "memory" else str(tmp_path / "graph.db"), include=[jobs])
    yield engine
    gate.set()
    engine.close()


def look(engine: Engine, run: int) -> Graph:
    reads = engine._runtime.store.reads
    found = graph_of(engine._runtime.store, reads.run(run))
    assert found is not None
    return found


def test_each_node_stands_as_its_task_does_and_says_what_it_waits_for(house: House) -> None:
    run = started(house.store, diamond())
    graph = graph_of(house.store, run)
    assert states(graph) == {"a": "ready", "b": "waiting", "c": "waiting", "d": "waiting"}
    assert [waits(graph, id) for id in "abcd"] == [[], ["a"], ["a"], ["b", "c"]]
    worker = house.worker()
    claim = worker.take()
    assert states(graph_of(house.store, run))["a"] == "running"
    worker.done(claim)
    graph = graph_of(house.store, run)
    assert states(graph) == {"a": "done", "b": "ready", "c": "ready", "d": "waiting"}
    claim = worker.take()
    worker.end(claim, claim.tasks[:1], status=Status.FAILED, values=[Failure("OSError", "no disk").encode()])
    graph = graph_of(house.store, run)
    assert states(graph) == {"a": "done", "b": "failed", "c": "running", "d": "waiting"}
    assert waits(graph, "d") == ["c"]
    assert node(graph, "b").reason == "OSError: no disk"
    assert node(graph, "b").attempts == 1
    worker.done(claim, claim.tasks[1:])
    worker.end(worker.take(), status=Status.SKIPPED)
    assert states(graph_of(house.store, run)) == {"a": "done", "b": "failed", "c": "done", "d": "skipped"}


def test_levels_and_edges_are_those_of_the_definition(house: House) -> None:
    dag = diamond()
    pick = dag.add(name.of(1), id="pick")
    dag.add(walk.of(2), id="rare", after=[pick.case("2")], when="any-done")
    dag.map(walk.of(dag.add(numbers.of(3)).each), id="each")
    defined = definition.graph_of(dag)
    stored = graph_of(house.store, started(house.store, dag))
    assert stored is not None

    def known(graph: Graph) -> dict[str, object]:
        return {
            each.id: (each.kind, each.role, each.level, [graph.nodes[place].id for place in each.needs], each.when)
            for each in graph.nodes
        }

    assert known(stored) == known(defined)
    assert known(defined) == {
        "a": ("walk", Role.TASK, 0, [], "done"),
        "b": ("walk", Role.TASK, 1, ["a"], "done"),
        "c": ("walk", Role.TASK, 1, ["a"], "done"),
        "d": ("walk", Role.TASK, 2, ["b", "c"], "done"),
        "pick": ("name", Role.TASK, 0, [], "done"),
        "pick=2": ("case", Role.CASE, 1, ["pick"], "done"),
        "rare": ("walk", Role.TASK, 2, ["pick=2"], "any-done"),
        "numbers": ("numbers", Role.TASK, 0, [], "done"),
        "each": ("walk", Role.MAP, 1, ["numbers"], "done"),
    }
    assert [[defined.nodes[place].id for place in level] for level in defined.levels][1:] == [
        ["b", "c", "pick=2", "each"],
        ["d", "rare"],
    ]
    assert all(each.state is None and each.task is None for each in defined.nodes)


def test_what_took_several_attempts_took_from_the_first_to_the_last(house: House) -> None:
    run = started(house.store, diamond())
    worker = house.worker()
    claim = worker.take()
    (a,) = claim.tasks
    worker.end(claim, status=Status.RETRYING, took={a: 2_000_000})
    house.clock.advance(5)
    worker.done(claim, took={a: 1_000_000})
    claim = worker.take()
    worker.done(claim, took={claim.tasks[0]: 3_000_000})
    graph = graph_of(house.store, run)
    assert [(node(graph, id).attempts, node(graph, id).seconds) for id in "abcd"] == [
        (2, 7.0), (1, 3.0), (1, 0.0), (0, None),
    ]  # fmt: skip


def test_a_node_that_is_tried_again_later_says_when_and_why(house: House) -> None:
    run = started(house.store, diamond())
    worker = house.worker()
    claim = worker.take()
    due = house.store.now() + 9 * SECOND
    error = Failure("OSError", "no disk").encode()
    worker.end(claim, status=Status.RETRYING, values=[error], later=[Later(claim.tasks, due)])
    found = node(graph_of(house.store, run), "a")
    assert (found.state, found.due, found.reason, found.attempts) == ("waiting", due, "OSError: no disk", 1)
    house.clock.advance(10)
    found = node(graph_of(house.store, run), "a")
    assert (found.state, found.due) == ("ready", None)


def test_a_node_that_was_opened_again_has_its_present_life(house: House) -> None:
    run = started(house.store, diamond())
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, status=Status.FAILED)
    worker.reopen(run.id, claim.tasks)
    found = node(graph_of(house.store, run), "a")
    assert (found.state, found.attempts, found.seconds, found.reason) == ("ready", 0, None, None)


def test_nodes_of_a_paused_run_wait(house: House) -> None:
    run = started(house.store, diamond())
    house.store.pause(run.id)
    graph = graph_of(house.store, run)
    assert (node(graph, "a").state, waits(graph, "a")) == ("waiting", [])


def test_what_the_cancel_of_its_run_swept_away_is_cancelled(house: House) -> None:
    run = started(house.store, diamond())
    house.store.cancel(run.id, said=Said("enough"))
    ended = house.settle(run.id)
    assert set(states(graph_of(house.store, ended)).values()) == {"cancelled"}


def test_a_result_that_somebody_decided_is_no_attempt(house: House) -> None:
    run = started(house.store, diamond())
    house.store.settle(run.id, run.id + 1, Status.DONE, b"7", Said("by hand", "ann"))
    found = node(graph_of(house.store, run), "a")
    assert (found.state, found.attempts) == ("done", 0)


def test_a_map_tells_how_its_items_stand(engine: Engine) -> None:
    dag = jobs.dag("map")
    each = dag.map(held.of(dag.add(numbers.of(3)).each), id="each")
    dag.add(add.of(each.out), id="sum")
    with engine.working(threads=4):
        run = engine.start(dag.of())
        assert begun.wait(30)
        graph = look(engine, run.id)
        gate.set()
        assert run.wait(30)
    parts = node(graph, "each").parts or {}
    assert node(graph, "each").state == "running"
    assert sum(parts.values()) == 3
    assert parts[NodeState.RUNNING] >= 1
    assert waits(graph, "sum") == ["each"]
    graph = look(engine, run.id)
    assert states(graph) == {"numbers": "done", "each": "done", "sum": "done"}
    assert node(graph, "each").parts == {NodeState.DONE: 3}
    assert [graph.nodes[place].id for place in node(graph, "sum").needs] == ["each"]


def test_a_map_that_was_cancelled_with_its_run_says_so_of_its_items(engine: Engine) -> None:
    dag = jobs.dag("map")
    dag.map(held.of(dag.add(numbers.of(9)).each), id="each")
    with engine.working():
        run = engine.start(dag.of(), max_running=1)
        assert begun.wait(30)
        run.cancel("enough")
        gate.set()
        assert run.wait(30)
    found = node(look(engine, run.id), "each")
    assert (found.state, found.parts) == ("cancelled", {NodeState.DONE: 2, NodeState.CANCELLED: 7})


@pytest.mark.parametrize(("on_failed", "state", "ended"), [("fail", "failed", "failed"), ("skip", "done", "skipped")])
def test_a_map_whose_items_failed_has_failed_unless_they_may(
    engine: Engine, on_failed: str, state: str, ended: str
) -> None:
    dag = jobs.dag("map")
    dag.map(odd.of(dag.add(numbers.of(5)).each), id="each", on_failed=on_failed)  # type: ignore[arg-type]
    run = engine.run(dag.of(), threads=0)
    found = node(look(engine, run.id), "each")
    assert (found.state, found.parts) == (state, {NodeState.DONE: 3, NodeState[ended.upper()]: 2})
    assert found.seconds is not None
    assert found.seconds > 0


def test_a_node_that_handed_its_end_on_stands_as_what_goes_on_with_it(engine: Engine) -> None:
    dag = jobs.dag("fork")
    forked = dag.add(fork.of(2))
    dag.add(walk.of(1), after=[forked])
    with engine.working(threads=4):
        run = engine.start(dag.of())
        assert begun.wait(30)
        graph = look(engine, run.id)
        gate.set()
        assert run.wait(30)
    assert states(graph) == {"fork": "running", "walk": "waiting"}
    assert states(look(engine, run.id)) == {"fork": "done", "walk": "done"}


def test_what_follows_the_end_is_a_node_if_there_is_something(engine: Engine) -> None:
    dag = jobs.dag("ends")
    dag.add(walk.of(-1))
    plain = engine.run(dag.of(), threads=0)
    assert states(look(engine, plain.id)) == {"walk": "failed"}
    dag.on_end(numbers.of(1), when="failed")
    dag.on_end(walk.of(0), when="done")
    run = engine.run(dag.of(), threads=0)
    found = node(look(engine, run.id), "(end)")
    assert (found.kind, found.role, found.level, found.state) == ("numbers, walk", Role.END, 1, "done")
    assert found.when == "always", "what follows it has its own"
    assert found.parts == {NodeState.DONE: 1}
    defined = node(definition.graph_of(dag), "(end)")
    assert (defined.kind, defined.when) == ("numbers, walk", "always")


def test_a_run_of_another_shape_has_no_graph(engine: Engine) -> None:
    run = engine.run(walk.of(1).key("a"), threads=0)
    reads = engine._runtime.store.reads
    assert graph_of(engine._runtime.store, reads.run(run.id)) is None


def test_what_starts_another_run_says_what_and_when(engine: Engine) -> None:
    other = jobs.dag("other")
    other.add(walk.of(1))
    dag = jobs.dag("starts")
    first = dag.add(walk.of(2), id="first")
    dag.trigger(other.of())
    dag.trigger(walk.of(first.out), id="told", when="failed")
    run = engine.run(dag.of(), threads=0)
    for graph in (look(engine, run.id), definition.graph_of(dag)):
        assert [(each.id, each.kind, each.role, each.level, each.when) for each in graph.nodes] == [
            ("first", "walk", Role.TASK, 0, "done"),
            ("trigger:other", "other", Role.TRIGGER, 1, "done"),
            ("told", "walk", Role.TRIGGER, 1, "failed"),
        ]
    assert states(look(engine, run.id)) == {"first": "done", "trigger:other": "done", "told": "skipped"}
