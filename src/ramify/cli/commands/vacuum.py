"""`ramify vacuum`: remove what nobody can reach any more."""

from __future__ import annotations

import click

from ramify.cli.visit import Visit, on_store_to_change
from ramify.inspect.words import plural
from ramify.store.contract import Vacuumed


@click.command()
@on_store_to_change
def vacuum(visit: Visit) -> None:
    """Delete unpublished rows, expired keys and sessions of dead processes, and give file space back.

    Workers may keep running: it goes in small steps. The log itself stays; `ramify forget` deletes from it.
    """
    steps = list(iter(visit.store.vacuum, Vacuumed()))
    removed = {what: sum(getattr(step, what) for step in steps) for what in ("tasks", "keys", "sessions", "space")}
    if visit.out.as_json:
        visit.out.json(removed)
    else:
        visit.out.say(
            f"removed {plural(removed['tasks'], 'unpublished row')}, {plural(removed['keys'], 'expired key')}, "
            f"{plural(removed['sessions'], 'old session')}; gave {removed['space'] / 1e6:,.1f} MB back to the disk"
        )
