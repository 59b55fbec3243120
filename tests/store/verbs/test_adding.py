"""Groups on their way into the log, as values."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ramify.errors import BadPayload
from ramify.model.task import NewTasks
from ramify.store.tables import Loaded
from ramify.store.verbs.adding import check_room, parents_of
from tests.store.verbs.values import KIND


def test_of_many_groups_that_is_named_whose_ids_cannot_be_had() -> None:
    groups = [NewTasks(first, KIND, [b"[]"], lane=str(first)) for first in (10, 14, 18)]
    check_room(Loaded(reserved=19), groups)
    with pytest.raises(BadPayload, match="ids 14 to 14 are already in the log"):
        check_room(Loaded(reserved=19, taken={(14, 14)}), groups)
    with pytest.raises(BadPayload, match="ids 18 to 18 were not reserved"):
        check_room(Loaded(reserved=18), groups)


@pytest.mark.parametrize(
    ("parents", "chosen", "told"),
    [
        (None, None, (None, None)),
        (5, None, (5, 5)),
        ([7, 5, 6], None, (5, 7)),
        ([7, None, 6], None, (0, 7)),
        ([None, None, None], None, (None, None)),
        ([7, None, 6], [0, 2], (6, 7)),
        ([7, None, 6], [1], (None, None)),
    ],
)
def test_a_span_tells_between_which_parents_its_tasks_have_theirs(
    parents: Sequence[int | None] | int | None, chosen: Sequence[int] | None, told: tuple[int | None, int | None]
) -> None:
    """The lowest is 0 where a task has none, so that no edition takes the whole span for its own."""
    assert parents_of(NewTasks(10, KIND, [b"[]"] * 3, parents), chosen) == told
