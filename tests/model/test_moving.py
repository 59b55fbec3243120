"""How a run goes on: what follows from where it stands. The stores only bring what they see and do what is said."""

from __future__ import annotations

from typing import Any

import pytest

from ramify.model.moving import Drain, End, Move, Open, RunStanding, Stay, Ungate, begins_at, next_move
from ramify.model.run import Follows, NewRun, Order, RunState
from ramify.model.task import NewTasks

OPEN, DRAINING, DONE, FAILED = RunState.OPEN, RunState.DRAINING, RunState.DONE, RunState.FAILED
IDLE = RunStanding(1, OPEN, 0, DONE, Order.ROUNDS, False, None, None, None, None, None, None)
ANY = {"order": Order.ANY}
LED: dict[str, Any] = {"leader": 9, "lead": 1}


def move(*, awaits: bool = False, now: int = 100, **facts: Any) -> Move:
    return next_move(IDLE._replace(**facts), now, lambda run: awaits)


@pytest.mark.parametrize(
    ("facts", "follows"),
    [
        ({}, End()),
        ({"awaits": True}, End()),
        ({"waits": True, "awaits": True}, Stay()),
        ({"waits": True}, End()),
        ({"endless": True}, Stay()),
        ({"lowest": 0}, Stay()),
        ({"lowest": 0, "gated": 1}, Stay()),
        ({"lowest": 0, "gated": 0}, Ungate()),
        ({"lowest": 3, "gated": 3}, Open(3)),
        ({"lowest": 3, "gated": 3, "awaits": True}, Open(3)),
        ({"round": -1, "lowest": 0, "gated": 0}, Open(0)),
        ({"round": -1, "lowest": 0, "gated": 0, **ANY}, Open(0)),
        ({"lowest": 3, **ANY}, Stay()),
        ({"lowest": 3, "gated": 7, **ANY}, Ungate()),
        ({"endless": True, "gated": 0, **ANY}, Ungate()),
        ({**ANY}, End()),
    ],
)
def test_an_open_run_goes_on_as_its_live_work_allows(facts: dict[str, Any], follows: Move) -> None:
    assert move(**facts) == follows


@pytest.mark.parametrize(("leader_round", "follows"), [(None, Open(2)), (4, Open(2)), (3, Stay(9)), (-1, Stay(9))])
def test_a_follower_opens_a_round_when_its_leader_has_passed_it_or_ended(
    leader_round: int | None, follows: Move
) -> None:
    assert move(lowest=2, leader_round=leader_round, **LED) == follows


def test_a_follower_without_work_of_its_own_ends_whatever_its_leader_does() -> None:
    assert move(leader_round=0, **LED) == End()


@pytest.mark.parametrize(
    ("held", "loose", "follows"),
    [(False, False, Drain()), (False, True, Drain()), (True, True, Drain()), (True, False, Stay())],
)
def test_a_draining_run_waits_only_for_what_is_held(held: bool, loose: bool, follows: Move) -> None:
    assert move(state=DRAINING, lowest=0, held=held, loose=loose) == follows


def test_a_deadline_drains_an_open_run_once() -> None:
    assert isinstance(late := move(lowest=0, deadline=100), Drain)
    assert late.late is not None
    assert move(lowest=0, deadline=101) == Stay()
    assert move(lowest=0, deadline=100, bound_for=FAILED) == Stay()


@pytest.mark.parametrize("state", [RunState.PAUSED, DONE, FAILED, RunState.CANCELLED, RunState.HALTED])
def test_a_run_that_is_paused_or_over_stays(state: RunState) -> None:
    assert move(state=state, gated=0, deadline=1) == Stay()


def test_an_endless_run_without_a_barrier_begins_without_tasks_unless_it_follows() -> None:
    assert move(order=Order.ANY, endless=True, round=-1) == Open(0)
    assert move(order=Order.ANY, endless=True, round=0) == Stay()
    assert move(order=Order.ANY, endless=True, round=-1, leader=7) == Stay()
    assert move(order=Order.ROUNDS, endless=True, round=-1) == Stay()


@pytest.mark.parametrize("order", list(Order))
def test_a_new_run_with_a_task_that_waits_for_nothing_begins_at_once(order: Order) -> None:
    assert begins_at(NewRun(1, order=order, endless=True), [NewTasks(2, "walk", [b"[]"])], 100) == 0


@pytest.mark.parametrize(
    ("facts", "tasks"),
    [
        ({}, []),
        ({}, [NewTasks(2, "walk", [])]),
        ({}, [NewTasks(2, "walk", [b"[]"], waits=True)]),
        ({}, [NewTasks(2, "walk", [b"[]"], keys=[b"k"])]),
        ({"follows": Follows(9, 0)}, [NewTasks(2, "walk", [b"[]"])]),
        ({"deadline": 100}, [NewTasks(2, "walk", [b"[]"])]),
    ],
)
def test_how_another_run_begins_is_seen_when_its_tasks_are_there(facts: dict[str, Any], tasks: list[NewTasks]) -> None:
    assert begins_at(NewRun(1, **facts), tasks, 100) == -1
