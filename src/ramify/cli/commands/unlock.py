"""`ramify unlock`: take a lock from whoever holds it."""

from __future__ import annotations

import click

from ramify.cli.visit import Visit, Wrong, on_store_to_change
from ramify.inspect.locks import holder_in_words, locks
from ramify.store.here import person


@click.command()
@click.argument("name")
@click.option("--by", help="The person who decides; by default user@host.")
@click.option("--reason", required=True, help="The reason, which the holder is told.")
@on_store_to_change
def unlock(visit: Visit, name: str, reason: str, by: str | None) -> None:
    """Take a lock from all who hold it; the next in line get it.

    The holder continues until it checks the lock or releases it, and is told then. Its fence is lower than that of the
    next holder, so that other systems can refuse its late work.
    """
    from ramify.coordination.unlocking import unlock as take

    known = {each.name: each for each in locks(visit.store)}
    lost = take(visit.store, name, person() if by is None else by, reason) if name in known else ()
    if not lost:
        held = ", ".join(repr(each) for each, row in known.items() if row.state.holders) or "none"
        raise Wrong(f"{name!r}: expected a lock that is held. Held are: {held}")
    if visit.out.as_json:
        visit.out.json({"lock": name, "fences": [each.fence for each in lost], "pids": [each.pid for each in lost]})
        return
    for each in lost:
        said = holder_in_words(each, visit.store.now(), known[name].alive)
        visit.out.say(f"{name}: taken from {said} (fence {each.fence})")
