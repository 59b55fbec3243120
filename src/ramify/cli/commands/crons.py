"""`ramify crons`: schedules, and what people do about one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from itertools import islice

import click
import msgspec

from ramify.cli.numbers import COUNT
from ramify.cli.out import Out, tell
from ramify.cli.visit import Visit, Wrong, entered, on_store, on_store_to_change, opened, who_and_why
from ramify.errors import ConfigError
from ramify.inspect.crons import CronState, CronView, cron, cron_run, name_of
from ramify.inspect.crons import crons as find_crons
from ramify.inspect.text import Piece
from ramify.inspect.words import SECOND, duration, plural, stamp
from ramify.model.decision import Said
from ramify.model.run import RunState, StoredRun
from ramify.shapes.cron.declaration import Declaration
from ramify.shapes.cron.declaring import backfill as start_backfill
from ramify.shapes.cron.declaring import clock_that_counts, to_fill
from ramify.shapes.cron.declaring import trigger as start_slot
from ramify.shapes.cron.timetable import Timetable
from ramify.shapes.start import until_answered
from ramify.store.contract import Store
from ramify.store.here import person
from ramify.store.reads import PAGE_LIMIT

NO_SCHEDULES = 'no schedules. Write @engine.cron("0 6 * * *") above a task, and start a worker'
_STYLES = {CronState.OPEN: "good", CronState.PAUSED: "look", CronState.REMOVED: "dim"}
#: How many slots `--dry-run` lists.
_LISTED = 1_000


class Crons(click.Group):
    """The subcommands. A name that is none of them is that of a schedule to show."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """One subcommand, with its arguments."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["show", *args]
        return super().resolve_command(ctx, args)


@click.group(cls=Crons, invoke_without_command=True, subcommand_metavar="[NAME | COMMAND [ARGS]...]")
@click.option("--all", "removed", is_flag=True, help="Include removed schedules.")
@click.option(
    "-n", "--limit", type=click.IntRange(1, PAGE_LIMIT), default=100, show_default=True, help="List at most this many."
)
@click.option("--after", default="", metavar="NAME", help="Only schedules after this name: the next page.")
@click.option("-s", "--store", "url", metavar="URL|FILE", help="The store to use; see `ramify --help`.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@click.pass_context
def crons(context: click.Context, removed: bool, limit: int, after: str, url: str | None, as_json: bool) -> None:
    """List schedules, each with its next slot, the result of its last slot, and whether it is late.

    `ramify crons NAME` shows one schedule and its next five slots. All times are in the zone of the schedule, UTC by
    default. A schedule is the run `cron/NAME`, so the commands for runs work for schedules too.
    """
    context.obj = url or context.obj
    if as_json:
        context.default_map = {name: {"as_json": True} for name in crons.commands}
    if context.invoked_subcommand is not None:
        return
    with opened(context.obj, reading=True) as store:
        _list(Visit(store, Out(as_json=as_json)), removed, limit, after)


def _list(visit: Visit, removed: bool, limit: int, after: str) -> None:
    page = find_crons(visit.store, after=after, limit=limit, removed=removed)
    more = f"… more: --after {page.rows[-1].name}" if page.more else ""
    if visit.out.as_json:
        for view in page.rows:
            visit.out.json(_json(view))
        if more:
            tell(more)
        return
    if not page.rows:
        visit.out.say("no more schedules" if after else NO_SCHEDULES)
        return
    visit.out.table(["schedule", "state", "times", "next slot", "last slot", ""], [_row(view) for view in page.rows])
    if more:
        visit.out.say(("dim", more))


def _row(view: CronView) -> list[Piece]:
    times = view.run.shown or "" if view.declared is None else str(view.declared.times)
    upcoming = _at(view, view.upcoming[0]) if view.upcoming and view.state is CronState.OPEN else ""
    last: Piece = "" if view.last is None else f"{_at(view, view.last.at)} {view.last.state}"
    return [("name", view.name), (_STYLES[view.state], view.state.value), times, upcoming, last, _trouble(view)]


def _trouble(view: CronView) -> Piece:
    """Return what somebody should look at; nothing when all is well."""
    overdue = view.overdue / SECOND
    if view.state is not CronState.OPEN:
        return ""
    if view.declared_by is not None and not view.declared_by:
        return ("look", f"no worker declares it{f', due for {duration(overdue)}' if overdue else ''}")
    return ("bad", f"late by {duration(overdue)}") if overdue >= 1 else ""


def _at(view: CronView, moment: int) -> str:
    return _shown(view.declared, moment)


def _shown(declared: Declaration | None, moment: int) -> str:
    times = Timetable(cron="@daily") if declared is None else declared.times
    return f"{times.datetime_of(moment):%Y-%m-%d %H:%M:%S %Z}"


def _run(visit: Visit, name: str) -> StoredRun:
    try:
        return cron_run(visit.store.reads, name)
    except ConfigError as error:
        raise Wrong(str(error)) from error


@crons.command()
@click.argument("name")
@on_store
def show(visit: Visit, name: str) -> None:
    """Show one schedule: its times and options, the workers that declare it, its next five slots and its last one."""
    view = cron(visit.store, name_of(_run(visit, name)))
    if visit.out.as_json:
        visit.out.json(_json(view))
        return
    say = visit.out.say
    say(("name", view.name), " ", (_STYLES[view.state], view.state.value))
    decision = view.run.decision
    if view.state is not CronState.OPEN and decision is not None:
        say(f"  {decision}")
    declared = view.declared
    if declared is None:
        say(f"  times     {view.run.shown}")
    else:
        say(f"  times     {declared.times}")
        say(f"  options   {_options(declared)}")
        say(f"  declared  by {declared.by}, a program started {_shown(declared, declared.since)}")
    say(f"  workers   {_workers(view)}")
    for place, moment in enumerate(view.upcoming):
        say("  next      " if place == 0 else "            ", _at(view, moment))
    if declared is not None and not view.upcoming and view.state is CronState.OPEN:
        say("  next      no slot is left")
    if view.last is not None:
        what = f"job {view.last.job}" if view.last.job is not None else f"run {view.last.run}"
        say(f"  last      {_at(view, view.last.at)}: {what} is {view.last.state}")
    if view.due_since is not None and view.overdue >= SECOND and view.state is CronState.OPEN:
        say(
            "  ", ("bad", "late"), f"      due since {_at(view, view.due_since)}, for {duration(view.overdue / SECOND)}"
        )
    if view.late:
        say("  ", ("look", "was late"), f"  {plural(view.late, 'slot')}: `ramify errors {view.run.name}`")


def _options(declared: Declaration) -> str:
    lengths = (
        ("jitter", declared.jitter or None),
        ("late_after", declared.late_after),
        ("keep", declared.keep),
    )
    most = f" (at most {declared.max_catch_up:,})" if declared.catch_up == "all" else ""
    told = (f"{name} {duration(length / SECOND)}" for name, length in lengths if length is not None)
    return ", ".join((f"catch_up {declared.catch_up}{most}", f"overlap {declared.overlap}", *told))


def _workers(view: CronView) -> str:
    if view.declared_by is None:
        return "unknown: live processes did not say what they declare"
    if not view.declared_by:
        return "no live worker declares it"
    shown = ", ".join(view.declared_by[:3])
    return shown if len(view.declared_by) <= 3 else f"{shown} and {len(view.declared_by) - 3:,} others"


def _json(view: CronView) -> dict[str, object]:
    declared = view.declared
    options = {} if declared is None else msgspec.structs.asdict(declared)
    lengths = {name: options.pop(name, None) for name in ("jitter", "late_after", "keep")}
    return {
        "schedule": view.name,
        "run": view.run.id,
        "state": view.state.value,
        "cron": None if declared is None else declared.times.cron or None,
        "every": None if declared is None or not declared.times.every else declared.times.every / SECOND,
        "tz": None if declared is None else declared.times.tz,
        "start": None if declared is None else stamp(declared.times.start),
        "end": None if declared is None else stamp(declared.times.end),
        **{name: options.get(name) for name in ("catch_up", "max_catch_up", "overlap")},
        **{name: None if length is None else length / SECOND for name, length in lengths.items()},
        "declared_by": options.get("by"),
        "declared_since": stamp(options.get("since")),
        "workers": None if view.declared_by is None else list(view.declared_by),
        "next": [stamp(moment) for moment in view.upcoming],
        "last": None
        if view.last is None
        else {"at": stamp(view.last.at), "job": view.last.job, "run": view.last.run, "state": view.last.state},
        "due_since": stamp(view.due_since),
        "overdue": view.overdue / SECOND,
        "late": view.late,
    }


@crons.command()
@click.argument("name")
@who_and_why
@on_store_to_change
def pause(visit: Visit, name: str, reason: str, by: str | None) -> None:
    """Pause a schedule: start no more slots until `resume`. Jobs and runs that it started continue."""
    _decide(visit, name, "pause", reason, by)


@crons.command()
@click.argument("name")
@who_and_why
@on_store_to_change
def resume(visit: Visit, name: str, reason: str, by: str | None) -> None:
    """Resume a paused schedule. Its `catch_up` decides which missed slots it starts."""
    _decide(visit, name, "resume", reason, by)


def _decide(visit: Visit, name: str, verb: str, reason: str, by: str | None) -> None:
    from ramify.engine.runs import deciding

    found = _run(visit, name)
    decide: Callable[..., RunState] = deciding.pause if verb == "pause" else deciding.resume
    state = decide(visit.store, found.id, reason, by)
    if visit.out.as_json:
        visit.out.json({"schedule": name_of(found), "run": found.id, "state": state.value})
        return
    wanted = RunState.PAUSED if verb == "pause" else RunState.OPEN
    if state is not wanted:
        visit.out.say(("look", f"schedule {name_of(found)!a} was removed"))
    elif found.state is wanted:
        visit.out.say(f"schedule {name_of(found)!a} {'is' if wanted is RunState.PAUSED else 'was not'} paused")
    else:
        visit.out.say(f"schedule {name_of(found)!a} {'is paused' if wanted is RunState.PAUSED else 'continues'}")
    if state is RunState.OPEN:
        _note_workers(visit, found)


@crons.command()
@click.argument("name")
@who_and_why
@on_store_to_change
def trigger(visit: Visit, name: str, reason: str, by: str | None) -> None:
    """Trigger a slot: start an extra one now. It does not wait for a slot that is still running.

    The slot logs who triggered it, and the reason: `ramify logs cron/NAME`.
    """
    found = _run(visit, name)
    said = Said(reason, person() if by is None else by)
    task = start_slot(visit.store, name_of(found), _existing(found), _reserve(visit.store), said)
    if visit.out.as_json:
        visit.out.json({"schedule": name_of(found), "run": found.id, "task": task})
        return
    visit.out.say(f"schedule {name_of(found)!a}: a slot starts now (task {task})")
    _note_workers(visit, found)


@crons.command()
@click.argument("name")
@who_and_why
@on_store_to_change
def remove(visit: Visit, name: str, reason: str, by: str | None) -> None:
    """Remove a schedule: it starts no more slots. Jobs and runs that it started continue.

    A worker that starts and still declares the schedule adds it again.
    """
    from ramify.engine.runs import deciding

    found = _run(visit, name)
    declared_by = cron(visit.store, name_of(found)).declared_by
    with entered(visit.store):
        answer = deciding.cancel(visit.store, found.id, reason, by)
    if visit.out.as_json:
        told = None if declared_by is None else list(declared_by)
        visit.out.json(
            {"schedule": name_of(found), "run": found.id, "answer": answer.name.lower(), "declared_by": told}
        )
        return
    was = "was removed before" if found.state.is_end else "is removed"
    visit.out.say(f"schedule {name_of(found)!a} {was}")
    if declared_by:
        many = f"{plural(len(declared_by), 'live worker')} {'declares' if len(declared_by) == 1 else 'declare'}"
        visit.out.say(("look", f"{many} it: it comes back with their next start, unless you remove it there"))


class _Moment(click.ParamType[datetime]):
    """A time in the form of ISO 8601, with or without a zone."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """From what was typed."""
        try:
            return datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(
                f"expected a time, got {value!a}. Write 2026-03-01, 2026-03-01T06:00 or 2026-03-01T06:00+01:00",
                param,
                ctx,
            )


@crons.command()
@click.argument("name")
@click.option("--from", "low", type=_Moment(), required=True, help="Start of the range, inclusive: 2026-03-01T06:00.")
@click.option("--to", "high", type=_Moment(), help="End of the range, inclusive; now by default.")
@click.option(
    "--parallel", type=COUNT, default=1, show_default=True, metavar="N", help="Number of slots that run at a time."
)
@click.option("--dry-run", is_flag=True, help="List the slots without starting them.")
@on_store_to_change
def backfill(visit: Visit, name: str, low: datetime, high: datetime | None, parallel: int, dry_run: bool) -> None:
    """Start the slots between two times that were missed or skipped, one after the other.

    Slots that ran are not run again; the schedule remembers them for 30 days by default. Times without a zone are in
    the zone of the schedule. The newest slots are left to the schedule itself.
    """
    found = _existing(_run(visit, name))
    schedule = name_of(found)
    clock = clock_that_counts(visit.store, schedule, found)
    declared, now = clock.declared, visit.store.now()
    first, last = _moment(visit, declared, low), now if high is None else _moment(visit, declared, high)
    if last < first:
        raise click.UsageError(f"--to {high}: expected a time after --from {low}")
    try:
        slots = to_fill(visit.store, schedule, found, first, last)
    except ConfigError as too_many:
        raise Wrong(str(too_many)) from too_many
    if not dry_run and slots:
        start_backfill(visit.store, schedule, found, slots, parallel, _reserve(visit.store))
    if visit.out.as_json:
        visit.out.json(
            {
                "schedule": schedule, "run": found.id, "slots": len(slots), "dry_run": dry_run,
                "first": stamp(slots[0]) if slots else None, "last": stamp(slots[-1]) if slots else None,
                **({"at": [stamp(at) for at in slots]} if dry_run else {}),
            }
        )  # fmt: skip
        return
    if not slots:
        visit.out.say(f"schedule {schedule!a}: nothing to do, no slot was missed from {low} to {high or 'now'}")
    else:
        will = "would start" if dry_run else "starts"
        ends = _shown(declared, slots[0]), _shown(declared, slots[-1])
        between = f": {ends[0]}" if len(slots) == 1 else f", from {ends[0]} to {ends[1]}"
        visit.out.say(f"schedule {schedule!a} {will} {plural(len(slots), 'slot')}{between}")
    if dry_run:
        for at in islice(slots, _LISTED):
            visit.out.say("  ", _shown(declared, at))
        if len(slots) > _LISTED:
            visit.out.say(("dim", f"  and {len(slots) - _LISTED:,} more; --json lists all of them"))
    _note_limits(visit, clock.after, declared, first, last)
    if slots and not dry_run:
        _note_workers(visit, found)


def _note_limits(visit: Visit, passed: int, declared: Declaration, first: int, last: int) -> None:
    """Say which slots were left out, and of which nobody knows whether they ran."""
    waiting = declared.times.after(max(passed, first - 1))
    if waiting is not None and waiting <= min(last, visit.store.now()):
        text = f"slots from {_shown(declared, waiting)} on are left to the schedule, which catches up by itself"
        visit.out.say(("dim", text))
    if first < (kept := visit.store.now() - declared.keep):
        text = f"whether slots before {_shown(declared, kept)} ran is no longer known: they count as missed"
        visit.out.say(("look", text))


def _moment(visit: Visit, declared: Declaration, when: datetime) -> int:
    if when.utcoffset() is not None:
        return round(when.timestamp() * SECOND)
    if not visit.out.as_json:
        tell(f"{when} is read in the zone of the schedule, {declared.times.tz}")
    return round(when.replace(tzinfo=declared.times.datetime_of(0).tzinfo).timestamp() * SECOND)


def _existing(run: StoredRun) -> StoredRun:
    if run.state.is_end:
        raise Wrong(f"schedule {name_of(run)!a} was removed. Start a worker that declares it")
    return run


def _note_workers(visit: Visit, run: StoredRun) -> None:
    """Say why nothing happens yet, if that is so."""
    view = cron(visit.store, name_of(run))
    if view.state is CronState.PAUSED:
        visit.out.say(("dim", f"it is paused: `ramify crons resume {view.name}` lets it continue"))
    elif view.declared_by is not None and not view.declared_by:
        visit.out.say(("dim", "no live worker declares it. Start your program"))


def _reserve(store: Store) -> Callable[[int], int]:
    return lambda count: until_answered(lambda: store.reserve(count))
