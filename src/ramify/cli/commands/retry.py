"""`ramify retry`: begin again with tasks that ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from ramify.cli.visit import Visit, on_store_to_change, who_and_why
from ramify.inspect.find import title
from ramify.inspect.live import workers
from ramify.inspect.status import Counts, counts_of
from ramify.inspect.words import plural

if TYPE_CHECKING:
    from ramify.engine.retrying import Retried


class Scopes(NamedTuple):
    """Which ended tasks are meant, besides those that are named."""

    failed: bool
    quarantined: bool
    cancelled: bool


@click.command()
@click.argument("run", metavar="RUN|TASK")
@click.argument("wanted", metavar="[NODE|TASK]...", nargs=-1)
@click.option("--failed", is_flag=True, help="All tasks that failed.")
@click.option("--quarantined", is_flag=True, help="All tasks that were quarantined.")
@click.option("--cancelled", is_flag=True, help="All tasks that were cancelled, by themselves or with the run.")
@who_and_why
@on_store_to_change
def retry(
    visit: Visit,
    run: str,
    wanted: tuple[str, ...],
    failed: bool,
    quarantined: bool,
    cancelled: bool,
    reason: str,
    by: str | None,
) -> None:
    """Begin a new life for tasks that ended: those named, and all that --failed, --quarantined or --cancelled say.

    A task is named behind its run, or alone by its id, as `ramify jobs` shows it. A task with a key, such as a node of
    a DAG, is named by that, which wins over a number that looks the same. For a map this means its items that were not
    done. A map whose items were all done makes them anew, and so does a map behind a task that is tried again; the old
    items are replaced and cannot be brought back. A continuation that was skipped because of the tasks, or ran without
    them, waits for them and runs again. A run that had ended is open again; the tasks run when a process works on the
    store.
    """
    from ramify.engine.keyed import tasks_to_retry

    found, alone = visit.named(run)
    scopes = Scopes(failed, quarantined, cancelled)
    if alone is None and not wanted and not any(scopes):
        total = sum(counts_of(visit.store.reads, found.id).values(), Counts())
        raise click.UsageError(
            f"say which tasks: nodes, ids, --failed ({total.failed:,} of them), --quarantined ({total.quarantined:,}) "
            f"or --cancelled ({total.cancelled:,})"
        )
    tasks = tuple(task for each in wanted for task in visit.tasks(found, each, tasks_to_retry))
    tasks = tasks if alone is None else (alone, *tasks)
    answers = _retry(visit, found.id, tasks, scopes, reason, by)
    opened, replaced = sum(each.tasks for each in answers), sum(each.replaced for each in answers)
    superseded = [pair for each in answers for pair in each.superseded]
    if visit.out.as_json:
        visit.out.json({"run": found.id, "reopened": opened, "superseded": superseded, "replaced": replaced})
        return
    visit.out.say(f"{plural(opened, 'task')} of {title(found)} {'begins' if opened == 1 else 'begin'} again")
    if replaced:
        visit.out.say(f"{plural(replaced, 'task')} made before {'is' if replaced == 1 else 'are'} replaced")
    for task, other in superseded:
        visit.out.say(("look", f"task {task} stays closed: task {other} has its key now"))
    if opened and not workers(visit.store.reads):
        visit.out.say(("dim", "nobody works on this store now; start your program to run them"))


def _retry(
    visit: Visit, run: int, tasks: tuple[int, ...], scopes: Scopes, reason: str, by: str | None
) -> Sequence[Retried]:
    from ramify.engine.reading import Reading
    from ramify.engine.retrying import TasksToRetry, retry

    choices = [TasksToRetry(tasks)] if tasks else []
    choices += [TasksToRetry((), *scopes)] if any(scopes) else []
    return [retry(visit.store, Reading(visit.store.reads, {}), run, choice, reason, by) for choice in choices]
