"""`ramify events`: what became of a task, or of a run as it happens."""

from __future__ import annotations

from itertools import islice

import click

from ramify.cli.numbers import COUNT, SEQUENCE
from ramify.cli.visit import Visit, on_store
from ramify.inspect.find import title
from ramify.inspect.follow import Followed, Follower
from ramify.inspect.history import TaskHistory, history_of
from ramify.inspect.text import Piece
from ramify.inspect.words import SECOND, moment, stamp
from ramify.kernel.tuning import LONGEST_REST
from ramify.model.run import StoredRun


@click.command()
@click.argument("wanted", metavar="RUN|TASK")
@click.argument("node", metavar="[NODE|TASK]", required=False)
@click.option("-f", "--follow", is_flag=True, help="Follow a run: show events as they are committed.")
@click.option(
    "-n", "--limit", type=COUNT, default=100, show_default=True, help="Show at most this many events of a run."
)
@click.option("--after", type=SEQUENCE, default=0, help="Only events of a run after this sequence number.")
@click.option("-v", "--frames", "traceback", is_flag=True, help="Show the tracebacks of failures of a run.")
@on_store
def events(visit: Visit, wanted: str, node: str | None, follow: bool, limit: int, after: int, traceback: bool) -> None:
    """Show the events of a task, or the events of a run in the order they were committed.

    Give a task by its id, or by its run and its key, such as a node of a DAG: `events etl report`. Failed attempts of
    a task include the full traceback; for a run, add -v. With -f, follow a run from now on (or from --after) until it
    ends.
    """
    from ramify.engine.runs.keyed import standing_tasks

    run, task = visit.named(wanted, node, standing_tasks)
    if task is not None:
        _task(visit, history_of(visit.store.reads, task))
    elif follow:
        _follow(visit, run, after, traceback)
    else:
        _page(visit, run, after, limit, traceback)


def _task(visit: Visit, found: TaskHistory) -> None:
    if visit.out.as_json:
        for told in found.events:
            visit.out.json(
                {
                    "run": found.run,
                    "queue": found.task.queue,
                    "task": found.task.id,
                    "n": told.n,
                    "status": told.status,
                    "at": stamp(told.at),
                    "took": _seconds(told.took),
                    "text": told.text,
                    "traceback": told.traceback or None,
                }
            )
        return
    row, fold = found.task, found.fold
    visit.out.say(("name", f"task {row.id}"), "  ", found.call)
    place = [f"  run {found.run} · round {row.round} · queue {row.queue}"]
    place += [f" · lane {row.lane}"] if row.lane is not None else []
    place += [f" · key {found.key}"] if found.key is not None else []
    place += [f" · parent {row.parent}"] if row.parent is not None else []
    visit.out.say(*place)
    if found.left_out:
        visit.out.say(("dim", f"  … {found.left_out:,} older events"))
    for told in found.events:
        visit.out.say(f"  {'' if told.at is None else moment(told.at):19}  ", _coloured(told.status, told.text))
        visit.out.block(told.traceback, " " * 6)
    if fold.ended is None:
        visit.out.say(("dim", f"  not ended; `ramify why {row.id}` says what it waits for"))


def _page(visit: Visit, run: StoredRun, after: int, limit: int, traceback: bool) -> None:
    # What was committed before the run began is not looked through.
    follower, shown = Follower(visit.store.reads, run.id, max(after, run.since)), 0
    while shown < limit and (some := follower.next()) is not None:
        for followed in islice(some, limit - shown):
            _show(visit, run, followed, traceback)
            shown += 1
    if not shown and not visit.out.as_json:
        visit.out.say("no newer events")


def _follow(visit: Visit, run: StoredRun, after: int, traceback: bool) -> None:
    follower, seen = Follower(visit.store.reads, run.id, after or visit.store.reads.head()), 0
    while True:
        ended = visit.store.reads.run(run.id).state.is_end
        while (some := follower.next()) is not None:
            for followed in some:
                _show(visit, run, followed, traceback)
        if ended:
            return
        seen = visit.store.wait(LONGEST_REST, seen)


def _show(visit: Visit, run: StoredRun, followed: Followed, traceback: bool) -> None:
    if visit.out.as_json:
        visit.out.json({"run": title(run), **_json(followed), "at": stamp(followed.at)})
        return
    task = "" if followed.task is None else f"{followed.task}  {followed.call}  "
    visit.out.say(("dim", moment(followed.at)), "  ", task, _coloured(followed.status, followed.text))
    if traceback:
        visit.out.block(followed.traceback, " " * 6)


def _json(followed: Followed) -> dict[str, object]:
    return {
        "seq": followed.seq,
        "queue": followed.queue,
        "task": followed.task,
        "status": followed.status,
        "call": followed.call,
        "took": _seconds(followed.took),
        "text": followed.text,
        "traceback": followed.traceback or None,
    }


def _seconds(took: int | None) -> float | None:
    return None if took is None else took / SECOND


def _coloured(status: str, text: str) -> Piece:
    style = {"done": "good", "failed": "bad", "quarantined": "bad"}.get(status)
    return (style, text) if style else text
