"""The SQLite store does what the reference does: a machine drives both with the same verbs and compares all there is.

Promises: the same run seed gives the same examples. A difference is shrunk to the fewest steps that show it, and the
verbs that were sent are printed with them.

The machine runs a second time with masks, join parts and other limits only a few tasks wide, so that small examples
reach what otherwise begins at thousands of tasks. That the machine can fail at all is seen on stores with planted bugs.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from ramify.model.claim import Claimed, Want
from ramify.model.process import Stamp
from ramify.model.run import Advanced
from ramify.store.clock import Clock
from ramify.store.sqlite import SqliteStore
from tests.store.machine.faults import FaultMachine

#: Names of limits in `ramify`, and what they are made to be.
NARROW = {
    "MASK_WIDTH": 4,
    "PART_SLOTS": 3,
    "SMALL": 2,
    "REOFFER_PARTS": 2,
    "FIRST_LIMIT": 2,
    "SECOND_LIMIT": 4,
    "SKIPPED": 1,
    "MANY_PUBLICATIONS": 2,
}

Recorder = Callable[[str, object], None]


@pytest.fixture(params=["wide", "narrow"])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """As wide as in earnest, or a few tasks wide everywhere."""
    if request.param == "narrow":
        for name, module in list(sys.modules.items()):
            for limit, value in NARROW.items():
                if name.startswith("ramify.") and hasattr(module, limit):
                    monkeypatch.setattr(module, limit, value)
    return str(request.param)


def _settings(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
    )


def _run(examples: int, steps: int, record_property: Recorder) -> Counter[str]:
    """Run the machine; how often what matters has happened."""
    FaultMachine.seen.clear()
    run_state_machine_as_test(FaultMachine, settings=_settings(examples, steps))
    for what, times in {"examples": examples, **FaultMachine.seen}.items():
        record_property(what, times)
    return FaultMachine.seen


# The time limits leave room for Hypothesis to shrink what it found.


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("width")
def test_sqlite_does_what_the_reference_does(record_property: Recorder) -> None:
    _run(20, 40, record_property)


@pytest.mark.full
@pytest.mark.timeout(7200)
@pytest.mark.usefixtures("width")
def test_sqlite_does_what_the_reference_does_for_long(record_property: Recorder) -> None:
    seen = _run(500, 80, record_property)
    assert seen["editions"] >= 100, "the machine hardly ever replaces an edition"


class _ClaimsAnew(SqliteStore):
    """A claim that is sent again takes more, because its stamp was not used up."""

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        return super().claim(Stamp(stamp.process, stamp.n * 1000 + self.reserve(1) % 1000), want)


class _KeepsClaims(SqliteStore):
    """A release that says it was done, and was not."""

    def release(self, stamp: Stamp, tokens: Sequence[bytes]) -> tuple[bytes, ...]:
        return ()


class _NeverEnds(SqliteStore):
    """Nobody judges rounds and ends, so work waits for ever behind a gate."""

    def advance(self, asked: Sequence[tuple[int, int]]) -> tuple[Advanced, ...]:
        found = [self.reads.run(run) for run, _ in asked]
        return tuple(Advanced(run.state, run.round) for run in found)


@pytest.mark.parametrize("planted", [_ClaimsAnew, _KeepsClaims, _NeverEnds])
def test_a_store_with_a_planted_bug_is_found_out(planted: type[SqliteStore]) -> None:
    def open_planted(path: Path, clock: Clock) -> SqliteStore:
        return planted(path, durability="process", clock=clock)

    machine = type("Planted", (FaultMachine,), {"opener": staticmethod(open_planted)})
    generous = settings(_settings(60, 40), phases=[Phase.generate], database=None)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=generous)
