"""`ramify logs`: what tasks of a run logged."""

from __future__ import annotations

import logging
import time

import click

from ramify.cli.numbers import SEQUENCE
from ramify.cli.visit import Visit, on_store
from ramify.inspect.graph import Role, role_of
from ramify.inspect.text import Piece
from ramify.inspect.words import moment, stamp
from ramify.kernel.tuning import LONGEST_REST, NOTES_EVERY
from ramify.model.log import StoredLine
from ramify.model.run import StoredRun

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
#: How long after the end of a task its last lines may be on their way, in seconds.
_LATE = 2 * NOTES_EVERY


@click.command()
@click.argument("run", metavar="[RUN|TASK]", required=False)
@click.option("-f", "--follow", is_flag=True, help="Show new lines as they are written, until the run ends.")
@click.option("--task", "node", metavar="NODE|TASK", help="Only lines of this task.")
@click.option(
    "--level", type=click.Choice(list(_LEVELS)), default="debug", show_default=True, help="The lowest level to show."
)
@click.option("--after", type=SEQUENCE, default=0, help="Only lines after this sequence number.")
@on_store
def logs(visit: Visit, run: str | None, follow: bool, node: str | None, level: str, after: int) -> None:
    """Show the log lines of a run, oldest first; or of one task: `logs 42`, or `logs RUN --task NODE`.

    RUN defaults to the only open run, or to the newest one if none is open.
    """
    found, task = visit.named(run, node)
    shown, seen, until = False, 0, None
    while True:
        # Asked before the lines are read: what was logged by the end is all there is.
        if until is None and (not follow or _has_ended(visit, found, task)):
            until = time.monotonic() + (_LATE if follow and task is not None else 0)
        after, some = _pages(visit, found, task, _LEVELS[level], after)
        shown = shown or some
        if until is not None and time.monotonic() >= until:
            break
        seen = visit.store.wait(LONGEST_REST if until is None else _LATE, seen)
    if not shown and not visit.out.as_json:
        is_map = node is not None and task is not None and role_of(visit.task(task).kind) is Role.MAP
        visit.out.say(
            "nothing was logged" + (f"; {node} is a map, and its items log: --task '{node}[0]'" if is_map else "")
        )


def _has_ended(visit: Visit, run: StoredRun, task: int | None) -> bool:
    reads = visit.store.reads
    return reads.run(run.id).state.is_end or (task is not None and reads.history(task).ended is not None)


def _pages(visit: Visit, run: StoredRun, task: int | None, level: int, after: int) -> tuple[int, bool]:
    """Show what is there after a cursor; the cursor to go on with, and whether anything was."""
    more, shown = True, False
    while more:
        page = visit.store.reads.logs(run.id, task=task, level=level, after=after)
        for stored in page.rows:
            _show(visit, stored)
            shown = True
        after, more = page.after, page.more
    return after, shown


def _show(visit: Visit, stored: StoredLine) -> None:
    line = stored.line
    name = logging.getLevelName(line.level).lower()
    if visit.out.as_json:
        visit.out.json(
            {
                "seq": stored.seq,
                "at": stamp(line.at),
                "run": line.run,
                "task": line.task,
                "attempt": line.attempt,
                "level": name,
                "logger": line.logger,
                "text": line.text,
            }
        )
        return
    style = "bad" if line.level >= logging.ERROR else "look" if line.level >= logging.WARNING else "dim"
    task: Piece = (
        "" if line.task is None else ("dim", f"  {line.task}" + (f".{line.attempt}" if line.attempt > 1 else ""))
    )
    visit.out.say(("dim", moment(line.at)), "  ", (style, f"{name:7}"), task, "  ", line.text)
