"""Reading results, failures and members: page by page, decoded, and never all at once."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ramify import Engine, Stream, TaskError, Tasks
from ramify.engine.library import StoreLibrary
from ramify.engine.runs import reading
from ramify.engine.runs.run import Run
from ramify.model.event import Status
from ramify.model.outcome import Failure
from ramify.testing import using
from tests.engine import sample_jobs as known
from tests.engine.conftest import Make
from tests.engine.sample_jobs import (
    collect,
    fork,
    fork_always,
    fork_told,
    fragile,
    jobs,
    several,
    tell,
    tree,
    wait_and_tell,
)


@pytest.fixture
def engine(make: Make) -> Engine:
    known.broken.clear()
    return make(jobs)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of two, commits one by one."""
    monkeypatch.setattr(reading, "PAGE", 2)
    monkeypatch.setattr(reading, "COMMITS", 1)
    monkeypatch.setattr(reading, "SPANS", 1)


class Counted:
    """Reads that count how often each was asked."""

    def __init__(self, reads: Any) -> None:
        self._reads = reads
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return getattr(self._reads, name)


@pytest.mark.usefixtures("small")
def test_results_and_errors_come_page_by_page(engine: Engine) -> None:
    known.broken |= {"b", "d", "e"}
    run = engine.run(several.of(*"abcdefg"))
    assert sorted(run.results(partial=True)) == ["", "a", "c", "f", "g"]
    assert [error.arguments[0] for error in run.errors()] == ["b", "d", "e"]
    counted: Any = Counted(engine._runtime.store.reads)
    pages = reading.Reading(counted, engine._runtime.handlers()).results(run.id, "fragile")
    assert next(pages) == ["a", "c"]
    assert counted.asked.count("results") == 1


@pytest.mark.usefixtures("small")
def test_a_continuation_reads_its_members_page_by_page(engine: Engine) -> None:
    known.broken |= {"b", "g"}
    run = engine.run(fork_always.of(*"gfedcba"))
    assert list(run.results(collect, partial=True)) == ["some: f e d c a (5, 2 broken)"]


@pytest.mark.usefixtures("small")
def test_a_continuation_learns_which_members_did_not_end_well_and_why(engine: Engine) -> None:
    known.broken |= {"b", "d"}
    run = engine.run(fork_told.of(*"abcd"))
    assert list(run.results(tell, partial=True)) == [
        [
            "fragile b ('b',) FAILED ValueError: b is broken",
            "fragile d ('d',) FAILED ValueError: d is broken",
            "collect None ('all',) SKIPPED Skipped: 2 of the 4 tasks it waits for did not end well",
        ]
    ]


def test_a_continuation_learns_that_a_member_was_cancelled(engine: Engine) -> None:
    with using(engine) as bench:
        run = engine.start(wait_and_tell.of("a", "b"))
        bench.drain()
        bench.advance(1)
        second = bench.enqueued(fragile.of("b"))[0]
        run.cancel("not wanted", task=second.task)
        bench.drain()
        assert list(run.results(tell, partial=True)) == [["fragile None ('b',) CANCELLED Cancelled: not wanted"]]


@pytest.mark.usefixtures("small")
def test_where_nothing_broke_no_member_is_read_for_its_failures(engine: Engine) -> None:
    run = engine.run(fork.of(*"abcde"))
    row = next(row for row in engine._runtime.store.reads.tasks(run.id).rows if row.kind == "collect")
    counted: Any = Counted(engine._runtime.store.reads)
    stream: Stream[str] = Stream(reading.Members(reading.Reading(counted, {}), row.id, str))
    assert list(stream.failures) == []
    assert "members" not in counted.asked


@pytest.mark.usefixtures("small")
def test_a_stream_can_be_gone_through_twice_and_reads_when_asked(engine: Engine) -> None:
    run = engine.run(fork.of(*"abcde"))
    row = next(row for row in engine._runtime.store.reads.tasks(run.id).rows if row.kind == "collect")
    counted: Any = Counted(engine._runtime.store.reads)
    stream: Stream[str] = Stream(reading.Members(reading.Reading(counted, {}), row.id, str))
    assert counted.asked == []
    assert next(iter(stream)) == "a"
    assert counted.asked.count("members") == 1
    assert list(stream) == list(stream) == list("abcde")
    assert (len(stream), stream.broken, bool(stream)) == (5, 0, True)
    assert repr(stream) == "<Stream of 5 results, 0 broken>"
    supplied = StoreLibrary(engine._runtime.store, engine._runtime.handlers()).members(row.id, str)
    assert list(supplied) == list("abcde")


@pytest.mark.usefixtures("small")
def test_a_stream_of_some_slots_reads_their_pages_and_no_other(engine: Engine) -> None:
    known.broken |= {"b", "g"}
    run = engine.run(fork_always.of(*"abcdefg"))
    row = next(row for row in engine._runtime.store.reads.tasks(run.id).rows if row.kind == "collect")
    counted: Any = Counted(engine._runtime.store.reads)

    def stream(first: int, size: int | None) -> Stream[str]:
        return Stream(reading.Members(reading.Reading(counted, {}), row.id, str, first, size))

    assert [each for each in stream(0, 3)] == ["a", "c"]  # noqa: C416  list() asks for the length first
    assert counted.asked.count("members") == 2
    assert [(list(each), len(each), each.broken) for each in (stream(1, 1), stream(2, 4), stream(4, None))] == [
        ([], 0, 1),
        (["c", "d", "e", "f"], 4, 0),
        (["e", "f"], 2, 1),
    ]
    assert [each.arguments for each in stream(1, 3).failures] == [("b",)]
    results = StoreLibrary(engine._runtime.store, engine._runtime.handlers()).results(row.id, [6, 0, 1, 3])
    assert results == {0: b'"a"', 1: None, 3: b'"d"', 6: None}


def test_a_stream_without_a_source_is_empty() -> None:
    stream: Stream[int] = Stream()
    assert (list(stream), len(stream), stream.broken, bool(stream)) == ([], 0, 0, False)
    assert list(stream.failures) == []


def test_a_stream_asks_for_its_sizes_once() -> None:
    class Source:
        asked = 0

        def pages(self) -> Iterator[Sequence[int]]:
            yield [1, 2]
            yield [3]

        def sizes(self) -> tuple[int, int]:
            self.asked += 1
            return 3, 1

        def failures(self) -> Iterator[TaskError]:
            yield TaskError(7, "walk", None, Status.FAILED, (), Failure("ValueError"))

    source = Source()
    stream = Stream(source)
    assert (len(stream), stream.broken, sum(stream)) == (3, 1, 6)
    assert [failure.task for failure in stream.failures] == [7]
    assert source.asked == 1


@pytest.mark.usefixtures("small")
def test_the_tail_tells_runs_and_kinds_apart_whatever_lies_between(engine: Engine) -> None:
    runs = [engine.start(tree.of(name, 2)) for name in ("a", "bb", "ccc")]
    mixed = engine.start(several.of("x", "y"))
    streams = [run.results() for run in runs]
    words = mixed.results("fragile")
    with engine.working(threads=1):
        found = [sorted(stream) for stream in streams]
        assert sorted(words) == ["x", "y"]
    assert found == [sorted([n] + [n + 1] * 3 + [n + 2] * 9) for n in (1, 2, 3)]


def test_what_is_committed_between_two_looks_at_an_open_run_is_not_missed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = engine.start(tree.of("a", 1), name="t")
    look = reading.Reading.tail

    def look_and_be_late(self: reading.Reading, *given: Any) -> Any:
        seen = look(self, *given)
        if not run.ended:
            engine.run(tree.of("a", 1), name="t", threads=0)
        return seen

    monkeypatch.setattr(reading.Reading, "tail", look_and_be_late)
    assert sorted(run.results()) == [1, 2, 2, 2]


def test_an_engine_that_does_not_know_a_kind_reads_it_as_plain_json(tmp_path: Path) -> None:
    known.broken.clear()
    known.broken.add("x")
    knowing, stranger = Engine(tmp_path / "t.db", include=[jobs]), Engine(tmp_path / "t.db", include=[Tasks()])
    try:
        run = knowing.run(several.of("x", "y"))
        seen: Run[object] = Run(stranger._runtime, run.id)
        assert sorted(map(str, seen.results(partial=True))) == ["", "y"]
        assert [(error.kind, error.arguments) for error in seen.errors()] == [("fragile", ("x",))]
    finally:
        knowing.close()
        stranger.close()


def test_results_under_an_older_name_are_found_by_the_new_one(tmp_path: Path) -> None:
    old, new = Tasks(), Tasks()
    before = old.task(name="weigh")(weight)
    after = new.task(aliases=["weigh"])(weight)
    first = Engine(tmp_path / "t.db", include=[old])
    first.run(before.of(3), name="w")
    first.close()
    second = Engine(tmp_path / "t.db", include=[new])
    try:
        run = second.run(after.of(3), name="w")
        assert list(run.results(after)) == [3]
    finally:
        second.close()


def weight(n: int) -> int:
    return n


def test_errors_are_told_also_when_a_call_no_longer_decodes(tmp_path: Path) -> None:
    old, new = Tasks(), Tasks()
    before = old.task(name="weigh")(weight)
    first = Engine(tmp_path / "t.db", include=[old])
    run = first.start([before.of(3), before.of(n=4)], order="any")
    first.close()
    new.task(name="weigh", retries=0)(weight_on)
    second = Engine(tmp_path / "t.db", include=[new])
    try:
        seen: Run[object] = Run(second._runtime, run.id)
        with second.working(threads=1):
            assert seen.wait(20)
        assert sorted((error.arguments, error.failure.type) for error in seen.errors()) == [
            ((3,), "ramify.errors.BadPayload"),
            ((4,), "ramify.errors.BadPayload"),
        ]
    finally:
        second.close()


def weight_on(n: int, scale: str) -> str:
    return f"{n} on {scale}"
