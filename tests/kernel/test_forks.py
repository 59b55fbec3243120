"""Fork and join: a continuation starts when all members have ended, and gets their results."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ramify.kernel.attempts.current import current
from ramify.kernel.attempts.stream import Stream
from ramify.model.event import Status
from ramify.model.run import Order, RunState
from tests.kernel.shop import Made, Shop

MODES = pytest.mark.parametrize("threads", [None, 0], ids=["workers", "inline"])
ORDERS = pytest.mark.parametrize("order", [Order.ROUNDS, Order.ANY])


def leaf(n: int) -> int:
    if n < 0:
        raise ValueError(n)
    return n


def add_up(sizes: Stream[int] = Stream()) -> list[int]:
    return list(sizes)


async def add_up_async(sizes: Stream[int] = Stream()) -> list[int]:
    return list(sizes)


def fork(shop: Shop, numbers: list[int], *, retries: int = 0, always: bool = False, awaited: bool = False) -> Made:
    def root() -> None:
        then = total.of().always() if always else total.of()
        current().spawn(*(made.of(n) for n in numbers), then=then)

    made = shop.task(leaf, retries=retries)
    total = shop.task(add_up_async if awaited else add_up, kind="total", stream_of=int)
    return shop.task(root)


@MODES
@ORDERS
def test_a_continuation_gets_the_results_of_all_members_in_order(shop: Shop, threads: int | None, order: Order) -> None:
    run = shop.run(fork(shop, list(range(50))).of(), threads=threads, order=order)
    assert shop.results(run, "total") == [list(range(50))]
    assert shop.state(run) is RunState.DONE


def test_an_async_continuation_gets_them_too(shop: Shop) -> None:
    run = shop.run(fork(shop, [3, 1, 2], awaited=True).of())
    assert shop.results(run, "total") == [[3, 1, 2]]


def test_a_continuation_without_members_starts_at_once_with_nothing(shop: Shop) -> None:
    run = shop.run(fork(shop, []).of())
    assert shop.results(run, "total") == [[]]


def test_a_broken_member_skips_the_continuation_and_says_why(shop: Shop) -> None:
    run = shop.run(fork(shop, [1, -1, 2]).of())
    (total,) = shop.tasks(run, "total")
    assert shop.statuses(total) == [Status.SKIPPED]
    assert b"1 of the 3 tasks" in (shop.events(total)[0].value or b"")
    assert shop.state(run) is RunState.FAILED


def test_always_runs_the_continuation_with_the_results_there_are(shop: Shop) -> None:
    seen = []

    def after(sizes: Stream[int] = Stream()) -> list[int]:
        seen.append((len(sizes), sizes.broken))
        return list(sizes)

    def root() -> None:
        current().spawn(made.of(1), made.of(-1), made.of(2), then=then.of().always())

    made, then = shop.task(leaf, retries=0), shop.task(after, stream_of=int)
    run = shop.run(shop.task(root).of())
    assert shop.results(run, "after") == [[1, 2]]
    assert seen == [(2, 1)]


def test_members_of_several_kinds_keep_the_order_of_the_call(shop: Shop) -> None:
    def root() -> None:
        current().spawn(made.of(1), other.of(2), made.of(3), made.of(4).lane("l"), other.of(5), then=total.of())

    made, other = shop.task(leaf), shop.task(leaf, kind="other")
    total = shop.task(add_up, kind="total", stream_of=int)
    assert shop.results(shop.run(shop.task(root).of()), "total") == [[1, 2, 3, 4, 5]]


def test_members_may_be_awaited_by_an_async_generator_that_also_yields(quick: Shop) -> None:
    async def root() -> AsyncIterator[Any]:
        current().spawn(made.of(1), made.of(2), then=total.of())
        yield made.of(9)

    made, total = quick.task(leaf), quick.task(add_up, kind="total", stream_of=int)
    run = quick.run(quick.task(root).of())
    assert quick.results(run, "total") == [[1, 2]]
    assert sorted(quick.results(run, "leaf")) == [1, 2, 9]


@MODES
@ORDERS
def test_a_member_hands_its_slot_to_its_own_continuation(
    shop: Shop, threads: int | None, order: Order, tmp_path: Path
) -> None:
    """The size of a folder is that of its files and of the folders in it, all the way down."""
    tree = tmp_path / "tree"
    for place, size in (("a", 1), ("b/c", 10), ("b/d/e", 100), ("b/d/f", 1_000), ("g/h/i/j", 10_000)):
        (tree / place).parent.mkdir(parents=True, exist_ok=True)
        (tree / place).write_bytes(b"x" * size)
    (tree / "empty").mkdir()

    def folder(path: str) -> int:
        positions = sorted(Path(path).iterdir())
        own = sum(place.stat().st_size for place in positions if place.is_file())
        current().spawn(*(made.of(str(place)) for place in positions if place.is_dir()), then=made_total.of(own))
        return -1

    def total(own: int, sizes: Stream[int] = Stream()) -> int:
        return own + sum(sizes)

    made, made_total = shop.task(folder), shop.task(total, stream_of=int)
    run = shop.run(made.of(str(tree)), threads=threads, order=order)
    assert max(shop.results(run, "total")) == 11_111
    assert shop.state(run) is RunState.DONE
    assert len(shop.results(run, "total")) == 7


def test_a_broken_member_far_below_skips_every_continuation_above(shop: Shop) -> None:
    def nest(depth: int) -> None:
        members = [nested.of(depth - 1)] if depth else [made.of(-1)]
        current().spawn(*members, then=total.of())

    nested, made = shop.task(nest), shop.task(leaf, retries=0)
    total = shop.task(add_up, kind="total", stream_of=int)
    run = shop.run(nested.of(2))
    assert [shop.statuses(task) for task in shop.tasks(run, "total")] == [[Status.SKIPPED]] * 3


def test_a_task_that_others_wait_for_may_have_one_continuation_only(quick: Shop) -> None:
    def root() -> None:
        current().spawn(member.of(), then=total.of())

    def twice() -> None:
        current().spawn(made.of(1), then=total.of())
        current().spawn(made.of(2), then=total.of())

    made, member = quick.task(leaf), quick.task(twice)
    total = quick.task(add_up, kind="total", stream_of=int)
    run = quick.run(quick.task(root).of())
    assert quick.failure(quick.tasks(run, "twice")[0]).type == "ramify.errors.BadPayload"
    assert quick.count(run, Status.SKIPPED) == 1
    both = quick.run(member.of())
    assert sorted(quick.results(both, "total")) == [[1], [2]]


def test_a_member_that_fails_and_is_tried_again_counts_once(shop: Shop) -> None:
    tries: list[int] = []

    def shaky(n: int) -> int:
        tries.append(n)
        if tries.count(n) < 3:
            raise ValueError
        return n

    def root() -> None:
        current().spawn(*(made.of(n) for n in range(5)), then=total.of())

    made, total = shop.task(shaky, retries=3), shop.task(add_up, kind="total", stream_of=int)
    assert shop.results(shop.run(shop.task(root).of()), "total") == [[0, 1, 2, 3, 4]]


def test_a_continuation_cannot_have_a_time_of_its_own(quick: Shop) -> None:
    def root() -> None:
        current().spawn(made.of(1), then=made.of(2).at(datetime.now(UTC)))

    made = quick.task(leaf)
    run = quick.run(quick.task(root).of())
    assert "Use .delay() instead of .at()." in quick.failure(quick.tasks(run, "root")[0]).text


def test_a_wide_join_reads_its_results_page_by_page(shop: Shop) -> None:
    def total(sizes: Stream[int] = Stream()) -> int:
        return sum(sizes) + len(sizes)

    def root() -> None:
        current().spawn(*(made.of(n) for n in range(12_000)), then=after.of())

    made, after = shop.task(leaf), shop.task(total, stream_of=int)
    assert shop.results(shop.run(shop.task(root).of()), "total") == [sum(range(12_000)) + 12_000]
