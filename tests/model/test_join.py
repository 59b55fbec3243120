"""The rule of a join says for every mixture of ends whether its task runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ramify.model.event import Status
from ramify.model.join import Ends, Rule, nearest, part_sizes

#: Ends, and the rules that let the task run.
CELLS = [
    (Ends(), {Rule.ALL_DONE, Rule.NONE_FAILED, Rule.ALWAYS}),
    (Ends(done=2), {Rule.NONE_HALTED, Rule.ALL_DONE, Rule.NONE_FAILED, Rule.ANY_DONE, Rule.ALWAYS, Rule.BEHIND}),
    (Ends(done=1, failed=1), {Rule.ANY_DONE, Rule.ANY_FAILED, Rule.ALWAYS}),
    (Ends(failed=2), {Rule.ANY_FAILED, Rule.ALWAYS}),
    (Ends(done=1, skipped=1), {Rule.NONE_HALTED, Rule.NONE_FAILED, Rule.ANY_DONE, Rule.ALWAYS}),
    (Ends(skipped=2), {Rule.NONE_FAILED, Rule.ALWAYS}),
    (Ends(done=1, cancelled=1), {Rule.NONE_FAILED, Rule.ANY_DONE, Rule.ALWAYS}),
    (Ends(cancelled=1, failed=1), {Rule.ANY_FAILED, Rule.ALWAYS}),
    (Ends(done=2, failed=1), {Rule.ANY_DONE, Rule.ANY_FAILED, Rule.ALWAYS, Rule.BEHIND}),
    (Ends(done=1, failed=2), {Rule.ANY_DONE, Rule.ANY_FAILED, Rule.ALWAYS}),
]


@pytest.mark.parametrize(("ends", "allowed"), CELLS)
def test_the_rule_says_whether_the_task_runs(ends: Ends, allowed: set[Rule]) -> None:
    assert {rule for rule in Rule if rule.allows(ends)} == allowed


@pytest.mark.parametrize("rule", [rule for rule in Rule if rule not in (Rule.ALWAYS, Rule.BEHIND)])
def test_a_task_that_does_not_run_is_told_why(rule: Rule) -> None:
    assert "of the 3 tasks it waits for" in rule.refusal(Ends(done=1, failed=1, skipped=1))


@pytest.mark.parametrize("before", [Ends(done=1), Ends(failed=1), Ends(skipped=1), Ends(cancelled=1)])
def test_a_task_behind_another_is_told_how_that_one_ended(before: Ends) -> None:
    assert Rule.BEHIND.refusal(Ends(failed=2) + before) == "the job it waited for failed"
    for ahead in (Ends(cancelled=2), Ends(skipped=2)):
        assert Rule.BEHIND.refusal(ahead + before) == "the job it waited for was cancelled"
    assert Rule.BEHIND.allows(Ends(done=2) + before)


def test_the_worst_end_is_told_by_its_harm() -> None:
    assert Ends(done=9).worst is Status.DONE
    assert Ends(done=9, skipped=1).worst is Status.SKIPPED
    assert Ends(done=9, skipped=1, cancelled=1).worst is Status.CANCELLED
    assert Ends(done=9, skipped=1, cancelled=1, failed=1).worst is Status.FAILED


@pytest.mark.parametrize(("needs", "sizes"), [(0, []), (1, [1]), (8192, [8192]), (8193, [8192, 1])])
def test_a_join_has_parts_of_a_bounded_size(needs: int, sizes: list[int]) -> None:
    assert part_sizes(needs) == sizes


def test_a_page_of_members_looks_no_further_than_it_must() -> None:
    looked: list[int] = []

    def groups() -> Iterator[tuple[int, int, int]]:
        for first, last, shift in ((1_000, 1_999_999, -1_000), (3_000_000, 3_000_000, -3_000_000 + 7), (5, 5, 10**6)):
            looked.append(first)
            yield first, last, shift

    found = nearest(groups(), 10)
    assert sorted(found) == list(range(10))
    assert (found[6], found[7]) == (1_006, 3_000_000), "of two in one slot the younger has taken it over"
    assert looked == [1_000, 3_000_000, 5]
    assert nearest(iter([(1, 2, 0), (9, 9, -4)]), 10) == {1: 1, 2: 2, 5: 9}
