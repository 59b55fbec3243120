"""How schedules come into a store, and what people do about one besides what they do about every run.

A worker declares its schedules when it starts: a schedule that the store does not have begins; one that is declared
otherwise, by a program that was started earlier, is declared anew. Sent again, or by many workers at once, it is done
once: a run begins under its name and generation, and a declaration is added under its digest.

A crash before a verb leaves nothing of it; after it, a schedule whose first clock, or whose new declaration, waits for
any worker that knows it. Does not remove a schedule that nobody declares any more: people do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

import msgspec

from ramify.errors import ConfigError
from ramify.model.decision import UNSAID, Said, in_words
from ramify.model.key import key_bytes
from ramify.model.run import NewRun, Order, StoredRun, Tolerance
from ramify.shapes.cron.declaration import Declaration, clock_kind, run_name, slot_kind
from ramify.shapes.cron.schedule import Fill, Schedule, StoredClock, has_started
from ramify.shapes.cron.slot_start import stamp_of
from ramify.shapes.dag.own import own_handler
from ramify.shapes.plan import Beginning, laid_out
from ramify.shapes.start import until_answered
from ramify.store.contract import Store
from ramify.store.reads import Reads

SHAPE = "cron"
#: The most slots that are filled in at once.
MOST_FILLED = 100_000

Reserve = Callable[[int], int]


def declare(store: Store, schedules: Iterable[Schedule], since: int, by: str, reserve: Reserve) -> Iterator[str]:
    """Declare the schedules of a program that was started `since`, somewhere; what happened, in words."""
    for schedule in schedules:
        _try_out(schedule, store.now())
        schedule.declared = msgspec.structs.replace(schedule.declaration, since=since, by=by)
        run = until_answered(partial(store.reads.find_run, run_name(schedule.name)))
        if run is not None and run.shape != SHAPE:
            raise ConfigError(
                f"schedule {schedule.name!r}: run {run.id} has its name, {run.name!r}, and is no schedule. Rename one."
            )
        if run is None or run.state.is_end:
            _begin(store, schedule, 1 if run is None else run.generation + 1, reserve)
            yield f"schedule {schedule.name!r} begins: {schedule.declaration.times}"
        elif _is_news(store, schedule, run):
            beginning = laid_out([schedule.redeclaring()], reserve(1), store.now())
            until_answered(partial(store.append, [beginning.into(run.id)]))
            yield f"schedule {schedule.name!r} is declared anew: {schedule.declaration.times}"


def _try_out(schedule: Schedule, now: int) -> None:
    """Refuse a schedule whose function gives nothing to start, when its worker starts and not at its first slot."""
    at = schedule.declaration.times.after(now)
    if schedule.was_tried or at is None:
        return
    schedule.was_tried = True
    try:
        root = schedule.make(schedule.declaration.times.slot(at))
    except Exception:  # noqa: BLE001  what it needs may not be there yet; the task of the slot fails with it
        return
    schedule.checked(root)


def _begin(store: Store, schedule: Schedule, generation: int, reserve: Reserve) -> None:
    now = store.now()
    clock = schedule.clock(now, 0, schedule.declared)
    first = reserve(2)
    beginning = Beginning([]) if clock is None else laid_out([clock], first + 1, now)
    run = NewRun(
        id=first,
        name=run_name(schedule.name),
        generation=generation,
        shape=SHAPE,
        order=Order.ANY,
        endless=True,
        shown=str(schedule.declaration.times),
        tolerates=Tolerance.ANY,
        max_running=1,
    )
    until_answered(lambda: store.start(run, beginning.tasks))


def _is_news(store: Store, schedule: Schedule, run: StoredRun) -> bool:
    """Return whether the schedule is declared otherwise in the store, by a program that was started earlier."""
    known = declared_in(store, schedule.name, run.id)
    if known is None:
        # Its clock is held just now, or its last slot is over: the task that declares it anew looks again.
        return schedule.declared.times.after(store.now()) is not None
    return known.digest != schedule.declared.digest and known.since < schedule.declared.since


def _has_clock(store: Store, name: str, run: int) -> bool:
    return any(each.kind == clock_kind(name) for each in store.reads.segments(run=run).rows)


def declared_in(store: Store, name: str, run: int) -> Declaration | None:
    """The declaration that counts for a schedule; None while its clock is held, or has no slot left."""
    clock = clock_of(store, name, run)
    return None if clock is None else clock.declared


def clock_of(store: Store, name: str, run: int) -> StoredClock | None:
    """The clock of a schedule that waits for its next slot."""
    rows = until_answered(lambda: store.reads.due_tasks(clock_kind(name), run=run).rows)
    return max(
        (StoredClock.read(_CLOCK, each.row.body) for each in rows), key=lambda clock: clock.version, default=None
    )


def clocks_at(reads: Reads, tasks: Sequence[int]) -> list[StoredClock]:
    """The clocks that these tasks are."""
    return [StoredClock.read(_CLOCK, each.row.body) for each in reads.standings(tasks).values()]


def _clock(after: int, version: int, declared: Declaration, declares: bool = False) -> int:
    """The arguments of a clock, for who only reads them."""
    raise NotImplementedError


_CLOCK = own_handler("clock", _clock)


def trigger(store: Store, schedule: str, run: StoredRun, reserve: Reserve, said: Said = UNSAID) -> int:
    """Start a slot at this moment, besides those of the timetable; the id of the task that does it."""
    declared = clock_that_counts(store, schedule, run).declared
    return _add(store, schedule, run, declared, [(store.now(), True, None)], reserve, in_words(said.by, said.reason))


def to_fill(store: Store, schedule: str, run: StoredRun, low: int, high: int) -> Sequence[int]:
    """The slots from one moment to another that the clock has passed, and that were not started.

    Those that have come and that the clock has not passed yet are its own: it starts them by `catch_up`.
    """
    clock = clock_that_counts(store, schedule, run)
    slots = list(islice(clock.declared.times.between(low - 1, min(high, clock.after)), MOST_FILLED + 1))
    if len(slots) > MOST_FILLED:
        raise ConfigError(f"backfill {schedule}: expected at most {MOST_FILLED:,} slots. Give a shorter time.")
    return [at for at in slots if not _has_run(store, schedule, run.id, at)]


def _has_run(store: Store, schedule: str, run: int, at: int) -> bool:
    """Return whether a slot was started, or is about to be."""
    found = store.reads.find_tasks(run, slot_kind(schedule), key_bytes(stamp_of(at)))
    return any(each.ended is None or has_started(each) for each in store.reads.standings(found).values())


def backfill(store: Store, schedule: str, run: StoredRun, slots: Sequence[int], parallel: int, reserve: Reserve) -> int:
    """Start slots that were missed, each after the end of the one before it, in so many lines; how many lines it takes.

    A line has every `parallel`-th slot of the timetable from the first missed slot to the last, and steps over those
    that ran. So each missed slot is in one line.
    """
    if not slots:
        return 0
    declared = clock_that_counts(store, schedule, run).declared
    wanted, firsts = set(slots), dict[int, int]()
    for place, at in enumerate(declared.times.between(slots[0] - 1, slots[-1])):
        if at in wanted:
            firsts.setdefault(place % parallel, at)
    fill = Fill(parallel, slots[-1])
    _add(store, schedule, run, declared, [(at, False, fill) for at in firsts.values()], reserve)
    return len(firsts)


def known_clock(store: Store, name: str, run: int) -> StoredClock | None:
    """The clock that waits, or else the newest that there was; None when the schedule never had one."""
    waiting = clock_of(store, name, run)
    if waiting is not None:
        return waiting
    rows = until_answered(lambda: store.reads.tasks(run, kind=clock_kind(name), newest_first=True, limit=1).rows)
    return StoredClock.read(_CLOCK, rows[0].body) if rows else None


def clock_that_counts(store: Store, schedule: str, run: StoredRun) -> StoredClock:
    """The clock of a schedule that has not ended; ConfigError while a worker holds it."""
    if run.state.is_end:
        raise ConfigError(f"schedule {schedule!r} was removed. Start a worker that declares it.")
    found = clock_of(store, schedule, run.id)
    if found is not None:
        return found
    last = None if _has_clock(store, schedule, run.id) else known_clock(store, schedule, run.id)
    if last is None:
        raise ConfigError(f"schedule {schedule!r} is at one of its slots right now. Try again in a moment.")
    # Its last slot is over.
    return msgspec.structs.replace(last, after=store.now())


def _add(
    store: Store,
    name: str,
    run: StoredRun,
    declared: Declaration,
    slots: Sequence[tuple[int, bool, Fill | None]],
    reserve: Reserve,
    said: str = "",
) -> int:
    schedule = Schedule(declared, lambda slot: None, "")
    first = reserve(2 * len(slots))
    told = {"said": said} if said else {}
    calls = [
        schedule.slot(at, first + len(slots) + number, declared, by_hand=by_hand, fill=fill, **told)
        for number, (at, by_hand, fill) in enumerate(slots)
    ]
    new = laid_out(calls, first, store.now()).into(run.id)
    until_answered(lambda: store.append([new]))
    return first
