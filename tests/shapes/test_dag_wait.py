"""Waits for other runs, and for nodes of them; and tasks that are called again until they give something."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from ramify import ConfigError, Defer, Engine, Fatal, RunState, Stream, Tasks, current
from ramify.errors import BadPayload
from ramify.testing import using
from ramify.testing.using import Workbench
from tests.shapes.dags import add, anything, end, listed, number, numbers, states, tasks

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture(params=["memory", "sqlite"])
def bench(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Workbench]:
    """An engine on one store and on the other, with time in the hands of the test."""
    engine = Engine("memory:", include=[tasks, looking])
    with using(engine, "memory:" if request.param == "memory" else str(tmp_path / "s.db"), now=NOON) as made:
        yield made


looking = Tasks()
#: What is there, and how often it was looked for.
there: dict[str, Any] = {}
looks: list[str] = []


@pytest.fixture(autouse=True)
def nothing_is_there() -> None:
    there.clear()
    looks.clear()


@looking.task(retries=1)
def found(name: str) -> Any:
    """Look for something."""
    looks.append(name)
    value = there.get(name)
    if isinstance(value, Exception):
        raise value
    return value


@looking.task
async def found_by_and_by(name: str) -> Any:
    """The same on the event loop."""
    looks.append(name)
    return there.get(name, False)


@looking.task
def collected(parts: Stream[int] = Stream()) -> list[int]:
    """A continuation."""
    return list(parts)


@looking.task
def forks() -> str:
    """What goes on with a continuation, which goes on with another."""
    current().spawn(then=forks_again.of())
    return "not this"


@looking.task
def forks_again() -> str:
    """The second."""
    current().spawn([number.of(1), number.of(2)], then=collected.of())
    return "nor this"


def waiting_for(engine: Engine, *args: Any, **options: Any) -> Any:
    dag = engine.dag("waits")
    dag.add(anything.of(dag.wait(*args, **options).out), id="got")
    return engine.start(dag.of(), name="waits")


# other runs


def test_a_node_waits_for_a_run_that_is_not_there_yet_and_takes_its_result(bench: Workbench) -> None:
    run = waiting_for(bench.engine, "other")
    bench.drain()
    assert run["wait:other"].state == "ready", "put back, with a due time"
    bench.engine.start(number.of(5), name="other")
    bench.finish()
    assert (run.state, run["got"].result) == (RunState.DONE, 5)


def test_a_run_is_named_by_its_handle_its_id_a_param_or_a_result(bench: Workbench) -> None:
    engine = bench.engine
    other = engine.start(number.of(5), name="other")
    dag = engine.dag("waits")
    waits = [dag.wait(other), dag.wait(other.id, id="by id"), dag.wait(dag.param("name", str), id="by param")]
    waits.append(dag.wait(dag.add(anything.of("other"), id="named").out, id="by result"))
    for at, node in enumerate(waits):
        dag.add(anything.of(node.out), id=f"got {at}")
    run = engine.start(dag.of(name="other"))
    bench.finish()
    assert [run[f"got {at}"].result for at in range(4)] == [5] * 4
    assert waits[0].id == f"wait:{other.id}"


def test_what_a_dag_came_to_is_what_its_last_nodes_gave(bench: Workbench) -> None:
    engine = bench.engine
    one, several, mapped = engine.dag("one"), engine.dag("several"), engine.dag("mapped")
    one.add(number.of(one.add(number.of(7)).out), id="last")
    one.trigger(anything.of(None))
    several.add(number.of(1), id="a")
    several.add(anything.of(None), id="b")
    mapped.map(number.of(mapped.add(numbers.of(3)).each), id="each")
    dag = engine.dag("waits")
    for other in (one, several, mapped):
        engine.start(other.of(), name=other.name)
        dag.add(anything.of(dag.wait(other.name).out), id=other.name)
    run = engine.start(dag.of())
    bench.finish()
    assert [run[id].result for id in ("one", "several", "mapped")] == [7, {"a": 1, "b": None}, [0, 1, 2]]


def test_a_node_waits_for_a_node_of_another_run_and_not_for_the_rest_of_it(bench: Workbench) -> None:
    engine = bench.engine
    other = engine.dag("other")
    other.add(number.of(3), id="first")
    mapped = other.map(number.of(other.add(numbers.of(2)).each), id="each")
    other.add(found.of("never").poll(5), id="last")
    other.add(listed.of(mapped.out))
    engine.start(other.of(), name="other")
    dag = engine.dag("waits")
    first, each = dag.wait("other", "first"), dag.wait("other", "each")
    dag.add(anything.of([first.out, each.out]), id="got")
    run = engine.start(dag.of())
    bench.drain()
    for _ in range(3):
        bench.advance(2)
        bench.drain()
    assert run["got"].result == [3, [0, 1]]
    assert (first.id, each.id) == ("wait:other:first", "wait:other:each")


def test_a_node_that_forks_is_waited_for_until_its_continuation_has_ended(bench: Workbench) -> None:
    other = bench.engine.dag("other")
    other.add(forks.of(), id="forks")
    run = waiting_for(bench.engine, "other", "forks")
    bench.engine.start(other.of(), name="other")
    bench.finish()
    assert run["got"].result == [1, 2]


@pytest.mark.parametrize("how", ["failed", "skipped"])
def test_what_did_not_end_well_over_there_is_a_failure_here(bench: Workbench, how: str) -> None:
    engine = bench.engine
    other = engine.dag("other")
    other.add(end.of(how), id="bad")
    dag = engine.dag("waits")
    node = dag.wait("other", "bad", id="node")
    dag.add(anything.of(node.out), id="behind")
    dag.add(anything.of("cleaned up"), id="clean", after=[node], when="failed")
    run = engine.start(dag.of())
    engine.start(other.of(), name="other")
    bench.finish()
    assert states(run) == {"node": "failed", "behind": "skipped", "clean": "done"}
    assert f"bad of run other, which is waited for, ended as {how}" in str(run["node"].error)


def test_a_run_that_failed_was_cancelled_or_forgotten_is_a_failure_with_its_name(bench: Workbench) -> None:
    engine = bench.engine
    engine.start(end.of("failed"), name="failed")
    engine.start(found.of("never").poll(5), name="cancelled").cancel("nobody wants it")
    engine.start(number.of(1), name="forgotten")
    bench.finish()
    gone = engine.find("forgotten")
    assert gone is not None
    gone.forget()
    dag = engine.dag("waits")
    for name in ("failed", "cancelled", "forgotten"):
        dag.wait(name, id=name)
    run = engine.start(dag.of())
    bench.finish()
    said = {id: str(run[id].error) for id in states(run)}
    assert "run failed, which is waited for, ended as failed" in said["failed"]
    assert "run cancelled, which is waited for, ended as cancelled (nobody wants it)" in said["cancelled"]
    assert "run forgotten was forgotten, with all that came of it" in said["forgotten"]


def test_a_node_that_the_other_run_never_had_is_a_failure_once_it_has_ended(bench: Workbench) -> None:
    run = waiting_for(bench.engine, "other", "nod", id="node")
    other = bench.engine.dag("other")
    other.add(number.of(1), id="node")
    bench.drain()
    bench.engine.start(other.of(), name="other")
    bench.finish()
    assert "has no task with the key 'nod'. Did you mean 'node'?" in str(run["node"].error)


def test_a_wait_looks_ever_more_seldom_and_at_least_once_a_minute(bench: Workbench) -> None:
    run = waiting_for(bench.engine, "other")
    moments = []
    for _ in range(30):
        bench.drain()
        (due,) = bench._due(None).values()
        moments.append((due - bench.engine._runtime.store.now()) / 1_000_000)
        bench.advance(moments[-1])
    assert moments[:3] == [1.0, 1.25, 1.5625]
    assert moments == sorted(moments)
    assert moments[-1] == 60.0
    assert not run.ended


def test_a_new_life_begins_to_look_anew(bench: Workbench) -> None:
    run = waiting_for(bench.engine, "other", timeout=100, id="node")
    bench.finish()
    assert run["node"].state == "failed"
    run.retry()
    bench.drain()
    (due,) = bench._due(None).values()
    assert due - bench.engine._runtime.store.now() == 1_000_000


@pytest.mark.parametrize("how", [{}, {"node": "node"}, {"timeout": 100}])
def test_a_node_goes_on_the_moment_the_run_ends_that_it_waits_for(bench: Workbench, how: dict[str, Any]) -> None:
    other = bench.engine.dag("other")
    other.add(number.of(5), id="node")
    awaited = bench.engine.start(other.of(), name="other")
    awaited.pause()
    run = waiting_for(bench.engine, "other", **how)
    bench.drain()
    assert not run.ended
    awaited.resume()
    bench.drain()
    assert (run.state, run["got"].result, bench.now) == (RunState.DONE, 5, NOON)


def test_a_wait_for_too_long_is_a_failure(bench: Workbench) -> None:
    run = waiting_for(bench.engine, "other", timeout=100, id="node")
    bench.finish()
    assert bench.now.timestamp() - NOON.timestamp() == 100
    assert "TimeoutError: timed out after 100 seconds" in str(run["node"].error)


def test_waits_that_make_no_sense_are_refused_where_they_are_written(both: Engine) -> None:
    dag = both.dag("waits")
    node = dag.add(numbers.of(1))
    for wrong in (None, "", 0, True, 1.5):
        with pytest.raises(ConfigError, match="expected a run, its name or its id, or a param or result that is one"):
            dag.wait(wrong)  # type: ignore[arg-type]
    with pytest.raises(
        ConfigError, match=r"expected a run, got a node\. If its result is the name of a run, write numbers\.out"
    ):
        dag.wait(node)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"waits: wait\(\): wait_for\(\): `run` takes int \| str, and the <result"):
        dag.wait(node.out)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"wait\(node=''\): expected the id of a node"):
        dag.wait("other", "")
    with pytest.raises(ConfigError, match="timeout=0\\): expected more than 0 seconds"):
        dag.wait("other", timeout=0)
    assert len(dag) == 1


# tasks that poll


@pytest.mark.parametrize("task", [found, found_by_and_by], ids=lambda task: task.kind)
def test_a_task_is_called_again_until_it_gives_something(bench: Workbench, task: Any) -> None:
    dag = bench.engine.dag("looks")
    node = dag.add(task.of("file").poll(30, timeout=3_600), id="node")
    dag.add(anything.of(node.out), id="got")
    run = bench.engine.start(dag.of())
    bench.drain()
    bench.advance(29)
    bench.drain()
    assert len(looks) == 1
    bench.advance(1)
    bench.drain()
    assert (len(looks), run["node"].attempts) == (2, 0), "that uses up no attempt"
    there["file"] = "orders.csv"
    bench.finish()
    assert (run["got"].result, len(looks)) == ("orders.csv", 3)


@pytest.mark.parametrize("value", [False, None])
def test_false_and_none_are_nothing_and_all_else_is_something(bench: Workbench, value: Any) -> None:
    run = bench.engine.start([found.of(name).poll(1) for name in ("zero", "empty", "nothing")])
    there.update(zero=0, empty="", nothing=value)
    bench.drain()
    bench.advance(1)
    bench.drain()
    assert sorted(looks) == ["empty", "nothing", "nothing", "zero"]
    assert not run.ended


def test_a_task_that_gives_nothing_in_time_fails_and_the_last_look_is_at_the_end(bench: Workbench) -> None:
    run = bench.engine.start(found.of("file").poll(30, timeout=100))
    bench.finish()
    assert bench.now.timestamp() - NOON.timestamp() == 100
    assert len(looks) == 5, "at 0, 30, 60, 90 and 100 seconds"
    (error,) = run.errors()
    assert "TimeoutError: timed out after 100 seconds" in str(error)


def test_what_fails_while_it_looks_is_tried_again_like_any_task(bench: Workbench) -> None:
    there["file"] = ValueError("not like this")
    run = bench.engine.start(found.of("file").poll(30, timeout=100))
    bench.drain(raising=False)
    assert (run.state, len(looks)) == (RunState.OPEN, 1)
    bench.finish()
    assert (run.state, len(looks)) == (RunState.FAILED, 2), "one retry, and no TimeoutError"
    there["file"] = Fatal("no such disk")
    assert bench.engine.run(found.of("file").poll(30)).state is RunState.FAILED


def test_a_task_that_defers_itself_keeps_to_its_timeout_too(bench: Workbench) -> None:
    there["file"] = Defer(45, "no file")
    run = bench.engine.start(found.of("file").poll(5, timeout=100))
    bench.finish()
    assert len(looks) == 4, "at 0, 45, 90 and 100 seconds"
    *events, _ = bench.engine._runtime.store.reads.events(run.id + 1, run.id + 1)
    assert [event.value for event in events] == [b'{"reason":"no file"}'] * 3


def test_the_time_of_a_new_life_begins_anew(bench: Workbench) -> None:
    run = bench.engine.start(found.of("file").poll(30, timeout=100))
    bench.finish()
    looks.clear()
    run.retry()
    bench.finish()
    assert len(looks) == 5


def test_what_a_look_in_vain_has_made_is_dropped(bench: Workbench) -> None:
    engine = bench.engine

    @engine.task
    def look(name: str) -> bool:
        current().spawn(number.of(1))
        return name in there

    run = engine.start(look.of("file").poll(30))
    bench.drain()
    there["file"] = True
    bench.finish()
    assert run.counts.done == 2


def test_polls_that_make_no_sense_are_refused() -> None:
    for wrong in (0, -1, True, "1"):
        with pytest.raises(BadPayload, match=r"poll\("):
            found.of("x").poll(wrong)  # type: ignore[arg-type]
        with pytest.raises(BadPayload, match=r"poll\(timeout="):
            found.of("x").poll(1, timeout=wrong)  # type: ignore[arg-type]
    assert repr(found.of("x").poll(30, timeout=60)) == "found('x').poll(30, timeout=60)"
    assert add.of(1, 2).poll(30) != add.of(1, 2)
