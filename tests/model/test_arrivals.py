"""Members arrive once, and a join fires once everybody has."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ramify.model.arrivals import Arrivals, Bits, Standing, created, dues, settle
from ramify.model.event import Status
from ramify.model.join import PART_SLOTS, Ends, NewJoins, Rule

AT = (7, 3)
ENDS = [status for status in Status if status.is_end]


class Shelf:
    """Joins in a dict, of which only the parts that are asked for are given away."""

    def __init__(self, *joins: NewJoins) -> None:
        self.joins = {join.id: join for new in joins for join in created(AT[0], new)}

    def load(self, wanted: Mapping[int, Collection[int]]) -> dict[int, Standing]:
        return {number: self.joins[number] for number in wanted if number in self.joins}

    def arrive(self, *members: tuple[int, int, Status], at: tuple[int, int] = AT) -> Mapping[int, tuple[int, int]]:
        return settle([Arrivals(*at, members)], {}, self.load).fired


def test_a_join_fires_when_the_last_member_has_arrived() -> None:
    shelf = Shelf(NewJoins.one(1, 2))
    assert shelf.arrive((1, 0, Status.DONE)) == {}
    assert shelf.arrive((1, 1, Status.DONE)) == {1: AT}
    assert shelf.joins[1].fired


def test_a_member_that_arrives_twice_counts_once_and_as_it_did_first() -> None:
    shelf = Shelf(NewJoins.one(1, 3))
    assert shelf.arrive((1, 0, Status.FAILED), (1, 0, Status.DONE)) == {}
    assert shelf.arrive((1, 0, Status.DONE)) == {}
    assert shelf.joins[1].ends == Ends(failed=1)
    for status in (Status.DONE, Status.FAILED, Status.SKIPPED):
        assert shelf.arrive((1, 1, status)) == {}
    assert shelf.joins[1].ends == Ends(1, failed=1)


def test_members_are_told_apart_by_how_they_ended() -> None:
    shelf = Shelf(NewJoins.one(1, 5))
    ends = [Status.DONE, Status.FAILED, Status.QUARANTINED, Status.SKIPPED, Status.CANCELLED]
    assert shelf.arrive(*((1, slot, status) for slot, status in enumerate(ends))) == {1: AT}
    assert shelf.joins[1].ends == Ends(1, 2, 1, 1)


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from([0, 1, PART_SLOTS]), st.sampled_from(ENDS))))
def test_members_that_are_known_to_be_done_arrive_like_others(members: list[tuple[int, int, Status]]) -> None:
    told, known = (Shelf(NewJoins((1, 2, 3), (1, 2, PART_SLOTS + 1))) for _ in range(2))
    done = [(join, slot) for join, slot, status in members if status is Status.DONE]
    others = [each for each in members if each[2] is not Status.DONE]
    fired = settle([Arrivals(*AT, others, done)], {}, known.load).fired
    assert (fired, known.joins) == (told.arrive(*members), told.joins)


def test_what_fires_goes_to_the_latest_round_of_those_that_filled_it() -> None:
    shelf = Shelf(NewJoins.one(1, 2))
    late, early = Arrivals(7, 5, [(1, 0, Status.DONE)]), Arrivals(7, 4, [(1, 1, Status.DONE)])
    assert settle([late, early], {}, shelf.load).fired == {1: (7, 5)}


def test_a_join_that_waits_for_nobody_fires_at_once() -> None:
    shelf = Shelf(NewJoins.one(1, 0))
    assert settle([], {1: AT}, shelf.load).fired == {1: AT}


def test_arrivals_at_a_join_that_is_not_there_or_has_fired_change_nothing() -> None:
    shelf = Shelf(NewJoins.one(1, 1))
    shelf.arrive((1, 0, Status.DONE))
    settled = settle([Arrivals(*AT, [(1, 0, Status.FAILED), (9, 0, Status.DONE)])], {}, shelf.load)
    assert (list(settled.changed), settled.fired) == ([], {})


@given(st.lists(st.sampled_from(ENDS), min_size=1, max_size=40))
def test_a_large_join_of_which_only_some_parts_are_here_knows_how_all_ended(ends: list[Status]) -> None:
    whole = Bits(len(ends))
    whole.arrive(0, list(enumerate(ends)))
    elsewhere = Bits(3, arrived=0b111, failed=0b010)
    join = Standing(1, 7, Rule.ALL_DONE, False, len(ends) + 3, 2, 2, parts={0: whole}, elsewhere=elsewhere.ends)
    assert join.ends.all == len(ends) + 3
    assert join.ends.failed == 1 + sum(status in (Status.FAILED, Status.QUARANTINED) for status in ends)
    assert join.ends.cancelled == sum(status in (Status.CANCELLED, Status.REPLACED) for status in ends)


def test_a_join_that_is_set_back_fires_again_as_a_new_instance() -> None:
    shelf = Shelf(NewJoins.one(1, PART_SLOTS + 1))
    everybody = [(1, slot, Status.DONE) for slot in range(PART_SLOTS + 1)]
    assert shelf.arrive(*everybody) == {1: AT}
    shelf.joins[1].set_back(PART_SLOTS)
    assert (shelf.joins[1].fired, shelf.joins[1].instance, shelf.joins[1].is_full) == (False, 2, False)
    assert shelf.arrive((1, PART_SLOTS, Status.SKIPPED)) == {1: AT}
    assert shelf.joins[1].ends == Ends(done=PART_SLOTS, skipped=1)


class Unread(list[Standing]):
    """Joins that nobody goes through."""

    def __iter__(self) -> Iterator[Standing]:
        raise AssertionError("all joins that changed were gone through")


def test_when_tasks_may_start_is_told_without_going_through_all_that_changed() -> None:
    shelf = Shelf(NewJoins((1, 2, 3), (1, 1, 1)))
    changes = settle([Arrivals(*AT, [(1, 0, Status.DONE), (2, 0, Status.FAILED), (3, 0, Status.DONE)])], {}, shelf.load)
    changes = replace(changes, changed=Unread(changes.changed))
    assert dues([1, 2], 5, 100, changes.joins.__getitem__) == {105: [1], None: [2]}
    assert dues([3], None, 100, changes.joins.__getitem__) == {None: [3]}
