"""`ramify jobs`: jobs of all queues, or of one, from the newest back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import islice

import click

from ramify.cli.numbers import AGE, TASK
from ramify.cli.visit import Visit, on_store
from ramify.engine.validation import job_filter
from ramify.inspect.jobs import JobStanding, Standings
from ramify.inspect.jobs import jobs as find_jobs
from ramify.inspect.show import call_text, key_text, tree_of
from ramify.inspect.text import Piece
from ramify.inspect.words import SECOND, duration, stamp
from ramify.model.call import Extra
from ramify.model.job import JobState
from ramify.store.reads import PAGE_LIMIT

_STATES = [state.value for state in JobState if state is not JobState.NOT_FOUND]
_STYLES = {JobState.DONE: "good", JobState.FAILED: "bad", JobState.CANCELLED: "look"}


@click.command()
@click.option("--queue", help="Only jobs of this queue.")
@click.option("--kind", help="Only jobs of this kind.")
@click.option("--state", type=click.Choice(_STATES), help="Only jobs in this state.")
@click.option("--key", help="Only jobs with this key.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="Only jobs with this header.")
@click.option(
    "--older", type=AGE, metavar="AGE", help="Only jobs that ended, or were added, longer ago than this: 30d, 12h."
)
@click.option(
    "--newer", type=AGE, metavar="AGE", help="Only jobs that ended, or were added, within this time: 30d, 12h."
)
@click.option(
    "-n", "--limit", type=click.IntRange(1, PAGE_LIMIT), default=50, show_default=True, help="List at most this many."
)
@click.option("--before", type=TASK, default=0, help="Only jobs with a smaller id: the next page.")
@on_store
def jobs(
    visit: Visit,
    queue: str | None,
    kind: str | None,
    state: str | None,
    key: str | None,
    headers: Sequence[str],
    older: timedelta | None,
    newer: timedelta | None,
    limit: int,
    before: int,
) -> None:
    """List jobs, newest first, with the state of each and the time since it changed.

    `ramify events JOB` shows the history of one; `ramify why JOB` explains why it does not run. A queue is the run
    `jobs/QUEUE`, so `ramify pause jobs/QUEUE` and the other commands for runs work for queues.
    """
    reads, now = visit.store.reads, visit.store.now()
    wanted = job_filter(now, kind, state, queue, key, dict(map(_header, headers)), older, newer)
    standings = Standings(reads, now)
    shown: list[JobStanding] = []
    found = find_jobs(reads, wanted, now, before)
    for standing in islice(found, limit):
        shown.append(standing)
        if visit.out.as_json:
            visit.out.json(_json(standing, standings.when(standing)))
    if visit.out.as_json:
        return
    if not shown:
        visit.out.say("no such jobs")
        return
    rows = [_row(standing, standings.when(standing), now) for standing in shown]
    visit.out.table(["job", "state", "for", "queue", "call"], rows, right=frozenset({0, 2}))
    if next(found, None) is not None:
        last = shown[-1].row
        visit.out.say(("dim", f"… more: --before {last.id if last is not None else 0}"))


def _header(given: str) -> tuple[str, str]:
    name, sign, value = given.partition("=")
    if not sign:
        raise click.UsageError(f"--header {given!a}: expected NAME=VALUE, such as tenant=acme")
    return name, value


def _row(standing: JobStanding, at: int | None, now: int) -> list[Piece]:
    row = standing.row
    assert row is not None
    key = key_text(row.key)
    call = call_text(row.kind, row.body) + (f"  key {key}" if key is not None else "")
    style = _STYLES.get(standing.state)
    state: Piece = standing.state.value if style is None else (style, standing.state.value)
    return [str(row.id), state, "" if at is None else duration(max(0, now - at) / SECOND), row.queue, call]


def _json(standing: JobStanding, at: int | None) -> dict[str, object]:
    row = standing.row
    assert row is not None
    return {
        "job": row.id,
        "state": standing.state.value,
        "since": stamp(at),
        "enqueued": stamp(row.added),
        "queue": row.queue,
        "kind": row.kind,
        "key": key_text(row.key),
        "headers": Extra.decode(row.more).headers or {},
        "priority": row.priority,
        "lane": row.lane,
        "arguments": tree_of(row.body),
    }
