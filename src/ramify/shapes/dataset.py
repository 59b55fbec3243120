"""Datasets: what tasks of some runs produce, and runs of others wait for.

What waits for several datasets has a log of what was produced of them: an endless run under its name, of which each
task is an entry. An entry says what is there since the last start, and whether that is all; so the one that completes
it is the one that starts a run. Each entry has the id of the one before it as its key, which nobody else can then have:
two that are written at the same moment become two entries, one after the other.

Promises: each production is one entry, however often it is noted. Entries are in the order of their ids.

A crash after an entry leaves a task that anybody may run, and that does nothing. Does not start what is waited for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from ramify.kernel.core.handler import Handler
from ramify.model.call import Call, Group
from ramify.model.event import Status
from ramify.model.run import NewRun, Order
from ramify.shapes.plan import laid_out
from ramify.shapes.start import until_answered
from ramify.store.contract import Store


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One production: by whom, and what is there with it, by dataset; `whole` when that is all that is waited for."""

    production: str
    there: dict[str, Any]
    whole: bool = False


def note(
    store: Store, handler: Handler, of: str, needs: Collection[str], production: str, dataset: str, value: Any
) -> tuple[int, dict[str, Any]] | None:
    """Note a production for what waits under a name; its number and what is there, if that is all now.

    `handler` is that of the entries, which are its only argument.
    """
    run = _log_of(store, of)
    while True:
        last = None
        for id, entry in _entries(store, handler, run):
            if entry.production == production:
                return (id, entry.there) if entry.whole else None
            last = id, entry
        before = last[1].there if last is not None and not last[1].whole else {}
        there = {name: each for name, each in {**before, dataset: value}.items() if name in needs}
        entry = Entry(production, there, there.keys() >= set(needs))
        # Only now: so that its id is above that of the entry before it.
        id = until_answered(lambda: store.reserve(1))
        if _write(store, handler, run, id, entry, after=0 if last is None else last[0]):
            return (id, there) if entry.whole else None


def _write(store: Store, handler: Handler, run: int, id: int, entry: Entry, after: int) -> bool:
    """Add an entry after another one; False when somebody was quicker."""
    group = Group(handler.kind, handler.signature, handler=handler)
    call: Call[Any] = Call(group, handler.signature.encode((entry,), {})).once(str(after))
    new = laid_out([call], id, store.now())
    if until_answered(lambda: store.append([new.into(run)]))[0].taken:
        return False
    # CRASH: an entry that is still to be run -> whoever serves the store runs it, and that does nothing.
    until_answered(lambda: store.settle(run, id, Status.DONE))
    return True


def _log_of(store: Store, of: str) -> int:
    name = f"{of}/datasets"
    known = store.reads.find_run(name)
    if known is not None and not known.state.is_end:
        return known.id
    # One that somebody has cancelled or forgotten is begun anew.
    generation = 1 if known is None else known.generation + 1
    id = until_answered(lambda: store.reserve(1))
    shown = f"what is produced for {of}"
    new = NewRun(id, name, generation, shape="datasets", order=Order.ANY, endless=True, shown=shown)
    return until_answered(lambda: store.start(new)).run.id


def _entries(store: Store, handler: Handler, run: int) -> Iterator[tuple[int, Entry]]:
    after, more = 0, True
    while more:
        page = store.reads.tasks(run, kind=handler.kind, after=after, limit=1_000)
        for row in page.rows:
            (entry,), _ = handler.signature.decode(row.body)
            yield row.id, entry
        after, more = page.after, page.more
