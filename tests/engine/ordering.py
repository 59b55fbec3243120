"""Pipelines with gates, for tests of answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from ramify import Engine, Stream, Tasks, current, steps

tasks = Tasks()
DAYS = timedelta(days=3)


@dataclass(frozen=True)
class Decision:
    """What approval asks for."""

    approved: bool
    note: str = ""


@tasks.task
def receive(order: str) -> str:
    return order


@tasks.task
def noted(order: str) -> str:
    current().spawn(receive.of(order).once("approval"))
    return order


@tasks.task
def decide(order: str, decision: Decision) -> str:
    return f"{order}: {'yes' if decision.approved else 'no'}{decision.note}"


@tasks.task
def receive_priced(order: str, price: float) -> str:
    return f"{order} for {price}"


#: What `meddle` does, in a test.
meddling: list[Callable[[], object]] = []


@tasks.task(retries=0)
def meddle() -> None:
    meddling[-1]()


@tasks.task
def lines(order: str) -> list[int]:
    return [0, 1, 2]


@tasks.task
def weigh(line: int) -> int:
    return line


@tasks.task
def load(line: int, dock: str) -> str:
    return f"{line} at {dock}"


@tasks.task
def ship(loaded: Stream[str]) -> list[str]:
    return list(loaded)


approval = steps(receive).gate("approval", Decision).chain(decide)
in_time = steps(receive).gate("approval", Decision, timeout=DAYS).chain(decide)
by_default = steps(receive).gate("approval", Decision, timeout=DAYS, otherwise=Decision(False)).chain(decide)
soon = (
    steps(receive)
    .gate("approval", Decision, timeout=timedelta(microseconds=1), otherwise=Decision(False))
    .chain(decide)
)
per_line = steps(lines).expand(steps(weigh).gate("dock", str).chain(load)).collapse(ship)


def engine_on(place: str) -> Engine:
    """An engine with these tasks, on a store at a place."""
    return Engine(place, include=[tasks])
