"""Leaders: which run another one follows, as users give it."""

from __future__ import annotations

from typing import Any

from ramify.engine.runs.run import Run
from ramify.errors import ConfigError, UnknownRun
from ramify.inspect.find import named_run
from ramify.model.run import Follows
from ramify.store.reads import Reads

#: A run to follow: its handle, its name or its id.
Leading = Run[Any] | str | int


def followed(reads: Reads, follows: Leading | tuple[Leading, int]) -> Follows:
    """The run to follow and by how many rounds; ConfigError or UnknownRun says what is wrong."""
    leader, lead = follows if isinstance(follows, tuple) else (follows, 1)
    if isinstance(lead, bool) or not isinstance(lead, int) or lead < 0:
        raise ConfigError(f"follows=(…, {lead!r}): expected the lead as a whole number of rounds, 0 or more.")
    match leader:
        case Run():
            return Follows(leader.id, lead)
        case str():
            found = named_run(reads, leader)
            if found is None:
                raise UnknownRun(f"follows={leader!r}: no run has that name. Start it first.")
            return Follows(found.id, lead)
        case int():
            return Follows(reads.run(leader).id, lead)
    raise ConfigError(
        f"follows={follows!r}: expected a run, its name or its id, alone or with a lead. Write follows=(other, 1)."
    )
