"""`ramify start`: register a run of a task, a DAG or a pipeline, and leave the work to others."""

from __future__ import annotations

import shlex
from typing import Any

import click

from ramify.cli.arguments import root_of
from ramify.cli.commands.run import beginning
from ramify.cli.loading import startable_at
from ramify.cli.out import Out
from ramify.inspect.find import title, typed
from ramify.inspect.live import workers
from ramify.inspect.words import plural


@click.command()
@beginning
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def start(
    context: click.Context, /, address: str, words: tuple[str, ...], given: str | None, url: str | None, as_json: bool,
    **options: Any,
) -> None:  # fmt: skip
    """Register a run of a task, a DAG or a pipeline, and return at once: `start walk.py:engine measure /usr`, or
    `start etl.py:etl day=2026-01-05 --name etl-0105`.

    A worker does the work. MODULE is etl.py or package.module. Arguments and params are converted by their
    annotations. The same command with the same name starts nothing twice.
    """
    url = url or context.obj
    found, engine, where = startable_at(address, url)
    root = root_of(address, found, words, given)
    out = Out(as_json=as_json)
    try:
        begun = engine.start(root, **options)
        store, run = engine._runtime.store, begun._stored
        how = "new" if begun.begun is None else begun.begun.value
        if as_json:
            out.json({"run": run.id, "name": run.name, "generation": run.generation, "begun": how, "state": run.state})
            return
        out.say(("name", title(run)), f" · run {run.id} · {how} · {run.state.value}")
        if run.state.is_end:
            return
        on = f" -s {shlex.quote(store.describe().location)}"
        working = workers(store.reads)
        if working:
            out.say(f"{plural(len(working), 'process', 'processes')} at work on this store")
        else:
            out.say(("dim", "work on it:  "), f"ramify worker {shlex.quote(where)}{on if url else ''}")
        out.say(("dim", "look at it:  "), f"ramify status {typed(run)}{on}")
    finally:
        engine.close()
