"""`ramify answer`: answer a gate of a pipeline."""

from __future__ import annotations

import json

import click
import msgspec

from ramify.cli.main import FAILED
from ramify.cli.out import tell
from ramify.cli.visit import Visit, Wrong, entered, on_store_to_change, who_and_why
from ramify.errors import BadPayload, ConfigError, GateClosed, UnknownTask
from ramify.inspect.find import title
from ramify.inspect.live import workers


@click.command()
@click.argument("run")
@click.argument("gate")
@click.argument("value")
@who_and_why
@on_store_to_change
def answer(visit: Visit, run: str, gate: str, value: str, reason: str, by: str | None) -> None:
    """Answer an open gate with VALUE, which is JSON: true, 3, '"text"', '{"approved": true}'.

    The first answer counts, and is stored with the person who gave it. `ramify gates` shows the answer a gate asks
    for; any other is refused. Exit 1 if the gate is not open.
    """
    from ramify.engine.runs import answering

    found = visit.run(run)
    given = _value(value)
    try:
        with entered(visit.store):
            answering.answer(visit.store, found.id, gate, given, reason, by)
    except GateClosed as closed:
        tell(f"ramify: {closed}")
        raise click.exceptions.Exit(FAILED) from closed
    except (BadPayload, ConfigError, UnknownTask) as wrong:
        raise Wrong(str(wrong)) from wrong
    if visit.out.as_json:
        visit.out.json({"run": found.id, "gate": gate, "answer": given})
        return
    visit.out.say(("name", gate), f" of {title(found)} is answered")
    if not workers(visit.store.reads):
        visit.out.say(("dim", "nobody works on this store now; start your program to continue"))


def _value(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        quoted = "'" + json.dumps(text).replace("'", "'\\''") + "'"
        hint = f". Text needs quotes: {quoted}" if not text.lstrip().startswith(("{", "[", '"')) else ""
        raise click.BadParameter(f"expected JSON, got {text!r} ({error}){hint}", param_hint="VALUE") from error
