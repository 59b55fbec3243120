"""Outcomes wait in columns, and become a part that the store accepts: children, joins and waits in their places."""

from __future__ import annotations

from typing import Any

from ramify.kernel.core.work import Chunk, Ran, Wait
from ramify.kernel.outgoing.continuations import floor
from ramify.kernel.outgoing.offspring import Offspring
from ramify.kernel.outgoing.outbox import NOTHING, Finished, part_of
from ramify.model.call import Call, Group
from ramify.model.commit import check_part
from ramify.model.context import SetValue
from ramify.model.event import History, Status
from ramify.model.policy import SECOND
from ramify.model.task import MAX_ID
from tests.kernel.claims import SIGNATURE, claim, handler

GROUP = Group("work", SIGNATURE)
NOW = 1_000 * SECOND


def call(number: int) -> Call[Any]:
    return Call(GROUP, b"[%d]" % number)


def ran(done: list[int], values: list[bytes | None] | None = None, offspring: Offspring | None = None) -> Ran:
    return Ran(Chunk(claim(), handler(), range(4), {}), done, values, [], offspring or Offspring())


class Ids:
    """Ids from 500 on."""

    def __init__(self) -> None:
        self._next = 500

    def __call__(self, many: int, above: int) -> int:
        first = max(self._next, above + 1)
        self._next = first + many
        return first


def test_tasks_that_all_end_well_with_nothing_to_say_need_no_columns() -> None:
    finished = Finished(claim())
    finished.done(ran([100, 101]))
    part = part_of(finished, Ids(), NOW)
    assert (list(part.tasks), part.statuses, part.values) == ([100, 101], Status.DONE, None)


def test_a_result_after_tasks_without_keeps_its_place() -> None:
    finished = Finished(claim())
    finished.done(ran([100]))
    finished.done(ran([101], [b"1"]))
    finished.done(ran([102]))
    finished.add(103, Status.FAILED, b"why")
    part = check_part(part_of(finished, Ids(), NOW))
    assert part.values == [None, b"1", None, b"why"]
    assert part.statuses == [Status.DONE, Status.DONE, Status.DONE, Status.FAILED]


def test_good_ends_after_bad_ones_are_good() -> None:
    finished = Finished(claim())
    finished.add(100, Status.RETRYING, b"why")
    finished.done(ran([101, 102], [b"1", b"2"]))
    part = check_part(part_of(finished, Ids(), NOW))
    assert part.statuses == [Status.RETRYING, Status.DONE, Status.DONE]
    assert part.values == [b"why", b"1", b"2"]


def test_children_get_contiguous_ids_and_their_own_parents() -> None:
    offspring = Offspring()
    offspring.add(100, [call(1), call(2)])
    offspring.add(101, [call(3)])
    finished = Finished(claim())
    finished.done(ran([100, 101], offspring=offspring))
    (children,) = part_of(finished, Ids(), NOW).children
    assert (list(children.ids), children.parents) == ([500, 501, 502], [100, 100, 101])


def test_a_delay_counts_from_the_commit() -> None:
    offspring = Offspring()
    offspring.add(100, [call(1).delay(2.5)])
    finished = Finished(claim())
    finished.done(ran([100], offspring=offspring))
    (children,) = part_of(finished, Ids(), NOW).children
    assert children.due == NOW + 2_500_000


def test_waits_of_about_the_same_length_share_a_row() -> None:
    finished = Finished(claim(1_000, first=0))
    for task in range(1_000):
        finished.add(task, Status.RETRYING, None)
        finished.later[task] = Wait(5.0 + task / 20)
    later = part_of(finished, Ids(), NOW).later
    assert len(later) < 60
    assert sorted(task for each in later for task in each.tasks) == list(range(1_000))
    assert all(each.due >= NOW + (5.0 + task / 20) * SECOND for each in later for task in each.tasks)


def test_exact_waits_are_not_rounded() -> None:
    finished = Finished(claim())
    finished.add(100, Status.DEFERRED, None)
    finished.later[100] = Wait(8.1)
    (later,) = part_of(finished, Ids(), NOW, True).later
    assert later.due == NOW + 8_100_000


def test_tasks_that_await_different_runs_do_not_share_a_row() -> None:
    finished = Finished(claim(4, first=0))
    for task, awaits in enumerate((7, 8, 7, None)):
        finished.add(task, Status.DEFERRED, None)
        finished.later[task] = Wait(60.0, awaits)
    later = part_of(finished, Ids(), NOW).later
    assert [(each.tasks, each.awaits) for each in later] == [([0, 2], 7), ([1], 8), ([3], None)]


def test_tasks_that_close_a_limit_do_not_share_with_those_that_do_not() -> None:
    finished = Finished(claim(4, first=0))
    for task, closes in enumerate(("lane", None, "lane", "limit")):
        finished.add(task, Status.DEFERRED, None)
        finished.later[task] = Wait(60.0, closes=closes)  # type: ignore[arg-type]
    later = part_of(finished, Ids(), NOW).later
    assert [(each.tasks, each.closes) for each in later] == [([0, 2], "lane"), ([1], None), ([3], "limit")]


def test_what_tasks_set_goes_with_their_ends() -> None:
    offspring = Offspring()
    offspring.keep([SetValue(claim().tasks[1], "total", b"1")])
    finished = Finished(claim())
    finished.done(ran(list(claim().tasks[:1])))
    assert part_of(finished, Ids(), NOW).sets == ()
    finished.done(ran(list(claim().tasks[1:2]), offspring=offspring))
    part = check_part(part_of(finished, Ids(), NOW))
    assert part.sets == [SetValue(claim().tasks[1], "total", b"1")]


def test_continuations_lie_above_the_tasks_that_they_go_on_for_and_above_those_of_earlier_lives() -> None:
    held = claim()
    first, second = held.tasks[:2]
    assert floor(held, ()) == 0
    assert floor(held, (second, first)) == max(first, second)
    again = claim(history={first: History(life=2)})
    assert floor(again, (first,)) == MAX_ID
    assert floor(again, (second,)) == second


def test_outcomes_without_children_share_one_empty_offspring() -> None:
    barren, fertile, offspring = Finished(claim()), Finished(claim()), Offspring()
    offspring.add(100, [call(1)])
    barren.done(ran([100]))
    fertile.done(ran([100], offspring=offspring))
    fertile.done(ran([101]))
    assert barren.offspring is NOTHING
    assert (bool(NOTHING), fertile.offspring.count) == (False, 1)
