"""Maps over generators: their items become tasks while they are yielded, and nobody holds them all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import assert_type

import pytest

from ramify import ConfigError, Engine, Node, RunState, Stream
from ramify.kernel.tuning import PIECE
from ramify.model.codec import annotations_of
from ramify.shapes.dag import mapping

engine = Engine("memory:")


@dataclass(frozen=True)
class Row:
    name: str
    size: int


@engine.task
def count(start: int) -> int:
    return start


@engine.task(retries=0)
def rows(many: int, name: str, start: int = 0) -> Iterator[Row]:
    if many < 0:
        raise ValueError("fewer than none")
    for n in range(start, start + many):
        yield Row(name, n)


@engine.task
def size(row: Row, by: int) -> int:
    return row.size * by


@engine.task
def total(sizes: Stream[int]) -> int:
    return sum(sizes)


@pytest.fixture(params=["memory", "sqlite"])
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    made = Engine("memory:" if request.param == "memory" else tmp_path / "dag.db", include=[engine])
    yield made
    made.close()


@pytest.mark.parametrize("many", [0, 3, 2 * PIECE + 1])
def test_each_item_that_a_generator_yields_becomes_a_task(here: Engine, many: int) -> None:
    dag = here.dag("sizes")
    name, by = dag.param("name", str), dag.param("by", int, default=2)
    start = dag.add(count.of(10))
    made = assert_type(dag.add(rows.of(many, name, start.out)), Node[Iterator[Row]])
    sizes = dag.map(size.of(made.each, by))
    dag.add(total.of(assert_type(sizes.out, Stream[int])))
    run = here.run(dag.of(name='~a\udcff"\0'))
    assert run.state is RunState.DONE
    assert run["total"].result == 2 * sum(range(10, 10 + many))
    if many:
        assert run["size[1]"].result == 22
    assert [node.id for node in dag.dependents(made)] == ["size"]


def test_a_generator_that_fails_fails_its_map(here: Engine) -> None:
    dag = here.dag("sizes")
    sizes = dag.map(size.of(dag.add(rows.of(-1, "x")).each, 1))
    dag.add(total.of(sizes.out))
    run = here.run(dag.of())
    assert (run.state, run["size"].state, run["total"].state) == (RunState.FAILED, "failed", "skipped")
    # It has the retries of its own call, and no others.
    failed = run["size"]
    assert (failed.attempts, failed.error and failed.error.failure.text) == (1, "fewer than none")


def test_more_items_than_allowed_fail_the_map(here: Engine) -> None:
    dag = here.dag("sizes")
    dag.map(size.of(dag.add(rows.of(3, "x")).each, 1), max_items=2)
    run = here.run(dag.of())
    error = run["size"].error
    assert error is not None
    assert error.failure.text == "rows: expected at most 2 items (max_items), got more. Raise max_items, or give fewer."


def test_what_a_generator_yields_is_taken_by_maps_alone(here: Engine) -> None:
    dag = here.dag("sizes")
    made = dag.add(rows.of(3, "x"))
    other = dag.add(count.of(1))
    for add, says in (
        (lambda: dag.add(size.of(made.out, 1)), "which yields items one by one"),  # type: ignore[arg-type]
        (lambda: dag.add(count.of(2), after=[made]), "cannot wait for rows, which yields items"),
        (lambda: made.after(other), "so after() comes too late for it"),
        (lambda: dag.of(), "sizes: rows yields items, and no map takes them"),
    ):
        with pytest.raises(ConfigError, match=re.escape(says)):
            add()


def test_a_generator_waits_for_what_it_was_added_with(here: Engine) -> None:
    dag = here.dag("sizes")
    first = dag.add(count.of(1))
    made = dag.add(rows.of(2, "x"), after=[first])
    dag.map(size.of(made.each, 1))
    outer = here.dag("outer")
    outer.include(dag, "in/")
    run = here.start(outer.of())
    assert (run["in/count"].state, run["in/size"].state) == ("ready", "waiting")


def test_a_generator_that_was_renamed_is_the_same_start(tmp_path: Path) -> None:
    def started(*aliases: str, name: str) -> int:
        program = Engine(tmp_path / "dag.db", include=[])
        made = program.task(name=name, aliases=aliases)(rows.fn)
        taken = program.task(name="size")(size.fn)
        dag = program.dag("sizes")
        dag.map(taken.of(dag.add(made.of(2, "x"), id="rows").each, 1))
        run = program.start(dag.of(), name="r")
        program.close()
        return run.id

    first = started(name="rows")
    assert started("rows", name="lines") == first
    with pytest.raises(ConfigError, match="other roots"):
        started(name="others")


def test_a_generator_of_another_engine_is_refused(here: Engine) -> None:
    alone = Engine("memory:")
    mine = alone.task(name="size")(size.fn)
    dag = alone.dag("sizes")
    dag.map(mine.of(dag.add(rows.of(2, "x")).each, 1))
    with pytest.raises(ConfigError, match="this engine has no task 'rows'"):
        alone.start(dag.of())


def test_only_generators_have_their_annotations_read_when_they_become_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def read(fn: Callable[..., object]) -> dict[str, object]:
        asked.append(fn)
        return annotations_of(fn)

    monkeypatch.setattr(mapping, "annotations_of", read)
    dag = engine.dag("wide")
    for number in range(3):
        dag.add(count.of(number))
    dag.add(rows.of(3, "a"))
    assert asked == [rows.fn]
