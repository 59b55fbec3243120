"""Editions as users see them: what a map or a branch made before it is made anew counts no more, in whatever way."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ramify import ConfigError, Engine, Run, RunState, Spawns, Stream, Task, Tasks, current, steps
from ramify.engine.runs.reading import Members, Reading
from ramify.errors import UnknownTask
from ramify.model.key import key_bytes
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.store.memory import MemoryStore, MemoryTables
from ramify.testing import oracle
from ramify.testing.conformance import House
from ramify.testing.conformance.editions import Map
from tests.kernel.shop import wait_until

tasks = Tasks()
#: What `names` gives.
NAMES: list[str] = []
#: The names that `load` fails for.
BROKEN: set[str] = set()


@tasks.task
def names() -> list[str]:
    return list(NAMES)


@tasks.task(retries=0)
def load(name: str) -> str:
    if name in BROKEN:
        raise ValueError(name)
    return name


@tasks.task
def noted(name: str) -> str:
    current().context.set(f"rows of {name}", 7)
    return name


@tasks.task(once=True)
def counted(name: str) -> str:
    return name


@tasks.task
def counting(name: str) -> Spawns[str]:
    yield counted.of(name)
    return name


@tasks.task
def joined(parts: Stream[str]) -> str:
    return " ".join(parts)


@tasks.task
def loud(name: str) -> str:
    return name.upper()


@tasks.task
def received(order: str) -> list[str]:
    return list(NAMES)


@tasks.task
def letters(name: str) -> list[str]:
    return list(name)


@tasks.task
def picked(name: str) -> str:
    return name


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    NAMES[:] = ["a", "b"]
    BROKEN.clear()
    store = "memory:" if request.param == "memory" else tmp_path / "x.db"
    engine = Engine(store, include=[tasks])
    yield engine
    assert oracle.check(engine._runtime.store) == []
    engine.close()


def mapped(engine: Engine, task: Task[[str], str] = load) -> Any:
    dag = engine.dag("d")
    each = dag.map(task.of(dag.add(names.of(), id="names").each), id="load")
    dag.add(joined.of(each.out), id="joined")
    return dag.of()


def test_old_items_do_not_come_back_with_what_was_cancelled(engine: Engine) -> None:
    root = mapped(engine)
    run = engine.run(root, name="d")
    assert run.retry("names").replaced == 3, "two items, and what gathers them"
    run.cancel()
    assert engine.run(root, name="d").state is RunState.CANCELLED
    run.retry(cancelled=True)
    run = engine.run(root, name="d")
    assert (run.state, sorted(run.results(load)), list(run.results(joined))) == (RunState.DONE, ["a", "b"], ["a b"])


def test_old_items_are_not_there_when_the_map_was_skipped(engine: Engine) -> None:
    root = mapped(engine)
    run = engine.run(root, name="d")
    run.resolve("names", skip=True)
    run = engine.run(root, name="d")
    assert list(run.results(load)) == []
    with pytest.raises(UnknownTask, match=r"no task with the key 'load\[0\]'\. load has made no items"):
        run.retry("load[0]")
    run.retry("names")
    run = engine.run(root, name="d")
    assert (sorted(run.results(load)), list(run.results(joined))) == (["a", "b"], ["a b"])


def test_an_item_that_is_not_there_says_how_many_there_are(engine: Engine) -> None:
    run = engine.run(mapped(engine), name="d")
    with pytest.raises(UnknownTask, match=r"'load\[2\]'\. load has 2 items. Give load\[0\] to load\[1\]"):
        run.retry("load[2]")


def test_steps_of_branches_that_were_replaced_take_no_part_in_the_run(engine: Engine) -> None:
    pause = timedelta(seconds=0.01)
    written = steps(received).expand(steps(load).sleep(pause).chain(loud)).collapse(joined)
    root = engine.pipeline("p", written).of("o")
    run = engine.run(root, name="p")
    run.resolve("received", skip=True)
    run = engine.run(root, name="p")
    with pytest.raises(UnknownTask, match=r"'load\[0\].sleep'"):
        run.retry("load[0].sleep")
    run.retry("received")
    run = engine.run(root, name="p")
    assert (run.state, run["joined"].result, sorted(run.results(loud))) == (RunState.DONE, "A B", ["A", "B"])


def test_names_in_the_context_that_old_items_had_set_are_free(engine: Engine) -> None:
    root = mapped(engine, noted)
    run = engine.run(root, name="d")
    NAMES[:] = ["b", "c"]
    run.retry("names")
    assert dict(run.context) == {}
    run = engine.run(root, name="d")
    assert (run.state, dict(run.context)) == (RunState.DONE, {"rows of b": 7, "rows of c": 7})


def test_keys_that_children_of_old_items_held_for_ever_are_free(engine: Engine) -> None:
    root = mapped(engine, counting)
    run = engine.run(root, name="d")
    before = {row.task for row in run.results(counted, rows=True)}
    run.retry("names")
    run = engine.run(root, name="d")
    rows = list(run.results(counted, rows=True))
    assert (sorted(row.result for row in rows), {row.task for row in rows} & before) == (["a", "b"], set())


def test_a_run_launched_by_a_branch_is_launched_anew_with_what_is_there_now(engine: Engine) -> None:
    inner = engine.pipeline("inner", steps(loud))
    root = engine.pipeline("p", steps(received).expand(steps(picked).run(inner, id="sub")).collapse(joined)).of("o")
    run = engine.run(root, name="p")
    assert run["joined"].result == "A B"
    NAMES[:] = ["c", "a", "b"]
    run.retry("received")
    run = engine.run(root, name="p")
    assert (run.state, run["joined"].result) == (RunState.DONE, "C A B")
    launched = engine.find("p/picked[0].sub")
    assert launched is not None
    assert (launched._stored.generation, list(launched.results())) == (2, ["C"])


@pytest.mark.parametrize("is_nested", [False, True], ids=["branch", "branch of a branch"])
def test_what_takes_the_place_of_a_task_launches_its_run_anew_also_with_the_same_input(
    engine: Engine, is_nested: bool
) -> None:
    branch = steps(picked).run(engine.pipeline("inner", steps(loud)), id="sub")
    nested = steps(letters).expand(branch).collapse(joined) if is_nested else branch
    root = engine.pipeline("p", steps(received).expand(nested).collapse(joined)).of("o")
    run = engine.run(root, name="p")
    run.retry("received")
    run = engine.run(root, name="p")
    launched = engine._runtime.store.reads.runs(prefix="p/").rows
    assert [each.generation for each in launched] == [1, 1, 2, 2]
    assert run["joined"].result == "A B"


def test_unfinished_runs_that_old_branches_launched_are_cancelled(engine: Engine) -> None:
    inner = engine.pipeline("inner", steps(loud).gate("ok", str))
    root = engine.pipeline("p", steps(received).expand(steps(picked).run(inner, id="sub")).collapse(joined)).of("o")
    run = engine.start(root, name="p")
    others = ("p/picked[0].sub", "p/picked[1].sub")
    with engine.working():
        wait_until(lambda: all(engine.find(each) is not None for each in others))
    old = [found(engine, each) for each in others]
    NAMES[:] = ["c"]
    assert run.retry("received").replaced
    assert [each.state for each in old] == [RunState.CANCELLED] * 2
    assert "picked of run" in (old[0].reason or "")
    with engine.working():
        wait_until(lambda: found(engine, others[0]).id != old[0].id)
        new = found(engine, others[0])
        wait_until(lambda: bool(new.counts.done))
        assert found(engine, others[1]).id == old[1].id


def test_what_old_branches_launched_is_cancelled_by_the_new_ones_if_nobody_did(engine: Engine) -> None:
    """Whoever tried the step again died before it could cancel the runs."""
    inner = engine.pipeline("inner", steps(loud).gate("ok", str))
    root = engine.pipeline("p", steps(received).expand(steps(picked).run(inner, id="sub")).collapse(joined)).of("o")
    run = engine.start(root, name="p")
    with engine.working():
        wait_until(lambda: engine.find("p/picked[0].sub") is not None)
    old, store, process = found(engine, "p/picked[0].sub"), engine._runtime.store, new_process_id()
    store.enter(NewProcess(process))
    (step,) = store.reads.find_tasks(run.id, "received", key_bytes("received"))
    assert store.reopen(Stamp(process, 1), run.id, [step]).replaced
    store.leave(process)
    assert not old.state.is_end
    with engine.working():
        wait_until(lambda: found(engine, "p/picked[0].sub").id != old.id)
        wait_until(lambda: old.state is RunState.CANCELLED)
    assert "made anew" in (old.reason or "")


def test_a_member_that_was_replaced_counts_where_it_arrived_as_it_ended() -> None:
    place = MemoryTables()
    house = House(open=lambda clock: MemoryStore(place, clock), kill=lambda store: None)
    map = Map(house)
    map.make()
    claim = map.take()
    map.worker.done(claim, claim.tasks[:1], values=[b"1"])
    map.worker.release(claim)
    map.reopen()
    members = Members(Reading(house.store.reads, {}), map.heir, int)
    assert list(members.pages()) == [[1]]
    assert [(error.task, error.failure.text) for error in members.failures()] == [
        (claim.tasks[1], "what made it makes others in its stead")
    ]


def found(engine: Engine, name: str) -> Run[Any]:
    run = engine.find(name)
    assert run is not None
    return run


def test_a_replaced_task_takes_no_verb(engine: Engine) -> None:
    BROKEN.add("a")
    root = mapped(engine)
    run = engine.run(root, name="d")
    (old,) = (error.task for error in run.errors())
    run.resolve("names", result=["b"])
    assert list(run.errors()) == []
    for verb in (run.retry, lambda task: run.resolve(task, skip=True)):
        with pytest.raises(ConfigError, match=rf"task {old} was replaced: the task that made it ran again"):
            verb(old)
    run = engine.run(root, name="d")
    assert (run.state, run["joined"].result, run.counts.replaced) == (RunState.DONE, "b", 3)


def test_a_map_with_items_that_were_not_done_keeps_its_edition(engine: Engine) -> None:
    BROKEN.add("a")
    root = mapped(engine)
    run = engine.run(root, name="d")
    BROKEN.clear()
    assert run.retry("load").replaced == 0
    run = engine.run(root, name="d")
    assert (run.state, run.counts.replaced) == (RunState.DONE, 0)
    assert run.retry("load").replaced == 3, "all were done, so they are made anew"


def test_results_of_an_open_run_leave_out_what_was_replaced(engine: Engine) -> None:
    root = mapped(engine)
    run = engine.run(root, name="d")
    NAMES[:] = ["c"]
    run.retry("names")
    with engine.working():
        assert sorted(run.results(load)) == ["c"]
        assert [row.result for row in run.results(load, rows=True)] == ["c"]
