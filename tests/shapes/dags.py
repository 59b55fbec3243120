"""What the tests of DAGs share: small tasks, and how the nodes of a run ended."""

from __future__ import annotations

from datetime import date
from typing import Any

from ramify import Fatal, Run, Skip, Status, Stream, Tasks, current
from ramify.model.key import key_text
from ramify.model.task import is_own
from ramify.shapes.dag.start import CLOSING
from ramify.testing.paging import every

tasks = Tasks()


@tasks.task(retries=0)
def number(n: int) -> int:
    """Give a number; a negative one is a failure."""
    if n < 0:
        raise Fatal(f"{n} is negative")
    return n


@tasks.task(retries=0)
def end(how: str, before: None = None) -> str:
    """End as one is told to."""
    match how:
        case "failed":
            raise Fatal("told to")
        case "skipped":
            raise Skip("told to")
        case _:
            return how


@tasks.task(retries=0)
def add(left: int, right: int = 0) -> int:
    """The sum of two."""
    return left + right


@tasks.task(retries=0)
def numbers(many: int) -> list[int]:
    """So many of them."""
    return list(range(many))


@tasks.task(retries=0)
def texts(several: list[str]) -> list[str]:
    """Texts to be mapped over."""
    return several


@tasks.task(retries=0)
def text(one: str) -> str:
    """A text as it is."""
    return one


@tasks.task(retries=0)
def total(parts: Stream[int]) -> int:
    """The sum of a stream."""
    return sum(parts)


@tasks.task(retries=0)
def listed(parts: Stream[Any]) -> list[Any]:
    """A stream as a list."""
    return list(parts)


@tasks.task(retries=0)
def anything(value: Any = None) -> Any:
    """Give what was given."""
    return value


@tasks.task(retries=0)
def seen(values: list[Any]) -> list[Any]:
    """Give what was given, in a list."""
    return values


@tasks.task(retries=0)
def on_day(day: date, n: int = 0) -> str:
    """A day, which must be one here."""
    assert type(day) is date
    return f"{day.isoformat()}/{n}"


@tasks.task(retries=0)
def summary(title: str) -> str:
    """How the tasks of the run ended so far."""
    ends = current().run.ends
    return f"{title}: {ends.done} done, {ends.failed} failed, {ends.skipped} skipped, {ends.cancelled} cancelled"


def states(run: Run[Any]) -> dict[str, str]:
    """How each node of a run ended, by its id; what has not is "open". The closing task is left out."""
    reads = run._runtime.store.reads
    rows = every(lambda after: reads.tasks(run.id, after=after))
    found: dict[str, str] = {}
    for row in rows:
        id = key_text(row.key)
        if id is not None and id != CLOSING:
            ended = reads.history(row.id).ended
            found[id] = "open" if ended is None else ended.name.lower()
    return found


def task_of(run: Run[Any], id: str) -> int:
    """The task of a node."""
    rows = every(lambda after: run._runtime.store.reads.tasks(run.id, after=after))
    (found,) = [row.id for row in rows if row.key == id.encode()]
    return found


def made(run: Run[Any], kind: str, status: Status = Status.DONE) -> int:
    """How many tasks of a kind ended like this."""
    return run._runtime.store.reads.counts(run.id).get(kind, {}).get(status, 0)


def closings(run: Run[Any]) -> int:
    """How many tasks of ours closed the run."""
    rows = every(lambda after: run._runtime.store.reads.tasks(run.id, after=after))
    return sum(is_own(row.kind) and row.key == CLOSING.encode() for row in rows)
