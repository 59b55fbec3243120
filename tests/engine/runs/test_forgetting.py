"""Forgetting runs from a program: what goes, what stays, and that nothing of it is taken for a whole run."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from ramify import ConfigError, Engine, Fatal, Run, RunForgotten, RunNeeded, RunState, Tasks
from ramify.inspect.audit import audit
from ramify.inspect.doctor import examine
from ramify.shapes.start import How
from ramify.store.sqlite import SqliteStore
from ramify.testing import oracle
from tests.engine.conftest import Make
from tests.kernel.shop import wait_until

tasks = Tasks()


@tasks.task
def double(n: int) -> int:
    if n < 0:
        raise Fatal("negative")
    return 2 * n


@pytest.fixture
def engine(make: Make) -> Engine:
    return make(tasks)


def test_a_forgotten_run_says_so_instead_of_giving_half_of_its_results(engine: Engine) -> None:
    run = engine.run([double.of(n) for n in range(5)], name="five")
    assert run.forget("old", by="ann") == 5
    assert (run.state, run.ended, run.counts.done) == (RunState.FORGOTTEN, True, 5)
    assert run.wait(0)
    for read in (run.results, lambda: run.results(partial=True), lambda: run.results(rows=True), run.errors):
        with pytest.raises(RunForgotten, match=r"run five was forgotten on .* by ann: old"):
            list(read())
    with pytest.raises(RunForgotten):
        audit(engine._runtime.store.reads, run.id)
    assert examine(engine._runtime.store, full=True).healthy
    assert run.forget() == 0


def test_the_same_start_does_not_run_it_once_more_by_mistake(engine: Engine) -> None:
    engine.run(double.of(1), name="one").forget()
    again = engine.run(double.of(1), name="one")
    assert (again.begun, again.state) == (How.FINISHED, RunState.FORGOTTEN)
    anew = engine.run(double.of(1), name="one", again=True)
    assert (anew.begun, list(anew.results())) == (How.NEW, [2])


def test_a_run_that_goes_on_is_not_forgotten(engine: Engine) -> None:
    run = engine.start(double.of(1))
    with pytest.raises(RunNeeded, match=f"run {run.id} is open"):
        run.forget()
    assert run.forget(older=timedelta(0)) == 0
    assert run.state is RunState.OPEN


def test_only_what_ended_long_enough_ago_is_forgotten(engine: Engine) -> None:
    run = engine.run(double.of(1))
    assert run.forget(older=timedelta(days=30)) == 0
    assert list(run.results()) == [2]
    with pytest.raises(ConfigError, match="older"):
        run.forget(older=timedelta(-1))
    assert run.forget(older=timedelta(0)) == 1


KILLED = """
import sys
from ramify.store.sqlite import SqliteStore
store = SqliteStore(sys.argv[1])
while store.forget(int(sys.argv[2]), limit=50).more:
    print("page", flush=True)
"""


@pytest.mark.parametrize("pages", [1, 4])
def test_killed_half_way_it_is_gone_on_with(tmp_path: Path, pages: int) -> None:
    file = tmp_path / "work.db"
    engine = Engine(file, include=[tasks])
    run = engine.run([double.of(n) for n in range(1_000)], name="many")
    other = engine.run([double.of(n) for n in range(10)], name="other")
    engine.close()
    killed = subprocess.Popen([sys.executable, "-c", KILLED, file, str(run.id)], stdout=subprocess.PIPE)
    assert killed.stdout is not None
    for _ in range(pages):
        assert killed.stdout.readline()
    killed.kill()
    killed.wait()
    killed.stdout.close()
    store = SqliteStore(file)
    assert store.reads.run(run.id).state is RunState.FORGOTTEN
    assert oracle.check(store) == []
    with pytest.raises(RunForgotten):
        store.reads.results(run.id)
    left = sum(span.last - span.first + 1 for span in store.reads.spans(run=run.id).rows)
    assert left <= 1_000 - 50 * pages
    store.close()
    engine = Engine(file, include=[tasks])
    assert Run[int](engine._runtime, run.id).forget() == left
    assert sorted(Run[int](engine._runtime, other.id).results()) == [2 * n for n in range(10)]
    engine.close()


def test_the_file_uses_the_space_again_and_vacuum_gives_it_back(tmp_path: Path) -> None:
    file = tmp_path / "work.db"
    engine = Engine(file, include=[tasks])
    run = engine.run([double.of(n) for n in range(20_000)], name="many")
    before = size_of(engine, file)
    run.forget()
    again = engine.run([double.of(n) for n in range(20_000)], name="as many")
    assert size_of(engine, file) < 1.1 * before
    again.forget()
    engine._runtime.store.vacuum()
    # Empty tables and indexes have a page each.
    assert size_of(engine, file) < before / 3
    engine.close()


def size_of(engine: Engine, file: Path) -> int:
    """How large the file is with all that was committed in it; the engine opens it again by itself."""
    engine.close()
    return file.stat().st_size


def test_it_goes_while_others_work(engine: Engine) -> None:
    old = engine.run([double.of(n) for n in range(100)])
    run = engine.start([double.of(n) for n in range(100)])
    with engine.working(threads=2):
        assert old.forget() == 100
        wait_until(lambda: run.ended)
    assert len(list(run.results())) == 100
