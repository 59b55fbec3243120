"""Schedules as people see them: what the store alone tells of one, whether it is late, and who declares it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ramify import ConfigError, Defer, Engine, current
from ramify.engine.runs import deciding
from ramify.inspect.crons import CronState, CronView, cron, cron_names, crons
from ramify.inspect.doctor import examine
from ramify.inspect.health import health_of
from ramify.inspect.unknown import unknown_in_words
from ramify.inspect.why import Cause, why
from ramify.inspect.words import instant
from ramify.model.policy import SECOND
from ramify.model.process import NewProcess, new_process_id
from ramify.model.run import RunState
from ramify.shapes.cron.declaration import clock_kind, kinds_of, schedule_of
from ramify.shapes.cron.declaring import backfill, clock_of, to_fill, trigger
from ramify.store.contract import Store
from ramify.testing import Workbench, using

NOON = datetime(2026, 3, 27, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)

engine = Engine("unused.db")
#: Of the slots of `tidy`, when each ran; and whether `report` is to come to an end.
tidied: list[datetime] = []
ends = True


@engine.cron("0 6 * * *", tz="Europe/Berlin", late_after=HOUR)
@engine.task
def report() -> None:
    if not ends:
        raise Defer(86_400)


@engine.task
def load() -> None:
    pass


etl = engine.dag("etl")
etl.add(load.of())
engine.schedule(etl.of(), name="etl", cron="@hourly")


@engine.cron("@hourly", name="tidy", catch_up="none")
@engine.task
def tidy() -> None:
    slot = current().slot
    assert slot is not None
    tidied.append(slot.at)


@pytest.fixture(params=["memory", "sqlite"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workbench]:
    """The schedules of this page, declared at noon, on each of our stores."""
    with using(engine, "memory:" if request.param == "memory" else tmp_path / "crons.db", now=NOON) as prepared:
        prepared.drain()
        tidied.clear()
        yield prepared


@pytest.fixture(autouse=True)
def reports_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.ends", True)


def store_of(bench: Workbench) -> Store:
    return bench.engine._runtime.store


def seen(bench: Workbench, name: str) -> CronView:
    return cron(store_of(bench), name)


def worker(bench: Workbench, *kinds: str) -> None:
    store_of(bench).enter(NewProcess(new_process_id(), 7, "mill", kinds=kinds))


def work(bench: Workbench, hours: float) -> None:
    bench.advance(timedelta(hours=hours))
    bench.drain(raising=False)


def problems(bench: Workbench) -> list[str]:
    return [each.text for each in health_of(store_of(bench)).problems if each.about == "schedule"]


def times(moments: object) -> list[str]:
    assert isinstance(moments, list)
    return [instant(moment).strftime("%d %H:%M") for moment in moments]


def test_a_schedule_tells_its_times_its_options_and_who_declared_it(bench: Workbench) -> None:
    view = seen(bench, "report")
    assert (view.name, view.run.name, view.state) == ("report", "cron/report", CronState.OPEN)
    declared = view.declared
    assert declared is not None
    assert str(declared.times) == "0 6 * * * Europe/Berlin"
    assert (declared.overlap, declared.late_after) == ("skip", 3_600 * SECOND)
    assert declared.by.startswith("pid ")
    assert declared.since > 0
    assert view.last is None


def test_the_next_five_slots_are_told_in_real_time_over_a_change_of_the_clock(bench: Workbench) -> None:
    # On 29 March the clocks of Berlin move: six in the morning is four in UTC from then on.
    assert times(seen(bench, "report").upcoming) == ["28 05:00", "29 04:00", "30 04:00", "31 04:00", "01 04:00"]


def test_the_last_slot_is_told_with_what_became_of_it(bench: Workbench) -> None:
    work(bench, 1)
    last = seen(bench, "etl").last
    assert last is not None
    assert last.run is not None
    assert (times([last.at]), last.job, last.state) == (["27 13:00"], None, "done")
    assert store_of(bench).reads.run(last.run).name == "cron/etl/2026-03-27T13:00:00Z"
    work(bench, 17)
    last = seen(bench, "report").last
    assert last is not None
    assert (times([last.at]), last.run, last.state) == (["28 05:00"], None, "done")
    assert last.job is not None


def test_what_a_slot_started_may_be_forgotten(bench: Workbench) -> None:
    work(bench, 1)
    last = seen(bench, "etl").last
    assert last is not None
    assert last.run is not None
    while store_of(bench).forget(last.run).more:
        pass
    again = seen(bench, "etl").last
    assert again is not None
    assert again.state == "forgotten"


def test_a_slot_that_nobody_starts_is_overdue_since_its_time(bench: Workbench) -> None:
    assert (seen(bench, "etl").due_since, seen(bench, "etl").overdue) == (None, 0)
    bench.advance(HOUR + timedelta(minutes=5))
    view = seen(bench, "etl")
    assert (times([view.due_since]), view.overdue) == (["27 13:00"], 300 * SECOND)
    bench.drain()
    assert seen(bench, "etl").due_since is None


def test_slots_that_were_reported_as_late_are_counted(bench: Workbench) -> None:
    work(bench, 20)
    assert seen(bench, "report").late == 1
    assert seen(bench, "etl").late == 0


def test_a_schedule_is_declared_by_the_live_processes_that_name_it(bench: Workbench) -> None:
    assert seen(bench, "etl").declared_by == []
    worker(bench, *kinds_of("etl"), "load")
    assert [each.endswith("(pid 7 on mill)") for each in seen(bench, "etl").declared_by or ()] == [True]
    assert seen(bench, "report").declared_by == []


def test_a_process_that_does_not_say_what_it_knows_may_declare_a_schedule(bench: Workbench) -> None:
    store_of(bench).enter(NewProcess(new_process_id(), 8, "mill"))
    assert seen(bench, "etl").declared_by is None


def test_a_paused_schedule_is_told_as_paused_and_a_cancelled_one_as_removed(bench: Workbench) -> None:
    store, run = store_of(bench), seen(bench, "etl").run.id
    deciding.pause(store, run, "holidays", "ann")
    paused = seen(bench, "etl")
    assert (paused.state, str(paused.run.decision)) == (CronState.PAUSED, "paused by ann: holidays")
    assert len(paused.upcoming) == 5
    deciding.cancel(store, run)
    removed = seen(bench, "etl")
    assert (removed.state, list(removed.upcoming), removed.due_since) == (CronState.REMOVED, [], None)
    assert removed.declared is not None


def test_schedules_are_listed_by_name_page_by_page_without_the_runs_they_started(bench: Workbench) -> None:
    work(bench, 3)
    store = store_of(bench)
    assert cron_names(store.reads) == ["etl", "report", "tidy"]
    first = crons(store, limit=2)
    assert ([each.name for each in first.rows], first.more) == (["etl", "report"], True)
    second = crons(store, after="report", limit=2)
    assert ([each.name for each in second.rows], second.more) == (["tidy"], False)
    deciding.cancel(store, seen(bench, "report").run.id)
    assert [each.name for each in crons(store).rows] == ["etl", "tidy"]
    assert [each.name for each in crons(store, removed=True).rows] == ["etl", "report", "tidy"]


def test_a_forgotten_schedule_is_not_there_any_more(bench: Workbench) -> None:
    store, run = store_of(bench), seen(bench, "etl").run.id
    deciding.cancel(store, run)
    while store.forget(run).more:
        pass
    assert [each.name for each in crons(store, removed=True).rows] == ["report", "tidy"]
    with pytest.raises(ConfigError):
        seen(bench, "etl")


@pytest.mark.parametrize("name", ["", "etk", "etl/2026-03-27T13:00:00Z", "\0", "jobs/default", "\udcff"])
def test_an_unknown_name_is_answered_with_the_names_there_are(bench: Workbench, name: str) -> None:
    work(bench, 1)
    with pytest.raises(ConfigError, match=r"There (is|are) .*'etl'"):
        seen(bench, name)


def test_a_schedule_may_be_named_as_its_run(bench: Workbench) -> None:
    assert seen(bench, "cron/etl").name == "etl"


def test_without_schedules_an_unknown_name_is_answered_with_how_to_declare_one() -> None:
    with using(Engine("unused.db")) as bench, pytest.raises(ConfigError, match=r"no schedules\. Write @engine\.cron"):
        seen(bench, "etl")


# lateness, for monitors


def test_a_schedule_that_is_due_and_that_no_worker_declares_is_a_problem(bench: Workbench) -> None:
    worker(bench, "load")
    assert problems(bench) == []
    bench.advance(HOUR)
    found = health_of(store_of(bench))
    assert [(each.text, each.advice) for each in found.problems if "etl" in each.text] == [
        (
            "schedule 'etl' is due since 2026-03-27 13:00:00 UTC and no worker declares it",
            "declare it, or remove it: `ramify crons remove etl`",
        )
    ]
    assert list(found.stuck) == []
    assert not found.healthy
    worker(bench, *kinds_of("etl"), *kinds_of("tidy"))
    assert problems(bench) == []


def test_a_due_schedule_on_a_store_where_nobody_works_is_a_problem_too(bench: Workbench) -> None:
    assert health_of(store_of(bench)).healthy
    bench.advance(HOUR)
    assert len(problems(bench)) == 2


def test_a_slot_that_somebody_asked_for_and_that_no_worker_starts_is_a_problem(bench: Workbench) -> None:
    store = store_of(bench)
    trigger(store, "etl", seen(bench, "etl").run, store.reserve)
    assert problems(bench) == ["schedule 'etl' is due and no worker declares it"]


def test_a_slot_that_has_not_begun_after_late_after_is_a_problem(bench: Workbench) -> None:
    worker(bench, *kinds_of("report"), *kinds_of("etl"), *kinds_of("tidy"))
    bench.advance(timedelta(hours=17, minutes=59))
    # `etl` is overdue as well, and has no `late_after`.
    assert problems(bench) == []
    bench.advance(timedelta(minutes=3))
    assert problems(bench) == [
        "schedule 'report' is late: its slot at 2026-03-28 06:00:00 CET has not begun for 1 h 2 min"
    ]
    assert not health_of(store_of(bench)).healthy


def test_a_slot_whose_job_is_open_after_late_after_is_a_problem(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.ends", False)
    work(bench, 17)
    worker(bench, *kinds_of("report"), *kinds_of("etl"), *kinds_of("tidy"))
    assert problems(bench) == []
    bench.advance(timedelta(hours=1, minutes=1))
    last = seen(bench, "report").last
    assert last is not None
    text = f"schedule 'report' is late: job {last.job} of its slot at 2026-03-28 06:00:00 CET is still open after "
    assert problems(bench) == [text + "1 h 1 min"]
    bench.drain(raising=False)
    # The check has failed by now, and the job is still open.
    assert problems(bench) == [text + "1 h 1 min"]
    advice = [each.advice for each in health_of(store_of(bench)).problems if each.about == "schedule"]
    assert advice == ["`ramify crons report` shows it"]


def test_a_schedule_that_was_late_once_is_no_problem_for_ever(bench: Workbench) -> None:
    work(bench, 20)
    assert seen(bench, "report").late == 1
    worker(bench, *kinds_of("report"), *kinds_of("etl"), *kinds_of("tidy"))
    assert problems(bench) == []


def test_the_doctor_tells_of_late_schedules_as_health_does(bench: Workbench) -> None:
    worker(bench, "load")
    bench.advance(HOUR)
    told = {each.text: each.weight.value for each in examine(store_of(bench)).findings}
    assert told["schedule 'etl' is due since 2026-03-27 13:00:00 UTC and no worker declares it"] == "wrong"
    assert told["schedule 'report' waits: no worker declares it"] == "look"


def test_why_says_that_no_worker_declares_the_schedule_of_a_clock(bench: Workbench) -> None:
    worker(bench, "load")
    bench.advance(HOUR)
    store = store_of(bench)
    (clock,) = store.reads.due_tasks(clock_kind("etl")).rows
    found = why(store, clock.row.id)
    assert found.cause is Cause.KIND_UNKNOWN
    assert found.text == "it is ready, and none of 1 live process declares the schedule 'etl'"
    assert found.advice == "declare it, or remove it: `ramify crons remove etl`"


def test_only_kinds_of_schedules_name_one() -> None:
    assert [schedule_of(kind) for kind in (*kinds_of("a b"), "cron x", "ramify.cron", "ramify.cron ", "load")] == [
        "a b",
        "a b",
        "a b",
        None,
        None,
        None,
        None,
    ]
    assert unknown_in_words("ramify.cron a b", 1).endswith("`ramify crons remove 'a b'`")


# filling in


def filled(bench: Workbench, *, parallel: int, hours: int) -> list[int]:
    """Fill in what `tidy` has missed in the last hours, to the end; which hours, in the order of their starts."""
    store, view = store_of(bench), seen(bench, "tidy")
    tidied.clear()
    slots = to_fill(store, "tidy", view.run, store.now() - hours * 3_600 * SECOND, store.now())
    backfill(store, "tidy", view.run, slots, parallel, store.reserve)
    for _ in range(2 * hours):
        bench.advance(60)
        bench.drain()
    assert [each.hour for each in tidied if each.minute] == []
    return [each.hour for each in tidied]


@pytest.mark.parametrize("parallel", [1, 2, 3, 7])
def test_a_backfill_starts_each_slot_that_is_missing_once_and_none_that_ran(bench: Workbench, parallel: int) -> None:
    # Worked on at some slots in time, and at others too late for a schedule that does not catch up.
    for minutes in (60, 60, 60, 90, 90, 60, 60, 90, 90):
        bench.advance(timedelta(minutes=minutes))
        bench.drain()
    started = {each.hour for each in tidied}
    again = filled(bench, parallel=parallel, hours=11)
    assert started == {13, 14, 15, 18, 19, 20, 23}
    assert sorted(again) == [12, 16, 17, 21, 22]
    assert not started & set(again)
    assert filled(bench, parallel=parallel, hours=11) == []


def test_a_backfill_leaves_slots_to_the_clock_that_it_has_not_passed(bench: Workbench) -> None:
    store, view = store_of(bench), seen(bench, "tidy")
    bench.advance(3 * HOUR)
    assert times(list(to_fill(store, "tidy", view.run, store.now() - 4 * 3_600 * SECOND, store.now()))) == [
        "27 11:00",
        "27 12:00",
    ]


def test_two_backfills_of_one_time_start_each_slot_once(bench: Workbench) -> None:
    store, view = store_of(bench), seen(bench, "tidy")
    for _ in range(2):
        slots = to_fill(store, "tidy", view.run, store.now() - 5 * 3_600 * SECOND, store.now())
        backfill(store, "tidy", view.run, slots, 2, store.reserve)
    for _ in range(20):
        bench.advance(60)
        bench.drain()
    assert sorted(each.hour for each in tidied) == [7, 8, 9, 10, 11, 12]


def test_a_schedule_with_no_slot_left_can_be_filled_in_and_triggered() -> None:
    over = Engine("unused.db")

    @over.cron("@hourly", name="brief", end=NOON + 2 * HOUR)
    @over.task
    def brief() -> None:
        tidied.append(NOON)

    tidied.clear()
    with using(over, now=NOON) as bench:
        bench.drain()
        work(bench, 5)
        store, view = store_of(bench), seen(bench, "brief")
        assert clock_of(store, "brief", view.run.id) is None
        assert (list(view.upcoming), view.due_since, len(tidied)) == ([], None, 1)
        slots = to_fill(store, "brief", view.run, store.now() - 6 * 3_600 * SECOND, store.now())
        assert times(list(slots)) == ["27 11:00", "27 12:00", "27 13:00"]
        trigger(store, "brief", view.run, store.reserve)
        bench.drain()
        assert len(tidied) == 2
        assert view.run.state is RunState.OPEN
