"""Answers to gates: the first one stands, and who gave it is kept.

Promises: an answer that does not fit is refused, and so is one to a gate that is not open, or no longer; nothing is
changed then. When the call returns, the answer is stored and what follows can start.
"""

from __future__ import annotations

from ramify.engine.runs.keyed import task_with
from ramify.errors import BadPayload, ConfigError, GateClosed, UnknownTask
from ramify.inspect.gates import how_answered, is_open, open_gates
from ramify.inspect.show import because
from ramify.kernel.attempts.current import current_or_none
from ramify.model.codec.limits import first_fault
from ramify.model.codec.wire import tree_in, write
from ramify.model.decision import Said
from ramify.model.event import Status
from ramify.model.gate import GATE, check_answer, spec_of
from ramify.model.key import key_bytes, key_text
from ramify.model.mark import Settled, reason_value
from ramify.model.segment import SegmentState
from ramify.model.task import MAX_PAYLOAD, Row
from ramify.shapes.start import until_answered
from ramify.store.contract import Store
from ramify.store.here import person

#: How long a wait for a worker is that has just taken a gate whose time is up, in seconds.
_REST = 1.0


def answer(store: Store, run: int, gate: str, value: object, reason: str = "", by: str | None = None) -> None:
    """Answer a gate of a run; GateClosed when it takes no answer."""
    row = _gate(store, run, gate)
    task, given = row.id, written(row, value)
    before = until_answered(lambda: store.reads.history(task))
    if before.ended is not None:
        raise GateClosed(f"the gate {gate!r} of run {run} has ended: {_how(store, task)}")
    segment = store.reads.segment(task)
    if not is_open(segment) and (segment is None or segment.owner is None):
        raise GateClosed(f"the gate {gate!r} of run {run} is not open yet. {_open_ones(store, run)}")
    attempt = current_or_none()
    if attempt is not None and segment is not None and segment.owner is not None and attempt._holds_up(segment.owner):
        raise GateClosed(
            f"the gate {gate!r} of run {run} is held by the worker that runs this task, and is free when the task has"
            " ended. Answer from outside the task, or use more threads."
        )
    said = Said(reason, person() if by is None else by, life=before.life)
    settled = until_answered(lambda: store.settle(run, task, Status.DONE, given, said))
    if settled is not Settled.CERTAIN and not _stands(store, task, given, said):
        raise GateClosed(f"the gate {gate!r} of run {run} has ended: {_how(store, task, said)}")


def written(row: Row, value: object) -> bytes:
    """An answer to a gate as it is stored; BadPayload when it is not what that asks for."""
    spec = spec_of(row.body)
    gate = key_text(row.key) or spec.name
    if (fault := first_fault(value, "it")) is not None:
        raise BadPayload(f"an answer to {gate!r} cannot be stored: {fault}")
    try:
        found = write(value)
    except Exception as error:  # noqa: BLE001  whatever it is, the words are what the caller needs
        raise BadPayload(f"an answer to {gate!r} cannot be stored: {error}") from None
    if len(found) > MAX_PAYLOAD:
        raise BadPayload(
            f"an answer to {gate!r} must have at most {MAX_PAYLOAD:,} bytes (1 MiB), and has {len(found):,}."
        )
    check_answer(spec, tree_in(found))
    return found


def _gate(store: Store, run: int, gate: str) -> Row:
    reads, key = store.reads, key_bytes(gate) if isinstance(gate, str) else b""
    found = reads.find_tasks(run, GATE, key) if key else ()
    try:
        # Users may give a task of theirs the same key.
        row = reads.task(found[-1] if found else task_with(reads, run, gate))
    except UnknownTask as unknown:
        raise UnknownTask(f"{unknown} {_open_ones(store, run)}") from None
    if row is None or row.kind != GATE:
        raise ConfigError(f"{gate!r} of run {run} is not a gate and takes no answer. {_open_ones(store, run)}")
    return row


def _stands(store: Store, task: int, written: bytes, said: Said) -> bool:
    """Return whether a gate ended with this answer. If somebody holds it, because its time is up, whoever is first
    decides.
    """
    seen = 0
    while True:
        is_held = _is_held(store, task)
        if until_answered(lambda: store.reads.history(task)).ended is not None:
            break
        if not is_held:
            # CRASH: whoever held it is gone, and a mark is there -> the next worker ends it as that says.
            return True
        seen = store.wait(_REST, seen)
    events = store.reads.events(task, task)
    ends = [event.value for event in events if event.status is Status.DONE]
    return ends[-1:] == [written] and any(
        each.status is Status.DECIDED and each.value == _told(said) for each in events
    )


def _is_held(store: Store, task: int) -> bool:
    segment = store.reads.segment(task)
    if segment is None or segment.state is not SegmentState.CLAIMED:
        return False
    return any(process.id == segment.owner and process.is_alive for process in store.reads.processes())


def _how(store: Store, task: int, said: Said | None = None) -> str:
    """How a gate ended, in words, to somebody who said something else."""
    ended = store.reads.history(task).ended
    if ended is not Status.DONE:
        return "it was reopened" if ended is None else ended.name.lower()
    how = how_answered(store.reads, task)
    # An answer that came too late is an event as well.
    return "its time was up" if said is not None and how == f"answered{because(_told(said))}" else how


def _told(said: Said) -> bytes | None:
    return reason_value(said.reason, said.by)


def _open_ones(store: Store, run: int) -> str:
    names = [each.gate for each in open_gates(store.reads, run, limit=5).rows]
    return f"Open gates: {', '.join(names)}." if names else "No gate is open."
