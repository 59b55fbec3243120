"""`ramify forget`: remove ended runs for good."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

import click

from ramify.cli.numbers import AGE
from ramify.cli.visit import Visit, Wrong, on_store_to_change, who_and_why
from ramify.errors import RunNeeded
from ramify.inspect.find import every_run, title
from ramify.inspect.status import Counts, counts_of
from ramify.inspect.words import duration, moment, plural
from ramify.model.policy import SECOND
from ramify.model.run import RunState, StoredRun
from ramify.store.contract import SESSION_SECONDS

#: How long tasks of a run that continues stay, whatever is asked for.
SHORTEST = timedelta(seconds=SESSION_SECONDS)


class Decided(NamedTuple):
    """Why, and by whom."""

    reason: str
    by: str | None


@click.command()
@click.argument("run", required=False)
@click.option(
    "--older", type=AGE, metavar="AGE", help="Only runs or tasks that ended longer ago than this: 30d, 12h, 2w."
)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and change nothing.")
@who_and_why
@on_store_to_change
def forget(visit: Visit, run: str | None, older: timedelta | None, dry_run: bool, reason: str, by: str | None) -> None:
    """Delete a run that has ended, with its tasks, results, keys and logs. This cannot be undone.

    Without RUN, delete all runs that ended longer ago than --older. With RUN and --older, delete old tasks of a run
    that is still open: tasks that ended longer ago (at least a day) and that nothing can still ask for.

    The name, the counts and the end state of a run stay, so that the same start does not run it again by mistake.
    Workers may keep running: deletion goes in small steps, and the same command continues an interrupted one. No run
    is forgotten automatically.
    """
    from ramify.engine.runs.forgetting import forget_tasks

    decided = Decided(reason, by)
    if run is None:
        if older is None:
            raise click.UsageError("expected RUN, or --older AGE for all runs that ended longer ago")
        _forget_all(visit, list(_older_runs(visit, older)), decided, dry_run)
        return
    found = visit.run(run)
    if found.state.is_end:
        if older is not None and not _is_older(visit, found, older):
            raise Wrong(f"run {title(found)} ended {_ago(visit, found)} ago. Give a shorter --older")
        _forget_all(visit, [found], decided, dry_run, only=True)
    elif older is None:
        raise Wrong(
            f"run {title(found)} is {found.state.value}, and only a run that has ended can be forgotten. "
            "`ramify cancel` ends it; --older AGE deletes its tasks that ended longer ago"
        )
    else:
        tasks = forget_tasks(visit.store, found.id, older // timedelta(microseconds=1), dry=dry_run)
        if dry_run and visit.out.as_json:
            visit.out.json({"run": found.id, "name": found.name, "would_remove": tasks})
        elif dry_run:
            visit.out.say(f"would forget {plural(tasks, 'old task')} of run {title(found)}, which continues")
        else:
            _tell(visit, found, tasks, f"run {title(found)} continues without {plural(tasks, 'old task')}")
        if older < SHORTEST and not visit.out.as_json:
            visit.out.say(("dim", "tasks of a run that continues stay for at least a day after they ended"))


def _older_runs(visit: Visit, older: timedelta) -> Iterator[StoredRun]:
    """Yield runs that ended that long ago, and runs that are partly forgotten."""
    return (run for run in every_run(visit.store.reads) if run.state.is_end and _is_older(visit, run, older))


def _is_older(visit: Visit, run: StoredRun, older: timedelta) -> bool:
    before = visit.store.now() - older // timedelta(microseconds=1)
    return run.state is RunState.FORGOTTEN or (run.ended is not None and run.ended < before)


def _ago(visit: Visit, run: StoredRun) -> str:
    return duration((visit.store.now() - (run.ended or 0)) / SECOND)


def _forget_all(visit: Visit, runs: list[StoredRun], decided: Decided, dry_run: bool, *, only: bool = False) -> None:
    if dry_run:
        _tell_what_would_go(visit, [run for run in runs if only or run.state is not RunState.FORGOTTEN])
        return
    gone = 0
    waiting, refused = runs, list[tuple[StoredRun, str]]()
    while waiting:
        refused = []
        for run in waiting:
            try:
                gone += _forget(visit, run, decided, only)
            except RunNeeded as error:
                if only:
                    raise
                refused.append((run, str(error)))
        # One whose results another one had may go now that the other one is gone.
        waiting = [run for run, _ in refused] if len(refused) < len(waiting) else []
    _conclude(visit, gone, refused)


def _conclude(visit: Visit, gone: int, refused: list[tuple[StoredRun, str]]) -> None:
    for run, why in refused:
        if visit.out.as_json:
            visit.out.json({"run": run.id, "name": run.name, "stays": why})
        else:
            visit.out.say(("look", f"run {title(run)} stays: {why}"))
    if not visit.out.as_json:
        space = ("dim", "new work uses the space again; workers give what is left to the disk, `ramify vacuum` at once")
        visit.out.say(space if gone else "nothing was forgotten")


def _forget(visit: Visit, run: StoredRun, decided: Decided, only: bool) -> int:
    """Forget one run and say so; 0 when nothing of it was left."""
    from ramify.engine.runs.forgetting import forget as forget_run

    tasks = forget_run(visit.store, run.id, *decided)
    if tasks or run.state is not RunState.FORGOTTEN or only:
        _tell(visit, run, tasks, f"run {title(run)} is forgotten: {plural(tasks, 'task')} removed")
        return 1
    return 0


def _tell(visit: Visit, run: StoredRun, tasks: int, text: str) -> None:
    if visit.out.as_json:
        visit.out.json({"run": run.id, "name": run.name, "removed": tasks, "whole": run.state.is_end})
    else:
        visit.out.say(text)


def _tell_what_would_go(visit: Visit, runs: list[StoredRun]) -> None:
    for run in runs:
        total = sum(counts_of(visit.store.reads, run.id).values(), Counts())
        if visit.out.as_json:
            visit.out.json({"run": run.id, "name": run.name, "would_remove": total.added})
        else:
            when = "" if run.ended is None else f", ended {moment(run.ended)}"
            visit.out.say(f"would forget run {title(run)}: {run.state.value}{when}, {plural(total.added, 'task')}")
    if not visit.out.as_json and not runs:
        visit.out.say("nothing would be forgotten")
