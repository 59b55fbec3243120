"""Runs that begin: by a start, or opened by tasks that come into them under their name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import asdict, replace

from ramify.errors import BadPayload
from ramify.model.addition import Addition, opened
from ramify.model.moving import begins_at
from ramify.model.run import NewRun, RunState, StoredRun
from ramify.model.task import NewTasks
from ramify.store.changes import Changes
from ramify.store.tables import Loaded


def new_run(new: NewRun, tasks: Sequence[NewTasks], now: int) -> StoredRun:
    """A new run, whose place in the log is not known yet. Most begin at once: then their tasks need no gate."""
    return StoredRun(
        **asdict(new),
        state=RunState.OPEN,
        round=begins_at(new, tasks, now),
        reason=None,
        created=now,
        ended=None,
        since=0,
    )


def may_open(additions: Iterable[Addition]) -> Sequence[NewRun]:
    """The runs that they may open."""
    return [each.opens for each in additions if each.opens is not None]


class OpeningRuns:
    """The runs by name that additions go into, opened where that must be: all of one verb share one."""

    def __init__(self, loaded: Loaded, changes: Changes) -> None:
        self._loaded, self._changes = loaded, changes
        self._newest = dict(loaded.newest)

    def run(self, new: Addition) -> StoredRun:
        """The run that an addition goes into."""
        opens = new.opens
        assert opens is not None
        assert opens.name is not None
        begun = opened(opens, self._newest.get(opens.name))
        if begun is not None:
            if not 0 < begun.id < self._loaded.reserved:
                raise BadPayload(f"run id {begun.id} was not reserved from this store")
            if begun.id in self._loaded.runs:
                raise BadPayload(f"run id {begun.id} is that of a run already; reserve another one")
            made = replace(new_run(begun, (), self._changes.now), round=0)
            self._newest[opens.name] = made
            self._changes.begin(made)
        return self._newest[opens.name]
