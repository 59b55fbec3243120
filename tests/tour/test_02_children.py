"""2. Children.

A task may yield calls, which become its children. They are stored together with its result, in one transaction, or not
at all. So work can grow while it runs, and a crash never leaves half of a task's children behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ramify import Call, Engine, RunFailed, RunState, Spawns, current

engine = Engine("children.db")


@engine.task
def measure(folder: str) -> Spawns[int]:
    """A task that yields children, and then returns an int."""
    total = 0
    for path in Path(folder).iterdir():
        if path.is_dir():
            yield measure.of(str(path))
        else:
            total += path.stat().st_size
    return total


def test_children_are_tasks_of_the_same_run() -> None:
    """One call for the top folder starts the walk; every folder adds its own subfolders."""
    Path("top/middle/bottom").mkdir(parents=True)
    Path("top/a").write_text("1")
    Path("top/middle/bottom/b").write_text("22")
    run = engine.run(measure.of("top"))
    assert list(run.results()) == [1, 0, 2], "each folder by itself, in the order in which they were yielded"


@engine.task
def level(depth: int) -> Spawns[int]:
    if depth:
        yield level.of(depth - 1)
        yield level.of(depth - 1)
    return current().round


def test_a_run_works_in_rounds() -> None:
    """Children belong to the next round. It opens when this one has finished, so a run is worked through level by
    level.
    """
    run = engine.run(level.of(3))
    assert list(run.results()) == [0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3]


@engine.task(once="page")
def visit(page: int) -> Iterator[Call[Any]]:
    yield visit.of((page + 1) % 10)  # a circle of links
    yield visit.of(0)


def test_once_skips_duplicates() -> None:
    """`once="page"` runs a task once for each value of its argument `page`, however many tasks yield it. That is the
    visited set of a crawl.
    """
    run = engine.run(visit.of(0))
    assert run.counts.done == 10
    assert run.counts.duplicates == 11


@engine.task(retries=0)
def half(n: int) -> Spawns[int]:
    if n % 2:
        raise ValueError(f"{n} is odd")
    if n:
        yield half.of(n // 2)
    return n


def test_a_failed_task_has_no_children() -> None:
    """The calls that a failed task yielded are dropped. All other tasks continue. `run.results()` raises if a task
    failed; `partial=True` returns the results there are.
    """
    run = engine.run([half.of(12), half.of(8)])
    assert run.state is RunState.FAILED
    with pytest.raises(RunFailed, match="3 is odd"):
        list(run.results())
    assert sorted(run.results(partial=True)) == [2, 4, 6, 8, 12]
