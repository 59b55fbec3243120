"""Lanes share a row while they bring few tasks, and a row of several comes apart into one for each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ramify.model.lanes import FEW, apart, by_row
from ramify.model.segment import tasks_in

SOME_LANES = st.lists(st.sampled_from((None, "a", "b", "c", "d")), min_size=1, max_size=200)


@given(SOME_LANES, st.integers(0, 2 * FEW))
def test_every_position_is_in_one_row(lanes: list[str | None], most: int) -> None:
    rows = by_row(lanes, most)
    assert sorted(position for row in rows for position in row) == list(range(len(lanes)))
    assert all(rows)


@given(SOME_LANES, st.integers(0, 2 * FEW))
def test_only_lanes_with_few_tasks_share_a_row(lanes: list[str | None], most: int) -> None:
    rows = [[lanes[position] for position in row] for row in by_row(lanes, most)]
    shared = [row for row in rows if len(set(row)) > 1]
    assert len(shared) <= 1
    for lane in set(shared[0]) if shared else ():
        assert lane is not None
        assert lanes.count(lane) <= min(most, FEW)
        assert shared[0].count(lane) == lanes.count(lane)


def test_lanes_that_may_share_do() -> None:
    assert len(by_row([str(i) for i in range(1_000)], FEW)) == 1


@given(st.dictionaries(st.integers(1, 500), st.sampled_from(("a", "b", "c")), min_size=1))
def test_the_rows_that_a_row_comes_apart_into_stand_for_the_same_tasks(lanes: dict[int, str]) -> None:
    tasks = sorted(lanes)
    rows = apart(tasks, [lanes[task] for task in tasks])
    found = {task: lane for lane, first, last, left in rows for task in tasks_in(first, last, left)}
    assert found == lanes
    assert len(rows) == len(set(lanes.values()))
