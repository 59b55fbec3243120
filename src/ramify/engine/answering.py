"""Answers to gates: the first one stands, and who gave it is kept.

Promises: an answer that does not fit is refused, and so is one to a gate that is not open, or no longer; nothing is
changed then. When the call returns, the answer is stored and what follows can start.
"""

from __future__ import annotations

from ramify.engine.keyed import task_with
from ramify.errors import BadPayload, ConfigError, GateClosed
from ramify.inspect.gates import is_open, open_gates, spec_of
from ramify.inspect.show import because
from ramify.model.codec.wire import tree_in, write
from ramify.model.decision import Said
from ramify.model.event import Status
from ramify.model.gate import GATE, check_answer
from ramify.model.mark import Settled
from ramify.model.task import MAX_PAYLOAD
from ramify.shapes.start import until_answered
from ramify.store.contract import Store
from ramify.store.here import person

#: How long a wait for a worker is that has just taken a gate whose time is up, in seconds.
_REST = 1.0


def answer(store: Store, run: int, gate: str, value: object, reason: str = "", by: str | None = None) -> None:
    """Answer a gate of a run; GateClosed when it takes no answer."""
    task = task_with(store.reads, run, gate)
    row = store.reads.task(task)
    if row is None or row.kind != GATE:
        raise ConfigError(f"{gate!r} of run {run} is no gate, so it takes no answer; {_open_ones(store, run)}")
    try:
        written = write(value)
    except Exception as error:  # noqa: BLE001  whatever it is, the words are what the caller needs
        raise BadPayload(f"an answer to {gate!r} cannot be stored: {error}") from None
    if len(written) > MAX_PAYLOAD:
        raise BadPayload(f"an answer to {gate!r} takes {len(written):,} bytes, and may take {MAX_PAYLOAD:,} (1 MiB)")
    check_answer(spec_of(row.body), tree_in(written))
    before = until_answered(lambda: store.reads.history(task))
    if before.ended is not None:
        raise GateClosed(f"the gate {gate!r} of run {run} has ended: {_how(store, task)}")
    if not is_open(segment := store.reads.segment(task)) and (segment is None or segment.owner is None):
        raise GateClosed(f"the gate {gate!r} of run {run} is not open yet; {_open_ones(store, run)}")
    said = Said(reason, person() if by is None else by, life=before.life)
    settled = until_answered(lambda: store.settle(run, task, Status.DONE, written, said))
    if settled is Settled.REQUESTED:
        # Its time is up, and a worker has it: whoever is first decides.
        _wait_for_end(store, task)
    if settled is not Settled.CERTAIN and not _stands(store, task, written):
        raise GateClosed(f"the gate {gate!r} of run {run} has ended: {_how(store, task)}")


def _wait_for_end(store: Store, task: int) -> None:
    seen = 0
    while until_answered(lambda: store.reads.history(task)).ended is None:
        seen = store.wait(_REST, seen)


def _stands(store: Store, task: int, written: bytes) -> bool:
    last = store.reads.events(task, task)[-1]
    return last.status is Status.DONE and last.value == written


def _how(store: Store, task: int) -> str:
    """How a gate ended, in words."""
    events = store.reads.events(task, task)
    last, decided = events[-1], [event for event in events if event.status is Status.DECIDED]
    match last.status:
        case Status.DONE if decided and events[-2:-1] == decided[-1:]:
            return f"it was answered{because(decided[-1].value)}"
        case Status.DONE:
            return "its time was up"
        case _:
            return last.status.name.lower()


def _open_ones(store: Store, run: int) -> str:
    names = [each.gate for each in open_gates(store.reads, run)]
    return f"open are {', '.join(names[:5])}" if names else "none is open"
