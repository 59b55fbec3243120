"""`ramify gates`: which gates wait for an answer."""

from __future__ import annotations

import click

from ramify.cli.numbers import TASK
from ramify.cli.out import tell
from ramify.cli.visit import Visit, on_store
from ramify.inspect.find import title
from ramify.inspect.gates import OpenGate, answer_line, asks_for, open_gates
from ramify.inspect.text import Piece
from ramify.inspect.words import SECOND, duration, moment, stamp
from ramify.model.run import StoredRun
from ramify.store.reads import PAGE_LIMIT


@click.command()
@click.argument("run", required=False)
@click.option(
    "-n", "--limit", type=click.IntRange(1, PAGE_LIMIT), default=50, show_default=True, help="List at most this many."
)
@click.option("--after", type=TASK, default=0, help="Only gates whose task has a larger id: the next page.")
@on_store
def gates(visit: Visit, run: str | None, limit: int, after: int) -> None:
    """List gates that wait for an answer: how long each is open, when it times out, and the answer it asks for.

    The answer is shown as JSON, with `?` after an optional field. `ramify answer` gives one. If there are more gates,
    the last line (on stderr with --json) shows how to get the next page.
    """
    reads = visit.store.reads
    now = visit.store.now()
    page = open_gates(reads, None if run is None else visit.run(run).id, after=after, limit=limit)
    runs = reads.runs_at([gate.run for gate in page.rows])
    more = f"… more: --after {page.after}"
    if visit.out.as_json:
        for gate in page.rows:
            visit.out.json(_json(gate, runs[gate.run], now))
        if page.more:
            tell(more)
        return
    if not page.rows:
        visit.out.say("no more gates wait for an answer" if after else "no gate waits for an answer")
        return
    rows = [_row(gate, runs[gate.run], now) for gate in page.rows]
    visit.out.table(["run", "gate", "open for", "until", "asks for"], rows, right=frozenset({2}))
    first = page.rows[0]
    visit.out.say(("dim", f"answer one with: {answer_line(runs[first.run], first.gate)}"))
    if page.more:
        visit.out.say(("dim", more))


def _row(gate: OpenGate, run: StoredRun, now: int) -> list[Piece]:
    until: Piece = "" if gate.until is None else moment(gate.until)
    if gate.until is not None and gate.until <= now:
        until = ("look", "its time is up")
    age = "" if gate.since is None else duration(max(0, now - gate.since) / SECOND)
    return [title(run), ("name", gate.gate), age, until, asks_for(gate.spec)]


def _json(gate: OpenGate, run: StoredRun, now: int) -> dict[str, object]:
    spec = gate.spec
    return {
        "run": gate.run,
        "name": run.name,
        "gate": gate.gate,
        "task": gate.task,
        "since": stamp(gate.since),
        "age": None if gate.since is None else max(0, now - gate.since) / SECOND,
        "until": stamp(gate.until),
        "asks_for": asks_for(spec),
        "schema": spec.schema,
        "otherwise": None if spec.otherwise is None else {"value": spec.otherwise[0]},
    }
