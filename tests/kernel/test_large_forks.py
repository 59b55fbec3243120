"""Forks with very many members: written before the task ends, held by nobody, and published with it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ramify.kernel.attempts import current as room
from ramify.kernel.attempts.current import current
from ramify.kernel.attempts.stream import Stream
from ramify.kernel.tuning import PIECE
from ramify.model.call import Call
from ramify.model.event import Status
from ramify.model.run import RunState
from ramify.model.segment import SegmentState
from ramify.store.open import open_store
from tests.kernel.shop import Made, Shop

MANY = 200_000
UNPUBLISHED = (SegmentState.STAGED, SegmentState.GARBAGE)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of ten."""
    monkeypatch.setattr(room, "PIECE", 10)


def leaf(n: int) -> int:
    return n


def add_up(sizes: Stream[int] = Stream()) -> list[int]:
    return [*sizes, len(sizes)]


def gather(lists: Stream[list[int]] = Stream()) -> list[list[int]]:
    return list(lists)


def unpublished(shop: Shop) -> list[tuple[SegmentState, int]]:
    rows = shop.store.reads.segments(limit=10_000).rows
    return [(row.state, row.last - row.first + 1) for row in rows if row.state in UNPUBLISHED]


def test_two_hundred_thousand_members_are_staged_in_pieces_and_not_held(filed: Shop) -> None:
    ahead: list[int] = []
    alive: list[int] = []

    def members() -> Iterator[Call[Any]]:
        for n in range(MANY):
            if n % PIECE == 0:
                ahead.append(n - sum(many for _, many in unpublished(filed)))
                # Each call refers to its group, so that this is how many there are.
                alive.append(sys.getrefcount(made.group))
            yield made.of(n)

    def root() -> None:
        current().spawn(members(), then=total.of())

    made, total = filed.task(leaf), filed.task(add_up, kind="total", stream_of=int)
    run = filed.start(filed.task(root).of())
    del filed.handlers["leaf"]
    with filed.working() as kernel:
        while not filed.statuses(filed.tasks(run, "root")[0]):
            kernel.join(0.05)
    assert ahead == [0] * -(-MANY // PIECE), "every piece was written before the next one was begun"
    assert max(alive) < PIECE + 100, "one piece at most"
    assert unpublished(filed) == []
    assert filed.store.reads.counts(run)["leaf"][0] == MANY
    (join,) = filed.store.reads.joins(run).rows
    assert (join.needs, join.id) == (MANY, filed.tasks(run, "total")[0])
    spans = [span for span in filed.store.reads.spans(run=run).rows if span.kind == "leaf"]
    assert [span.slot for span in spans] == list(range(0, MANY, PIECE))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("colour", ["plain", "async"])
@pytest.mark.parametrize("many", [9, 10, 11, 20, 75])
def test_the_continuation_of_staged_members_gets_their_results_in_order(shop: Shop, colour: str, many: int) -> None:
    def root() -> None:
        current().spawn(((made if n % 7 else other).of(n) for n in range(many)), then=total.of())

    async def root_async() -> None:
        current().spawn([made.of(n) for n in range(many - 1)], made.of(many - 1), then=total.of())

    made, other = shop.task(leaf), shop.task(leaf, kind="other")
    total = shop.task(add_up, kind="total", stream_of=int)
    run = shop.run(shop.task(root if colour == "plain" else root_async).of())
    assert shop.results(run, "total") == [[*range(many), many]]
    assert shop.state(run) is RunState.DONE


@pytest.mark.usefixtures("small")
def test_a_task_that_is_waited_for_is_continued_by_what_its_staged_members_come_to(shop: Shop) -> None:
    def inner() -> None:
        current().spawn((made.of(n) for n in range(25)), then=total.of())

    def outer() -> None:
        current().spawn(middle.of(), then=last.of())

    made, middle = shop.task(leaf), shop.task(inner)
    total = shop.task(add_up, kind="total", stream_of=int)
    last = shop.task(gather, stream_of=list[int])
    run = shop.run(shop.task(outer).of())
    assert shop.results(run, "gather") == [[[*range(25), 25]]]


@pytest.mark.usefixtures("small")
def test_a_staged_member_whose_key_is_taken_gives_the_result_of_the_one_that_has_it(shop: Shop) -> None:
    def root() -> None:
        current().spawn((made.of(n).once(str(n % 20)) for n in range(30)), then=total.of())

    made, total = shop.task(leaf), shop.task(add_up, kind="total", stream_of=int)
    run = shop.run(shop.task(root).of())
    assert shop.results(run, "total") == [[*range(20), *range(10), 30]]


@pytest.mark.usefixtures("small")
def test_children_without_a_continuation_are_staged_too(shop: Shop) -> None:
    def root() -> None:
        current().spawn(made.of(n) for n in range(35))
        current().spawn(made.of(35), made.of(36))

    made = shop.task(leaf)
    run = shop.run(shop.task(root).of())
    assert sorted(shop.results(run, "leaf")) == list(range(37))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("colour", ["plain", "async"])
def test_staged_members_of_an_attempt_that_fails_are_garbage(shop: Shop, colour: str) -> None:
    def spawn() -> None:
        many = 25 if current().attempt == 1 else 2
        current().spawn((made.of(n) for n in range(many)), then=total.of())
        if current().attempt == 1:
            raise ValueError

    async def spawn_async() -> None:
        spawn()

    made, total = shop.task(leaf), shop.task(add_up, kind="total", stream_of=int)
    run = shop.run(shop.task(spawn if colour == "plain" else spawn_async, kind="root").of())
    assert shop.results(run, "total") == [[0, 1, 2]]
    assert [many for state, many in unpublished(shop) if state is SegmentState.GARBAGE] == [10, 10, 5]
    assert shop.store.vacuum().tasks == 25
    assert unpublished(shop) == []


@pytest.mark.usefixtures("small")
def test_an_attempt_of_which_the_store_took_no_members_does_not_count_whatever_it_catches(
    quick: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = quick.store.stage
    refused: list[Any] = []

    def once(*given: Any) -> bool:
        if not refused:
            refused.append(given)
            return False
        return stage(*given)

    def root() -> str:
        try:
            current().spawn((made.of(n) for n in range(25)), then=total.of())
        except BaseException:  # noqa: BLE001  what some handlers do
            return "caught"
        return "spawned"

    monkeypatch.setattr(quick.store, "stage", once)
    made, total = quick.task(leaf), quick.task(add_up, kind="total", stream_of=int)
    run = quick.run(quick.task(root).of())
    assert (len(refused), quick.results(run, "root")) == (1, ["spawned"])
    assert quick.results(run, "total") == [[*range(25), 25]]
    assert quick.statuses(quick.tasks(run, "root")[0]) == [Status.DONE]


@pytest.mark.usefixtures("small")
def test_what_is_refused_of_very_many_members_is_refused_as_of_few(quick: Shop) -> None:
    def counted() -> None:
        current().spawn((made.of(n) for n in range(40)), then=total.of())

    def stray() -> None:
        current().spawn((made.of(n) if n < 15 else n for n in range(20)), then=total.of())  # type: ignore[misc]

    def children() -> Iterator[Call[Any]]:
        yield made.of(1)

    def slip() -> None:
        current().spawn(children())

    made, total = quick.task(leaf), quick.task(add_up, kind="total", stream_of=int)
    quick.task(children)
    made_all: list[Made] = [quick.task(counted, max_children=30), quick.task(stray), quick.task(slip)]
    run = quick.run(*(each.of() for each in made_all))
    texts = [quick.failure(quick.tasks(run, kind)[0]).text for kind in ("counted", "stray", "slip")]
    assert "more than max_children=30" in texts[0]
    assert "spawn(): expected calls, got 15 (an int)" in texts[1]
    assert "children(...) calls the function here and now. Write children.of(...)" in texts[2]
    assert quick.tasks(run, "leaf") == []


PROGRAM = """
import os, pathlib, signal
from ramify import Engine, Stream, current

engine = Engine("fork.db", durability="process")

@engine.task
def leaf(n: int) -> int:
    return n

@engine.task
def add_up(sizes: Stream[int] = Stream()) -> int:
    return sum(sizes)

def members():
    for n in range(20_000):
        if n == 17_000 and not pathlib.Path("killed").exists():
            pathlib.Path("killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield leaf.of(n)

@engine.task
def root() -> None:
    current().spawn(members(), then=add_up.of())

if __name__ == "__main__":
    run = engine.run(root.of(), name="fork")
    print(run.begun.value, run.state.value, *run.results("add_up"), run.counts.done)
"""


def test_a_process_that_is_killed_while_it_stages_members_leaves_garbage_only(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)

    def start() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "program.py"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    assert start().returncode == -signal.SIGKILL
    done = start()
    assert done.stdout == f"continued done {sum(range(20_000))} 20002\n", done.stderr
    store = open_store(tmp_path / "fork.db")
    rows = store.reads.segments(limit=10_000).rows
    assert [(row.state, row.last - row.first + 1) for row in rows] == [(SegmentState.GARBAGE, PIECE)] * 2
    assert store.vacuum().tasks == 2 * PIECE
    store.close()
