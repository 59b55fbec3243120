"""Runs from end to end, on real stores: started, worked on, looked at, steered."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ramify import Added, BadPayload, Call, ConfigError, Engine, RunEnded, RunFailed, RunState, Tasks, UnknownTask
from ramify.engine import importing
from ramify.engine.runs.run import Run
from ramify.errors import StoreBroken
from ramify.inspect.status import Phase
from ramify.kernel.loop import Loop
from ramify.model.event import Status
from ramify.model.mark import Settled
from ramify.shapes.start import How
from ramify.store.here import person
from tests.engine import sample_jobs as known
from tests.engine.conftest import Make
from tests.engine.sample_jobs import (
    chatty,
    collect,
    crawl,
    endless,
    follow,
    fork,
    fork_always,
    fragile,
    gated,
    jobs,
    keyed_tree,
    several,
    stop_at,
    tree,
    use_client,
    use_database,
    versioned,
    with_params,
)

TREE = 1 + 3 + 9 + 27


@pytest.fixture
def engine(make: Make) -> Iterator[Engine]:
    known.broken.clear()
    known.trace.clear()
    known.gate.clear()
    known.inside = threading.Semaphore(0)
    yield make(jobs)
    known.gate.set()


@pytest.fixture
def said(engine: Engine) -> list[str]:
    """What the engine says."""
    heard: list[str] = []
    engine._runtime.say = heard.append
    return heard


@pytest.mark.parametrize("threads", [None, 0, 2])
@pytest.mark.parametrize("order", ["rounds", "any", "depth-first"])
def test_a_run_grows_to_its_end(engine: Engine, threads: int | None, order: str) -> None:
    run = engine.run(tree.of("a", 3), name="t", order=order, threads=threads)  # type: ignore[arg-type]
    assert (run.state, run.phase, run.name, run.begun) == (RunState.DONE, Phase.EXHAUSTED, "t", How.NEW)
    assert run.definition is None
    assert (run.counts.added, run.counts.done, run.counts.pending) == (TREE, TREE, 0)
    assert sorted(run.results()) == sorted([1] + [2] * 3 + [3] * 9 + [4] * 27)
    assert run.round == (3 if order == "rounds" else 0)


@pytest.mark.parametrize("threads", [None, 0])
def test_an_async_generator_grows_a_run_too(engine: Engine, threads: int | None) -> None:
    assert sorted(engine.run(crawl.of("a", 2), threads=threads).results()) == [1, 2, 2, 3, 3, 3, 3]


def test_several_roots_and_results_by_kind(engine: Engine) -> None:
    run = engine.run([several.of("x", "y"), fragile.of("z")])
    assert sorted(run.results()) == ["", "x", "y", "z"]
    assert list(run.results(several)) == [""]
    assert sorted(run.results("fragile")) == ["x", "y", "z"]
    assert list(run.results("nobody")) == []
    with pytest.raises(ConfigError, match="task function"):
        run.results(3)  # type: ignore[call-overload]


def test_a_finished_name_gives_its_results_and_again_runs_anew(engine: Engine) -> None:
    said: list[str] = []
    engine._runtime.say = said.append
    engine.run(tree.of("a", 1), name="t")
    finished = engine.run(tree.of("a", 1), name="t")
    assert finished.begun is How.FINISHED
    assert sorted(finished.results()) == [1, 2, 2, 2]
    again = engine.run(tree.of("a", 1), name="t", again=True)
    assert again.id != finished.id
    assert len(list(again.results())) == 4
    assert [line.split(" [")[0].split(") ", 1)[1] for line in said] == [
        "begins",
        "had ended as done; again=True (`--again`) starts it again",
        "begins anew",
    ]
    assert all("keeps" in line and "lacks" in line for line in said)


def test_a_started_run_waits_for_workers_and_run_goes_on_with_it(engine: Engine) -> None:
    started = engine.start(tree.of("a", 2), name="t")
    assert (started.state, started.counts.pending) == (RunState.OPEN, 1)
    assert started.wait(0) is False
    run = engine.run(tree.of("a", 2), name="t")
    assert (run.id, run.begun) == (started.id, How.CONTINUED)
    assert started.wait(0) is True


def test_an_unnamed_run_that_another_thread_works_on_is_not_taken_over(engine: Engine) -> None:
    runs: list[Run[str]] = []
    threads = [threading.Thread(target=lambda: runs.append(engine.run(gated.of("x")))) for _ in range(2)]
    for thread in threads:
        thread.start()
        assert known.inside.acquire(timeout=15)
    known.gate.set()
    for thread in threads:
        thread.join(20)
    assert [run.begun for run in runs] == [How.NEW, How.NEW]
    assert runs[0].id != runs[1].id


def test_an_unnamed_run_that_another_thread_has_just_begun_is_not_taken_over(engine: Engine) -> None:
    runs: list[Run[str]] = []

    def begin_another(_: Run[str]) -> None:
        engine._runtime.on_begun = None
        runs.append(engine.run(fragile.of("x")))

    engine._runtime.on_begun = begin_another
    runs.append(engine.run(fragile.of("x")))
    assert [run.begun for run in runs] == [How.NEW, How.NEW]
    assert runs[0].id != runs[1].id


def test_an_unnamed_run_that_is_in_the_store_but_not_yet_known_to_be_worked_on_is_not_taken_over(
    engine: Engine,
) -> None:
    runs: list[Run[str]] = []
    second = threading.Thread(target=lambda: runs.append(engine.run(fragile.of("x"))))

    def begin_another(_: str) -> None:
        engine._runtime.say = lambda _: None
        second.start()
        # It waits for its turn; if it did not, it would be through long before.
        second.join(0.3)

    engine._runtime.say = begin_another
    runs.append(engine.run(fragile.of("x")))
    second.join(20)
    assert [run.begun for run in runs] == [How.NEW, How.NEW]
    assert runs[0].id != runs[1].id


def test_a_run_is_found_by_its_name_and_none_where_there_is_none(engine: Engine) -> None:
    assert engine.find("t") is None
    first = engine.run(tree.of("a", 1), name="t")
    found = engine.find("t")
    assert found is not None
    assert (found.id, found.begun, sorted(found.results())) == (first.id, None, [1, 2, 2, 2])
    again = engine.start(tree.of("a", 1), name="t", again=True)
    newest = engine.find("t")
    assert newest is not None
    assert newest.id == again.id
    assert engine.find("") is engine.find("a\0b") is engine.find("\udcff") is None


def test_a_run_is_found_by_its_generation_and_by_its_id(engine: Engine) -> None:
    first = engine.run(tree.of("a", 0), name="t")
    other = engine.run(tree.of("a", 0), name="tt")
    second = engine.run(tree.of("a", 0), name="t", again=True)
    found = [engine.find(name) for name in ("t#1", "t#2", "tt#1", first.id, second.id)]
    assert [each and each.id for each in found] == [first.id, second.id, other.id, first.id, second.id]
    assert [engine.find(name) for name in ("t#3", "t#0", "t#", "#1", "t#x", "x#1", 10**9, 0, -1, 2**70)] == [None] * 10
    # A text is a name: a run that is called like the id of another is never taken for it.
    assert engine.find(str(first.id)) is None


def test_all_runs_are_listed_the_newest_first_page_by_page(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ramify.inspect.find._PAGE", 2)
    started = [engine.start(several.of(str(number))) for number in range(5)]
    engine.run(several.of("0"), name="done")
    listed = list(engine.runs())
    assert [run.id for run in listed[1:]] == [run.id for run in reversed(started)]
    assert (listed[0].name, listed[0].state) == ("done", RunState.DONE)
    assert [run.id for run in engine.runs(RunState.OPEN)] == [run.id for run in reversed(started)]
    assert list(engine.runs(RunState.FAILED)) == []


# failures


def test_failed_tasks_make_results_raise_with_their_groups(engine: Engine) -> None:
    known.broken |= {"x", "y"}
    run = engine.run(several.of("x", "y", "z"))
    assert run.state is RunState.FAILED
    with pytest.raises(RunFailed, match=r"2 of 4 tasks failed.*ValueError: x is broken") as failed:
        run.results()
    assert {(group.kind, group.text, group.count) for group in failed.value.groups} == {
        ("fragile", "x is broken", 1),
        ("fragile", "y is broken", 1),
    }
    assert sorted(run.results(partial=True)) == ["", "z"]
    errors = list(run.errors())
    assert [(error.kind, error.arguments, error.status) for error in errors] == [
        ("fragile", ("x",), Status.FAILED),
        ("fragile", ("y",), Status.FAILED),
    ]
    assert errors[0].failure.type == "ValueError"
    assert str(errors[0]).endswith("ValueError: x is broken")


def test_failures_that_differ_in_numbers_are_one_group_told_by_an_example(engine: Engine) -> None:
    known.broken |= {"x1", "x2"}
    run = engine.run(several.of("x1", "x2"))
    with pytest.raises(RunFailed, match=r"2 x fragile: ValueError: x1 is broken and the like\.") as failed:
        run.results()
    assert [(group.text, group.count) for group in failed.value.groups] == [("# is broken", 2)]


def test_retry_tries_the_failed_ones_again_and_the_run_ends_well(engine: Engine) -> None:
    known.broken |= {"x", "y"}
    run = engine.run(several.of("x", "y", "z"), name="r")
    known.broken.clear()
    assert run.retry(reason="mended").tasks == 2
    assert run.state is RunState.OPEN
    engine.run(several.of("x", "y", "z"), name="r")
    assert sorted(run.results()) == ["", "x", "y", "z"]
    assert run.retry().tasks == 0


def test_retry_takes_the_tasks_it_is_given_and_no_others(engine: Engine) -> None:
    known.broken |= {"x", "y"}
    run = engine.run(several.of("x", "y", "z"), name="r")
    known.broken.clear()
    first = next(run.errors()).task
    assert run.retry(first).tasks == 1
    engine.run(several.of("x", "y", "z"), name="r")
    assert [error.arguments for error in run.errors()] == [("y",)]
    assert run.retry(failed=False, quarantined=True).tasks == 0
    with pytest.raises(UnknownTask, match="no task with the key 'x'"):
        run.retry("x")
    with pytest.raises(BadPayload, match="not a task of run"):
        run.retry(first + 100_000)


def test_no_session_of_a_retry_stays_behind(engine: Engine) -> None:
    run = engine.run(fragile.of("x"))
    run.retry()
    assert [each for each in engine._runtime.store.reads.processes() if not each.reaped] == []


# fork and join


def test_a_continuation_gets_the_results_of_its_members(engine: Engine) -> None:
    run = engine.run(fork.of("c", "a", "b"))
    assert list(run.results(collect)) == ["all: c a b (3, 0 broken)"]


def test_a_continuation_may_want_what_is_left_of_broken_members(engine: Engine) -> None:
    known.broken.add("a")
    run = engine.run(fork_always.of("c", "a", "b"))
    assert list(run.results(collect, partial=True)) == ["some: c b (2, 1 broken)"]


def test_retry_brings_back_the_continuation_that_was_skipped(engine: Engine) -> None:
    known.broken |= {"a", "b"}
    run = engine.run(fork.of("c", "a", "b"), name="f")
    assert run.counts.skipped == 1
    assert list(run.results(collect, partial=True)) == []
    known.broken.clear()
    assert run.retry().tasks == 3
    engine.run(fork.of("c", "a", "b"), name="f")
    assert list(run.results(collect)) == ["all: c a b (3, 0 broken)"]


# steering


def test_tasks_can_be_added_until_a_run_has_ended(engine: Engine) -> None:
    run = engine.start(fragile.of("x"), name="r")
    run.add(fragile.of("y"), fragile.of("z"))
    run.add()
    engine.run(fragile.of("x"), name="r")
    assert sorted(run.results()) == ["x", "y", "z"]
    with pytest.raises(RunEnded):
        run.add(fragile.of("late"))
    with pytest.raises(ConfigError, match="has no task"):
        run.add(Tasks().task(stray).of())


def test_who_has_the_key_of_a_call_that_was_left_out_is_told(engine: Engine, said: list[str]) -> None:
    first = engine.start(fragile.of("x").unique("k"))
    (root,) = first.roots
    assert root.created
    held = Added(root.task, False)
    run = engine.start([fragile.of("y"), fragile.of("x").unique("k"), fragile.of("z")], name="r")
    y, left_out, z = run.roots
    assert (y.created, left_out, z.created) == (True, held, True)
    assert said[-1].startswith(
        f"run 'r' ({run.id}) begins without 1 of its 3 roots, whose keys are taken by task {root.task}"
    )
    added = run.add(fragile.of("a"), fragile.of("x").unique("k"), tree.of("t", 0), fragile.of("b"))
    assert added[1] == held
    reads = engine._runtime.store.reads
    bodies = [row.body for each in (y, z, added[0], added[2], added[3]) if (row := reads.task(each.task or 0))]
    assert bodies == [b'["y"]', b'["z"]', b'["a"]', b'["t",0]', b'["b"]']
    assert engine.start([fragile.of("y"), fragile.of("x").unique("k"), fragile.of("z")], name="r").roots == ()
    assert run.add() == ()


def test_what_is_added_comes_after_the_roots_in_the_order_it_was_given(engine: Engine) -> None:
    earlier = engine.start(fragile.of("x"))
    earlier.add(fragile.of("y"))
    run = engine.start([fragile.of("a"), fragile.of("b")], name="r", order="any")
    run.add(fragile.of("c"), fragile.of("d"))
    earlier.add(fragile.of("z"))
    run.add(fragile.of("e"))
    engine.run([fragile.of("a"), fragile.of("b")], name="r", order="any")
    assert list(run.results()) == list("abcde")


def test_what_is_no_call_is_not_added_and_answered_with_what_to_write(engine: Engine) -> None:
    run = engine.start(fragile.of("a"))
    for wrong, says in ((fragile, "Write fragile.of"), ([fragile.of("b")], "Give each call by itself"), ("b", "a str")):
        with pytest.raises(ConfigError, match=says):
            run.add(wrong)  # type: ignore[arg-type]
    assert run.counts.added == 1


def stray() -> None: ...


def test_a_cancelled_run_ends_with_its_reason(engine: Engine) -> None:
    run = engine.start(tree.of("a", 2))
    run.cancel("not today")
    assert (run.state, run.reason) == (RunState.CANCELLED, "not today")
    assert run.counts.cancelled == 1


def test_a_task_is_cancelled_alone(engine: Engine) -> None:
    run = engine.start([fragile.of("x"), fragile.of("y")], name="r")
    first = engine._runtime.store.reads.tasks(run.id).rows[0].id
    run.cancel("no", task=first)
    engine.run([fragile.of("x"), fragile.of("y")], name="r")
    assert list(run.results()) == ["y"]
    with pytest.raises(ConfigError, match="task="):
        run.cancel(below=True)


def test_a_task_is_cancelled_with_all_below_it(engine: Engine) -> None:
    run = engine.start([tree.of("a", 1), tree.of("b", 0)], name="r")
    first = engine._runtime.store.reads.tasks(run.id).rows[0].id
    run.cancel("no", task=first, below=True)
    engine.run([tree.of("a", 1), tree.of("b", 0)], name="r")
    assert list(run.results()) == [1]
    assert run.counts.cancelled == 1


def test_a_task_that_failed_or_was_never_tried_is_resolved_by_hand(engine: Engine) -> None:
    run = engine.start([fragile.of("x"), fragile.of("y"), fragile.of("z")], name="r")
    first, second, third = (row.id for row in engine._runtime.store.reads.tasks(run.id).rows)
    assert run.resolve(first, result="by hand", reason="known", by="ann").settled is Settled.CERTAIN
    assert run.resolve(second, skip=True, reason="no need").settled is Settled.CERTAIN
    assert run.resolve(third, result=None).settled is Settled.CERTAIN
    assert run.state is RunState.DONE
    assert list(run.results()) == ["by hand", None]
    assert run.resolve(second, result="after all").settled is Settled.CERTAIN
    assert sorted(map(str, run.results())) == ["None", "after all", "by hand"]
    assert run.resolve(2**40, skip=True).settled is Settled.UNKNOWN
    with pytest.raises(ConfigError, match="or skip=True"):
        run.resolve(first)
    with pytest.raises(BadPayload):
        run.resolve(first, result=object())


def test_a_decision_is_kept_with_who_made_it_and_why(engine: Engine) -> None:
    run = engine.start(fragile.of("x"))
    run.pause("holiday")
    decision = run._stored.decision
    assert decision is not None
    assert (decision.n, decision.what.value, decision.reason) == (1, "paused", "holiday")
    assert decision.by == person()
    run.resume(by="bob")
    run.cancel("enough", by="eve")
    decision = run._stored.decision
    assert decision is not None
    assert (decision.n, decision.by, decision.reason) == (3, "eve", "enough")
    assert [(each.what, each.by, each.reason) for each in run.decisions()] == [
        ("paused", person(), "holiday"),
        ("resumed", "bob", ""),
        ("cancelled", "eve", "enough"),
    ]
    assert all(each.at.tzinfo is not None for each in run.decisions())


def test_a_cancel_that_another_decision_overtook_is_decided_anew(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, store = engine.start(fragile.of("x")), engine._runtime.store
    cancel = store.cancel
    asked: list[Settled] = []

    def overtaken(number: int, task: int | None = None, **rest: Any) -> Settled:
        if not asked:
            store.pause(number)
        asked.append(cancel(number, task, **rest))
        return asked[-1]

    monkeypatch.setattr(store, "cancel", overtaken)
    assert run.cancel("enough") is Settled.CERTAIN
    assert asked == [Settled.OVERTAKEN, Settled.CERTAIN]


def test_a_paused_run_waits_and_a_resumed_one_ends(engine: Engine) -> None:
    run = engine.start(fragile.of("x"))
    assert run.pause() is RunState.PAUSED
    with engine.working(threads=1):
        assert run.wait(0.3) is False
        assert run.counts.done == 0
        assert run.resume() is RunState.OPEN
        assert run.wait(20)
    assert list(run.results()) == ["x"]


def test_params_reach_every_task(engine: Engine) -> None:
    run = engine.run(with_params.of("x"), name="p", params={"deep": 3})
    assert run.params == {"deep": 3}
    assert list(run.results()) == [["x", {"deep": 3}, "p"]]


def test_a_handler_may_stop_its_run(engine: Engine) -> None:
    run = engine.run(stop_at.of(0))
    assert (run.state, run.reason) == (RunState.HALTED, "found it")
    assert {0, 1, 2} <= set(run.results())


def test_max_tasks_stops_a_run_that_does_not_end(engine: Engine) -> None:
    run = engine.run(endless.of(0), max_tasks=100)
    assert run.state is RunState.HALTED
    assert "max_tasks=100 exceeded" in str(run.reason)
    assert run.counts.added > 100


def test_max_tasks_holds_also_for_workers_that_serve_every_run(engine: Engine) -> None:
    with engine.working(threads=2):
        run = engine.start(endless.of(0), max_tasks=50)
        assert run.wait(20)
    assert run.state is RunState.HALTED


# two runs in step


def test_a_run_that_follows_reads_what_its_leader_found(engine: Engine) -> None:
    leader = engine.start(keyed_tree.of("a", 1), name="leader")
    follower = engine.run(follow.of("a", 1), name="follower", follows=(leader, 1))
    assert leader.state is RunState.DONE
    assert sorted(follower.results(), key=len) == [
        ["A0"],
        ["A1"],
        ["A", "keyed_tree a0 0", "keyed_tree a1 0"],
    ]


def test_what_can_be_followed(engine: Engine) -> None:
    leader = engine.start(keyed_tree.of("a", 1), name="leader")
    assert engine.start(follow.of("a", 1), follows="leader")._stored.follows == leader_of(leader, 1)
    assert engine.start(follow.of("a", 1), follows=(leader.id, 0))._stored.follows == leader_of(leader, 0)
    with pytest.raises(ConfigError, match="lead"):
        engine.start(follow.of("a", 1), follows=(leader, -1))
    with pytest.raises(ConfigError, match="expected a run"):
        engine.start(follow.of("a", 1), follows=1.5)  # type: ignore[arg-type]


def leader_of(run: Run[str], lead: int) -> object:
    from ramify.model.run import Follows

    return Follows(run.id, lead)


def test_a_run_that_follows_nobody_has_no_leader(engine: Engine) -> None:
    run = engine.run(follow.of("a", 0).retries(0))
    assert "follows no other" in next(run.errors()).failure.text


# looking in while it works


def test_results_of_an_open_run_are_followed_to_its_end(engine: Engine) -> None:
    other = engine.run(tree.of("elsewhere", 2))
    assert other.ended
    run = engine.start(tree.of("a", 3))
    noise = engine.start(tree.of("other", 3))
    stream = run.results()
    with engine.working(threads=2):
        assert sorted(stream) == sorted([1] + [2] * 3 + [3] * 9 + [4] * 27)
        assert noise.wait(20)


def test_following_an_open_run_ends_with_run_failed_and_gives_one_kind(engine: Engine) -> None:
    known.broken.add("x")
    run = engine.start(several.of("x", "y"))
    stream, whole = run.results(fragile), run.results(fragile, partial=True)
    found: list[str] = []
    with engine.working(threads=2):
        with pytest.raises(RunFailed):
            found.extend(stream)
        assert list(whole) == ["y"]


def test_async_edges(engine: Engine) -> None:
    async def use() -> list[int]:
        async with engine.working(threads=2):
            run = engine.start(tree.of("a", 2))
            found = [result async for result in run.aresults()]
            assert (await run) is run
            assert run.ended
        return found

    assert sorted(asyncio.run(use())) == sorted([1] + [2] * 3 + [3] * 9)


def test_whoever_waits_hears_that_the_workers_broke(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    run = engine.start(fragile.of("x"))

    def break_down(self: object) -> None:
        raise StoreBroken("the disk is gone")

    monkeypatch.setattr(Loop, "run", break_down)
    for wait in (run.wait, lambda: list(run.results()), lambda: asyncio.run(await_it(run))):
        with pytest.raises(StoreBroken, match="the disk is gone"), engine.working():
            wait()
    assert engine._runtime.workers == set()


async def await_it(run: Run[str]) -> None:
    await run


def test_workers_twice_in_one_program_do_not_disturb_each_other(engine: Engine) -> None:
    with engine.working(threads=1), engine.working(threads=1):
        runs = [engine.start(tree.of(name, 2)) for name in "abc"]
        assert [run.wait(20) for run in runs] == [True] * 3
        # Both have found nothing more to do, and sleep.
        late = engine.start(tree.of("d", 1))
        assert late.wait(20)


# resources


def test_resources_are_opened_on_first_use_and_closed_at_stop(engine: Engine) -> None:
    assert sorted(engine.run([use_database.of("a"), use_database.of("b")]).results()) == ["a database", "b database"]
    assert known.trace == ["open database", "close database"]


@pytest.mark.parametrize("threads", [None, 0])
def test_async_resources_are_closed_on_their_event_loop(engine: Engine, threads: int | None) -> None:
    run = engine.run([use_client.of("a"), use_client.of("b")], threads=threads)
    assert sorted(run.results()) == ["a client", "b client"]
    assert known.trace == ["open client", "close client"]


def test_resources_stay_open_while_somebody_else_of_the_engine_works(engine: Engine) -> None:
    with engine.working(queues=["default"], threads=1):
        waiting = engine.start(gated.of("x"))
        engine.run(use_database.of("a").queue("side"))
        assert known.trace == ["open database"]
        known.gate.set()
        assert waiting.wait(20)
    assert known.trace == ["open database", "close database"]


# the engine itself


@pytest.mark.parametrize(
    ("root", "says"),
    [
        (lambda: tree, "the task tree itself. Write tree.of"),
        (lambda: tree("a", 1), "a generator: tree(...) calls the function here and now. Write tree.of(...)"),
        (lambda: [several.of("x"), fragile("y")], "'y' (a str). Make a call with task.of(...)"),
        (lambda: "tree", "'tree' (a str)"),
    ],
)
def test_a_run_that_begins_with_no_call_is_told_how_to_write_one(
    engine: Engine, root: Callable[[], object], says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        engine.run(root())  # type: ignore[arg-type]
    assert says in str(caught.value)
    assert list(engine.runs()) == []


def test_a_generator_of_calls_may_begin_a_run(engine: Engine) -> None:
    assert sorted(engine.run(fragile.of(name) for name in "ab").results()) == ["a", "b"]


def test_making_an_engine_does_nothing_yet(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("empty")
    engine = Engine(folder / "x.db")
    engine.close()
    assert list(folder.iterdir()) == []


def test_the_store_is_opened_once_by_many_threads_and_again_after_close(engine: Engine) -> None:
    barrier = threading.Barrier(8)
    found: list[object] = []

    def ask() -> None:
        barrier.wait(10)
        found.append(engine._runtime.store)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(set(map(id, found))) == 1
    first = engine._runtime.store
    engine.close()
    assert engine._runtime.store is not first


def test_nothing_is_started_while_a_worker_imports_the_module(engine: Engine) -> None:
    with importing("walk.py"):
        for start in (lambda: engine.run(tree.of("a", 1)), lambda: engine.start(tree.of("a", 1)), engine.working):
            with pytest.raises(ConfigError, match=r"imports walk\.py.*__main__"):
                start()
    assert engine._runtime.store.reads.runs().rows == []


def test_what_cannot_be_run_is_refused(engine: Engine) -> None:
    stranger: Call[None] = Tasks().task(stray).of()
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: engine.run(stranger), "has no task 'stray'"),
        (lambda: engine.run(tree.of("a", 1), order="up"), "depth-first"),  # type: ignore[arg-type]
        (lambda: engine.run(tree.of("a", 1), threads=-1), "threads=-1"),
        (lambda: engine.run(tree.of("a", 1), processes=1.5), "processes=1.5"),  # type: ignore[arg-type]
        (lambda: engine.run(tree.of("a", 1), processes=2), "must be a module-level variable|cannot be shared"),
        (lambda: engine.run([tree.of("a", 1)] * 2, max_tasks=1), "expected at least 2, the number of roots"),
        (lambda: engine.run(tree.of("a", 1), processes=99_999_999_999), "at most 1,000"),
        (lambda: engine.working(threads=99_999_999_999), "at most 10,000"),
        (lambda: engine.working(threads=0), "1 or more"),
        (lambda: engine.working(queues="default"), "list of names"),
        (lambda: engine.run(tree.of("a", 1), processes=None), "processes=None"),  # type: ignore[arg-type]
        (lambda: engine.find(7.5), r"find\(\): expected the name of a run or its id, got 7\.5"),  # type: ignore[arg-type]
        (lambda: engine.find(True), r"find\(\): expected the name of a run"),
        (lambda: engine.runs("open"), r"runs\('open'\): expected one of RunState.OPEN, "),  # type: ignore[arg-type]
    ]
    for attempt, says in refused:
        with pytest.raises(ConfigError, match=says):
            attempt()
    assert engine._runtime.store.reads.runs().rows == []


def test_what_is_no_id_of_a_task_is_refused(engine: Engine) -> None:
    run = engine.start(tree.of("a", 1))
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: run.cancel(task=1.5), r"a task named by 1.5: expected the id of a task"),  # type: ignore[arg-type]
        (lambda: run.resolve(None, skip=True), r"a task named by None: expected the id"),  # type: ignore[arg-type]
        (lambda: run.retry(True), r"a task named by True: expected the id of a task"),
    ]
    for attempt, says in refused:
        with pytest.raises(ConfigError, match=says):
            attempt()
    assert run.state is RunState.OPEN


def test_sql_reads_and_never_writes(engine: Engine) -> None:
    run = engine.run(tree.of("a", 2))
    if engine._runtime.store.describe().name != "sqlite":
        with pytest.raises(ConfigError, match="takes no SQL"):
            run.sql("SELECT 1")
        return
    answer = run.sql("SELECT kind, sum(last - first + 1) AS tasks FROM span WHERE run = :run GROUP BY kind")
    assert (answer.columns, list(answer.rows)) == (("kind", "tasks"), [("tree", 13)])
    assert run.sql("SELECT 1 AS a WHERE 0").columns == ("a",)
    for wrong in (
        "DELETE FROM run",
        "PRAGMA query_only = OFF",
        "SELECT 1; DROP TABLE run",
        "ATTACH 'x.db' AS x",
        "SELECT nonsense",
        "CREATE TEMP TABLE t (a)",
    ):
        with pytest.raises(BadPayload, match="sql"):
            run.sql(wrong)
    assert run.counts.done == 13


def test_how_much_of_what_tasks_log_is_stored_is_the_engines_to_say(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("logs")
    for level, count, expected in ((10, 3, 3), ("error", 3, 0), ("DEBUG", 2, 3), ("INFO", 1, 0)):
        engine = Engine(folder / "logs.db", include=[jobs], log_level=level, log_lines=count)
        run = engine.run(chatty.of(3))
        # One line more than allowed says that there were more.
        assert len(engine._runtime.store.reads.logs(run.id).rows) == expected
        engine.close()
    with pytest.raises(ConfigError, match="log_level='loud': expected the name or the number of a level"):
        Engine(log_level="loud")
    for wrong in (-1, None):
        with pytest.raises(ConfigError, match=f"log_lines={wrong}: expected a whole number"):
            Engine(log_lines=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("processes", [0, 1])
def test_the_version_of_a_program_is_shown_with_its_processes(
    tmp_path_factory: pytest.TempPathFactory, processes: int
) -> None:
    versioned._runtime.url = tmp_path_factory.mktemp("version") / "version.db"
    versioned.run(tree.of("a", 1), processes=processes)
    assert {process.version for process in versioned._runtime.store.reads.processes()} == {"7.1"}
    versioned.close()
