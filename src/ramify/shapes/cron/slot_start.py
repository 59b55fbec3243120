"""The job or the run that a slot of a schedule has started: whether it is still open, and how it is cancelled."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from ramify.model.decision import Said
from ramify.model.policy import SECOND
from ramify.shapes.cron.declaration import Declaration
from ramify.shapes.start import until_answered
from ramify.store.contract import Store


class SlotStart(msgspec.Struct, frozen=True, omit_defaults=True):
    """The job or the run that a slot started, by its id."""

    at: int
    job: int | None = None
    run: int | None = None

    def __str__(self) -> str:
        return f"job {self.job}" if self.job is not None else f"run {self.run}"


def stamp_of(at: int) -> str:
    """A slot in names and keys: its time in UTC; one that was started by hand is known to the microsecond."""
    seconds, rest = divmod(at, SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}{f'.{rest:06}' if rest else ''}Z"


def shown(declared: Declaration, at: int) -> str:
    """A slot for people, in the zone of its schedule."""
    return f"{declared.times.datetime_of(at):%Y-%m-%d %H:%M:%S %Z}"


def is_open(store: Store, started: SlotStart) -> bool:
    """Return whether what a slot has started is still to end."""
    if started.run is not None:
        run = store.reads.runs_at([started.run]).get(started.run)
        return run is not None and not run.state.is_end
    assert started.job is not None
    standing = store.reads.standings([started.job]).get(started.job)
    return standing is not None and standing.ended is None


def cancel(store: Store, started: SlotStart, reason: str) -> None:
    """Cancel what a slot has started."""
    if started.run is not None:
        until_answered(lambda: store.cancel(started.run or 0, said=Said(reason)))
        return
    assert started.job is not None
    standing = store.reads.standings([started.job]).get(started.job)
    if standing is not None:
        until_answered(lambda: store.cancel(standing.row.run, standing.row.id, said=Said(reason)))
