"""Topics under `kill -9`: several programs publish and handle, at once, and are killed at any moment.

What a task publishes is there exactly if its end is, and its numbers have no gap. Each publication became one task of
each reader, which is done once, whoever was killed when. Those of a key were begun in order. What was published outside
of tasks and answered is there.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ramify.model.event import Status
from ramify.model.job import QUEUES
from ramify.model.run import RunState
from ramify.model.task import Row
from ramify.store.reads import PAGE_LIMIT
from ramify.testing import oracle
from tests.crash.clients import LIMIT, STORE, WITNESS, Client, Clients
from tests.crash.engine.topic_program import RUN, engine, numbers, open_at, ticks

PROGRAM = "tests.crash.engine.topic_program"
#: Points that a program comes past on its way, by how often at least.
POINTS = {"after-claim": 4, "after-attempt": 4, "before-commit": 4, "after-commit": 4}
TOGETHER = 3
Record = Callable[[str, object], None]


def complaints(folder: Path, tasks: int, each: int) -> list[str]:
    """What is wrong with the topics once all is handled."""
    open_at(folder / STORE)
    try:
        return [*_complaints(folder, tasks * each), *oracle.check(engine._runtime.store)]
    finally:
        engine.close()


def _complaints(folder: Path, many: int) -> Iterator[str]:
    run, reads = engine.find(RUN), engine._runtime.store.reads
    assert run is not None
    assert run.state is RunState.DONE
    poured = _all("numbers.poured")
    if [number for number, _, _ in poured] != list(range(1, many + 1)):
        yield f"{len(poured)} numbers of {many}, from {poured[:1]} to {poured[-1:]}"
    if sorted(value for _, value, _ in poured) != list(range(many)):
        yield "what was published is not what tasks published"
    taken = sorted(number for result in run.results("take_in") for number in result)
    if taken != list(range(1, len(taken) + 1)):
        yield f"by hand was read {taken}"
    said = [line.split() for line in (folder / WITNESS).read_text().splitlines()]
    ticked = len(_all("numbers.ticked"))
    if not said.count(["got"]) <= ticked <= said.count(["ask"]):
        yield f"{ticked} ticks, {said.count(['got'])} answered of {said.count(['ask'])}"
    queue = reads.find_run(f"{QUEUES}default")
    assert queue is not None
    handled = {kind: Counter[bytes]() for kind in ("bill", "ship", "sum up")}
    for row in _rows(queue.id):
        handled[row.kind][row.body] += 1
    for kind, wanted in (("bill", many), ("ship", many), ("sum up", many + ticked)):
        twice = [body for body, count in handled[kind].items() if count > 1]
        if len(handled[kind]) != wanted or twice:
            yield f"{kind} has {len(handled[kind])} tasks of {wanted}, and twice {twice[:3]}"
        counts = reads.counts(queue.id).get(kind, {})
        if counts.get(Status.DONE, 0) != wanted or counts.get(Status.FAILED, 0):
            yield f"{kind} ended as {counts}"
    begun: dict[str, list[int]] = {}
    for line in said:
        if line[0] == "ship":
            begun.setdefault(line[1], []).append(int(line[2]))
    yield from (f"of key {key} were begun {order}" for key, order in begun.items() if order != sorted(order))


def _all(topic: str) -> list[tuple[int, int, str | None]]:
    found: list[tuple[int, int, str | None]] = []
    reads = engine._runtime.store.reads
    while page := reads.publications(topic, after=found[-1][0] if found else 0, limit=PAGE_LIMIT):
        found += [(each.number, int(each.value), each.key) for each in page]
    return found


def _rows(run: int) -> Iterator[Row]:
    after, more = 0, True
    while more:
        page = engine._runtime.store.reads.tasks(run, after=after, limit=PAGE_LIMIT)
        yield from page.rows
        after, more = page.after, page.more


def chased(
    folder: Path, clients: Clients, chance: random.Random, tasks: int, each: int, late: float, most: int = 10_000
) -> int:
    """Let several programs work together, killing one after the other, until one is through; how many were killed."""
    folder.mkdir(exist_ok=True)
    declared(folder)

    def begin(work: str = "pour") -> Client:
        client = clients.next()
        client.begin(work, folder, 0, f"tasks={tasks}", f"each={each}", f"threads={chance.choice((1, 4))}")
        return client

    working, kills = [begin("tick"), *(begin() for _ in range(TOGETHER - 1))], 0
    while True:
        at = chance.randrange(TOGETHER)
        if working[at].ends_within(chance.uniform(0.05, late * (1 + kills / 10)) if kills < most else LIMIT * 10):
            break
        working[at].kill()
        working[at] = begin()
        kills += 1
    for client in working:
        assert client is working[at] or client.ends_within(LIMIT)
    assert complaints(folder, tasks, each) == []
    return kills


def declared(folder: Path) -> None:
    """Let the readers begin before anything is published."""
    open_at(folder / STORE)
    engine._runtime.topics.declare()
    engine.close()
    (folder / WITNESS).touch()


def test_without_kills_everything_is_handled(tmp_path: Path, clients: Clients) -> None:
    assert chased(tmp_path / "store", clients, random.Random(1), 10, 10, 1.0, most=0) == 0
    assert (numbers.name, ticks.name) == ("numbers.poured", "numbers.ticked")


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_loses_and_doubles_nothing(point: str, tmp_path: Path, clients: Clients) -> None:
    declared(tmp_path)
    dying = clients.next()
    dying.begin("pour", tmp_path, 0, "threads=1", f"point={point}", f"at={POINTS[point]}")
    assert dying.code_within(LIMIT) == -9, f"{point} was not reached"
    last = clients.next()
    last.begin("tick", tmp_path, 0, "threads=1")
    assert last.ends_within(LIMIT)
    assert complaints(tmp_path, 20, 10) == []


def test_programs_that_are_killed_at_any_moment_lose_and_double_nothing(
    tmp_path: Path, clients: Clients, seed: random.Random, record_property: Record
) -> None:
    record_property("kills", chased(tmp_path / "store", clients, seed, 30, 10, 0.4))


@pytest.mark.full
@pytest.mark.alone
@pytest.mark.timeout(1_800)
def test_hundreds_of_kills_lose_and_double_nothing(
    tmp_path: Path, clients: Clients, seed: random.Random, record_property: Record
) -> None:
    record_property("kills", sum(chased(tmp_path / f"{at}", clients, seed, 60, 20, 0.3) for at in range(8)))
