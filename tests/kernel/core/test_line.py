"""Whoever came first goes first; who is held back steps aside and costs nobody a look."""

from __future__ import annotations

from ramify.kernel.core.holding import Holding
from ramify.kernel.core.line import Line
from ramify.model.claim import Details
from tests.kernel.claims import holding


def of(lane: str | None, first: int, tasks: int = 1) -> Holding:
    return holding(tasks, first=first, lane=lane)


def drain(line: Line) -> list[int]:
    """The first task of each holding, in the order in which they are handed out."""
    seen = []
    while (front := line.front()) is not None:
        seen.append(front.claim.tasks[0])
        front.take(front.available)
    return seen


def test_holdings_leave_in_the_order_in_which_they_came_whatever_their_lanes() -> None:
    line = Line()
    for first, lane in ((1, "left"), (2, None), (3, "right"), (4, "left"), (5, None)):
        line.add(of(lane, first))
    assert drain(line) == [1, 2, 3, 4, 5]


def test_a_lane_that_steps_aside_takes_all_of_its_holdings_along() -> None:
    line = Line()
    for first, lane in ((1, "left"), (2, "right"), (3, "left")):
        line.add(of(lane, first))
    line.step_aside(None)
    line.add(of("left", 4))
    assert line.is_aside(("work", "left"))
    assert drain(line) == [2]


def test_a_lane_steps_back_to_its_old_place_when_one_of_its_tasks_is_over() -> None:
    line = Line()
    for first, lane in ((1, "left"), (2, "right"), (3, "left")):
        line.add(of(lane, first))
    line.step_aside(None)
    assert not line.over(("work", "right"))
    assert line.over(("work", "left"))
    assert drain(line) == [1, 2, 3]


def test_a_lane_that_waits_for_a_time_steps_back_then_and_not_before() -> None:
    line = Line()
    line.add(of("left", 1))
    line.add(of("right", 2))
    line.step_aside(5.0)
    line.step_aside(3.0)
    assert line.opens_at == 3.0
    assert not line.over(("work", "left"))
    assert line.opened(2.9) is None
    assert (line.opened(4.0), line.opened(4.0), line.opens_at) == (("work", "right"), None, 5.0)
    assert drain(line) == [2]


def test_lanes_and_tasks_without_one_may_wait_for_the_same_time() -> None:
    line = Line()
    line.add(of("left", 1))
    line.add(of(None, 2))
    line.step_aside(5.0)
    line.step_aside(5.0)
    assert (line.opened(5.0), line.opened(5.0)) == (("work", "left"), ("work", None))


def test_a_holding_stands_in_line_once_and_is_forgotten_when_it_has_nothing_left() -> None:
    line, held = Line(), of(None, 1, tasks=2)
    line.add(held)
    line.add(held)
    held.take(2)
    assert line.front() is None
    assert held.place is None


def test_the_line_knows_whether_anybody_in_it_has_settings_of_its_own() -> None:
    line, held = Line(), holding(1, details={100: Details(extra=b'{"timeout":0.5}')})
    line.add(held)
    assert line.special == 1
    held.take(1)
    line.front()
    assert line.special == 0
