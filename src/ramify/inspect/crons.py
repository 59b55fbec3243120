"""Schedules as people see them, from the store alone: no program that declares one needs to run.

Promises: bounded reads. One schedule costs a handful of them. A page of schedules is found by the kinds of their tasks,
so its price grows with the schedules of the store, not with the runs that these started.

Deliberately absent: what a slot would start. Only the program that declares a schedule knows that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from enum import StrEnum
from itertools import islice

import msgspec

from ramify.errors import ConfigError, RunForgotten
from ramify.inspect.jobs import standing_of
from ramify.inspect.live import at_work, in_words
from ramify.inspect.words import plural
from ramify.model.codec.wire import Wire
from ramify.model.event import Status
from ramify.model.process import Process
from ramify.model.run import RunState, StoredRun
from ramify.model.task import MAX_ID
from ramify.shapes.cron.declaration import CRON, Declaration, clock_kind, late_kind, run_name, slot_kind
from ramify.shapes.cron.declaring import SHAPE, clock_of, known_clock
from ramify.shapes.cron.schedule import LAST, StoredSlot
from ramify.shapes.cron.slot_start import SlotStart
from ramify.store.contract import Store
from ramify.store.reads import Reads

#: How many slots to come are told.
UPCOMING = 5
#: How many rows of a schedule are looked at for slots that have not begun, and how many names an error tells.
_ROWS, _NAMED = 100, 10
_STARTED = Wire(SlotStart)
_CLOCK = clock_kind("")


class CronState(StrEnum):
    """How a schedule is: it starts slots, or somebody paused or removed it."""

    OPEN = "open"
    PAUSED = "paused"
    REMOVED = "removed"


class LastSlot(msgspec.Struct, frozen=True):
    """The slot that was started last, what it started, by its id, and the state of that job or run."""

    at: int
    job: int | None
    run: int | None
    state: str


class CronView(msgspec.Struct, frozen=True):
    """A schedule at one moment, by the store's clock.

    `declared` is the declaration that counts. It is None for a schedule that never had a slot. `upcoming` are the next
    slots. `due_since` is when the oldest slot was due that has not begun; None when there is none. `late` counts the
    slots that were reported as late. `declared_by` are the live processes that declare it, in words; None when none
    does, and some did not say what they declare.
    """

    name: str
    run: StoredRun
    state: CronState
    at: int
    declared: Declaration | None = None
    upcoming: Sequence[int] = ()
    last: LastSlot | None = None
    due_since: int | None = None
    late: int = 0
    declared_by: Sequence[str] | None = ()

    @property
    def overdue(self) -> int:
        """How long the oldest slot that has not begun is overdue, in microseconds; 0 when none is."""
        return 0 if self.due_since is None else max(0, self.at - self.due_since)


class CronPage(msgspec.Struct, frozen=True):
    """Some schedules by name, and whether more follow the last of them."""

    rows: Sequence[CronView]
    more: bool


def crons(store: Store, *, after: str = "", limit: int = 100, removed: bool = False) -> CronPage:
    """Schedules by name, those after a name; without those that were removed, unless they are asked for."""
    working = at_work(store.reads.processes())
    found = (_found(store.reads, name) for name in cron_names(store.reads) if name > after)
    views = (_view(store, run, working) for run in found if run is not None)
    rows = list(islice((each for each in views if removed or each.state is not CronState.REMOVED), limit + 1))
    return CronPage(rows[:limit], len(rows) > limit)


def cron(store: Store, name: str) -> CronView:
    """One schedule; ConfigError names those that there are."""
    return _view(store, cron_run(store.reads, name), at_work(store.reads.processes()))


def cron_run(reads: Reads, name: str) -> StoredRun:
    """The run of a schedule; ConfigError names those that there are."""
    found = _found(reads, name.removeprefix(CRON))
    if found is None:
        raise ConfigError(f"no schedule {name!a}. {_what_there_is(reads, name)}")
    return found


def cron_names(reads: Reads) -> list[str]:
    """The names of all schedules that the store ever had a task of, or that a live process declares, in order."""
    told = (kind for process in at_work(reads.processes()) for kind in process.kinds or ())
    kinds = (*(each.kind for each in reads.totals().kinds), *told)
    return sorted({kind.removeprefix(_CLOCK) for kind in kinds if kind.startswith(_CLOCK)})


def name_of(run: StoredRun) -> str:
    """The name of the schedule that a run is."""
    return (run.name or "").removeprefix(CRON)


def _found(reads: Reads, name: str) -> StoredRun | None:
    # A name with a slash is that of a run which a schedule started; other signs no store can look for.
    if not name or not name.isprintable() or "/" in name:
        return None
    run = reads.find_run(run_name(name))
    return run if run is not None and run.shape == SHAPE and run.state is not RunState.FORGOTTEN else None


def _what_there_is(reads: Reads, name: str) -> str:
    names = [each for each in cron_names(reads) if _found(reads, each) is not None]
    if not names:
        return 'This store has no schedules. Write @engine.cron("0 6 * * *") above a task, and start a worker.'
    close = get_close_matches(name, names, _NAMED) or names[:_NAMED]
    others = len(names) - len(close)
    more = f" (and {plural(others, 'other')})" if others else ""
    return f"There {'is' if len(close) == 1 else 'are'} {', '.join(map(ascii, close))}{more}."


def _view(store: Store, run: StoredRun, working: Sequence[Process]) -> CronView:
    name, now = name_of(run), store.now()
    state = _state(run)
    try:
        clock = known_clock(store, name, run.id)
        declared = None if clock is None else clock.declared
        view = CronView(name, run, state, now, declared, late=late_slots(store.reads, run), last=_last(store, run))
    except RunForgotten:
        return CronView(name, run, CronState.REMOVED, now)
    view = msgspec.structs.replace(view, declared_by=_declared_by(name, working))
    if state is CronState.REMOVED or declared is None:
        return view
    upcoming = list(islice(declared.times.between(now, MAX_ID), UPCOMING))
    return msgspec.structs.replace(view, upcoming=upcoming, due_since=min(_due(store, run, now), default=None))


def _state(run: StoredRun) -> CronState:
    match run.state:
        case RunState.OPEN:
            return CronState.OPEN
        case RunState.PAUSED:
            return CronState.PAUSED
        case _:
            return CronState.REMOVED


def late_slots(reads: Reads, run: StoredRun) -> int:
    """How many slots of a schedule were reported as late."""
    return reads.counts(run.id).get(late_kind(name_of(run)), {}).get(Status.FAILED, 0)


def last_start(reads: Reads, run: StoredRun) -> SlotStart | None:
    """Return what the last slot of a schedule has started."""
    found = reads.context_value(run.id, LAST)
    return None if found is None else _STARTED.read(found.value)


def _last(store: Store, run: StoredRun) -> LastSlot | None:
    started = last_start(store.reads, run)
    if started is None:
        return None
    if started.job is not None:
        state = standing_of(store.reads, started.job, store.now()).state.value
    else:
        assert started.run is not None
        known = store.reads.runs_at([started.run]).get(started.run)
        state = RunState.FORGOTTEN.value if known is None else known.state.value
    return LastSlot(started.at, started.job, started.run, state)


def _due(store: Store, run: StoredRun, now: int) -> Iterator[int]:
    """When the slots were due that have come and that have not begun."""
    name = name_of(run)
    clock = clock_of(store, name, run.id)
    if clock is not None:
        at = clock.declared.times.after(clock.after)
        if at is not None and clock.declared.due(at) <= now:
            yield clock.declared.due(at)
    rows = store.reads.segments(run=run.id, limit=_ROWS).rows
    tasks = [task for row in rows if row.kind == slot_kind(name) for task in row.tasks]
    waiting = waiting_slots(store.reads, tasks[:_ROWS])
    yield from (due for slot in waiting if (due := slot.declared.due(slot.at)) <= now)


def waiting_slots(reads: Reads, tasks: Sequence[int]) -> Iterator[StoredSlot]:
    """The slots of these tasks that have not begun, without those that people asked for."""
    for each in reads.standings(tasks).values():
        slot = StoredSlot.read(each.row.body)
        if each.ended is None and not slot.by_hand and slot.fill is None:
            yield slot


def _declared_by(name: str, working: Sequence[Process]) -> Sequence[str] | None:
    kind = clock_kind(name)
    knowing = [in_words(each) for each in working if each.kinds is not None and kind in each.kinds]
    return None if not knowing and any(each.kinds is None for each in working) else knowing
