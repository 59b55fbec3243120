"""Runs by what people call them: a name (its newest generation), `name#2` for one generation, or an id.

A name wins over an id that looks the same. Nothing is guessed: what is not found is answered with what there is.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ramify.errors import UnknownRun
from ramify.model.job import QUEUES
from ramify.model.run import RunState, StoredRun
from ramify.model.task import MAX_ID
from ramify.store.reads import Reads

#: How many runs an answer names when the one asked for is not there.
NAMED = 10
_PAGE = 1000


def find_run(reads: Reads, wanted: str) -> StoredRun:
    """The run that a text means; UnknownRun says what there is instead."""
    found = named_run(reads, wanted)
    if found is not None:
        return found
    id = id_in(wanted.removeprefix("#"))
    if id is not None:
        try:
            return reads.run(id)
        except UnknownRun:
            pass
    raise UnknownRun(f"no run {wanted!a}. {what_there_is(reads)}")


def named_run(reads: Reads, name: str) -> StoredRun | None:
    """The newest generation under a name, or one of them as `name#2`; None also for a text that cannot be a name."""
    if not _is_name(name):
        return None
    newest = reads.find_run(name)
    of, mark, number = name.rpartition("#")
    if newest is not None or not (mark and of) or (generation := id_in(number)) is None:
        return newest
    return next((run for run in every_run(reads, prefix=of) if (run.name, run.generation) == (of, generation)), None)


def every_run(
    reads: Reads, state: RunState | None = None, *, prefix: str = "", newest_first: bool = False
) -> Iterator[StoredRun]:
    """All runs by id, or those whose names begin so, page by page."""
    after, more = 0, True
    while more:
        page = reads.runs(state=state, prefix=prefix, newest_first=newest_first, after=after, limit=_PAGE)
        yield from page.rows
        after, more = page.after, page.more


def open_runs(reads: Reads) -> list[StoredRun]:
    """Runs of users that have not ended, oldest first."""
    states = (state for state in RunState if not state.is_end)
    found = (run for state in states for run in every_run(reads, state) if not _is_internal(run))
    return sorted(found, key=lambda run: run.id)


def newest_run(reads: Reads) -> StoredRun | None:
    """The run of a user that was started last, of those that were not forgotten."""
    newest = every_run(reads, newest_first=True)
    return next((run for run in newest if run.state is not RunState.FORGOTTEN and not _is_internal(run)), None)


def title(run: StoredRun) -> str:
    """Return what to call a run: its name, with the generation from the second on, or its id."""
    if run.name is None:
        return f"#{run.id}"
    return run.name if run.generation == 1 else f"{run.name}#{run.generation}"


def typed(run: StoredRun) -> str:
    """The title as it is typed in a command."""
    return shlex.quote(title(run))


def what_there_is(reads: Reads) -> str:
    """The runs of a store in words, for an answer to a name that is not there."""
    newest = reads.runs(newest_first=True, limit=NAMED)
    if not newest.rows:
        return "This store has no runs yet."
    names = [ascii(title(run)) for run in reversed(newest.rows)]
    more = " (and older ones)" if newest.more else ""
    return f"There {'is' if len(names) == 1 else 'are'} {', '.join(names)}{more}."


def _is_name(text: str) -> bool:
    # A store cannot look for what it cannot keep.
    return bool(text) and "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text)


def _is_internal(run: StoredRun) -> bool:
    """Return whether a run is a log that we keep, such as `joint/datasets`: endless, and no queue of jobs."""
    return run.endless and not (run.name or "").startswith(QUEUES)


def id_in(text: str) -> int | None:
    """The id of a run or a task that a text is; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 and 0 < int(text) < MAX_ID else None
