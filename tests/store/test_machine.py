"""The SQLite store does what the reference does: a machine drives both with the same verbs and compares all there is.

Promises: the same run seed gives the same examples. A difference is shrunk to the fewest steps that show it.

The machine runs a second time with masks, join parts and parts of a buried claim only a few tasks wide, so that small
examples reach what otherwise begins at thousands of tasks.
"""

from __future__ import annotations

import sys

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.store.machine.faults import FaultMachine

NARROW = {"MASK_WIDTH": 4, "PART_SLOTS": 3, "REOFFER_PARTS": 2, "FIRST_LIMIT": 2, "SECOND_LIMIT": 4}


def _settings(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(params=["wide", "narrow"])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """As wide as in earnest, or a few tasks wide everywhere."""
    if request.param == "narrow":
        for name, module in list(sys.modules.items()):
            for constant, value in NARROW.items():
                if name.startswith("ramify.") and hasattr(module, constant):
                    monkeypatch.setattr(module, constant, value)
    return str(request.param)


@pytest.mark.usefixtures("width")
def test_sqlite_does_what_the_reference_does() -> None:
    run_state_machine_as_test(FaultMachine, settings=_settings(30, 40))


@pytest.mark.full
@pytest.mark.timeout(7200)
@pytest.mark.usefixtures("width")
def test_sqlite_does_what_the_reference_does_for_long() -> None:
    run_state_machine_as_test(FaultMachine, settings=_settings(500, 80))
