"""`ramify run`: run a task of the user's and all it grows into, a DAG or a pipeline, to the end."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import click

from ramify.cli.arguments import root_of
from ramify.cli.commands.errors import show_briefly
from ramify.cli.loading import startable_at
from ramify.cli.log import begin_log, log_options
from ramify.cli.main import FAILED, INTERRUPTED
from ramify.cli.numbers import COUNT, PROCESSES, THREADS
from ramify.cli.out import Out
from ramify.cli.progress import progress_on
from ramify.engine.processes.signal_text import Form
from ramify.engine.runs.run import Run
from ramify.engine.runtime import Runtime
from ramify.errors import RunFailed, Terminated
from ramify.inspect.find import typed
from ramify.model.run import Order, RunState

#: How many groups of errors are shown at the end.
GROUPS = 5


def beginning(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the arguments and options that say what to begin, and how."""
    for option in (
        click.option("-s", "--store", "url", metavar="URL|FILE", help="Use this store instead of the engine's own."),
        click.option("--max-tasks", type=COUNT, help="Halt the run when it has more tasks than this."),
        click.option(
            "--max-running", type=COUNT, help="Run at most this many of its tasks at a time, in all processes together."
        ),
        click.option(
            "--order",
            type=click.Choice([order.value for order in Order]),
            help="Order of the tasks below a root task; rounds by default.",
        ),
        click.option("--again", is_flag=True, help="Start a new generation of a run that has ended."),
        click.option("--name", help="The name of the run. The same name continues the same run."),
        click.option(
            "--args", "given", metavar="JSON", help="The arguments as a JSON list, or as a JSON object by name."
        ),
        click.argument("words", metavar="[TASK [ARG]...|NAME=VALUE...]", nargs=-1),
        click.argument("address", metavar="MODULE:ENGINE|MODULE:DAG|MODULE:PIPELINE"),
    ):
        command = option(command)
    return command


@click.command()
@beginning
@click.option("--threads", type=THREADS, help="Number of threads; 0 runs the tasks one by one in the main thread.")
@click.option("--processes", type=PROCESSES, default=0, help="Number of worker processes.")
@log_options
@click.option("--json", "as_json", is_flag=True, help="Print progress as one JSON object per line.")
@click.pass_context
def run(
    context: click.Context, /, address: str, words: tuple[str, ...], given: str | None, url: str | None,
    as_json: bool, threads: int | None, log: Form | None, log_level: str, **options: Any,
) -> None:  # fmt: skip
    """Run a task and its descendants, a DAG or a pipeline, to the end: `run walk.py:engine measure /usr`, or
    `run etl.py:etl day=2026-01-05`.

    MODULE is walk.py or package.module. Arguments and params are converted by their annotations; put -- before
    values that begin with a dash. After a kill the same command continues the run.
    """
    found, engine, _ = startable_at(address, url or context.obj)
    runtime = engine._runtime
    begin_log(runtime, log, log_level)
    root = root_of(address, found, words, given)
    out = Out(as_json=as_json)
    runs: list[Run[Any]] = []
    try:
        with ExitStack() as showing:

            def show(begun: Run[Any]) -> None:
                runs.append(begun)
                # A debugger needs the terminal for itself when everything runs in this thread.
                showing.enter_context(progress_on(runtime.store, begun.id, out, beside=True, in_place=threads != 0))

            runtime.on_begun = show
            try:
                done = engine.run(root, threads=threads, check=True, **options)
            except RunFailed as failure:
                if log is not None:
                    runtime.complain(str(failure), logging.ERROR)
                done = runs[0]
        _conclude(runtime, done, out)
    except (KeyboardInterrupt, Terminated):
        runtime.say("interrupted; the same command continues the run")
        raise click.exceptions.Exit(INTERRUPTED) from None
    finally:
        engine.close()


def _conclude(runtime: Runtime, done: Run[Any], out: Out) -> None:
    """Say what failed, if anything did, and end with the code that tells."""
    stored = done._stored
    if not out.as_json:
        if stored.reason:
            out.say("because: ", stored.reason)
        found = runtime.store.reads.errors(stored.id)
        show_briefly(out, found, done.counts.failures, GROUPS)
        if found.groups:
            out.say(
                ("dim", f"ramify errors {typed(stored)} -s {shlex.quote(runtime.store.describe().location)}  says more")
            )
    if stored.state is not RunState.DONE:
        raise click.exceptions.Exit(FAILED)
