"""How a run ends is one rule, whatever store asks."""

import pytest

from ramify.model.run import RunState, ends_as

DONE, FAILED, CANCELLED, HALTED = RunState.DONE, RunState.FAILED, RunState.CANCELLED, RunState.HALTED


@pytest.mark.parametrize(
    ("bound_for", "failures", "cancelled", "stuck", "end"),
    [
        (DONE, 0, 0, 0, DONE),
        (DONE, 0, 7, 0, DONE),
        (DONE, 1, 0, 0, FAILED),
        (DONE, 0, 0, 1, FAILED),
        (CANCELLED, 0, 7, 0, CANCELLED),
        (CANCELLED, 1, 7, 1, CANCELLED),
        (CANCELLED, 0, 0, 0, DONE),
        (CANCELLED, 1, 0, 0, FAILED),
        (CANCELLED, 0, 0, 1, FAILED),
        (HALTED, 0, 1, 0, HALTED),
    ],
)
def test_a_run_ends_as_its_tasks_did_and_as_cancelled_while_it_was_and_they_are(
    bound_for: RunState, failures: int, cancelled: int, stuck: int, end: RunState
) -> None:
    assert ends_as(bound_for, failures=failures, cancelled=cancelled, stuck=stuck) is end
