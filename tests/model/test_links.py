"""Links between new tasks, joins and waiters; what is refused is shown by the conformance suite."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ramify.model.join import NewWaiters
from ramify.model.links import older_tasks
from ramify.model.task import NewTasks


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=6),
    st.lists(st.lists(st.integers(1, 30), max_size=6), max_size=3),
)
def test_older_tasks_are_those_that_no_new_group_holds(
    gaps_and_sizes: list[tuple[int, int]], awaited: list[list[int]]
) -> None:
    groups, first = [], 5
    for gap, size in gaps_and_sizes:
        groups.append(NewTasks(first + gap, "node", [b"[]"] * size))
        first += gap + size
    waiters = [NewWaiters(tasks, [99] * len(tasks), range(len(tasks))) for tasks in awaited]
    new = {task for group in groups for task in group.ids}
    assert older_tasks(groups[::-1], waiters) == {task for tasks in awaited for task in tasks} - new
