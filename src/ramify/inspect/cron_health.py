"""Schedules that are late, or that no worker declares, for `health` and `doctor`.

Bounded: it looks at rows that come first in line, which the caller has read, and at the last slot of schedules that
were late before. A store without schedules costs no read.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ramify.inspect.live import at_work
from ramify.inspect.why import is_undeclared, nobody_for
from ramify.inspect.words import duration
from ramify.model.event import Status
from ramify.model.policy import SECOND
from ramify.model.process import Process
from ramify.model.run import RunState
from ramify.model.segment import Segment
from ramify.shapes.cron.declaration import clock_kind, late_kind, run_name, schedule_of, slot_kind
from ramify.store.contract import Store

if TYPE_CHECKING:
    from ramify.shapes.cron.schedule import StoredSlot

#: How many schedules are looked at.
LOOKED = 1_000


def late_schedules(
    store: Store, waiting: Sequence[Segment], there: Sequence[Process], now: int
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with schedules, in words, and what to do: one line for a schedule. `waiting` are rows in
    line.
    """
    of = {row.kind: name for row in waiting if (name := schedule_of(row.kind)) is not None}
    if not of and not any(schedule_of(kind) for each in there for kind in each.kinds or ()):
        return
    due = _due(store, [row for row in waiting if row.kind in of])
    told: set[str] = set()
    working = at_work(there)
    for row in waiting:
        name = of.get(row.kind)
        if name is None or name in told or not _begins(row, name, now):
            continue
        nobody = nobody_for(row, working)
        if nobody is not None and is_undeclared(row, nobody[0]):
            told.add(name)
            slot = due.get(name)
            since = f" since {_shown(slot)}" if slot is not None and slot.declared.due(slot.at) <= now else ""
            yield (
                f"schedule {name!a} is due{since} and no worker declares it",
                f"declare it, or remove it: `ramify crons remove {shlex.quote(name)}`",
            )
    for name in sorted(due.keys() - told):
        slot = due[name]
        overdue = now - slot.declared.due(slot.at)
        if slot.declared.late_after is not None and overdue > slot.declared.late_after:
            told.add(name)
            text = f"schedule {name!a} is late: its slot at {_shown(slot)} has not begun for {_length(overdue)}"
            yield text, _advice(name)
    for name, text in _unended(store, of, now):
        if name not in told:
            yield text, _advice(name)


def _begins(row: Segment, name: str, now: int) -> bool:
    """Return whether a slot begins once a worker takes a row. A clock without a time only says what is declared."""
    if row.kind == clock_kind(name):
        return row.due is not None and row.due <= now
    return row.kind == slot_kind(name) and (row.due is None or row.due <= now)


def _due(store: Store, rows: Sequence[Segment]) -> Mapping[str, StoredSlot]:
    """The first slot of each schedule that has not begun, whether its time has come or not."""
    # Few stores have schedules, and what knows them takes its time to import.
    from ramify.inspect.crons import waiting_slots
    from ramify.shapes.cron.declaring import clocks_at
    from ramify.shapes.cron.schedule import StoredSlot

    clocks = [row.tasks[0] for row in rows if row.kind == clock_kind(schedule_of(row.kind) or "")]
    slots = [row.tasks[0] for row in rows if row.kind == slot_kind(schedule_of(row.kind) or "")]
    found = list(waiting_slots(store.reads, slots[:LOOKED]))
    for clock in clocks_at(store.reads, clocks[:LOOKED]):
        at = clock.declared.times.after(clock.after)
        if at is not None and not clock.declares:
            found.append(StoredSlot(at, 0, clock.declared))
    first: dict[str, StoredSlot] = {}
    for slot in sorted(found, key=lambda slot: slot.at):
        first.setdefault(slot.declared.name, slot)
    return first


def _unended(store: Store, of: Mapping[str, str], now: int) -> Iterator[tuple[str, str]]:
    """Schedules whose last slot is open for longer than it should be, of those that were late before or may be now."""
    from ramify.inspect.crons import last_start
    from ramify.shapes.cron.declaring import known_clock
    from ramify.shapes.cron.slot_start import is_open

    were = (each.kind for each in store.reads.totals().kinds if each.ever.get(Status.FAILED))
    names = {name for kind in (*of, *were) if (name := schedule_of(kind)) is not None and kind == late_kind(name)}
    for name in sorted(names)[:LOOKED]:
        run = store.reads.find_run(run_name(name))
        last = None if run is None or run.state is not RunState.OPEN else last_start(store.reads, run)
        if run is None or last is None or not is_open(store, last):
            continue
        clock = known_clock(store, name, run.id)
        if clock is None or clock.declared.late_after is None:
            continue
        if now - clock.declared.due(last.at) <= clock.declared.late_after:
            continue
        at = clock.declared.times.datetime_of(last.at)
        yield (
            name,
            f"schedule {name!a} is late: {last} of its slot at {at:%Y-%m-%d %H:%M:%S %Z} is still open after "
            f"{_length(now - last.at)}",
        )


def _shown(slot: StoredSlot) -> str:
    return f"{slot.declared.times.datetime_of(slot.at):%Y-%m-%d %H:%M:%S %Z}"


def _length(microseconds: int) -> str:
    return duration(microseconds / SECOND)


def _advice(name: str) -> str:
    return f"`ramify crons {shlex.quote(name)}` shows it"
