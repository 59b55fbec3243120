"""Operations behind a job: asked for by several programs and threads at once, and worked on by another program."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ramify import ConfigError, Engine, Job, JobState, Tasks
from ramify.model.join import BEFORE

EACH = 10


#: Who began to change something, in order; and whether creations may end.
begun: list[str] = []
may_go = threading.Event()


def create(name: str) -> str:
    """Create something, once that may be."""
    assert may_go.wait(30)
    return name


def change(name: str) -> str:
    """Change it."""
    begun.append(name)
    return name


class Program:
    """A program that creates and changes, on a store of its own or one that it shares."""

    def __init__(self, place: Path, *, name: str = "create", aliases: tuple[str, ...] = ()) -> None:
        tasks = Tasks()
        self.create = tasks.task(name=name, aliases=aliases)(create)
        self.change = tasks.task(change)
        self.engine = Engine(place, include=[tasks], durability="process")


@pytest.fixture(autouse=True)
def anew() -> None:
    begun.clear()
    may_go.clear()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


def test_a_job_of_another_engine_on_the_same_store_is_waited_for(place: Path) -> None:
    one, other = Program(place), Program(place)
    job = one.engine.enqueue(one.create.of("ann").unique("ann"))
    found = other.engine.job_for(other.create, "ann")
    assert found == job
    operations = [program.engine.enqueue(program.change.of("x"), after=job) for program in (one, other)]
    may_go.set()
    with one.engine.working():
        assert [each.result(30) for each in operations] == ["x", "x"]
    other.engine.close()


def test_a_job_is_found_under_the_name_that_its_task_had(place: Path) -> None:
    before, now = Program(place), Program(place, name="make", aliases=("create",))
    job = before.engine.enqueue(before.create.of("ann").unique("ann"))
    assert now.engine.job_for(now.create, "ann") == job
    newer = now.engine.enqueue(now.create.of("ann").unique("ann"))
    assert newer != job
    assert now.engine.job_for(now.create, "ann") == newer
    before.engine.close()
    now.engine.close()


def test_programs_and_threads_that_come_at_once_come_one_after_the_other(place: Path) -> None:
    worker, *programs = (Program(place) for _ in range(3))
    job = worker.engine.enqueue(worker.create.of("ann"))
    together = threading.Barrier(4)

    def come(number: int) -> list[Job[str]]:
        program = programs[number % 2]
        together.wait(30)
        found = [program.engine.enqueue(program.change.of(f"{number}.{at}"), after=job) for at in range(EACH)]
        may_go.set()
        return found

    with worker.engine.working(threads=4), ThreadPoolExecutor(4) as pool:
        came = list(pool.map(come, range(4)))
        assert all(each.wait(30) for some in came for each in some)
    for number in range(4):
        assert [name for name in begun if name.startswith(f"{number}.")] == [f"{number}.{at}" for at in range(EACH)]
    reads = worker.engine._runtime.store.reads
    ids = {each.id for some in came for each in some}
    before = {dict(reads.members(id).rows)[BEFORE] for id in ids}
    assert len(before) == len(ids)
    assert before <= ids | {job.id}
    for program in programs:
        program.engine.close()


def test_a_list_of_thousands_is_added_at_once_and_keeps_its_order(place: Path) -> None:
    program = Program(place)
    job = program.engine.enqueue(program.create.of("ann"))
    operations = program.engine.enqueue_many((program.change.of(f"{at}") for at in range(1_000)), after=job)
    assert [each.id for each in operations] == sorted(each.id for each in operations)
    may_go.set()
    with program.engine.working(threads=4):
        assert operations[-1].wait(60)
    assert begun == [f"{at}" for at in range(1_000)]


def test_a_job_of_another_file_is_refused_and_both_are_named(place: Path, tmp_path: Path) -> None:
    here, there = Program(place), Program(tmp_path / "other.db")
    job = there.engine.enqueue(there.create.of("ann"))
    with pytest.raises(ConfigError, match=r"is in another store \(.*other\.db\) than this engine \(.*shop\.db\)"):
        here.engine.enqueue(here.change.of("x"), after=job)
    assert (job.state, list(here.engine.jobs())) == (JobState.QUEUED, [])
    here.engine.close()
    there.engine.close()
