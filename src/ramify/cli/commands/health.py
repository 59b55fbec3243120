"""`ramify health`: who works on a store, what is stuck and why, what is late."""

from __future__ import annotations

import click
import msgspec

from ramify.cli.visit import Visit, on_store
from ramify.inspect.health import Health, ProcessHealth, ProcessState, ReadyTask, health_of
from ramify.inspect.text import Piece
from ramify.inspect.words import MEGA, duration, number, plural, stamp

#: Exit codes above have meanings of their own.
MOST = 100
_STYLES = {
    ProcessState.WORKING: "good",
    ProcessState.DRAINING: "look",
    ProcessState.UNREACHABLE: "bad",
    ProcessState.DEAD: "bad",
}


@click.command()
@on_store
def health(visit: Visit) -> None:
    """How the store and all who work on it are. The exit code is the number of unhealthy processes, at most 100.

    A process that is dead, silent or cannot write is unhealthy; one that drains is not. Work that is stuck or late is
    told of, and does not count.
    """
    found = health_of(visit.store)
    if visit.out.as_json:
        visit.out.json(_json(found))
    else:
        _say(visit, found)
    if found.unhealthy:
        raise click.exceptions.Exit(min(len(found.unhealthy), MOST))


def _say(visit: Visit, found: Health) -> None:
    store, out = found.store, visit.out
    out.say(("name", store.name), f" {store.location}")
    out.say(f"  keeps {store.keeps}; lacks {store.lacks}")
    if store.bytes is not None and store.log_bytes is not None:
        out.say(f"  {store.bytes / MEGA:,.1f} MB, and {store.log_bytes / MEGA:,.1f} MB of write-ahead log")
    heads = ["process", "pid", "host", "state", "last beat", "holds", "version", ""]
    out.table(heads, [_row(each) for each in found.processes], right=frozenset({1, 4, 5}))
    if not found.processes:
        out.say("nobody works on this store")
    if found.oldest is not None:
        out.say(f"oldest ready: {_task(found.oldest)}")
    if found.late.oldest is not None:
        least = "at least " if found.late.at_least else ""
        out.say(("look", "late"), f" {least}{plural(found.late.tasks, 'task')}, the oldest {_task(found.late.oldest)}")
    for run in found.stuck:
        out.say(("bad", "stuck"), " ", ("name", run.title), f": {run.reason}")
        if run.advice:
            out.say(" " * 6, ("dim", run.advice))
    if found.at_least:
        out.say(("dim", "      and perhaps more"))
    sick = len(found.unhealthy)
    out.say(("bad", f"{plural(sick, 'process', 'processes')} unhealthy") if sick else ("good", "healthy"))


def _row(each: ProcessHealth) -> list[Piece]:
    age = "" if each.beat_age is None else f"{duration(each.beat_age)} ago"
    state = (_STYLES[each.state], each.state.value)
    trouble = ("bad", each.trouble or "")
    return [f"{each.process:x}", str(each.pid), each.host, state, age, number(each.tasks), each.version, trouble]


def _task(ready: ReadyTask) -> str:
    return f"task {ready.task} ({ready.kind!a}, queue {ready.queue!a}), for {duration(ready.seconds)}"


def _json(found: Health) -> dict[str, object]:
    return {
        "store": found.store,
        "at": stamp(found.at),
        "unhealthy": len(found.unhealthy),
        "processes": [{**msgspec.structs.asdict(each), "process": f"{each.process:x}"} for each in found.processes],
        "oldest": found.oldest,
        "late": found.late,
        "stuck": found.stuck,
        "at_least": found.at_least,
    }
