"""A run waits for others as long as what it waits for can still end; a circle of runs waits for nobody."""

from __future__ import annotations

import pytest

from ramify.model.awaiting import AwaitingQuestions, awaits_others
from ramify.model.segment import SegmentState

READY, GATED, WAITING = SegmentState.READY, SegmentState.GATED, SegmentState.WAITING


def asked(
    awaited: dict[int, list[int]],
    rows: dict[int, tuple[int, SegmentState]],
    works: set[int] = frozenset(),  # type: ignore[assignment]
    follows: dict[int, int] | None = None,
) -> bool:
    leaders = follows or {}
    return awaits_others(
        1, AwaitingQuestions(lambda run: awaited.get(run, []), rows.get, lambda run: run in works, leaders.get)
    )


@pytest.mark.parametrize("state", [READY, GATED, SegmentState.CLAIMED])
def test_a_task_of_another_run_that_can_be_worked_off_is_waited_for(state: SegmentState) -> None:
    assert asked({1: [20]}, {20: (2, state)})


def test_nobody_waits_for_what_has_ended_or_for_itself() -> None:
    assert not asked({1: [20, 10]}, {10: (1, READY)})


def test_a_run_that_follows_this_one_is_not_waited_for_before_its_turn() -> None:
    assert not asked({1: [20]}, {20: (2, GATED)}, follows={2: 3, 3: 1})
    assert asked({1: [20]}, {20: (2, READY)}, follows={2: 1})


def test_what_waits_in_turn_is_waited_for_while_its_run_goes_on() -> None:
    assert asked({1: [20]}, {20: (2, WAITING)}, works={2})
    assert not asked({1: [20]}, {20: (2, WAITING)})
    assert asked({1: [20], 2: [30]}, {20: (2, WAITING), 30: (3, READY)})


def test_runs_that_wait_for_each_other_wait_for_nobody() -> None:
    assert not asked({1: [20], 2: [10]}, {20: (2, WAITING), 10: (1, WAITING)})
    assert not asked({1: [20], 2: [30], 3: [10, 20]}, {20: (2, WAITING), 30: (3, WAITING), 10: (1, WAITING)})
