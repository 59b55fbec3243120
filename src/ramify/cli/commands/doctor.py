"""`ramify doctor`: look the store over."""

from __future__ import annotations

import click

from ramify.cli.main import FAILED
from ramify.cli.visit import Visit, on_store
from ramify.inspect.doctor import Weight, examine


@click.command()
@click.option(
    "--full",
    is_flag=True,
    help="Also check every page of the file, and audit the log for lost or duplicate tasks. Reads the whole store.",
)
@on_store
def doctor(visit: Visit, full: bool) -> None:
    """Check the store: its location and guarantees, its workers, and the problems that need a person.

    Exit 1 if something is wrong: any problem of `ramify health`, or damage found by --full. Exit 3 if the check itself
    fails.
    """
    found = examine(visit.store, full=full)
    if visit.out.as_json:
        store = found.store
        visit.out.json({"store": store.name, "place": store.location, "keeps": store.keeps, "lacks": store.lacks})
        for finding in found.findings:
            visit.out.json(
                {"weight": finding.weight.value, "about": finding.about, "text": finding.text, "advice": finding.advice}
            )
    else:
        visit.out.say(("name", found.store.name), f" {found.store.location}")
        visit.out.say(f"  keeps {found.store.keeps}; lacks {found.store.lacks}")
        for finding in found.findings:
            style = {Weight.FINE: "dim", Weight.LOOK: "look", Weight.WRONG: "bad"}[finding.weight]
            visit.out.say((style, f"{finding.weight.value:5}"), f"  {finding.about:8}  {finding.text}")
            if finding.advice:
                visit.out.say(" " * 17, ("dim", finding.advice))
        visit.out.say(("good", "healthy") if found.healthy else ("bad", "not healthy"))
    if not found.healthy:
        raise click.exceptions.Exit(FAILED)
