"""`ramify resume`: let a paused run go on."""

from __future__ import annotations

import click

from ramify.cli.visit import Visit, on_store_to_change, who_and_why
from ramify.inspect.find import title
from ramify.inspect.live import workers
from ramify.model.run import RunState


@click.command()
@click.argument("run")
@who_and_why
@on_store_to_change
def resume(visit: Visit, run: str, reason: str, by: str | None) -> None:
    """Resume a paused run."""
    from ramify.engine.runs import deciding

    found = visit.run(run)
    state = deciding.resume(visit.store, found.id, reason, by)
    if visit.out.as_json:
        visit.out.json({"run": found.id, "state": state.value})
        return
    was = "continues" if found.state is RunState.PAUSED else f"was not paused; it is {state.value}"
    visit.out.say(f"{title(found)} {was}")
    if state is RunState.OPEN and not workers(visit.store.reads):
        visit.out.say(("dim", "nobody works on this store now; start your program"))
