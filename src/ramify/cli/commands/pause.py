"""`ramify pause`: grant no more work of a run."""

from __future__ import annotations

import click

from ramify.cli.visit import Visit, on_store_to_change, who_and_why
from ramify.inspect.find import title
from ramify.model.run import RunState


@click.command()
@click.argument("run")
@who_and_why
@on_store_to_change
def pause(visit: Visit, run: str, reason: str, by: str | None) -> None:
    """Pause a run: start no more of its tasks until `resume`. The pause is stored, so it survives restarts.

    Tasks that a worker has already claimed still finish.
    """
    from ramify.engine.runs import deciding

    found = visit.run(run)
    state = deciding.pause(visit.store, found.id, reason, by)
    if visit.out.as_json:
        visit.out.json({"run": found.id, "state": state.value})
    elif state is RunState.PAUSED:
        visit.out.say(f"{title(found)} is paused")
    else:
        visit.out.say(("look", f"{title(found)} stays {state.value}"))
