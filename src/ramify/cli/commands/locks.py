"""`ramify locks`: the locks that somebody holds or waits for."""

from __future__ import annotations

import click

from ramify.cli.visit import Visit, on_store
from ramify.inspect.locks import holder_in_words, lock_as_json
from ramify.inspect.locks import locks as held_locks
from ramify.inspect.text import Piece


@click.command()
@on_store
def locks(visit: Visit) -> None:
    """List the locks that are held: by which process and task, since when, and how many wait.

    A lock whose process died is listed until the next program asks for it. `ramify unlock` takes a lock from a process
    that is alive.
    """
    now, rows = visit.store.now(), list[list[Piece]]()
    for each in held_locks(visit.store):
        if visit.out.as_json:
            visit.out.json(lock_as_json(each))
            continue
        state = each.state
        held = [holder_in_words(one, now, each.alive) for one in state.holders] or ["nobody"]
        fences = [f"{one.fence}" for one in state.holders] or [""]
        rows.append([("name", each.name), fences[0], f"{len(state.waiters)}", held[0]])
        rows += [["", fence, "", one] for fence, one in zip(fences[1:], held[1:], strict=True)]
    if visit.out.as_json:
        return
    if not rows:
        visit.out.say("no lock is held")
        return
    visit.out.table(["lock", "fence", "wait", "held by"], rows, right=frozenset({1, 2}))
