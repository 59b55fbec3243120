"""`ramify logs`: what tasks of a run logged."""

from __future__ import annotations

import logging

import click

from ramify.cli.numbers import SEQUENCE, TASK
from ramify.cli.visit import Visit, on_store
from ramify.inspect.text import Piece
from ramify.inspect.words import moment, stamp
from ramify.kernel.tuning import LONGEST_REST
from ramify.model.log import StoredLine
from ramify.model.run import StoredRun

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


@click.command()
@click.argument("run", required=False)
@click.option("-f", "--follow", is_flag=True, help="Stay, and show lines as they are written, until the run has ended.")
@click.option("--task", type=TASK, help="Only what this task logged.")
@click.option(
    "--level", type=click.Choice(list(_LEVELS)), default="debug", show_default=True, help="At least so grave."
)
@click.option("--after", type=SEQUENCE, default=0, help="Only lines after this one.")
@on_store
def logs(visit: Visit, run: str | None, follow: bool, task: int | None, level: str, after: int) -> None:
    """What tasks of a run logged, oldest first.

    Without RUN: the run that is open, or the newest one if none is.
    """
    found = visit.run(run)
    shown, seen = False, 0
    while True:
        # Asked before the lines are read: what an ended run logged is all there is.
        ended = not follow or visit.store.reads.run(found.id).state.is_end
        after, some = _pages(visit, found, task, _LEVELS[level], after)
        shown = shown or some
        if ended:
            break
        seen = visit.store.wait(LONGEST_REST, seen)
    if not shown and not visit.out.as_json:
        visit.out.say("nothing was logged")


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
