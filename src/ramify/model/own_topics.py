"""Topics of stores themselves: tasks that failed for good, and ends of runs. Pure.

A store publishes to them in the transaction that writes the end, so each is told once, after a kill too. It does that
only while somebody listens: while the topic is declared, as a value in the space `TOPICS` under its name. Nothing is
asked for as long as no task fails and no run ends.

Each publication stands for itself: who reads it needs no other read. To settle, cancel or replace a task is no failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from ramify.model.codec.wire import write
from ramify.model.decoder import decoder
from ramify.model.event import Status
from ramify.model.key import key_text
from ramify.model.outcome import Failure, storable
from ramify.model.run import RunState, StoredRun
from ramify.model.topic import MAX_PUBLICATION, Publication
from ramify.model.value import RESERVED, StoredValue

#: The space of the declarations of topics.
TOPICS = f"{RESERVED}topics"
FAILURES_TOPIC, RUN_ENDS_TOPIC = f"{RESERVED}failures", f"{RESERVED}run_ends"
#: The values that tell whether somebody listens.
FAILURES, ENDS_OF_RUNS = (TOPICS, FAILURES_TOPIC), (TOPICS, RUN_ENDS_TOPIC)
#: The ends of tasks that are failures.
FAILED = frozenset({Status.FAILED, Status.QUARANTINED})


class StoredTopic(msgspec.Struct, frozen=True):
    """A topic as a program declares it: for how many microseconds its publications are kept (None: for ever).

    With the version of the program that declared it last, and when.
    """

    keep: int | None = None
    by: str = ""
    at: int = 0


class FailedTask(msgspec.Struct, frozen=True):
    """A task that failed for good, or was quarantined. `event` is the number of its end: no other failure has both."""

    run: int
    name: str | None
    task: int
    kind: str
    key: str | None
    status: Literal["failed", "quarantined"]
    event: int
    error: Failure


class EndedRun(msgspec.Struct, frozen=True):
    """A run that ended, as what and why. Opened again, it may end again."""

    run: int
    name: str | None
    generation: int
    shape: str
    state: RunState
    reason: str | None


read_topic = decoder(StoredTopic).decode


def write_topic(topic: StoredTopic) -> bytes:
    """The value under which a topic is declared."""
    return msgspec.json.encode(topic)


def listened(declared: StoredValue | None, now: int) -> StoredTopic | None:
    """Return a topic of ours as it is declared; None when nobody listens to it."""
    return None if declared is None or not declared.is_live(now) else read_topic(declared.value)


def failed_task(
    run: StoredRun, kind: str, task: int, key: bytes | None, event: int, status: Status, error: bytes | None
) -> FailedTask:
    """A failure, from the end of its task."""
    told: Literal["failed", "quarantined"] = "failed" if status is Status.FAILED else "quarantined"
    return FailedTask(run.id, run.name, task, kind, _text_of(key), told, event, Failure.decode(error))


def of_failures(topic: StoredTopic, failures: Iterable[FailedTask]) -> Sequence[Publication]:
    """The publications of failures, under their kinds."""
    return [Publication(FAILURES_TOPIC, _fitting(each), each.kind, topic.keep, each.task) for each in failures]


def of_ends(topic: StoredTopic, ended: Iterable[StoredRun]) -> Sequence[Publication]:
    """The publications of runs that have ended, under their names."""
    ends = (EndedRun(run.id, run.name, run.generation, run.shape, run.state, run.reason) for run in ended)
    return [Publication(RUN_ENDS_TOPIC, write(each), each.name, topic.keep) for each in ends]


def _text_of(key: bytes | None) -> str | None:
    """A key as text. One that was never a text must not keep its task from ending."""
    try:
        return key_text(key)
    except UnicodeDecodeError:
        return key.decode("utf-8", "backslashreplace") if key is not None else None


def _fitting(failure: FailedTask) -> bytes:
    """The value of a failure, without what led to its error if it would be too long for a publication."""
    value = write(failure)
    if len(value) <= MAX_PUBLICATION:
        return value
    return write(replace(failure, error=Failure(storable(failure.error.type), storable(failure.error.text))))
