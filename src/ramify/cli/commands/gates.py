"""`ramify gates`: which gates wait for an answer."""

from __future__ import annotations

import click

from ramify.cli.visit import Visit, on_store
from ramify.inspect.find import title
from ramify.inspect.gates import OpenGate, answer_line, asks_for, open_gates
from ramify.inspect.text import Piece
from ramify.inspect.words import SECOND, duration, moment, stamp
from ramify.model.run import StoredRun


@click.command()
@click.argument("run", required=False)
@on_store
def gates(visit: Visit, run: str | None) -> None:
    """Gates that wait for an answer, of one run or of all: for how long, until when, and what they ask for.

    What is asked for is in the form of JSON, in which `?` marks a field that may be left out. `ramify answer` answers.
    """
    reads = visit.store.reads
    now = visit.store.now()
    runs: dict[int, StoredRun] = {}
    found = sorted(open_gates(reads, None if run is None else visit.run(run).id), key=lambda gate: gate.since or 0)
    for gate in found:
        runs.setdefault(gate.run, reads.run(gate.run))
        if visit.out.as_json:
            visit.out.json(_json(gate, runs[gate.run], now))
    if visit.out.as_json:
        return
    if not found:
        visit.out.say("no gate waits for an answer")
        return
    rows = [_row(gate, runs[gate.run], now) for gate in found]
    visit.out.table(["run", "gate", "open for", "until", "asks for"], rows, right=frozenset({2}))
    visit.out.say(("dim", f"answer one with: {answer_line(runs[found[0].run], found[0].gate)}"))


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
