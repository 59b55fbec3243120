"""Children are kept in columns by group, each with its parent, and nothing of them is lost when columns are merged."""

from __future__ import annotations

from typing import Any

from ramify.kernel.offspring import Fork, Offspring
from ramify.model.call import Call, Group
from tests.kernel.claims import SIGNATURE

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
    offspring.add(1, [call(10), call(11).lane("left"), call(12)])
    lanes = {group.lane: brood.bodies for group, brood in offspring.broods.items()}
    assert lanes == {None: [b"[10]", b"[12]"], "left": [b"[11]"]}


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
