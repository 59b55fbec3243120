"""Children are kept in columns by group, each with its parent, and nothing of them is lost when columns are merged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from ramify.kernel.core.handler import Handler
from ramify.kernel.outgoing.offspring import Fork, Offspring, sorted_out
from ramify.model.call import Call, Group
from ramify.model.context import SetValue
from ramify.model.lanes import FEW
from ramify.model.policy import Rate
from tests.kernel.claims import SIGNATURE, handler

GROUP = Group("work", SIGNATURE)


def call(number: int, group: Group = GROUP) -> Call[Any]:
    return Call(group, b"[%d]" % number)


def test_children_of_one_group_share_columns() -> None:
    offspring = Offspring()
    offspring.add(1, [call(10), call(11)])
    offspring.add(2, [call(12)])
    brood = offspring.broods[GROUP]
    assert (brood.bodies, brood.parents) == ([b"[10]", b"[11]", b"[12]"], [1, 1, 2])
    assert (brood.labels, brood.extras) == (None, None)


def test_a_label_or_an_extra_in_the_middle_keeps_its_place() -> None:
    offspring = Offspring()
    offspring.add(1, [call(10), call(11).retries(2), call(12)])
    brood = offspring.broods[GROUP]
    assert brood.extras == [None, b'{"retries":2}', None]
    assert brood.bodies == [b"[10]", b"[11]", b"[12]"]


def test_plain_children_after_one_with_an_extra_keep_the_columns_even() -> None:
    offspring = Offspring()
    offspring.add(1, [call(10).retries(2)])
    offspring.add(2, [call(11), call(12)])
    brood = offspring.broods[GROUP]
    assert brood.extras == [b'{"retries":2}', None, None]


def test_children_of_different_groups_are_apart() -> None:
    offspring = Offspring()
    offspring.add(1, [call(10), call(11).priority(-1), call(12)])
    priorities = {group.priority: brood.bodies for group, brood in offspring.broods.items()}
    assert priorities == {0: [b"[10]", b"[12]"], -1: [b"[11]"]}


def in_rows(calls: list[Call[Any]], own: Handler | None) -> list[tuple[list[bytes], list[str | None] | None]]:
    offspring = Offspring()
    offspring.add(1, [msgspec.structs.replace(each, group=replace(each.group, handler=own)) for each in calls])
    return [(brood.bodies, brood.lanes) for _, brood in sorted_out(offspring.broods)]


def test_lanes_with_few_children_share_a_row() -> None:
    calls = [call(1).lane("a"), call(2), call(3).lane("b"), call(4).lane("a")]
    assert in_rows(calls, handler()) == [([b"[2]"], [None]), ([b"[1]", b"[3]", b"[4]"], ["a", "b", "a"])]


def test_a_lane_with_more_children_than_may_run_together_has_a_row_of_its_own() -> None:
    calls = [call(1).lane("a"), call(2).lane("b"), call(3).lane("a"), call(4).lane("c")]
    assert in_rows(calls, handler(concurrency=1)) == [([b"[1]", b"[3]"], ["a", "a"]), ([b"[2]", b"[4]"], ["b", "c"])]
    many = [call(0).lane("b"), *(call(number).lane("a") for number in range(1, FEW + 2))]
    assert [len(bodies) for bodies, _ in in_rows(many, handler())] == [FEW + 1, 1]


def test_lanes_of_a_kind_with_a_rate_or_that_nobody_here_knows_do_not_share() -> None:
    calls = [call(1).lane("a"), call(2).lane("b")]
    apart = [([b"[1]"], ["a"]), ([b"[2]"], ["b"])]
    assert in_rows(calls, handler(rate=Rate("5/s"))) == apart
    assert in_rows(calls, None) == apart


def test_lanes_that_a_limit_of_the_store_counts_do_not_share() -> None:
    calls = [call(1).lane("a"), call(2).lane("b"), call(3).lane("a")]
    assert in_rows(calls, handler(per_lane=True)) == [([b"[1]", b"[3]"], ["a", "a"]), ([b"[2]"], ["b"])]
    assert len(in_rows(calls, handler(in_all=True))) == 1


def test_merging_keeps_columns_even_whichever_side_has_them() -> None:
    plain, special = Offspring(), Offspring()
    plain.add(1, [call(10)])
    special.add(2, [call(11).key("a")])
    special.add(2, [call(12).retries(1)])
    plain.extend(special)
    for brood in plain.broods.values():
        for column in (brood.labels, brood.extras, brood.parents):
            assert column is None or len(column) == len(brood.bodies)
    assert plain.count == 3


def test_children_added_after_a_merge_join_the_rest() -> None:
    mine, other = Offspring(), Offspring()
    mine.add(1, [call(10)])
    other.add(2, [call(11)])
    mine.extend(other)
    mine.add(3, [call(12)])
    assert mine.broods[GROUP].parents == [1, 2, 3]


def test_everything_is_counted_continuations_too() -> None:
    offspring = Offspring(staged=5)
    offspring.add(1, [call(10)])
    offspring.forks.append(Fork(1, [call(11), call(12)], call(13)))
    assert offspring.count == 1 + 3 + 5


def test_what_tasks_set_stays_in_order_and_goes_with_what_came_to_nothing() -> None:
    first, second, third = (SetValue(task, "name", b"1") for task in (1, 2, 3))
    offspring, other = Offspring(), Offspring()
    offspring.keep([first])
    offspring.keep(())
    other.keep({"a": second, "b": third}.values())
    offspring.extend(other)
    offspring.extend(Offspring())
    assert (offspring.sets, other.sets) == ([first, second, third], [second, third])
    assert offspring.undone().sets is None
    assert offspring.count == 0


def test_what_comes_of_tasks_that_swap_values_is_kept_apart() -> None:
    chunk, claim = Offspring(), Offspring(discarded=[1])
    for task, ranges in ((1, [100]), (2, [200, 300])):
        own = chunk.set_apart(task)
        own.add(task, [call(10)])
        own.publish(ranges, 5)
    assert chunk.set_apart(1) is (chunk.apart or {})[1]
    claim.extend(chunk)
    claim.extend(Offspring())
    assert (claim.broods, claim.published, claim.staged) == ({}, [], 0)
    assert (claim.count, claim.is_fertile) == (12, True)
    undone = claim.undone()
    assert (undone.discarded, undone.apart, undone.count, undone.is_fertile) == ([1, 100, 200, 300], None, 0, False)


def test_jobs_of_a_task_that_swaps_values_may_be_there_once_it_is_committed() -> None:
    offspring = Offspring()
    offspring.set_apart(1)
    assert not offspring.is_fertile
    offspring.set_apart(2).jobs.append(call(10))
    assert offspring.is_fertile
