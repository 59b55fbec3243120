"""`ramify runs`: all runs of the store."""

from __future__ import annotations

from itertools import islice

import click

from ramify.cli.numbers import COUNT
from ramify.cli.visit import Visit, on_store
from ramify.inspect.find import every_run, title
from ramify.inspect.reason import reason_of
from ramify.inspect.status import Counts, counts_of
from ramify.inspect.text import Piece
from ramify.inspect.words import moment, number, stamp
from ramify.model.run import RunState, StoredRun

_STYLES = {RunState.DONE: "good", RunState.FAILED: "bad", RunState.PAUSED: "look", RunState.FORGOTTEN: "dim"}


@click.command()
@click.option("--state", type=click.Choice([state.value for state in RunState]), help="Only runs in this state.")
@click.option(
    "-n", "--limit", type=COUNT, default=50, show_default=True, help="List at most this many, the newest ones."
)
@on_store
def runs(visit: Visit, state: str | None, limit: int) -> None:
    """List the runs in the store, the newest last."""
    wanted = RunState(state) if state is not None else None
    newest = every_run(visit.store.reads, wanted, newest_first=True)
    shown = list(islice(newest, limit))[::-1]
    counts = {run.id: sum(counts_of(visit.store.reads, run.id).values(), Counts()) for run in shown}
    if visit.out.as_json:
        for run in shown:
            visit.out.json(_json(run, counts[run.id], reason_of(visit.store.reads, run)))
        return
    heads = ["run", "id", "state", "round", "added", "pending", "done", "failed", "started"]
    visit.out.table(heads, [_row(run, counts[run.id]) for run in shown], right=frozenset(range(3, 8)))
    if not shown:
        visit.out.say("no runs yet" if state is None else f"no run is {state}")
    elif next(newest, None) is not None:
        visit.out.say(("dim", "… and older ones; --limit shows more"))


def _row(run: StoredRun, counts: Counts) -> list[Piece]:
    style = _STYLES.get(run.state)
    failed = number(counts.failures)
    return [
        ("name", title(run)),
        str(run.id),
        (style, run.state.value) if style else run.state.value,
        str(run.round),
        number(counts.added),
        number(counts.pending),
        number(counts.done),
        ("bad", failed) if counts.failures else failed,
        moment(run.created),
    ]


def _json(run: StoredRun, counts: Counts, reason: str | None) -> dict[str, object]:
    return {
        "run": run.id,
        "name": run.name,
        "generation": run.generation,
        "shape": run.shape,
        "definition": run.definition,
        "order": run.order.value,
        "state": run.state.value,
        "round": run.round,
        "reason": reason,
        "created": stamp(run.created),
        "ended": stamp(run.ended),
        "follows": run.follows,
        "counts": counts,
        "pending": counts.pending,
    }
