"""`ramify drain`: ask a process to finish what it runs and leave."""

from __future__ import annotations

import click

from ramify.cli.visit import Visit, Wrong, on_store_to_change, who_and_why
from ramify.inspect.live import drained_in_words, in_words, workers
from ramify.inspect.words import stamp
from ramify.model.decision import Said
from ramify.model.process import Process
from ramify.store.here import person


@click.command()
@click.argument("process", required=False)
@who_and_why
@on_store_to_change
def drain(visit: Visit, process: str | None, reason: str, by: str | None) -> None:
    """Ask a worker to claim no more tasks, finish the running ones, put back the rest and exit.

    PROCESS is its pid, or its number in the store or the first digits of that. Without PROCESS, list the processes.
    The other workers continue; a drained worker process is not replaced.
    """
    alive = workers(visit.store.reads)
    if process is None:
        _list(visit, alive)
        return
    found = [each for each in alive if str(each.pid) == process or f"{each.id:x}".startswith(process.lower())]
    if len(found) != 1:
        there = "; ".join(map(in_words, found or alive)) or "none"
        raise Wrong(f"{process!r}: expected one process of this store, got {len(found) or 'none'}. Name one: {there}")
    asked = visit.store.drain(found[0].id, Said(reason, person() if by is None else by))
    if visit.out.as_json:
        visit.out.json({"process": f"{found[0].id:x}", "pid": found[0].pid, "asked": asked})
    elif asked:
        visit.out.say(f"{in_words(found[0])} drains: it takes nothing more, and leaves when what it runs is done")
    else:
        visit.out.say(("look", f"{in_words(found[0])} has ended"))


def _list(visit: Visit, alive: list[Process]) -> None:
    if visit.out.as_json:
        for each in alive:
            state = "working" if each.draining is None else "draining"
            place = {"process": f"{each.id:x}", "pid": each.pid, "host": each.host}
            visit.out.json({**place, "state": state, "entered": stamp(each.entered), "draining": each.draining})
        return
    for each in alive:
        visit.out.say(in_words(each), " ", ("look", drained_in_words(each)) if each.draining else "working")
    if not alive:
        visit.out.say("nobody works on this store")
