"""Trying again: what a retry takes with it, and how the run ends then."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ramify import ConfigError, Engine, Run, RunCancelled, RunState, Stream, Tasks, current, steps
from ramify.engine.runs import reopening
from ramify.model.event import Status
from ramify.model.join import Ends
from ramify.shapes.start import How
from ramify.testing.conformance.house import Worker
from tests.engine import sample_jobs as known
from tests.engine.conftest import Make
from tests.engine.sample_jobs import collect, fork, fork_always, fragile, gated, jobs
from tests.kernel.shop import wait_until

nested = Tasks()
#: `grow` stops its run when it comes to these.
stops: set[int] = set()
#: How the tasks of a run had ended, by those that follow its end.
told: list[Ends] = []


@nested.task
def grow(n: int) -> int | None:
    if n in stops:
        current().run.stop("enough")
    if n < 2:
        return n
    current().spawn(grow.of(n - 1), grow.of(n - 2), then=add.of())
    return None


@nested.task
def tell_ends() -> None:
    told.append(current().run.ends)


@nested.task
def add(two: Stream[int] = Stream()) -> int:
    return sum(two)


@nested.task
def fork_deep(*names: str) -> None:
    current().spawn(*(fork.of(name) for name in names), then=collect.of("deep"))


@nested.task
def fork_deep_always(*names: str) -> None:
    current().spawn(*(fork_always.of(name) for name in names), then=collect.of("deep"))


@nested.task
def fork_to_a_gate(deep: bool) -> None:
    member, title = (fork_to_a_gate.of(False), "deep") if deep else (gated.of("a"), "all")
    current().spawn(member, then=collect.of(title))


@pytest.fixture
def engine(make: Make) -> Iterator[Engine]:
    known.broken.clear()
    yield make(jobs, nested)
    known.broken.clear()
    stops.clear()


def quarantined(engine: Engine, run: Run[Any], kind: str) -> None:
    """Let the tasks of a kind that are ready end like those whose process died too often."""
    worker = Worker(engine._runtime.store)
    worker.end(worker.take(kinds=[kind]), status=Status.QUARANTINED)
    worker.store.leave(worker.process)


def test_a_retry_of_a_pipeline_or_a_dag_takes_what_was_quarantined(engine: Engine) -> None:
    dag = engine.dag("d")
    dag.add(fragile.of("b"), after=[dag.add(fragile.of("a"), id="first")])
    roots: list[Any] = [engine.pipeline("p", steps(fragile, id="first").chain(fragile)).of("a"), dag.of()]
    for name, root in enumerate(roots):
        run = engine.start(root, name=f"{name}")
        quarantined(engine, run, "fragile")
        run = engine.run(root, name=f"{name}")
        assert (run["first"].state, run["fragile"].state) == ("quarantined", "skipped")
        assert run.retry(reason="mended").tasks > 0
        assert engine.run(root, name=f"{name}").state is RunState.DONE


def test_a_step_that_has_not_ended_is_not_tried_again(engine: Engine) -> None:
    run = engine.start(engine.pipeline("p", steps(fragile).chain(fragile, id="second")).of("a"), name="p")
    with pytest.raises(ConfigError, match=r"nothing of run \d+ is retried, because these tasks have not ended"):
        run.retry("second")
    with pytest.raises(ConfigError, match=r"nothing of run \d+ failed.*\(cancelled=True, --cancelled\)"):
        run.retry()


def test_a_retry_of_a_run_that_expands_leaves_what_was_quarantined(engine: Engine) -> None:
    run = engine.start(fragile.of("a"), name="r")
    quarantined(engine, run, "fragile")
    assert engine.run(fragile.of("a"), name="r").state is RunState.FAILED
    assert (run.retry().tasks, run.retry(quarantined=True).tasks) == (0, 1)


def test_what_followed_an_earlier_end_of_a_run_does_not_count_among_its_ends(engine: Engine) -> None:
    known.broken |= {"a"}
    told.clear()
    dag = engine.dag("d")
    dag.add(fragile.of("a"))
    dag.on_end(tell_ends.of())
    dag.on_end(tell_ends.of())
    run = engine.run(dag.of(), name="d", threads=1)
    assert told == [Ends(0, 1, 0, 0)] * 2
    known.broken.clear()
    run.retry(reason="mended")
    engine.run(dag.of(), name="d", threads=1)
    assert told[2:] == [Ends(1, 0, 0, 0)] * 2


def test_a_cancelled_run_does_not_end_as_done_because_one_of_its_tasks_was_retried(engine: Engine) -> None:
    known.broken |= {"x"}
    run = engine.start(fragile.of("x"), name="r", order="any")
    run.add(fragile.of("y").delay(1_000))
    with engine.working(threads=1):
        wait_until(lambda: run.counts.failed == 1)
    run.cancel("enough")
    assert run.state is RunState.CANCELLED
    known.broken.clear()
    assert run.retry().tasks == 1
    with engine.working(threads=1):
        assert run.wait(20)
    assert (run.state, run.reason, run.counts.done, run.counts.cancelled) == (
        RunState.CANCELLED, "enough", 1, 1
    )  # fmt: skip


def test_results_of_a_cancelled_run_raise_unless_a_part_will_do(engine: Engine) -> None:
    run = engine.start([fragile.of("x"), fragile.of("y")])
    run.cancel("enough")
    with pytest.raises(RunCancelled, match=r"was cancelled \(enough\): 2 of 2 tasks were cancelled"):
        run.results()
    assert list(run.results(partial=True)) == []


def test_a_cancelled_run_also_says_what_had_failed(engine: Engine) -> None:
    known.broken |= {"x"}
    run = engine.start([fragile.of("x"), fragile.of("y").delay(1_000)], order="any")
    with engine.working(threads=1):
        wait_until(lambda: run.counts.failed == 1)
    run.cancel()
    with pytest.raises(RunCancelled, match=r"1 of 2 tasks were cancelled, 1 of 2 tasks failed: 1 x fragile") as raised:
        run.results()
    assert [group.text for group in raised.value.groups] == ["x is broken"]


def test_a_continuation_that_ran_without_a_member_runs_again_when_the_member_is_retried(engine: Engine) -> None:
    known.broken |= {"a", "b"}
    run = engine.run(fork_always.of("c", "a", "b"), name="f")
    assert list(run.results(collect, partial=True)) == ["some: c (1, 2 broken)"]
    known.broken.clear()
    assert run.retry().tasks == 3
    engine.run(fork_always.of("c", "a", "b"), name="f")
    assert list(run.results(collect)) == ["some: c a b (3, 0 broken)"]
    assert run.counts.added == 5


def test_a_fork_that_others_wait_for_is_tried_again_only_while_nobody_works_on_what_it_made(engine: Engine) -> None:
    known.gate.clear()
    run = engine.start(fork_to_a_gate.of(True), name="f", order="any")
    with engine.working(threads=2):
        wait_until(lambda: run.counts.done == 2)
        forks = run._runtime.store.reads.tasks(run.id, kind="fork_to_a_gate").rows
        (inner,) = (row.id for row in forks if row.parent is not None)
        with pytest.raises(
            ConfigError, match=r"task \d+ would be replaced, and a worker has it at the moment. Wait for it, or"
        ):
            run.retry(inner)
        known.gate.set()
        run.wait()
        assert run.retry(inner).tasks == 2, "it, and the continuation that waits for it"
        run.wait()
    for _ in range(2):
        assert known.inside.acquire(timeout=20)
    assert sorted(run.results(collect)) == ["all: a (1, 0 broken)", "deep: all: a (1, 0 broken) (1, 0 broken)"]
    assert run.counts.replaced == 2, "the child and the continuation of the first time"


def test_a_continuation_whose_members_stay_as_they_are_is_left_alone(engine: Engine) -> None:
    known.broken |= {"a", "x"}
    roots = [fork_always.of("c", "a"), fragile.of("x")]
    run = engine.run(roots, name="f")
    known.broken -= {"x"}
    (lone,) = (error.task for error in run.errors() if error.arguments == ("x",))
    assert run.retry(lone).tasks == 1
    assert engine.run(roots, name="f").counts.failed == 1
    assert list(run.results(collect, partial=True)) == ["some: c (1, 1 broken)"]


@pytest.mark.parametrize("limit", [2, 8192])
@pytest.mark.parametrize("named", [False, True])
def test_continuations_around_a_skipped_one_are_tried_again_with_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, limit: int, named: bool
) -> None:
    monkeypatch.setattr(reopening, "REOPEN_LIMIT", limit)
    known.broken |= {"a", "b"}
    run = engine.run(fork_deep.of("a", "b", "c"), name="deep")
    assert (run.counts.failed, run.counts.skipped) == (2, 3)
    known.broken.clear()
    assert run.retry(*(error.task for error in run.errors() if named)).tasks == 5
    engine.run(fork_deep.of("a", "b", "c"), name="deep")
    assert (run.state, run.counts.skipped) == (RunState.DONE, 0)
    assert "deep: all: a (1, 0 broken) all: b (1, 0 broken) all: c (1, 0 broken) (3, 0 broken)" in run.results(collect)


@pytest.mark.parametrize("limit", [2, 8192])
def test_continuations_around_one_that_ran_without_its_members_hear_what_comes_of_them(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(reopening, "REOPEN_LIMIT", limit)
    known.broken |= {"a", "b"}
    run = engine.run(fork_deep_always.of("a", "b"), name="deep")
    deep = "deep: some: a (1, 0 broken) some: b (1, 0 broken) (2, 0 broken)"
    assert deep.replace("a (1, 0", " (0, 1").replace("b (1, 0", " (0, 1") in run.results(collect, partial=True)
    known.broken.clear()
    assert run.retry().tasks == 5
    engine.run(fork_deep_always.of("a", "b"), name="deep")
    assert deep in run.results(collect)


def test_continuations_are_left_alone_when_nothing_below_them_is_tried_again(engine: Engine) -> None:
    known.broken |= {"a"}
    run = engine.run(fork_deep.of("a", "c"), name="deep")
    assert run.retry(failed=False, quarantined=True, cancelled=True).tasks == 0
    assert (run.state, run.counts.skipped) == (RunState.FAILED, 2)


@pytest.mark.parametrize("named", [False, True])
def test_each_task_is_given_one_new_life_however_quickly_it_ends_again(engine: Engine, named: bool) -> None:
    known.broken |= {"a", "b"}
    run = engine.run(fork_deep.of("a", "b"), name="deep")
    failed = [error.task for error in run.errors()]
    with engine.working(threads=1):
        run.retry(*(failed if named else ()))
        run.wait()
    assert [engine._runtime.store.reads.history(task).life for task in failed] == [2, 2]


def test_what_was_cancelled_is_taken_up_again_and_the_run_ends_well(engine: Engine) -> None:
    calls = [fragile.of("x"), fragile.of("y")]
    run = engine.start(calls, name="r")
    run.cancel("enough")
    assert run.retry().tasks == 0
    assert "retry(cancelled=True)" in said_by(engine, lambda: engine.start(calls, name="r"))
    assert run.retry(cancelled=True, reason="on with it").tasks == 2
    assert engine.run(calls, name="r").begun is How.CONTINUED
    assert (run.state, run.reason, sorted(run.results())) == (RunState.DONE, None, ["x", "y"])


@pytest.mark.parametrize("limit", [2, 3, 8192])
@pytest.mark.parametrize("at_work", [False, True])
def test_continuations_that_were_cancelled_wait_for_their_members_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, limit: int, at_work: bool
) -> None:
    monkeypatch.setattr(reopening, "REOPEN_LIMIT", limit)
    stops.add(4)
    run = engine.run(grow.of(6), name="fibonacci")
    assert (run.state, run.counts.cancelled) == (RunState.HALTED, 7)
    stops.clear()
    if at_work:
        # Workers are quick enough to finish a page before the next one is asked for.
        with engine.working(threads=1):
            retried = run.retry(cancelled=True)
            assert run.wait(20)
    else:
        retried = run.retry(cancelled=True)
        engine.run(grow.of(6), name="fibonacci")
    assert retried.tasks == 7
    assert (run.state, run.counts.cancelled, max(run.results(add))) == (RunState.DONE, 0, 8)


def said_by(engine: Engine, act: Callable[[], object]) -> str:
    """What the engine says meanwhile."""
    heard: list[str] = []
    before, engine._runtime.say = engine._runtime.say, heard.append
    act()
    engine._runtime.say = before
    return " ".join(heard)
