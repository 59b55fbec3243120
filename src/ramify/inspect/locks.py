"""Locks for people: who holds one and who waits for it, and whether they are still there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ramify.inspect.words import duration, moment, stamp
from ramify.model.lock import LOCKS, Acquisition, LockState, decode
from ramify.model.policy import SECOND
from ramify.store.contract import Store
from ramify.store.reads import PAGE_LIMIT


class LockRow(NamedTuple):
    """A lock that somebody holds or waits for; `alive` are the sessions of processes that are still there."""

    name: str
    state: LockState
    alive: frozenset[int]


def locks(store: Store) -> Iterator[LockRow]:
    """Iterate over the locks that somebody holds or waits for, by name."""
    reads, now = store.reads, store.now()
    after, more = "", True
    while more:
        page = reads.values(space=LOCKS, after=(LOCKS, after), limit=PAGE_LIMIT)
        alive = frozenset(each.id for each in reads.processes() if each.is_alive)
        for found in page:
            if found.is_live(now) and not (state := decode(found.value)).is_free:
                yield LockRow(found.name, state, alive)
        after, more = page[-1].name if page else "", len(page) == PAGE_LIMIT


def holder_in_words(each: Acquisition, now: int, alive: frozenset[int]) -> str:
    """Say who holds a lock, since when and until when, or that nobody is there any more."""
    task = "" if each.task is None else f", task {each.task} ({each.kind})"
    since = f"since {moment(each.since)} ({duration(max(0, now - each.since) / SECOND)})"
    end = "" if each.expires is None else f", until {moment(each.expires)}"
    gone = "" if each.process in alive else ", which is dead: the next to ask gets the lock"
    return f"process {each.pid} on {each.host}{task}, {since}{end}{gone}"


def lock_as_json(row: LockRow) -> Mapping[str, object]:
    """Return a lock as an object for programs."""
    return {
        "lock": row.name,
        "fence": row.state.fence,
        "holders": [_as_json(each, row.alive) for each in row.state.holders],
        "waiters": [_as_json(each, row.alive) for each in row.state.waiters],
    }


def _as_json(each: Acquisition, alive: frozenset[int]) -> dict[str, object]:
    return {
        "process": f"{each.process:x}",
        "pid": each.pid,
        "host": each.host,
        "task": each.task,
        "kind": each.kind or None,
        "since": stamp(each.since),
        "fence": each.fence or None,
        "expires": stamp(each.expires),
        "alive": each.process in alive,
    }
