"""Children: how many a task may have, and very many of them, written before the task ends and published with it."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

import pytest

from ramify.kernel.attempts.control import Return
from ramify.kernel.attempts.current import current
from ramify.kernel.tuning import PIECE
from ramify.model.call import Call
from ramify.model.event import Status
from ramify.model.run import RunState
from ramify.model.segment import SegmentState
from tests.kernel.shop import Shop

MANY = 50_000


def leaf(n: int) -> None: ...


@pytest.mark.parametrize("colour", ["generator", "async generator"])
def test_a_task_may_have_very_many_children(shop: Shop, colour: str) -> None:
    def generator() -> Generator[Call[Any], None, int]:
        for n in range(MANY):
            yield made.of(n)
        return MANY

    async def stream() -> AsyncIterator[Any]:
        for n in range(MANY):
            yield made.of(n)

    made = shop.task(leaf)
    run = shop.run(shop.task(generator if colour == "generator" else stream, kind="root").of())
    assert shop.state(run) is RunState.DONE
    assert shop.store.reads.counts(run)["leaf"][Status.DONE] == MANY
    assert shop.store.reads.counts(run)["root"][Status.DONE] == 1


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_the_number_of_children_may_be_just_about_a_piece(quick: Shop, extra: int) -> None:
    def root() -> Generator[Call[Any], None, str]:
        for n in range(PIECE + extra):
            yield made.of(n)
        return "all"

    made = quick.task(leaf)
    run = quick.run(quick.task(root).of())
    assert quick.store.reads.counts(run)["leaf"][Status.DONE] == PIECE + extra
    assert quick.results(run, "root") == ["all"]


def test_very_many_children_of_several_kinds_and_with_keys_are_kept_apart(shop: Shop) -> None:
    def root() -> Iterator[Call[Any]]:
        for n in range(2 * PIECE):
            yield (made if n % 2 else other).of(n)
        yield other.of(7).once("the same")
        yield other.of(8).once("the same")

    made, other = shop.task(leaf), shop.task(leaf, kind="other")
    run = shop.run(shop.task(root).of())
    counts = shop.store.reads.counts(run)
    assert counts["leaf"][Status.DONE] == PIECE
    assert counts["other"][Status.DONE] == PIECE + 1
    assert counts["other"][Status.SKIPPED] == 1


@pytest.mark.parametrize("colour", ["generator", "async generator"])
def test_many_children_of_an_attempt_that_fails_are_garbage_until_vacuum_removes_them(shop: Shop, colour: str) -> None:
    def unpublished() -> list[SegmentState]:
        rows = shop.store.reads.segments().rows
        return [row.state for row in rows if row.state in (SegmentState.STAGED, SegmentState.GARBAGE)]

    seen = []

    def generator() -> Iterator[Call[Any]]:
        seen.append(unpublished())
        for n in range(3 * PIECE if current().attempt == 1 else 3):
            yield made.of(n)
        if current().attempt == 1:
            raise ValueError

    async def stream() -> AsyncIterator[Any]:
        seen.append(unpublished())
        for n in range(3 * PIECE if current().attempt == 1 else 3):
            yield made.of(n)
        if current().attempt == 1:
            raise ValueError

    made = shop.task(leaf)
    run = shop.run(shop.task(generator if colour == "generator" else stream, kind="root").of())
    assert shop.count(run, Status.DONE) == 4
    assert [set(states) for states in seen] == [set(), {SegmentState.GARBAGE}]
    garbage = [row for row in shop.store.reads.segments().rows if row.state is SegmentState.GARBAGE]
    assert sum(row.last - row.first + 1 for row in garbage) == 3 * PIECE
    assert shop.store.vacuum().tasks == 3 * PIECE
    assert list(shop.store.reads.segments().rows) == []


@pytest.mark.parametrize("colour", ["generator", "async generator"])
def test_many_children_of_a_task_whose_result_cannot_be_stored_do_not_exist(quick: Shop, colour: str) -> None:
    def generator() -> Generator[Call[Any], None, object]:
        for n in range(2 * PIECE):
            yield made.of(n)
        return float("nan")

    async def stream() -> AsyncIterator[Any]:
        for n in range(2 * PIECE):
            yield made.of(n)
        yield Return(float("nan"))

    made = quick.task(leaf)
    run = quick.run(quick.task(generator if colour == "generator" else stream, kind="root").of())
    assert quick.count(run, Status.FAILED) == 1
    assert quick.count(run, Status.DONE) == 0


def test_many_children_are_not_held_in_memory(filed: Shop) -> None:
    text = "x" * 500

    def leaf(n: int, text: str) -> None: ...

    def root() -> Iterator[Call[Any]]:
        for n in range(5 * PIECE):
            yield made.of(n, text)

    made = filed.task(leaf)
    run = filed.start(filed.task(root).of())
    del filed.handlers["leaf"]
    tracemalloc.start()
    with filed.working() as kernel:
        # The root ends; nobody knows the kind of its children.
        while not filed.statuses(filed.tasks(run, "root")[0]):
            kernel.join(0.05)
        peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert filed.store.reads.counts(run)["leaf"][0] == 5 * PIECE
    assert peak < 30_000_000, f"{peak} bytes for {5 * PIECE * 500} of children"


@pytest.mark.parametrize("colour", ["generator", "async generator", "spawn", "async spawn"])
@pytest.mark.parametrize("many", [3, 4, 2 * PIECE])
def test_a_task_with_more_children_than_allowed_fails_at_once(quick: Shop, colour: str, many: int) -> None:
    def generator() -> Iterator[Call[Any]]:
        for n in range(many):
            yield made.of(n)

    async def stream() -> AsyncIterator[Any]:
        for n in range(many):
            yield made.of(n)

    def spawn() -> None:
        current().spawn(*(made.of(n) for n in range(many)))

    async def spawn_async() -> None:
        current().spawn(*(made.of(n) for n in range(many)))

    fn: Any = {"generator": generator, "async generator": stream, "spawn": spawn, "async spawn": spawn_async}[colour]
    made = quick.task(leaf)
    run = quick.run(quick.task(fn, kind="root", max_children=3).of())
    (root,) = quick.tasks(run, "root")
    assert quick.statuses(root) == [Status.DONE if many <= 3 else Status.FAILED]
    assert len(quick.tasks(run, "leaf")) == (many if many <= 3 else 0)
    if many > 3:
        assert "more than max_children=3. Raise" in quick.failure(root).text


def test_children_may_be_spawned_by_a_call_from_every_colour(quick: Shop) -> None:
    def plain() -> None:
        current().spawn(made.of(1), made.of(2))

    def generator() -> Iterator[Call[Any]]:
        current().spawn(made.of(3))
        yield made.of(4)

    async def coroutine() -> None:
        current().spawn(made.of(5))

    async def stream() -> AsyncIterator[Any]:
        current().spawn(made.of(6))
        yield made.of(7)

    def leaf(n: int) -> int:
        return n

    made = quick.task(leaf)
    run = quick.run(*(quick.task(fn).of() for fn in (plain, generator, coroutine, stream)))
    assert sorted(quick.results(run, "leaf")) == [1, 2, 3, 4, 5, 6, 7]


def test_what_a_failed_attempt_spawned_does_not_exist_nor_go_to_the_next_task(quick: Shop) -> None:
    def root(n: int) -> None:
        current().spawn(made.of(n))
        if n % 2:
            raise ValueError

    def leaf(n: int) -> int:
        return n

    made = quick.task(leaf)
    task = quick.task(root, retries=0)
    run = quick.run(*(task.of(n) for n in range(100)))
    assert sorted(quick.results(run, "leaf")) == list(range(0, 100, 2))


def test_spawning_what_is_no_call_is_refused(quick: Shop) -> None:
    def root() -> None:
        current().spawn(7)  # type: ignore[arg-type]

    run = quick.run(quick.task(root).of())
    assert quick.failure(quick.tasks(run)[0]).type == "ramify.errors.BadPayload"


def test_a_delayed_child_starts_not_before_its_time(shop: Shop) -> None:
    def root() -> Iterator[Call[Any]]:
        yield made.of(1).delay(0.2)

    def leaf(n: int) -> int:
        return shop.store.now()

    made = shop.task(leaf)
    run = shop.run(shop.task(root).of())
    (task,) = shop.tasks(run, "leaf")
    row = shop.store.reads.task(task)
    assert row is not None
    assert row.due is not None
    assert shop.results(run, "leaf")[0] >= row.due
