"""`ramify vacuum`: remove what nobody can reach any more."""

from __future__ import annotations

import click

from ramify.cli.visit import Visit, on_store_to_change
from ramify.inspect.words import plural


@click.command()
@on_store_to_change
def vacuum(visit: Visit) -> None:
    """Remove unpublished rows, expired keys and sessions of the long dead, and give file space back.

    Others may go on working: it goes in small steps. The log itself is not touched: `ramify forget` does that.
    """
    tasks = keys = sessions = 0
    while (step := visit.store.vacuum()).tasks or step.keys or step.sessions:
        tasks, keys, sessions = tasks + step.tasks, keys + step.keys, sessions + step.sessions
    if visit.out.as_json:
        visit.out.json({"tasks": tasks, "keys": keys, "sessions": sessions})
    else:
        visit.out.say(
            f"removed {plural(tasks, 'unpublished row')}, {plural(keys, 'expired key')}, "
            f"{plural(sessions, 'old session')}"
        )
