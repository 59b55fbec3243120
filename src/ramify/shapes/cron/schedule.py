"""Schedules: endless runs that start something at each slot of a timetable. No process schedules anything.

A schedule is a run, `cron/NAME`, with one task that is due at the next slot: its *clock*. The clock makes, in the
commit of its own end, a task for each slot that is to begin, and the next clock. A slot's task starts what the schedule
is for: a job, or a run by the name of its slot. Only workers that declare a schedule know its kinds, so nobody else
claims, ends or changes anything of it. At most one task of a schedule is claimed at a time.

Promises: each slot is started once, however many workers there are and whichever of them are killed. A job has an id
that was reserved by the clock, and a run has the name of its slot, so that a second try finds what the first one added.
A schedule that nobody declares starts nothing, and goes on by its `catch_up` when somebody does. When a declaration
changes, the next clock takes over in the commit that says so; an older clock that fires later ends itself.

Does not wait for what it starts, except for slots that are filled in by hand (`declaring.py`), one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from ramify.errors import ConfigError, QueueFull
from ramify.kernel.attempts.attempt_env import Origin
from ramify.kernel.attempts.control import Await, Defer, Fatal, Skip
from ramify.kernel.attempts.current import Current, current
from ramify.kernel.core.handler import Calling, Handler, Policy
from ramify.model.call import Call, Group
from ramify.model.codec import Signature
from ramify.model.decision import Said
from ramify.model.event import Status
from ramify.model.key import key_bytes
from ramify.model.policy import SECOND
from ramify.model.slot import SLOT, Slot, write_slot
from ramify.model.stray import instead_of_call
from ramify.shapes.cron.declaration import (
    CRON,
    Declaration,
    clock_kind,
    kinds_of,
    late_kind,
    slot_kind,
)
from ramify.shapes.cron.slot_start import SlotStart, cancel, is_open, shown, stamp_of
from ramify.shapes.launch import look_again_after, place_of
from ramify.shapes.table import plan_of
from ramify.store.contract import Store
from ramify.store.reads import TaskStanding

#: In the context of a schedule: which declaration counts, what was started last, and, when no slot is left, up to when
#: slots were dealt with.
VERSION, LAST, UNTIL = "version", "last", "until"
#: A clock is tried for as long as it takes: what keeps it from going on is not the fault of a slot.
_FOR_EVER = Policy(retries=1_000_000_000, max_crashes=None)
#: How many slots that ran a line of a backfill steps over at once.
_LOOKS = 1_000


class Fill(msgspec.Struct, frozen=True):
    """Slots that are filled in, one after the other: every `step`-th one up to a moment."""

    step: int
    until: int


class Schedule:
    """One schedule of a program: what it starts at its slots. `declared` is its declaration, signed by the program."""

    def __init__(self, declaration: Declaration, make: Callable[[Slot], object], place: str) -> None:
        self.declaration = self.declared = declaration
        #: Whether its function was tried once.
        self.was_tried = False
        self.make = make
        self.place = place
        self.handlers: Mapping[str, Handler] = dict(
            zip(
                kinds_of(self.name),
                (_handler(clock_kind(self.name), self.tick, _FOR_EVER), _handler(slot_kind(self.name), self.begin),
                 _handler(late_kind(self.name), self.look)),
                strict=True,
            )
        )  # fmt: skip

    @property
    def name(self) -> str:
        """Its name."""
        return self.declaration.name

    def checked(self, root: object) -> object:
        """Return what its function gave; ConfigError when nothing can be started with it."""
        # What can be gone through once is looked at here, and started later.
        root = list(root) if isinstance(root, Iterator) else root
        try:
            plan_of(root)
        except ConfigError:
            raise ConfigError(
                f"schedule {self.name!r}: expected its function to give a call, got {instead_of_call(root)}. "
                "Write lambda slot: report.of(day=slot.at.date())."
            ) from None
        return root

    # calls

    def clock(self, after: int, version: int, declared: Declaration) -> Call[Any] | None:
        """The clock of the first slot after a moment; None when there is none."""
        at = declared.times.after(after)
        return (
            None
            if at is None
            else self._call(clock_kind(self.name), declared, declared.due(at), after, version, declared)
        )

    def redeclaring(self) -> Call[Any]:
        """The task that lets its declaration count from now on."""
        call = self._call(clock_kind(self.name), self.declared, None, 0, 0, self.declared, declares=True)
        return call.unique(f"{self.declared.digest.hex()}/{self.declared.since}")

    def slot(self, at: int, job: int, declared: Declaration, **more: Any) -> Call[Any]:
        """The task that starts a slot, with the id that its job gets."""
        return self._call(slot_kind(self.name), declared, None, at, job, declared, **more).key(stamp_of(at))

    def _call(self, kind: str, by: Declaration, due: int | None, *args: Any, **kwargs: Any) -> Call[Any]:
        handler = self.handlers[kind]
        group = Group(kind, handler.signature, queue=by.queue, due=due, handler=handler)
        return Call(group, handler.signature.encode(args, kwargs))

    # at work

    def tick(self, after: int, version: int, declared: Declaration, declares: bool = False) -> int:
        """Make the tasks of the slots that have come since a moment, and the next clock; how many slots begin."""
        me = current()
        newest: int = me.context.get(VERSION, 0)
        # Asked for anew: what a worker reckons it to be is ahead by as long as its last verb took.
        now = _store(me).now()
        if declares:
            self._take_over(me, declared, newest, now)
            return 0
        if version < newest:
            raise Skip("the schedule was declared anew")
        if version:
            self._end_older_clocks(me, version)
        slots, after = self._due(declared, after, now)
        first = me._attempt_env.sender.reserve(len(slots), me.task) if slots else 0
        following = self.clock(after, version, self._newer_than(declared))
        if following is None:
            me.context.set(UNTIL, after, overwrite=True)
        calls = [self.slot(at, first + number, declared) for number, at in enumerate(slots)]
        me.spawn([*calls, *([] if following is None else [following])])
        return len(slots)

    def _due(self, declared: Declaration, after: int, now: int) -> tuple[Sequence[int], int]:
        """The slots that begin now, and the moment up to which all are dealt with."""
        at = declared.times.after(after)
        if at is None or declared.due(at) > now:
            return (), after
        last = max(at, declared.times.before(now - declared.jitter + 1) or at)
        # With jitter, slots that are less than that old may have come as well. One that comes together with the slot
        # before it was not missed: the next clock starts it.
        following = declared.times.after(last)
        while following is not None and declared.due(last) < declared.due(following) <= now:
            last, following = following, declared.times.after(following)
        return declared.chosen(after, last, now), last

    def _newer_than(self, declared: Declaration) -> Declaration:
        """The declaration that counts: this program's own, if that was started later than the one that declared it."""
        return self.declared if self.declared.since > declared.since else declared

    def _take_over(self, me: Current, declared: Declaration, newest: int, now: int) -> None:
        """Let a new declaration count: a clock of a higher version, in the commit that says which version counts."""
        after = max(now, me.context.get(UNTIL, 0))
        for row in _clocks(_store(me), self.name, me.run_id):
            old = self._clock_in(row.body)
            if old.version < newest:
                continue
            if old.declared.digest == declared.digest or old.declared.since > declared.since:
                return
            at = old.declared.times.after(old.after)
            # What the old one has missed is caught up with by the new one; what is still to come is not.
            is_missed = at is not None and at <= now
            # Slots up to `old.after` were dealt with, also when another machine's clock is ahead of ours.
            after = old.after if is_missed else max(now, old.after)
        following = self.clock(after, newest + 1, declared)
        me.context.set(VERSION, newest + 1, overwrite=True)
        me.spawn([] if following is None else [following])

    def _end_older_clocks(self, me: Current, version: int) -> None:
        for row in _clocks(_store(me), self.name, me.run_id):
            if self._clock_in(row.body).version < version:
                _store(me).settle(me.run_id, row.id, Status.SKIPPED, said=Said("the schedule was declared anew"))

    def _clock_in(self, body: bytes) -> StoredClock:
        return StoredClock.read(self.handlers[clock_kind(self.name)], body)

    def begin(
        self, at: int, job: int, declared: Declaration, by_hand: bool = False, fill: Fill | None = None, said: str = ""
    ) -> SlotStart | None:
        """Start what a slot is for; by its policy for overlaps, unless triggered. `said` is by whom, and why."""
        me = current()
        if said:
            me.log.info("triggered%s", said)
        me._pass_on({SLOT: write_slot(declared.times.slot(at), declared.times.tz)})
        if fill is not None:
            return self._fill_in(me, at, job, declared, fill)
        root = self._root(declared, at)
        after = () if by_hand else self._after(me, declared, root)
        started = self._start(me, root, at, job, after)
        me.context.set(LAST, started, overwrite=True)
        if declared.late_after is not None and not by_hand:
            began = _store(me).now()
            due = declared.due(at) + declared.late_after
            me.spawn(self._call(late_kind(self.name), declared, due, started, began, declared))
        return started

    def _root(self, declared: Declaration, at: int) -> object:
        try:
            return self.checked(self.make(declared.times.slot(at)))
        except ConfigError as error:
            raise Fatal(str(error)) from None

    def _start(self, me: Current, root: object, at: int, job: int, after: Sequence[int] = ()) -> SlotStart:
        others = me._attempt_env.library.others
        try:
            if type(root) is Call:
                return SlotStart(at, job=others.enqueue(root, job, after))
            stamp = stamp_of(at)
            origin = Origin(me.task, me._life, None, place_of(me.run_id, stamp))
            return SlotStart(at, run=others.start(root, f"{CRON}{self.name}/{stamp}", origin))
        except QueueFull as full:
            raise Defer(look_again_after(me._deferrals), str(full)) from None
        except ConfigError as error:
            raise Fatal(str(error)) from None

    def _after(self, me: Current, declared: Declaration, root: object) -> Sequence[int]:
        """The jobs that this slot's job waits for; Skip or Await when the slot before it has not ended."""
        last = me.context.get(LAST, of=SlotStart)
        if last is None:
            return ()
        if not is_open(_store(me), last):
            if declared.overlap == "queue" and self._has_waiting_before(me):
                # That run has ended, so all that wait for it are due at once, and the oldest of them is first.
                raise Await(last.run, look_again_after(me._deferrals), "waits for earlier slots")
            return ()
        match declared.overlap:
            case "allow":
                return ()
            case "skip":
                raise Skip(f"{last} of the slot at {shown(declared, last.at)} has not ended")
            case "cancel":
                cancel(_store(me), last, f"the slot of {self.name} at {shown(declared, last.at)} is over")
                return ()
            case "queue":
                if last.job is not None and type(root) is Call:
                    return (last.job,)
                raise Await(last.run, look_again_after(me._deferrals), f"waits for {last}")

    def _has_waiting_before(self, me: Current) -> bool:
        """Return whether a slot that came before this one waits for its turn."""
        rows = _store(me).reads.segments(run=me.run_id).rows
        return any(each.kind == slot_kind(self.name) and each.first < me.task for each in rows)

    def _fill_in(self, me: Current, at: int, job: int, declared: Declaration, fill: Fill) -> SlotStart | None:
        """Start a slot unless it ran, wait until it has ended, and continue with the next one of this line."""
        started = None
        if _store(me).reads.task(job) is not None or not self._is_taken(me, at):
            try:
                started = self._start(me, self._root(declared, at), at, job)
            except Defer:
                raise
            except Exception:  # noqa: BLE001  whatever its function raises fails the slot, and not the line
                me.spawn(self.slot(at, job, declared, by_hand=True))
            if started is not None and is_open(_store(me), started):
                raise Await(started.run, look_again_after(me._deferrals), f"waits for {started}")
        following = self._in_line(declared, at, fill)
        for _ in range(_LOOKS):
            if following is None or not self._is_taken(me, following):
                break
            following = self._in_line(declared, following, fill)
        if following is not None:
            reserved = me._attempt_env.sender.reserve(1, me.task)
            me.spawn(self.slot(following, reserved, declared, fill=fill))
        return started

    def _in_line(self, declared: Declaration, at: int, fill: Fill) -> int | None:
        """The slot of the same line that comes after one; None when there is none."""
        slots = islice(declared.times.between(at, fill.until), fill.step - 1, None)
        return next(slots, None)

    def _is_taken(self, me: Current, at: int) -> bool:
        """Return whether another task of this schedule has started a slot, or will.

        Of two lines that meet at a slot, the one that has added its job starts it, or else that with the smaller id.
        """
        store = _store(me)
        found = store.reads.find_tasks(me.run_id, slot_kind(self.name), key_bytes(stamp_of(at)))
        others = store.reads.standings([task for task in found if task != me.task])
        return any(_takes(store, each, me.task) for each in others.values())

    def look(self, started: SlotStart, began: int, declared: Declaration) -> None:
        """Fail when a slot began late, or has not ended in time: that is how lateness is told, counted and shown."""
        late_after = declared.late_after or 0
        text = f"the slot of {self.name} at {shown(declared, started.at)}"
        if (late := began - declared.due(started.at)) > late_after:
            raise Fatal(f"{text} began {late / SECOND:,.0f} s late")
        if is_open(_store(current()), started):
            raise Fatal(f"{text} has not ended after {late_after / SECOND:,.0f} s: {started} is still open")


class StoredClock(msgspec.Struct, frozen=True):
    """A clock as it is stored: the moment up to which slots are dealt with, its version and its declaration."""

    after: int
    version: int
    declared: Declaration
    declares: bool = False

    @classmethod
    def read(cls, handler: Handler, body: bytes) -> StoredClock:
        """A clock from the arguments of its task."""
        args, kwargs = handler.signature.decode(body)
        return cls(*args, **kwargs)


class StoredSlot(msgspec.Struct, frozen=True):
    """The task of a slot as it is stored: the slot, the id of its job, and by which declaration it begins."""

    at: int
    job: int
    declared: Declaration
    by_hand: bool = False
    fill: Fill | None = None
    said: str = ""

    @classmethod
    def read(cls, body: bytes) -> StoredSlot:
        """A slot from the arguments of its task."""
        args, kwargs = _SLOT.decode(body)
        return cls(*args, **kwargs)


#: The arguments of a slot's task, for who only reads them.
_SLOT = Signature.of(Schedule.begin.__get__(object()), {})


def has_started(task: TaskStanding) -> bool:
    """Return whether the ended task of a slot started something; one that found the slot started did not."""
    return task.ended is Status.DONE and task.value not in (None, b"null")


def _takes(store: Store, other: TaskStanding, me: int) -> bool:
    """Return whether another task of a slot has started it, or will before the task `me` does."""
    if other.ended is not None:
        return has_started(other)
    slot = StoredSlot.read(other.row.body)
    return slot.fill is None or other.row.id < me or store.reads.task(slot.job) is not None


def _clocks(store: Store, name: str, run: int) -> Sequence[Any]:
    """The clocks of a schedule that have not fired."""
    return [each.row for each in store.reads.due_tasks(clock_kind(name), run=run).rows]


def _store(me: Current) -> Store:
    return me._attempt_env.library.others.store


def _handler(kind: str, fn: Callable[..., Any], policy: Policy | None = None) -> Handler:
    return Handler(kind, fn, Signature.of(fn, {}), Calling.PLAIN, policy or Policy())
