"""`ramify cancel`: cancel a run, a task, or a task and all below it."""

from __future__ import annotations

from typing import assert_never

import click

from ramify.cli.visit import Visit, Wrong, entered, on_store_to_change, who_and_why
from ramify.inspect.find import title
from ramify.model.mark import Settled


@click.command()
@click.argument("run", metavar="RUN|TASK")
@click.argument("node", metavar="[NODE|TASK]", required=False)
@click.option("--below", is_flag=True, help="Cancel all descendants of the task too, present and future.")
@who_and_why
@on_store_to_change
def cancel(visit: Visit, run: str, node: str | None, below: bool, reason: str, by: str | None) -> None:
    """Cancel a run, a task or a job, or with --below a task and all its descendants.

    Give a task or a job by its id, or by its run and its key, such as a node of a DAG. Cancelled tasks do not start.
    A task that is running sees `current().cancelled`, and ends when it reacts to that or returns.
    """
    from ramify.engine.runs import deciding

    found, task = visit.named(run, node)
    if below and task is None:
        raise click.UsageError("--below: expected a task. Give one, or leave --below out to cancel the whole run")
    with entered(visit.store):
        if task is None:
            answer = deciding.cancel(visit.store, found.id, reason, by)
        else:
            answer = deciding.cancel_task(visit.store, found.id, task, below=below, reason=reason, by=by)
    if answer is Settled.UNKNOWN or answer is Settled.OVERTAKEN:
        raise Wrong(f"task {task} is not a published task of {title(found)}")
    if visit.out.as_json:
        visit.out.json({"run": found.id, "task": task, "below": below, "answer": answer.name.lower()})
        return
    what = f"run {title(found)}" if task is None else f"task {task}" + (" and all below it" if below else "")
    match answer:
        case Settled.CERTAIN:
            visit.out.say(f"{what}: cancelled")
        case Settled.REQUESTED if task is None:
            visit.out.say(f"{what}: nothing new starts; it ends when what runs now is done")
        case Settled.REQUESTED:
            visit.out.say(f"{what}: nothing new starts; whoever holds some of it is told within seconds")
        case Settled.ENDED:
            visit.out.say(f"{what}: had ended before")
        case _:
            assert_never(answer)
