"""Live progress of commands: in the form that fits where the output goes, JSON among them."""

from __future__ import annotations

from typing import Any

from ramify.cli.out import Out
from ramify.inspect.progress import CALM, LIVELY, Lines, Panel, Progress
from ramify.inspect.rate import ObservedPace
from ramify.inspect.status import RunStatus, waits_in_words
from ramify.inspect.words import stamp
from ramify.store.contract import Store


def as_json(status: RunStatus, pace: ObservedPace) -> dict[str, Any]:
    """One look for programs."""
    run, live, total = status.run, status.live, status.total
    return {
        "run": run.id,
        "name": run.name,
        "generation": run.generation,
        "shape": run.shape,
        "definition": run.definition,
        "began_with": run.shown,
        "max_running": run.max_running,
        "max_tasks": run.max_tasks,
        "deadline": stamp(run.deadline),
        "state": run.state.value,
        "phase": status.phase.value,
        "round": run.round if status.has_rounds else None,
        "reason": run.reason,
        "decision": run.decision,
        "at": stamp(status.at),
        "created": stamp(run.created),
        "ended": stamp(run.ended),
        "seconds": round(status.seconds, 3),
        "counts": _counts(total),
        "kinds": {kind: _counts(counts) for kind, counts in status.kinds.items()},
        "left": live.run,
        "round_waits_for": live.round,
        "complete": live.complete,
        "waits": waits_in_words(status),
        "next_due": stamp(live.next_due),
        "workers": live.workers,
        "draining": [f"{process.id:x}" for process in status.draining],
        "unknown_kinds": status.unknown,
        "held_up": status.held_up,
        "limits": status.limits,
        "added_per_second": pace.added,
        "ended_per_second": pace.ended,
        "eta_seconds": pace.eta(total.pending),
    }


class JsonLines:
    """An object for each look, for programs."""

    def __init__(self, out: Out) -> None:
        self._out = out

    def show(self, status: RunStatus, pace: ObservedPace) -> None:
        """One look as one object."""
        self._out.json(as_json(status, pace))

    def close(self) -> None:
        """Nothing is held back."""


def progress_on(store: Store, run: int, out: Out, *, beside: bool = False, in_place: bool = True) -> Progress:
    """Progress in the form that fits where the output goes.

    `beside` work that has just begun there is nothing to see at once. `in_place=False` leaves a terminal to others.
    """
    if out.as_json:
        return Progress(store, run, JsonLines(out), CALM, CALM if beside else 0.0)
    if out.is_terminal and in_place:
        return Progress(store, run, Panel(), LIVELY, LIVELY if beside else 0.0)
    return Progress(store, run, Lines(out.say), CALM, CALM if beside else 0.0)


def _counts(counts: Any) -> dict[str, int]:
    return {**{name: getattr(counts, name) for name in counts.__struct_fields__}, "pending": counts.pending}
