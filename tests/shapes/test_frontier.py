"""Expanding runs: what their roots are, how they are told apart and how they are shown."""

from __future__ import annotations

import pytest

from ramify import ConfigError, Tasks
from ramify.shapes.frontier import Roots, plan_of


def measure(path: str, depth: int = 0) -> int:
    return len(path) + depth


def count(names: set[str]) -> int:
    return len(names)


jobs = Tasks()
size = jobs.task(measure)
counting = jobs.task(queue="slow", key=lambda names: "names")(count)


def test_roots_keep_their_options_and_lie_by_group() -> None:
    calls = [size.of("a").priority(3), counting.of({"b"}), size.of("c").priority(3), size.of("d").retries(1).key("k")]
    beginning = Roots(calls).beginning(7, 0)
    assert [
        (group.first, group.kind, group.queue, group.priority, group.keys, group.details) for group in beginning.tasks
    ] == [
        (7, "measure", "default", 3, None, None),
        (9, "count", "slow", 0, [b"names"], None),
        (10, "measure", "default", 0, [b"k"], [b'{"retries":1}']),
    ]
    assert beginning.order == [0, 2, 1, 3]


def test_a_delay_counts_from_the_start() -> None:
    (group,) = Roots([size.of("a").delay(60)]).beginning(1, 1_000).tasks
    assert group.due == 60_001_000


def test_roots_are_the_same_in_any_order_and_by_older_names() -> None:
    here, there = Roots([size.of("a"), counting.of({"b"})]), Roots([counting.of({"b"}), size.of("a")])
    assert list(here.identities({})) == list(there.identities({}))
    assert len(list(here.identities({"measure": ("weigh", "size")}))) == 3
    assert list(here.identities({})) != list(Roots([size.of("a")]).identities({}))


def test_only_a_few_roots_are_shown_and_not_too_much_of_each() -> None:
    assert str(Roots([size.of(f"/{n}") for n in range(5)])) == (
        "measure('/0', 0), measure('/1', 0), measure('/2', 0) and 2 more"
    )
    assert len(str(Roots([size.of("x" * 1_000)]))) < 110


def test_what_is_not_made_of_calls_is_another_shape_or_refused() -> None:
    assert plan_of(7, ()) is None
    assert plan_of("measure", ()) is None
    with pytest.raises(ConfigError, match="got 7 "):
        plan_of([size.of("a"), 7], ())
    with pytest.raises(ConfigError, match="at least one call, got none"):
        plan_of([], ())
