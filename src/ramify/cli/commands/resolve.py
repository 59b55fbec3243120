"""`ramify resolve`: say by hand how an ended task should count."""

from __future__ import annotations

import click
import msgspec

from ramify.cli.numbers import TASK
from ramify.cli.visit import Session, Visit, Wrong, entered, on_store_to_change
from ramify.inspect.find import typed
from ramify.inspect.live import workers
from ramify.model.claim import Claim, Want
from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.mark import Mark, Scope
from ramify.model.run import Run
from ramify.model.task import Row

#: How many tasks are looked through for the one to settle, when nobody else works.
REACH = 1_000


@click.command()
@click.argument("task", type=TASK)
@click.option("--result", metavar="JSON", help="It counts as done, with this result.")
@click.option("--skip", is_flag=True, help="It counts as skipped.")
@click.option("--reason", default="", help="Why; kept in its event.")
@on_store_to_change
def resolve(visit: Visit, task: int, result: str | None, skip: bool, reason: str) -> None:
    """Settle a task that ended (failed, say) by hand: as done with a result, or as skipped.

    What waits for it goes on. The next worker settles it without calling its handler; if nobody works on the store,
    it is settled here and now.
    """
    if (result is None) != skip:
        raise click.UsageError("say either --result JSON or --skip")
    row = visit.task(task)
    run = visit.store.reads.run(row.run)
    if visit.store.reads.history(task).ended is None:
        raise Wrong(f"task {task} has not ended; `ramify cancel {typed(run)} {task}` ends it first")
    mark = Mark(run.id, Scope.TASK, task, Status.SKIPPED if skip else Status.DONE, reason, _value(result))
    alone = not workers(visit.store.reads)
    with entered(visit.store) as session:
        answer = visit.store.reopen(session.stamp(), run.id, [task], settle=mark, reason=reason)
        if answer.superseded:
            raise Wrong(f"task {task} stays as it is: task {answer.superseded[0][1]} has its key now")
        settled = bool(answer.tasks) and alone and _settle(visit, session, run, row)
    _say(visit, task, mark, bool(answer.tasks), settled)


def _value(result: str | None) -> bytes | None:
    if result is None:
        return None
    try:
        value = msgspec.json.decode(result)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise click.BadParameter(
            f"it is not JSON ({error}); text needs quotes: '\"text\"'", param_hint="--result"
        ) from error
    return None if value is None else msgspec.json.encode(value)


def _settle(visit: Visit, session: Session, run: Run, row: Row) -> bool:
    """Do what the next worker would: claim it, end it as its mark says, and put back whatever else came along."""
    settled = False
    want = Want(frozenset({row.kind}), REACH, frozenset({row.queue}), frozenset({run.id}))
    for claim in visit.store.claim(session.stamp(), want).claims:
        marked = [task for task in claim.tasks if task in claim.marks]
        if marked:
            visit.store.commit(session.stamp(), [_part(claim, marked)])
            settled = settled or row.id in marked
        if len(marked) < len(claim.tasks):
            visit.store.release(session.stamp(), claim.token)
    while visit.store.advance(run.id, visit.store.reads.run(run.id).round).moved:
        pass
    return settled


def _part(claim: Claim, tasks: list[int]) -> Part:
    marks = [claim.marks[task] for task in tasks]
    return Part(claim.token, tasks, [mark.status for mark in marks], [mark.value for mark in marks])


def _say(visit: Visit, task: int, mark: Mark, accepted: bool, settled: bool) -> None:
    if visit.out.as_json:
        visit.out.json({"task": task, "as": mark.status.name.lower(), "accepted": accepted, "settled": settled})
    elif not accepted:
        visit.out.say(("look", f"task {task} was left alone: its run is being cancelled, or it was opened meanwhile"))
    elif settled:
        visit.out.say(f"task {task} counts as {mark.status.name.lower()}")
    else:
        visit.out.say(f"task {task} will count as {mark.status.name.lower()} as soon as a worker comes to it")
