"""What is no fault of a task costs it nothing; what is too much is refused however it was made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ramify.errors import StoreUnavailable
from ramify.kernel.attempts import attempt
from ramify.kernel.attempts.current import current
from ramify.model.call import Call
from ramify.model.event import Status
from tests.kernel.shop import Shop


def leaf(n: int) -> None: ...


def test_a_read_that_the_store_could_not_answer_costs_no_attempt(quick: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "STORE_PAUSE", 0.0)
    seen: list[int] = []

    def asks() -> None:
        seen.append(current().attempt)
        if len(seen) < 3:
            raise StoreUnavailable("away for a moment")

    run = quick.run(quick.task(asks, retries=0).of())
    assert seen == [1, 1, 1]
    assert quick.count(run, Status.DONE) == 1


@pytest.mark.parametrize("most", [5, 4])
def test_children_that_are_yielded_and_spawned_count_together(quick: Shop, most: int) -> None:
    def root() -> Iterator[Call[Any]]:
        current().spawn(made.of(1), made.of(2))
        yield made.of(3)
        yield made.of(4)
        yield made.of(5)

    made = quick.task(leaf)
    run = quick.run(quick.task(root, max_children=most).of())
    assert quick.count(run, Status.FAILED) == (most < 5)
    assert quick.count(run, Status.DONE) == (6 if most == 5 else 0)
