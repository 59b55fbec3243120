"""`ramify tasks`: the tasks of a run, page by page."""

from __future__ import annotations

from collections.abc import Iterator

import click

from ramify.cli.numbers import TASK
from ramify.cli.visit import Visit, on_store
from ramify.inspect.live import unfinished
from ramify.inspect.show import call_text, key_text, tree_of
from ramify.inspect.text import Piece
from ramify.model.event import ENDS
from ramify.model.task import Row
from ramify.store.reads import PAGE_LIMIT

#: Besides the ends: tasks that have not ended.
PENDING = "pending"
_ENDS = {status.name.lower(): status for status in ENDS}


@click.command()
@click.argument("run", required=False)
@click.option("--kind", help="Only tasks of this kind.")
@click.option("--status", "wanted", type=click.Choice([PENDING, *_ENDS]), help="Only tasks with this status.")
@click.option(
    "-n", "--limit", type=click.IntRange(1, PAGE_LIMIT), default=50, show_default=True, help="List at most this many."
)
@click.option("--after", type=TASK, default=0, help="Only tasks with a larger id: the next page.")
@on_store
def tasks(visit: Visit, run: str | None, kind: str | None, wanted: str | None, limit: int, after: int) -> None:
    """List the tasks of a run by id.

    RUN defaults to the only open run, or to the newest one if none is open.
    """
    found = visit.run(run)
    shown: list[tuple[Row, str]] = []
    for row, state in _tasks(visit, found.id, kind, wanted, after):
        if len(shown) == limit:
            break
        shown.append((row, state))
        if visit.out.as_json:
            visit.out.json(_json(row, state))
    else:
        limit = len(shown) + 1
    if visit.out.as_json:
        return
    visit.out.table(
        ["task", "state", "round", "call"], [_row(row, state) for row, state in shown], right=frozenset({0, 2})
    )
    if not shown:
        visit.out.say("no such tasks")
    elif len(shown) == limit:
        visit.out.say(("dim", f"… more: --after {shown[-1][0].id}"))


def _tasks(visit: Visit, run: int, kind: str | None, wanted: str | None, after: int) -> Iterator[tuple[Row, str]]:
    """Tasks with what each is, in order, read in pages."""
    reads = visit.store.reads
    if wanted in _ENDS:
        more = True
        while more:
            ended = reads.results(run, kind=kind, status=_ENDS[wanted], after=after)
            for result in ended.rows:
                row = reads.task(result.task)
                if row is not None:
                    yield row, wanted
            after, more = ended.after, ended.more
        return
    if wanted == PENDING:
        for task in unfinished(reads, run, kind, after):
            if (row := reads.task(task)) is not None:
                yield row, PENDING
        return
    more = True
    while more:
        page = reads.tasks(run, kind=kind, after=after, limit=1000)
        for row in page.rows:
            end = reads.history(row.id).ended
            yield row, PENDING if end is None else end.name.lower()
        after, more = page.after, page.more


def _row(row: Row, state: str) -> list[Piece]:
    style = {"done": "good", "failed": "bad", "quarantined": "bad", "cancelled": "look"}.get(state)
    key = key_text(row.key)
    call = call_text(row.kind, row.body) + (f"  key {key}" if key is not None else "")
    return [str(row.id), (style, state) if style else state, str(row.round), call]


def _json(row: Row, state: str) -> dict[str, object]:
    return {
        "task": row.id,
        "run": row.run,
        "round": row.round,
        "kind": row.kind,
        "queue": row.queue,
        "lane": row.lane,
        "priority": row.priority,
        "parent": row.parent,
        "state": state,
        "arguments": tree_of(row.body),
        "key": key_text(row.key),
    }
