"""`ramify limits`: the limits of a store, how full they are, and other numbers for one while programs run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
import msgspec

from ramify.cli.out import Out
from ramify.cli.visit import Visit, Wrong, entered, on_store_to_change, opened, who_and_why
from ramify.inspect.limits import (
    LimitStatus,
    held_by,
    limit_in_words,
    numbers_in_words,
    rate_in_words,
    statuses_of,
    stored_limits,
)
from ramify.inspect.text import Piece
from ramify.inspect.words import duration, moment, number, stamp
from ramify.model.limit import Numbers, Pace, StoredLimit
from ramify.model.policy import SECOND, Rate
from ramify.model.task import MAX_ID
from ramify.store.here import person

if TYPE_CHECKING:
    from ramify.engine.limits import Changed

NO_LIMITS = "no limits. Write @engine.task(max_running=5), and start a worker"
NONE = "none"


@click.group(invoke_without_command=True, subcommand_metavar="[COMMAND [ARGS]...]")
@click.option("-s", "--store", "url", metavar="URL|FILE", help="The store to use; see `ramify --help`.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@click.pass_context
def limits(context: click.Context, url: str | None, as_json: bool) -> None:
    """List the limits that hold for all processes: their numbers, who set them, and how many tasks run and wait.

    The workers that started last declare them. Numbers that `set` gives hold instead until `reset`.
    """
    context.obj = url or context.obj
    if as_json:
        context.default_map = {name: {"as_json": True} for name in limits.commands}
    if context.invoked_subcommand is not None:
        return
    with opened(context.obj, reading=True) as store:
        _list(Visit(store, Out(as_json=as_json)))


def _list(visit: Visit) -> None:
    found, now = statuses_of(visit.store), visit.store.now()
    if visit.out.as_json:
        for each in found:
            visit.out.json(_json(each))
        return
    if not found:
        visit.out.say(NO_LIMITS)
        return
    heads = ["limit", "per", "running", "waiting", "rate", "opens in", "held by", "set by"]
    processes = visit.store.reads.processes()
    rows: list[list[Piece]] = []
    for each in found:
        pace = each.stored.numbers.pace
        opens = "" if each.opens is None else duration(max(0, each.opens - now) / SECOND)
        least = "at least " if each.at_least and each.waiting else ""
        rows.append([
            ("name", each.name), "lane" if each.stored.limit.per_lane else "", _running(each),
            f"{least}{number(each.waiting)}", "" if pace is None else rate_in_words(pace), opens,
            held_by(each.running, processes).removeprefix("held by "), _set_by(each.stored),
        ])  # fmt: skip
    visit.out.table(heads, rows, right=frozenset({2, 3}))


def _running(found: LimitStatus) -> Piece:
    most, many = found.stored.numbers.max_running, sum(found.running.values())
    if most is None:
        return number(many)
    if found.stored.limit.per_lane:
        return f"{number(many)} ({number(most)} each)"
    text = f"{number(many)} of {number(most)}"
    return ("look", text) if many >= most else text


def _set_by(stored: StoredLimit) -> str:
    if stored.fixed is None:
        return stored.by
    reason = f": {stored.fixed.reason}" if stored.fixed.reason else ""
    declared = ", ".join(numbers_in_words(stored.limit.numbers))
    return f"{stored.fixed.by} at {moment(stored.fixed.at)}{reason} (declared: {declared})"


def _json(found: LimitStatus) -> dict[str, object]:
    stored, fixed = found.stored, found.stored.fixed
    return {
        "limit": stored.name,
        "per": "lane" if stored.limit.per_lane else None,
        **_numbers(stored.numbers),
        "kinds": stored.limit.kinds,
        "queues": stored.limit.queues,
        "running": sum(found.running.values()),
        "held_by": {f"{process:x}": many for process, many in found.running.items()},
        "waiting": found.waiting,
        "at_least": found.at_least,
        "opens": stamp(found.opens),
        "declared": {**_numbers(stored.limit.numbers), "by": stored.by, "at": stamp(stored.at)},
        "set": None
        if fixed is None
        else {**_numbers(fixed.numbers), "by": fixed.by, "reason": fixed.reason, "at": stamp(fixed.at)},
    }


def _numbers(numbers: Numbers) -> dict[str, object]:
    pace = numbers.pace
    rate = None if pace is None else {"count": pace.count, "seconds": pace.period / SECOND, "burst": pace.burst}
    return {"max_running": numbers.max_running, "max_rate": rate}


class _MaxRunning(click.ParamType[int | str]):
    """A number of tasks, or none to lift it."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """The number; `none` as it is."""
        text = str(value)
        if text == NONE:
            return NONE
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) < MAX_ID:
            self.fail(f"{text!a}: expected a whole number, 1 or more, or none. To stop all, pause the run", param, ctx)
        return int(text)


class _MaxRate(click.ParamType[Rate | str]):
    """A rate, or none to lift it."""

    name = "rate"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Rate | str:
        """The rate; `none` as it is."""
        text = str(value)
        if text == NONE:
            return NONE
        try:
            return Rate(text)
        except ValueError as error:
            self.fail(f"{error}, or none", param, ctx)


@limits.command("set")
@click.argument("name")
@click.argument("max_running", type=_MaxRunning(), required=False, metavar="[NUMBER]")
@click.option("--rate", type=_MaxRate(), metavar="RATE", help='The starts in a time, such as "100/m"; none lifts it.')
@click.option("--burst", type=click.IntRange(0), default=0, help="With --rate: so many more at once after a pause.")
@who_and_why
@on_store_to_change
def set_limit(
    visit: Visit,
    name: str,
    max_running: int | str | None,
    rate: Rate | str | None,
    burst: int,
    reason: str,
    by: str | None,
) -> None:
    """Set the numbers of a limit: at most NUMBER tasks run at a time, or none for any number.

    They hold in every process at once, and outlive deploys, until `reset`. A number that is not given stays.
    """
    if max_running is None and rate is None:
        raise Wrong(f"set {name}: expected a number, --rate or both. Write `ramify limits set {name} 20`")

    from ramify.engine.limits import with_numbers

    def change(stored: StoredLimit) -> StoredLimit:
        most, pace = stored.numbers.max_running, stored.numbers.pace
        if max_running is not None:
            most = None if isinstance(max_running, str) else max_running
        if rate is not None:
            pace = None if isinstance(rate, str) else msgspec.structs.replace(Pace.of(rate), burst=burst)
        who = person() if by is None else by
        return with_numbers(stored, Numbers(most, pace), who, reason, visit.store.now())

    _change(visit, name, change)


@limits.command()
@click.argument("name")
@on_store_to_change
def reset(visit: Visit, name: str) -> None:
    """Let the numbers hold again that programs declare."""
    from ramify.engine.limits import with_numbers

    _change(visit, name, lambda stored: with_numbers(stored, None, "", "", visit.store.now()))


def _change(visit: Visit, name: str, change: Any) -> None:
    from ramify.engine.limits import change_limits

    store = visit.store

    def changed(stored: Mapping[str, StoredLimit]) -> Changed:
        if name not in stored:
            known = ", ".join(sorted(stored)) or "there are none"
            raise Wrong(f"no limit {name!a} in this store: {known}")
        new = change(stored[name])
        return {} if new == stored[name] else {name: new}

    with entered(store) as process:
        change_limits(store, lambda verb: verb(process.stamp()), store.reserve, changed)
    now = stored_limits(store.reads).get(name)
    if now is not None and visit.out.as_json:
        visit.out.json({"limit": name, **_numbers(now[0].numbers), "set": now[0].fixed is not None})
    elif now is not None:
        visit.out.say(("name", name), f": {limit_in_words(now[0])}")
