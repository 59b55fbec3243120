"""Results as rows: an export that is killed anywhere goes on after its last row, without a gap and without a repeat."""

from itertools import islice

import pytest

from ramify import ConfigError, Engine, ResultRow, RunFailed, Tasks
from ramify.engine.runs import reading
from ramify.store.reads import Tail
from tests.engine import sample_jobs as known
from tests.engine.conftest import Make
from tests.engine.sample_jobs import endless, fragile, gated, jobs, keyed_tree, several, stop_at, tree


@pytest.fixture
def engine(make: Make) -> Engine:
    known.broken.clear()
    known.gate.clear()
    return make(jobs)


@pytest.fixture(params=[2, reading.PAGE])
def _pages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PAGE", request.param)


def test_a_row_says_which_task_returned_what(engine: Engine) -> None:
    run = engine.run(keyed_tree.of("a", depth=1))
    root, first, second = sorted(run.results(rows=True), key=lambda row: row.task)
    assert (root.kind, root.key, root.arguments, root.result) == ("keyed_tree", "a", ("a", 1), "A")
    assert [(row.key, row.arguments, row.result) for row in (first, second)] == [
        ("a0", ("a0", 0), "A0"),
        ("a1", ("a1", 0), "A1"),
    ]
    assert root.task < first.task < second.task


@pytest.mark.usefixtures("_pages")
def test_after_any_row_the_rest_follows_also_in_the_middle_of_a_commit(engine: Engine) -> None:
    engine.run(tree.of("other", 1))
    run = engine.run(tree.of("a", 3), name="t")
    engine.run(tree.of("another", 1))
    rows = list(run.results(rows=True))
    assert len({row.task for row in rows}) == len(rows) == 1 + 3 + 9 + 27
    assert sorted(row.result for row in rows) == sorted(run.results())
    commits = {row.cursor.partition("-")[0] for row in rows}
    assert len(commits) < len(rows)
    for place, row in enumerate(rows):
        assert list(run.results(rows=True, after=row.cursor)) == rows[place + 1 :]


def test_rows_of_an_ended_run_come_to_an_end_while_others_go_on_writing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = engine.run(tree.of("a", 1))
    reads, looks = engine._runtime.store.reads, iter(range(20))
    tail = reads.tail

    def beside_others(after: int, *, limit: int = 100) -> Tail:
        engine.run(fragile.of(f"other {next(looks)}"), threads=0)
        return tail(after, limit=limit)

    monkeypatch.setattr(reads, "tail", beside_others)
    assert len(list(run.results(rows=True))) == 4


def test_rows_of_one_kind_have_the_same_cursors(engine: Engine) -> None:
    run = engine.run([several.of("x", "y"), keyed_tree.of("z", 0)])
    rows = list(run.results(rows=True))
    picked = list(run.results(fragile, rows=True))
    assert picked == [row for row in rows if row.kind == "fragile"]
    assert list(run.results("fragile", rows=True, after=picked[0].cursor)) == picked[1:]


@pytest.mark.usefixtures("_pages")
def test_an_export_of_an_open_run_goes_on_where_it_was_left(engine: Engine) -> None:
    run = engine.start([*(fragile.of(name) for name in "abcd"), *(gated.of(name) for name in "ef")])
    with engine.working(threads=3):
        seen = list(islice(run.results(rows=True), 3))
        known.gate.set()
        seen += islice(run.results(rows=True, after=seen[-1].cursor), 2)
        assert run.wait(20)
    seen += run.results(rows=True, after=seen[-1].cursor)
    assert sorted(row.result for row in seen) == list("abcdef")
    assert len({row.cursor for row in seen}) == 6
    assert list(run.results(rows=True, after=seen[-1].cursor)) == []


def test_what_a_retry_brings_comes_after_every_cursor_there_was(engine: Engine) -> None:
    known.broken |= {"b"}
    run = engine.run(several.of(*"abc"), name="t")
    with pytest.raises(RunFailed):
        next(iter(run.results(rows=True)))
    before = list(run.results(rows=True, partial=True))
    known.broken.clear()
    run.retry()
    engine.run(several.of(*"abc"), name="t")
    (row,) = run.results(rows=True, after=before[-1].cursor)
    assert (row.arguments, row.result) == (("b",), "b")


def test_a_cursor_is_asked_for_with_rows_and_as_it_was_read(engine: Engine) -> None:
    run = engine.run(stop_at.of(3))
    with pytest.raises(ConfigError, match="rows=True"):
        run.results(after="1-2")  # type: ignore[call-overload]
    for wrong in ("", "7", "x-1", "1-2-3", "-1-2", "9999999999999999999-1", 7, ("1", "2")):
        with pytest.raises(ConfigError, match="the cursor of a row"):
            run.results(rows=True, after=wrong)  # type: ignore[call-overload]


def test_rows_hold_no_more_than_a_page_of_arguments(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PAGE", 5)
    run = engine.run(endless.of(0), max_tasks=60)
    read: list[int] = []
    wanted = reading.Reading.arguments

    def counting(self: reading.Reading, kind: str, body: bytes) -> object:
        read.append(1)
        return wanted(self, kind, body)

    monkeypatch.setattr(reading.Reading, "arguments", counting)
    first: ResultRow[int] = next(run.results(rows=True, partial=True))
    assert first.arguments == (0,)
    assert len(read) <= 5


def test_arguments_that_no_longer_fit_the_function_are_given_as_they_were_stored(make: Make) -> None:
    old, new = Tasks(), Tasks()
    before = old.task(name="weigh")(weigh)
    first = make(old)
    run = first.run(before.of(3), name="w")
    new.task(name="weigh")(weigh_on)
    second = make(new)
    second._runtime.use(first._runtime.store)
    found = second.find("w")
    assert found is not None
    assert [(row.arguments, row.result) for row in found.results(rows=True)] == [((3,), 3)]
    assert list(found.results()) == list(run.results())


def weigh(n: int) -> int:
    return n


def weigh_on(n: int, unit: str) -> int:
    return n


def test_results_of_a_run_that_never_ends_are_those_that_exist(engine: Engine) -> None:
    with engine.working(threads=1):
        engine.enqueue(fragile.of("a")).result(30)
        queue = engine.find("jobs/default")
        assert queue is not None
        assert not queue.ended
        assert list(queue.results()) == list(queue.results(fragile, partial=True)) == ["a"]
        (first,) = queue.results(rows=True)
        engine.enqueue(fragile.of("b")).result(30)
        assert [row.result for row in queue.results(rows=True, after=first.cursor)] == ["b"]
    engine.enqueue(fragile.of("c"))  # nobody works on queues any more
    made, joint = engine.dag("made"), engine.dag("joint")
    made.add(fragile.of("d")).produces("one")
    joint.add(fragile.of(joint.param("one", str)))
    joint.start_on("one", "two")
    engine.run(made.of(), name="made")
    # The log of what was produced for `joint` is a run that stays open, too.
    found = {run.name: list(run.results(fragile)) for run in engine.runs()}
    assert found == {"jobs/default": ["a", "b"], "made": ["d"], "joint/datasets": []}
