"""`ramify run`: run a task of the user's and all it grows into."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import click

from ramify.cli.arguments import AnyTask, call_of
from ramify.cli.commands.errors import show_briefly
from ramify.cli.loading import engine_at
from ramify.cli.log import begin_log, log_options
from ramify.cli.main import FAILED, INTERRUPTED
from ramify.cli.numbers import COUNT, PROCESSES, THREADS
from ramify.cli.out import Out
from ramify.cli.progress import progress_on
from ramify.cli.visit import Wrong
from ramify.engine.engine import OrderName
from ramify.engine.inside import Inside
from ramify.engine.run import Run
from ramify.engine.stopping import Terminated
from ramify.engine.telling import Form
from ramify.errors import BadPayload
from ramify.inspect.find import typed
from ramify.model.call import Call
from ramify.model.run import Order, RunState

#: How many groups of errors are shown at the end.
GROUPS = 5


@click.command()
@click.argument("address", metavar="MODULE:ENGINE")
@click.argument("task")
@click.argument("args", nargs=-1)
@click.option("--args", "given", metavar="JSON", help="The arguments as a JSON list, or as an object by name.")
@click.option("--name", help="The name of the run. The same name goes on where it was.")
@click.option("--again", is_flag=True, help="Begin anew, although a run of that name has finished.")
@click.option("--order", type=click.Choice([order.value for order in Order]), default="rounds", show_default=True)
@click.option("--threads", type=THREADS, help="So many threads; 0 runs one task after the other, right here.")
@click.option("--processes", type=PROCESSES, default=0, help="So many worker processes.")
@click.option("--max-running", type=COUNT, help="At most so many of its tasks at a time, in all processes together.")
@click.option("--max-tasks", type=COUNT, help="Stop when the run has more tasks than that.")
@log_options
@click.option("-s", "--store", "url", metavar="URL|FILE", help="Another store than the engine's own.")
@click.option("--json", "as_json", is_flag=True, help="Progress as one JSON object a line.")
@click.pass_context
def run(
    context: click.Context, /, address: str, task: str, args: tuple[str, ...], given: str | None, url: str | None,
    as_json: bool, threads: int | None, log: Form | None, log_level: str, **options: Any,
) -> None:  # fmt: skip
    """Run TASK with ARGS and all it grows into, to the end.

    MODULE:ENGINE is where your engine is: walk.py:engine, or package.module:engine. Arguments are read by their
    annotations; put -- before those that begin with a dash. After a kill the same command goes on where it was.
    """
    engine = engine_at(address, url or context.obj)
    inside = engine._inside
    begin_log(inside, log, log_level)
    call = _call(_task(inside, address, task), args, given)
    out = Out(as_json=as_json)
    try:
        with ExitStack() as showing:

            def show(begun: Run[Any]) -> None:
                # A debugger needs the terminal for itself when everything runs in this thread.
                showing.enter_context(progress_on(inside.store, begun.id, out, beside=True, in_place=threads != 0))

            inside.on_begun = show
            done = engine.run(call, threads=threads, **_checked(options))
        _conclude(inside, done, out)
    except (KeyboardInterrupt, Terminated):
        inside.say("interrupted; the same command goes on where it was")
        raise click.exceptions.Exit(INTERRUPTED) from None
    finally:
        engine.close()


def _call(task: AnyTask, args: tuple[str, ...], given: str | None) -> Call[Any]:
    try:
        return call_of(task, args, given)
    except BadPayload as error:
        raise Wrong(str(error)) from error


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    order: OrderName = options["order"]
    return {**options, "order": order}


def _task(inside: Inside, address: str, wanted: str) -> AnyTask:
    table: Mapping[str, AnyTask] = inside.table()
    if wanted in table:
        return table[wanted]
    names = sorted(table)
    close = difflib.get_close_matches(wanted, names, n=3) or names
    if not names:
        raise Wrong(f"no task {wanted!a} in {address}; it has no tasks at all")
    rest = f", and {len(names) - len(close)} more" if len(close) < len(names) else ""
    raise Wrong(f"no task {wanted!a} in {address}; there {'is' if len(close) == 1 else 'are'} {', '.join(close)}{rest}")


def _conclude(inside: Inside, done: Run[Any], out: Out) -> None:
    """Say what failed, if anything did, and end with the code that tells."""
    stored = done._stored
    if not out.as_json:
        if stored.reason:
            out.say("because: ", stored.reason)
        found = inside.store.reads.errors(stored.id)
        show_briefly(out, found, done.counts.failures, GROUPS)
        if found.groups:
            out.say(
                ("dim", f"ramify errors {typed(stored)} -s {shlex.quote(inside.store.describe().location)}  says more")
            )
    if stored.state is not RunState.DONE:
        raise click.exceptions.Exit(FAILED)
