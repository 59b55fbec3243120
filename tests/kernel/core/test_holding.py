"""A holding knows where each of its tasks is, and its counts add up at every step."""

from __future__ import annotations

from ramify.model.claim import Details
from ramify.model.death import Deaths
from ramify.model.event import History
from tests.kernel.claims import handler, holding


def test_a_new_holding_has_all_its_tasks_to_give() -> None:
    new = holding(4)
    assert (new.available, new.left, new.adds_up()) == (4, 4, True)


def test_tasks_are_given_in_order_and_counted_as_leased() -> None:
    held = holding(4)
    assert list(held.take(3)) == [0, 1, 2]
    assert list(held.take(3)) == [3]
    assert (held.leased, held.available, held.adds_up()) == (4, 0, True)


def test_what_came_back_goes_first_and_alone() -> None:
    held = holding(4)
    held.take(2)
    held.leased -= 1
    held.give_back(0)
    assert list(held.take(3)) == [0]
    assert list(held.take(3)) == [2, 3]
    assert held.adds_up()


def test_tasks_whose_end_is_known_are_never_given() -> None:
    held = holding(4)
    held.settle(frozenset({1, 3}))
    assert (held.available, held.unsent, held.adds_up()) == (2, 2, True)
    assert list(held.take(4)) == [0, 2]


def test_a_closing_holding_gives_nothing() -> None:
    held = holding(4)
    held.closing = True
    assert held.available == 0


def test_a_task_in_two_places_does_not_add_up() -> None:
    held = holding(4)
    held.unsent += 1
    assert not held.adds_up()


def test_attempts_go_on_from_the_history() -> None:
    held = holding(3, history={101: History(2, 2), 102: History(1, 0)})
    assert held.attempts == {1: 3}


def test_only_tasks_that_are_given_time_are_alone_in_their_chunks() -> None:
    extras = [b'{"timeout":3}', b'{"every":3}', b'{"within":3}', b'{"retries":3}', b'{"headers":{"a":"b"}}']
    found = [holding(2, details={101: Details(extra=extra)}).is_special for extra in extras]
    assert found == [True, True, True, False, False]


def test_extras_are_read_once_by_place() -> None:
    held = holding(2, details={101: Details(extra=b'{"retries":7}'), 100: Details(key=b"k")})
    assert {place: extra.retries for place, extra in held.extras.items()} == {1: 7}


def test_a_claim_that_saw_a_death_is_suspect() -> None:
    assert holding(1, deaths=Deaths(ran=2, apart=True)).is_suspect
    assert not holding(1, by=handler()).is_suspect
