"""Forks of one claim share rows, and the continuation of a task arrives wherever that task is waited for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ramify.kernel.outgoing.continuations import Continuations
from ramify.kernel.outgoing.offspring import Fork
from ramify.model.call import Call, Group
from ramify.model.join import SMALL, NewJoins, Rule
from tests.kernel.claims import SIGNATURE, handler

NOW = 1_000_000
GROUP = Group("work", SIGNATURE)


def call(number: int) -> Call[Any]:
    return Call(GROUP, b"[%d]" % number)


def continued(*forks: Fork) -> Continuations:
    ids = iter(range(500, 100_000))

    def take(many: int) -> int:
        first, *_ = (next(ids) for _ in range(many))
        return first

    return Continuations(forks, take, NOW)


def fork(parent: int, members: Sequence[Call[Any]], then: Call[Any] | None = None) -> Fork:
    return Fork(parent, members, then or call(9))


def test_a_fork_makes_a_join_of_as_many_as_there_are_members() -> None:
    made = continued(fork(100, [call(1), call(2), call(3)]))
    assert made.joins == [NewJoins(range(500, 501), [3], brings=True)]
    then, members = made.children
    assert (then.first, then.waits, then.bodies, then.parents) == (500, True, [b"[9]"], [100])
    assert (members.first, members.awaited, members.bodies) == (501, True, [b"[1]", b"[2]", b"[3]"])
    (waiters,) = made.waiters
    assert (list(waiters.tasks), waiters.joins, waiters.slots) == ([501, 502, 503], (500, 500, 500), (0, 1, 2))


def test_forks_of_one_claim_share_rows() -> None:
    made = continued(fork(100, [call(1), call(2)]), fork(101, [call(3)]))
    assert made.joins == [NewJoins(range(500, 502), [2, 1], brings=True)]
    then, members = made.children
    assert (then.parents, members.parents) == ([100, 101], [100, 100, 101])
    (waiters,) = made.waiters
    assert (waiters.joins, waiters.slots) == ((500, 500, 501), (0, 1, 0))


def test_members_of_other_groups_and_lanes_keep_their_slots() -> None:
    made = continued(fork(100, [call(1), call(2).priority(-1), call(3).lane("left"), call(4)]))
    slots = {task: slot for some in made.waiters for task, slot in zip(some.tasks, some.slots, strict=True)}
    bodies = {task: body for each in made.children for task, body in zip(each.ids, each.bodies, strict=True)}
    assert {bodies[task]: slot for task, slot in slots.items()} == {b"[1]": 0, b"[2]": 1, b"[3]": 2, b"[4]": 3}


def test_members_of_a_large_fork_have_rows_that_know_their_slots() -> None:
    made = continued(fork(100, [call(number) for number in range(SMALL + 1)]), fork(101, [call(1)]))
    assert [(each.join, each.slot) for each in made.children if each.join is not None] == [(500, 0)]
    assert sum(len(some.tasks) for some in made.waiters) == 1


def test_neighbours_of_one_group_stay_together_in_call_order() -> None:
    members = [call(number) for number in range(SMALL)] + [call(98).priority(1), call(99)]
    made = continued(fork(100, members))
    groups = [(len(each.bodies), each.slot) for each in made.children if each.join is not None]
    assert groups == [(SMALL, 0), (1, SMALL), (1, SMALL + 1)]


def test_whoever_waits_for_a_task_waits_for_its_continuation() -> None:
    assert continued(fork(100, [call(1)]), fork(101, [])).heirs == {100: 500, 101: 501}


def test_a_fork_without_members_is_a_join_of_none() -> None:
    made = continued(fork(100, []))
    assert (made.joins, len(made.children), made.waiters) == ([NewJoins(range(500, 501), [0], brings=True)], 1, [])


def test_a_continuation_that_wants_to_run_always_says_so_to_its_join() -> None:
    made = continued(fork(100, [call(1)]), fork(101, [call(1)], call(9).always()))
    assert [(list(each.ids), each.rule) for each in made.joins] == [([500], Rule.ALL_DONE), ([501], Rule.ALWAYS)]


def test_results_are_brought_to_those_who_take_them() -> None:
    own = handler()
    deaf = replace(GROUP, handler=own)
    keen = replace(GROUP, handler=replace(own, stream="parts"))
    made = continued(fork(100, [call(1)], Call(deaf, b"[]")), fork(101, [call(1)], Call(keen, b"[]").priority(1)))
    assert [each.brings for each in made.joins] == [False, True]
