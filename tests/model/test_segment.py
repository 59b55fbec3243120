"""The arithmetic of masks: what is set comes back, whatever is split off or put together."""

from hypothesis import given
from hypothesis import strategies as st

from ramify.model.segment import (
    MASK_WIDTH,
    bounds,
    cut_mask,
    full,
    mask_of,
    pack,
    take_head,
    tasks_in,
    trim,
    unpack,
)

some_tasks = st.sets(st.integers(1000, 1000 + 300), min_size=1).map(sorted)


@given(some_tasks)
def test_a_mask_holds_exactly_the_tasks_it_was_made_of(tasks: list[int]) -> None:
    assert list(tasks_in(1000, 1300, mask_of(tasks, 1000))) == tasks


@given(st.integers(1, 500), st.integers(0, 500))
def test_a_range_makes_the_same_mask_as_its_members(width: int, start: int) -> None:
    tasks = range(1000 + start, 1000 + start + width)
    assert mask_of(tasks, 1000) == mask_of(list(tasks), 1000)
    assert bounds(tasks) == bounds(list(tasks))


def test_no_mask_means_all() -> None:
    assert tasks_in(5, 8, None) == range(5, 9)
    assert mask_of([], 5) == 0


@given(some_tasks)
def test_trimming_changes_the_row_but_not_its_tasks(tasks: list[int]) -> None:
    first, last, left = trim(1000, mask_of(tasks, 1000))
    assert (first, last) == (tasks[0], tasks[-1])
    assert list(tasks_in(first, last, left)) == tasks
    assert (left is None) == (len(tasks) == tasks[-1] - tasks[0] + 1)


@given(st.one_of(st.none(), st.integers(1, 2**300)))
def test_packed_masks_come_back(left: int | None) -> None:
    assert unpack(pack(left)) == left


@given(some_tasks, st.integers(1, 50))
def test_a_head_and_its_rest_are_the_whole(tasks: list[int], limit: int) -> None:
    left = mask_of(tasks, 1000)
    cut, taken = take_head(1000, 1300, left, limit)
    below, rest = cut_mask(1000, 1300, left, cut)
    head = tasks_in(1000, cut - 1, below)
    assert taken == len(head) == min(limit, len(tasks))
    assert [*head, *tasks_in(cut, 1300, rest)] == tasks


def test_the_head_of_a_wide_row_is_never_wider_than_a_mask() -> None:
    assert take_head(1, 100_000, None, 50_000) == (1 + MASK_WIDTH, MASK_WIDTH)
    assert cut_mask(1, 100_000, None, 1 + MASK_WIDTH) == (None, None)


def test_a_full_mask_has_every_bit() -> None:
    assert full(0) == 0
    assert full(9).bit_count() == 9
