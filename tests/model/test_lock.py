"""Locks as states: who is granted in which order, and under which fence, whatever becomes of holders and waiters."""

from __future__ import annotations

import random

import pytest

from ramify.model.lock import (
    FENCES,
    FREE_FOR,
    MOST_HOLDERS,
    MOST_WAITERS,
    Acquisition,
    LockState,
    decode,
    encode,
)
from ramify.model.value import MAX_VALUE

NEW = LockState().numbered(17, FENCES)
NOBODY: frozenset[int] = frozenset()


def one(id: int, process: int = 1, most: int = 1, ttl: int | None = None) -> Acquisition:
    return Acquisition(id, process, 4711, "vm", 100, most, ttl)


def asking(state: LockState, *all: Acquisition, now: int = 100) -> LockState:
    for each in all:
        state = state.asked(each).granted(now)
    return state


def ids(all: tuple[Acquisition, ...]) -> list[int]:
    return [each.id for each in all]


def test_the_first_to_ask_holds_the_lock_and_others_wait_in_their_order() -> None:
    state = asking(NEW, one(1), one(2), one(3))
    assert (ids(state.holders), ids(state.waiters), state.fence) == ([1], [2, 3], 17)
    after = state.left(1).granted(200)
    assert (ids(after.holders), ids(after.waiters), after.fence) == ([2], [3], 18)
    assert after.holders[0].since == 200


def test_nobody_asks_twice() -> None:
    state = asking(NEW, one(1), one(2))
    assert state.asked(one(1)) is state
    assert state.asked(one(2)) is state


def test_who_leaves_the_line_is_passed_over() -> None:
    state = asking(NEW, one(1), one(2), one(3)).left(2)
    assert ids(state.left(1).granted(200).holders) == [3]
    assert state.left(99) is state


def test_as_many_hold_a_lock_as_the_strictest_of_them_allows() -> None:
    three = asking(NEW, *(one(id, most=3) for id in range(5)))
    assert (ids(three.holders), ids(three.waiters)) == ([0, 1, 2], [3, 4])
    strict = asking(NEW, one(1, most=3), one(2, most=1), one(3, most=3))
    assert (ids(strict.holders), ids(strict.waiters)) == ([1], [2, 3]), "the line is kept"
    assert ids(strict.left(1).granted(0).holders) == [2]
    assert [each.fence for each in three.holders] == [17, 18, 19]


def test_a_session_that_ended_holds_nothing_and_one_that_is_only_dead_waits_for_nothing() -> None:
    state = asking(NEW, one(1, process=1), one(2, process=2), one(3, process=3))
    dead = state.without(NOBODY, {1, 2}, 200)
    assert (ids(dead.holders), ids(dead.waiters)) == ([1], [3]), "it may hold the lock until its session has ended"
    assert ids(state.without({1}, {1, 2}, 200).granted(200).holders) == [3]
    assert state.without({7}, {7}, 200) is state


def test_a_grant_expires_when_its_time_is_up() -> None:
    state = asking(NEW, one(1, ttl=50), one(2))
    assert (state.ends_at, state.holders[0].expires) == (150, 150)
    assert state.without(NOBODY, NOBODY, 149) is state
    assert ids(state.without(NOBODY, NOBODY, 150).granted(150).holders) == [2]


def test_a_person_takes_it_from_all_who_hold_it() -> None:
    state = asking(NEW, one(1), one(2))
    after = state.freed("ann@vm", "stuck", 300).granted(300)
    assert ids(after.holders) == [2]
    assert after.unlocked is not None
    assert (after.unlocked.fence, after.unlocked.by, after.unlocked.reason) == (17, "ann@vm", "stuck")


def test_only_a_free_lock_may_be_forgotten() -> None:
    state = asking(NEW, one(1))
    assert (state.is_free, state.kept_until(5)) == (False, None)
    assert state.left(1).kept_until(5) == 5 + FREE_FOR


def test_nobody_is_granted_without_a_fence() -> None:
    assert not LockState().has_fences()
    bare = LockState().asked(one(1)).granted(0)
    assert (ids(bare.holders), ids(bare.waiters)) == ([], [1])
    few = LockState().numbered(10, 3)
    assert few.has_fences()
    used = asking(few, one(1), one(2), one(3))
    assert not used.has_fences()
    assert asking(used.left(1).numbered(90, FENCES)).granted(0).holders[0].fence == 90


def test_a_line_that_is_full_takes_nobody_and_the_state_fits_a_value() -> None:
    long = "\U0001f512" * 500
    state = NEW
    for id in range(MOST_HOLDERS + 2 * MOST_WAITERS):
        new = Acquisition(2**62 + id, 2**62, 2**22, long, 2**62, MOST_HOLDERS, 2**61, 2**62, long).cut()
        state = state.asked(new).granted(2**61)
    assert len(state.waiters) <= MOST_WAITERS
    assert len(encode(state)) < MAX_VALUE
    full = asking(NEW, *(one(id) for id in range(MOST_WAITERS + 2)))
    assert (len(full.waiters), full.place(MOST_WAITERS + 1)) == (MOST_WAITERS, None)


def test_a_state_is_the_same_when_it_was_stored() -> None:
    state = asking(NEW, one(1, ttl=5), one(2)).freed("ann", "", 3)
    assert decode(encode(state)) == state
    assert decode(b'{"fence":3,"end":9,"a newer version":1}') == LockState(3, 9)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_fences_rise_and_no_place_is_free_while_somebody_waits(most: int, seed: random.Random) -> None:
    state, given = NEW, list[int]()
    for now in range(400):
        id = seed.randrange(8)
        match seed.randrange(5):
            case 0 | 1:
                state = state.asked(one(id, process=id % 3, most=most, ttl=seed.choice([None, 5])))
            case 2:
                state = state.left(id)
            case 3:
                ended = {seed.randrange(3)} if seed.random() < 0.2 else NOBODY
                state = state.without(ended, ended, now)
            case _:
                state = state.freed("ann", "", now) if seed.random() < 0.1 else state
        state = state.granted(now)
        given += [each.fence for each in state.holders if each.fence > (given[-1] if given else 0)]
        assert given == sorted(set(given))
        assert len(state.holders) <= most
        assert not state.waiters or len(state.holders) == most
        assert {each.fence for each in state.holders} <= set(given)
    assert len(given) > 20
