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
    from ramify.engine.runs.retrying import Retried


class Scopes(NamedTuple):
    """Which ended tasks are meant, besides those that are named."""

    failed: bool
    quarantined: bool
    cancelled: bool


@click.command()
@click.argument("run", metavar="RUN|TASK")
@click.argument("wanted", metavar="[NODE|TASK]...", nargs=-1)
@click.option("--failed", is_flag=True, help="Retry all failed tasks.")
@click.option("--quarantined", is_flag=True, help="Retry all quarantined tasks.")
@click.option("--cancelled", is_flag=True, help="Retry all tasks that were cancelled, one by one or with the run.")
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
    """Retry tasks that ended, with a new set of attempts: `retry 42`, `retry RUN NODE`, or `retry RUN --failed`.

    Give a task by its id, as `ramify jobs` shows it, or by its run and its key, such as a node of a DAG. A key wins
    over an id that looks the same. A run that had ended opens again, and the tasks run when a worker is running.

    Everything that depends on a retried task runs again, such as a continuation that was skipped. For a map, the items
    that were not done are retried. If all were done, or if the map depends on a retried task, it makes new items; the
    old ones are replaced and cannot be restored.
    """
    from ramify.engine.runs.keyed import tasks_to_retry

    found, alone = visit.named(run)
    scopes = Scopes(failed, quarantined, cancelled)
    if alone is None and not wanted and not any(scopes):
        total = sum(counts_of(visit.store.reads, found.id).values(), Counts())
        raise click.UsageError(
            f"expected nodes, ids, --failed ({total.failed:,} of them), --quarantined ({total.quarantined:,}) "
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
    from ramify.engine.runs.reading import Reading
    from ramify.engine.runs.retrying import TasksToRetry, retry

    choices = [TasksToRetry(tasks)] if tasks else []
    choices += [TasksToRetry((), *scopes)] if any(scopes) else []
    return [retry(visit.store, Reading(visit.store.reads, {}), run, choice, reason, by) for choice in choices]
