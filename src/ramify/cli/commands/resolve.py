"""`ramify resolve`: say by hand how a task should count."""

from __future__ import annotations

from typing import assert_never

import click
import msgspec

from ramify.cli.visit import Visit, Wrong, entered, on_store_to_change, who_and_why
from ramify.errors import BadPayload
from ramify.model.codec.wire import tree_in
from ramify.model.event import Status
from ramify.model.gate import GATE, check_answer, spec_of
from ramify.model.mark import Settled


@click.command()
@click.argument("run", metavar="RUN|TASK")
@click.argument("node", metavar="[NODE|TASK]", required=False)
@click.option("--result", metavar="JSON", help="Mark the task as done, with this result.")
@click.option("--skip", is_flag=True, help="Mark the task as skipped.")
@who_and_why
@on_store_to_change
def resolve(
    visit: Visit, run: str, node: str | None, result: str | None, skip: bool, reason: str, by: str | None
) -> None:
    """Mark a task as done with a result, or as skipped. It may have failed, be waiting, or never have been tried.

    Give the task by its id, or by its run and its key, such as a node of a DAG: `resolve etl report --skip`. Tasks that
    wait for it continue. Its function is not called. If a worker runs it right now, the end that comes first counts.
    """
    from ramify.engine.runs import deciding

    if (result is None) != skip:
        raise click.UsageError("expected either --result JSON or --skip")
    task = visit.one("resolve", run, node)
    row = visit.task(task)
    status = Status.SKIPPED if skip else Status.DONE
    value = _value(result)
    if row.kind == GATE and not skip:
        try:
            check_answer(spec_of(row.body), None if value is None else tree_in(value))
        except BadPayload as wrong:
            raise Wrong(str(wrong)) from wrong
    with entered(visit.store):
        answer = deciding.resolve(visit.store, row.run, task, status, value, reason, by)
    if answer.superseded_by is not None:
        raise Wrong(f"task {task} was left alone, because task {answer.superseded_by} has its key now")
    if visit.out.as_json:
        visit.out.json({"task": task, "as": status.name.lower(), "answer": answer.settled.name.lower()})
        return
    match answer.settled:
        case Settled.CERTAIN:
            visit.out.say(f"task {task} counts as {status.name.lower()}")
        case Settled.REQUESTED:
            visit.out.say(f"task {task} will count as {status.name.lower()}, unless whoever holds it ends it first")
        case Settled.ENDED | Settled.UNKNOWN | Settled.OVERTAKEN:
            visit.out.say(("look", f"task {task} was left alone: it ended meanwhile, or its run is being cancelled"))
        case _:
            assert_never(answer.settled)


def _value(result: str | None) -> bytes | None:
    if result is None:
        return None
    try:
        value = msgspec.json.decode(result)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise click.BadParameter(
            f"expected JSON ({error}). Text needs quotes: '\"text\"'", param_hint="--result"
        ) from error
    return None if value is None else msgspec.json.encode(value)
