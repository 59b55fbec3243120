"""`ramify.testing.using`: an engine on another store, with its time in the hands of a test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ramify import BadPayload, Call, ConfigError, Engine, Fatal, RunState, Tasks
from ramify.testing import Workbench, using
from tests.testing import shop


@pytest.fixture(params=["memory:", "test.db"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workbench]:
    store = request.param if request.param == "memory:" else tmp_path / request.param
    with using(shop.engine, store) as prepared:
        yield prepared


@pytest.fixture
def lines() -> Iterator[list[str]]:
    with shop.ledger.override([]) as kept:
        yield kept


# draining


def test_drain_runs_what_is_ready_and_all_that_grows_out_of_it(bench: Workbench) -> None:
    run = shop.engine.start(shop.count_down.of(5))
    assert bench.drain() == 11
    assert run.state is RunState.DONE
    assert sorted(run.results(shop.count_down)) == [0, 1, 2, 3, 4, 5]


def test_drain_with_nothing_to_do_does_nothing(bench: Workbench) -> None:
    assert bench.drain() == 0


def test_handlers_run_in_the_thread_of_the_test(bench: Workbench) -> None:
    class Seen(list[str]):
        def append(self, line: str) -> None:
            super().append(threading.current_thread().name)

    with shop.ledger.override(Seen()) as seen:
        shop.engine.start(shop.remind.of("ann"))
        bench.drain()
    assert seen == [threading.current_thread().name]


def test_handlers_get_the_resources_of_the_test_until_the_block_ends() -> None:
    lines: list[str] = []
    with using(shop.engine, resources={shop.ledger: lines, shop.client: "a fake"}) as bench:
        shop.engine.start(shop.remind.of("ann"))
        bench.drain()
        assert list(shop.engine.run(shop.ask.of()).results()) == ["a fake"]
    assert lines == ["remind ann"]
    assert shop.ledger() is not lines
    shop.engine.close()


def test_async_tasks_and_their_children_are_drained(bench: Workbench) -> None:
    run = shop.engine.start(shop.slow_count.of(3))
    assert bench.drain() == 4
    assert sorted(run.results(shop.slow_double)) == [0, 2, 4]


def test_an_async_test_drains_beside_its_event_loop(bench: Workbench) -> None:
    async def test() -> int:
        shop.engine.start(shop.slow_double.of(3))
        with pytest.raises(ConfigError, match=r"await bench\.adrain"):
            bench.drain()
        return await bench.adrain()

    assert asyncio.run(test()) == 1


def test_fork_and_join_are_drained_to_the_end(bench: Workbench) -> None:
    run = shop.engine.start(shop.fan_out.of(4))
    bench.drain()
    assert list(run.results(shop.add_up)) == [("doubles", 12)]


def test_tasks_with_a_rate_are_not_waited_for(bench: Workbench) -> None:
    run = shop.engine.start([shop.rated.of(n) for n in range(9)])
    assert bench.drain() == 9
    assert run.state is RunState.DONE


def test_two_runs_in_step_are_drained_together(bench: Workbench) -> None:
    ahead = shop.engine.start(shop.count_down.of(3))
    behind = shop.engine.start(shop.count_down.of(3), follows=(ahead, 1))
    bench.drain()
    assert (ahead.state, behind.state) == (RunState.DONE, RunState.DONE)


# what is raised


def test_what_a_handler_raises_comes_out_of_drain_as_it_was(bench: Workbench, lines: list[str]) -> None:
    run = shop.engine.start(shop.print_bill.of("ann"))
    with pytest.raises(shop.OutOfPaper, match="ann"):
        bench.drain()
    assert lines == ["try ann"]
    assert run.state is RunState.OPEN, "it has retries left, and is recorded as any failure"
    bench.assert_enqueued(shop.print_bill.of("ann"))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (shop.unstorable.of(), BadPayload),
        (shop.give_up.of(), Fatal),
        (shop.many.of(4), Fatal),
        (shop.slow_bill.of("ann"), shop.OutOfPaper),
    ],
)
def test_what_the_engine_refuses_is_raised_too(bench: Workbench, call: Call[Any], error: type[Exception]) -> None:
    run = shop.engine.start(call)
    with pytest.raises(error):
        bench.drain()
    bench.drain()
    assert run.state is RunState.FAILED


def test_failures_are_only_recorded_when_told_so(bench: Workbench, lines: list[str]) -> None:
    run = shop.engine.start(shop.print_bill.of("ann"))
    for _ in range(3):
        bench.drain(raising=False)
        bench.advance(timedelta(minutes=10))
    assert lines == ["try ann"] * 3
    assert [error.failure.text for error in run.errors()] == ["ann"]


# time


def test_time_stands_still_until_it_is_advanced(bench: Workbench, lines: list[str]) -> None:
    shop.engine.start(shop.welcome.of("ann"))
    bench.drain()
    before = bench.now
    assert bench.drain() == 0
    bench.advance(3599)
    assert bench.drain() == 0
    bench.advance(1)
    assert bench.drain() == 1
    assert lines == ["welcome ann", "remind ann"]
    assert bench.now - before == timedelta(hours=1)


def test_a_deferred_task_is_due_to_the_second(bench: Workbench, lines: list[str]) -> None:
    run = shop.engine.start(shop.wait_for_ink.of())
    bench.drain()
    lines.append("blue")
    bench.advance(119)
    assert bench.drain() == 0
    bench.advance(1)
    bench.drain()
    assert list(run.results()) == ["blue"]


def test_time_begins_where_the_test_says() -> None:
    new_year = datetime(2030, 1, 1, tzinfo=UTC)
    with using(shop.engine, now=new_year) as bench:
        shop.engine.start(shop.double.of(1).at(new_year + timedelta(days=1)))
        assert bench.now == new_year
        assert bench.drain() == 0
        bench.advance(timedelta(days=1))
        assert bench.drain() == 1


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ConfigError, match="time zone"), using(shop.engine, now=datetime(2030, 1, 1)):
        pass


def test_engine_run_goes_to_the_end_at_once_and_moves_the_clock(bench: Workbench, lines: list[str]) -> None:
    before = bench.now
    run = shop.engine.run(shop.print_bill.of("ann"))
    assert run.state is RunState.FAILED
    assert lines == ["try ann"] * 3
    assert bench.now > before
    shop.engine.run(shop.welcome.of("bob"))
    assert lines[-2:] == ["welcome bob", "remind bob"]


def test_engine_run_works_on_its_own_run_only(bench: Workbench, lines: list[str]) -> None:
    shop.engine.start(shop.remind.of("ann"))
    shop.engine.run(shop.remind.of("bob"))
    assert lines == ["remind bob"]


def test_who_waits_for_a_run_works_on_it(bench: Workbench, lines: list[str]) -> None:
    assert list(shop.engine.start(shop.double.of(1).delay(3600)).results()) == [2]
    assert shop.engine.start(shop.welcome.of("ann")).wait()
    assert lines == ["welcome ann", "remind ann"]

    async def test() -> RunState:
        return (await shop.engine.start(shop.slow_double.of(1))).state

    assert asyncio.run(test()) is RunState.DONE


def test_a_run_that_cannot_end_says_so_instead_of_waiting(bench: Workbench) -> None:
    shop.engine.start(shop.double.of(1), name="asleep").pause()
    with pytest.raises(ConfigError, match="cannot end"):
        shop.engine.run(shop.double.of(1), name="asleep")


# what waits


def test_assert_enqueued_finds_a_task_by_its_function_or_its_arguments(bench: Workbench) -> None:
    shop.engine.start([shop.double.of(1), shop.double.of(2)])
    assert [each.arguments for each in bench.assert_enqueued(shop.double, times=2)] == [((1,), {}), ((2,), {})]
    bench.assert_enqueued(shop.double.of(n=2))
    bench.refute_enqueued(shop.double.of(3))
    bench.refute_enqueued(shop.remind)


def test_assert_enqueued_says_what_waits_instead(bench: Workbench) -> None:
    shop.engine.start([shop.double.of(1), shop.remind.of("ann").delay(60)])
    with pytest.raises(
        AssertionError, match=r"no double\(7\) waits; what waits is: double\(1\), remind\('ann'\) in 60 s"
    ):
        bench.assert_enqueued(shop.double.of(7))
    with pytest.raises(AssertionError, match=r"1 of double wait instead of 2"):
        bench.assert_enqueued(shop.double, times=2)
    with pytest.raises(AssertionError, match=r"double\(1\) waits"):
        bench.refute_enqueued(shop.double.of(1))


def test_options_that_a_call_was_given_are_compared(bench: Workbench) -> None:
    when = bench.now + timedelta(hours=2)
    call = shop.double.of(1)
    shop.engine.start([call.delay(60).key("k"), call.priority(1).lane("l"), call.queue("q"), call.at(when)])
    bench.assert_enqueued(call, times=4)
    for one in (call.delay(60), call.key("k"), call.priority(1), call.lane("l"), call.queue("q"), call.at(when)):
        bench.assert_enqueued(one, times=1)
    for none in (call.delay(61), call.key("x"), call.priority(2), call.lane("x"), call.queue("x"), call.retries(1)):
        bench.refute_enqueued(none)


def test_what_ran_waits_no_more(bench: Workbench, lines: list[str]) -> None:
    shop.engine.start(shop.welcome.of("ann"))
    bench.drain()
    bench.refute_enqueued(shop.welcome)
    (waiting,) = bench.assert_enqueued(shop.remind.of("ann").delay(3600))
    assert waiting.due_in == 3600


def test_a_task_of_another_engine_is_refused(bench: Workbench) -> None:
    @Tasks().task
    def stranger() -> None: ...

    with pytest.raises(ConfigError, match="no task 'stranger'"):
        bench.refute_enqueued(stranger)
    with pytest.raises(ConfigError, match="expected a task function or a call of one"):
        bench.refute_enqueued("double")  # type: ignore[arg-type]


# before and after


def test_a_wall_clock_that_is_set_back_holds_up_no_delay_and_no_back_off(bench: Workbench, lines: list[str]) -> None:
    delayed, put_off = shop.engine.start(shop.double.of(4).delay(120)), shop.engine.start(shop.wait_for_ink.of())
    bench.drain()
    bench.clock.set_wall(-86_400)
    bench.advance(119)
    assert bench.drain() == 0
    lines.append("ink")
    bench.advance(1)
    assert bench.drain() == 2
    assert (list(delayed.results()), list(put_off.results())) == ([8], ["ink"])


def test_the_engine_goes_back_to_its_own_store(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "own.db", include=[shop.engine])
    engine.start(shop.double.of(1), name="kept")
    with using(engine) as bench:
        assert engine._runtime.store.describe().name == "memory"
        engine.start(shop.double.of(2), name="kept")
        bench.assert_enqueued(shop.double, times=1)
    assert engine._runtime.store.describe().name == "sqlite"
    run = engine.run(shop.double.of(1), name="kept")
    assert list(run.results()) == [2]
    engine.close()


def test_nothing_reaches_the_engines_own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with using(shop.engine) as bench:
        shop.engine.run(shop.double.of(1))
        bench.drain()
    assert not list(tmp_path.iterdir())


def test_an_engine_that_is_closed_in_the_block_stays_away_from_its_own_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with using(shop.engine):
        shop.engine.close()
        shop.engine.run(shop.double.of(1))
    assert not list(tmp_path.iterdir())


def test_resources_are_closed_after_each_drain(bench: Workbench) -> None:
    shop.engine.start(shop.remind.of("ann"))
    bench.drain()
    assert not shop.ledger.opened


def test_an_engine_is_on_one_other_store_at_a_time(bench: Workbench) -> None:
    with pytest.raises(ConfigError, match="already"), using(shop.engine):
        pass


def test_two_blocks_share_nothing_but_a_file(tmp_path: Path) -> None:
    with using(shop.engine, tmp_path / "a.db") as first:
        shop.engine.start(shop.double.of(1), name="left")
        first.assert_enqueued(shop.double)
    with using(shop.engine) as other:
        other.refute_enqueued(shop.double)
    with using(shop.engine, tmp_path / "a.db") as again:
        assert again.drain() == 1


def test_workers_beside_the_test_see_what_advance_makes_due(bench: Workbench, lines: list[str]) -> None:
    with shop.engine.working(threads=1):
        run = shop.engine.start(shop.remind.of("ann").delay(3600))
        bench.advance(3600)
        assert run.wait(10)
    assert lines == ["remind ann"]


@pytest.mark.parametrize(
    ("keep", "before", "after"), [(60, 59, 2), (0.5, 0.4, 0.2), (100 * 365 * 86_400, 86_400, None)]
)
def test_a_unique_key_is_kept_for_as_many_seconds_as_was_said(
    bench: Workbench, keep: float, before: float, after: float | None
) -> None:
    call = shop.count_down.of(0).unique("k", keep=keep)
    shop.engine.start(call)
    bench.drain()
    bench.advance(before)
    kept = shop.engine.start(call)
    bench.drain()
    assert (kept.state, kept.counts.added, kept.counts.duplicates) == (RunState.DONE, 0, 1)
    if after is not None:
        bench.advance(after)
        again = shop.engine.start(call)
        bench.drain()
        assert (again.counts.done, again.counts.duplicates) == (1, 0)


def test_a_deadline_comes_with_the_clock(bench: Workbench) -> None:
    run = shop.engine.start(shop.count_down.of(5).delay(3600), deadline=timedelta(minutes=5))
    bench.drain()
    assert not run.ended
    bench.advance(timedelta(minutes=5))
    bench.drain()
    assert run.state is RunState.FAILED


def test_a_run_in_a_test_is_out_of_time_at_its_deadline(bench: Workbench) -> None:
    run = shop.engine.run(shop.count_down.of(5).delay(3600), deadline=timedelta(minutes=5))
    assert run.state is RunState.FAILED
