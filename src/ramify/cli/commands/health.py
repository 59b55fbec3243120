"""`ramify health`: is the store healthy, and if not, why? The exit code is for monitors."""

from __future__ import annotations

import click
import msgspec

from ramify.cli.main import FAILED
from ramify.cli.numbers import SECONDS, WORKERS
from ramify.cli.visit import Visit, on_store
from ramify.inspect.health import Health, ProcessHealth, ProcessState, ReadyTask, health_of
from ramify.inspect.text import Piece
from ramify.inspect.words import MEGA, duration, number, plural, stamp

_STYLES = {
    ProcessState.WORKING: "good",
    ProcessState.DRAINING: "look",
    ProcessState.UNREACHABLE: "bad",
    ProcessState.DEAD: "bad",
}


@click.command()
@click.option("--max-age", type=SECONDS, metavar="SECONDS", help="Not healthy if a task has been ready for longer.")
@click.option("--min-workers", type=WORKERS, default=0, metavar="N", help="Not healthy if fewer workers take tasks.")
@on_store
def health(visit: Visit, max_age: float | None, min_workers: int) -> None:
    """Report whether the store is healthy, and the problems if not. Exit 0 if it is, 1 if not, 2 for a wrong command
    line, 3 if the check itself fails, such as when there is no store.

    The store is not healthy if a process is dead, silent or cannot write; if the disk is full; if tasks are ready and
    no live worker takes their kind or queue; or if a run is stuck for another reason, such as a pause. A run that waits
    for a time, an answer or another run is not stuck. A draining process is healthy.
    """
    found = health_of(visit.store, max_age=max_age, min_workers=min_workers)
    if visit.out.as_json:
        visit.out.json(_json(found))
    else:
        _say(visit, found)
    if not found.healthy:
        raise click.exceptions.Exit(FAILED)


def _say(visit: Visit, found: Health) -> None:
    store, out = found.store, visit.out
    out.say(("name", store.name), f" {store.location}")
    out.say(f"  keeps {store.keeps}; lacks {store.lacks}")
    if store.bytes is not None and store.log_bytes is not None:
        out.say(f"  {store.bytes / MEGA:,.1f} MB, and {store.log_bytes / MEGA:,.1f} MB of write-ahead log")
    heads = ["process", "pid", "host", "state", "last beat", "holds", "version"]
    out.table(heads, [_row(each) for each in found.processes], right=frozenset({1, 4, 5}))
    if not found.processes:
        out.say("nobody works on this store")
    if found.oldest is not None:
        out.say(f"oldest ready: {_task(found.oldest)}")
    if found.late.oldest is not None:
        least = "at least " if found.late.at_least else ""
        out.say(("look", "late"), f" {least}{plural(found.late.tasks, 'task')}, the oldest {_task(found.late.oldest)}")
    for limit in found.limits:
        out.say(("look", "full" if limit.opens_in is None else "shut"), f"  {limit.text}")
    for problem in found.problems:
        out.say(("bad", "wrong"), f" {problem.text}")
        if problem.advice:
            out.say(" " * 6, ("dim", problem.advice))
    if found.at_least:
        out.say(("dim", "      and perhaps more runs are stuck"))
    out.say(("good", "healthy") if found.healthy else ("bad", "not healthy"))


def _row(each: ProcessHealth) -> list[Piece]:
    age = "" if each.beat_age is None else f"{duration(each.beat_age)} ago"
    state = (_STYLES[each.state], each.state.value)
    return [f"{each.process:x}", str(each.pid), each.host, state, age, number(each.tasks), each.version]


def _task(ready: ReadyTask) -> str:
    return f"task {ready.task} ({ready.kind!a}, queue {ready.queue!a}), for {duration(ready.seconds)}"


def _json(found: Health) -> dict[str, object]:
    return {
        "store": found.store,
        "at": stamp(found.at),
        "healthy": found.healthy,
        "problems": found.problems,
        "unhealthy": len(found.unhealthy),
        "processes": [{**msgspec.structs.asdict(each), "process": f"{each.process:x}"} for each in found.processes],
        "oldest": found.oldest,
        "late": found.late,
        "stuck": found.stuck,
        "at_least": found.at_least,
        "queues": found.queues,
        "limits": found.limits,
    }
