"""`ramify crons`: a person at a terminal looks at schedules, and decides about them, without their program."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from ramify import Engine
from ramify.engine.runs import deciding
from ramify.inspect.crons import cron
from ramify.model.process import NewProcess, new_process_id
from ramify.shapes.cron.declaration import kinds_of
from ramify.store.contract import Store
from ramify.store.here import person
from ramify.testing import Workbench, using
from tests.cli.conftest import HOSTILE, RAW, Desk

#: Commands open the store with the real clock. The time of a store never goes back, so that one which was written far
#: ahead is at that time for a command too.
BEGAN = datetime(2126, 3, 27, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)

engine = Engine("unused.db")
ran: list[str] = []


@engine.cron("0 6 * * *", tz="Europe/Berlin", late_after=HOUR, jitter=30)
@engine.task
def report() -> None:
    ran.append("report")


@engine.task
def load() -> None:
    ran.append("load")


etl = engine.dag("etl")
etl.add(load.of())
engine.schedule(etl.of(), name="etl", cron="@hourly", catch_up="all", overlap="allow")


@pytest.fixture
def bench(desk: Desk) -> Iterator[Workbench]:
    """The schedules of this page, declared two days ago and worked on until two hours ago: at half past ten."""
    ran.clear()
    with using(engine, desk.folder / "walk.db", now=BEGAN) as prepared:
        prepared.drain()
        pass_time(prepared, hours=46)
        prepared.drain(raising=False)
        pass_time(prepared, hours=2)
        yield prepared


def pass_time(bench: Workbench, *, hours: float) -> None:
    """Let time pass, for commands too: the store writes down when a run began."""
    bench.advance(timedelta(hours=hours))
    deciding.cancel(store_of(bench), bench.engine.start(load.of()).id)


def store_of(bench: Workbench) -> Store:
    return bench.engine._runtime.store


def declared(bench: Workbench, *names: str) -> None:
    """Let a live worker declare schedules."""
    kinds = tuple(kind for name in names for kind in kinds_of(name))
    store_of(bench).enter(NewProcess(new_process_id(), 7, "mill", kinds=("load", *kinds)))


def hours_ago(hours: float) -> str:
    return (BEGAN + timedelta(hours=48 - hours)).isoformat()


def test_without_schedules_it_says_how_to_declare_one(desk: Desk) -> None:
    assert desk.out("crons") == 'no schedules. Write @engine.cron("0 6 * * *") above a task, and start a worker\n'
    assert desk.json("crons") == []


def test_each_schedule_is_listed_with_its_zone_its_next_and_its_last_slot(desk: Desk, bench: Workbench) -> None:
    declared(bench, "etl", "report")
    assert desk.out("crons").splitlines() == [
        "schedule  state  times                    next slot                last slot",
        "etl       open   @hourly UTC              2126-03-29 13:00:00 UTC  2126-03-29 10:00:00 UTC done  "
        "late by 1 h 30 min",
        "report    open   0 6 * * * Europe/Berlin  2126-03-30 06:00:00 CET  2126-03-29 06:00:00 CET done",
    ]


def test_a_schedule_that_no_worker_declares_is_marked(desk: Desk, bench: Workbench) -> None:
    declared(bench, "report")
    _, first, second = desk.out("crons").splitlines()
    assert first.endswith(" UTC done  no worker declares it, due for 1 h 30 min")
    assert second.endswith(" CET done")


def test_schedules_are_listed_page_by_page(desk: Desk, bench: Workbench) -> None:
    *_, line, more = desk.out("crons", "-n", "1").splitlines()
    assert (line.split()[0], more) == ("etl", "… more: --after etl")
    assert [each["schedule"] for each in desk.json("crons", "--after", "etl")] == ["report"]
    assert desk.err("crons", "-n", "1", "--json").splitlines()[-1] == "… more: --after etl"
    assert desk.out("crons", "--after", "report") == "no more schedules\n"


def test_one_schedule_is_shown_with_its_options_and_its_next_five_slots(desk: Desk, bench: Workbench) -> None:
    declared(bench, "report")
    told = desk.out("crons", "report")
    assert told == desk.out("crons", "show", "report")
    last = cron(store_of(bench), "report").last
    assert last is not None
    head, times, options, declared_by, workers, *rest = told.splitlines()
    assert (head, times) == ("report open", "  times     0 6 * * * Europe/Berlin")
    assert options == "  options   catch_up latest, overlap skip, jitter 30 s, late_after 1 h 0 min, keep 30 d 0 h"
    assert declared_by.startswith("  declared  by pid ")
    assert workers.startswith("  workers   process ")
    assert workers.endswith(" (pid 7 on mill)")
    assert rest == [
        "  next      2126-03-30 06:00:00 CET",
        "            2126-03-31 06:00:00 CEST",
        "            2126-04-01 06:00:00 CEST",
        "            2126-04-02 06:00:00 CEST",
        "            2126-04-03 06:00:00 CEST",
        f"  last      2126-03-29 06:00:00 CET: job {last.job} is done",
        "  was late  1 slot: `ramify errors cron/report`",
    ]


def test_a_schedule_that_is_overdue_is_shown_with_since_when(desk: Desk, bench: Workbench) -> None:
    told = desk.out("crons", "etl")
    assert "  workers   no live worker declares it\n" in told
    assert "\n  late      due since 2126-03-29 11:00:00 UTC, for 1 h 30 min\n" in told
    assert "\n  last      2126-03-29 10:00:00 UTC: run " in told


def test_json_has_all_of_a_schedule_in_seconds_and_utc(desk: Desk, bench: Workbench) -> None:
    (found,) = desk.json("crons", "report")
    assert desk.json("crons", "--json", "report", code=0)[0]["next"] == found["next"]
    assert {name: found[name] for name in ("cron", "every", "tz", "late_after", "jitter", "catch_up", "late")} == {
        "cron": "0 6 * * *",
        "every": None,
        "tz": "Europe/Berlin",
        "late_after": 3600.0,
        "jitter": 30.0,
        "catch_up": "latest",
        "late": 1,
    }
    assert len(found["next"]) == 5
    assert found["next"][:2] == ["2126-03-30T05:00:00Z", "2126-03-31T04:00:00Z"]
    assert found["last"]["state"] == "done"
    assert found["workers"] == []


def test_a_subcommand_and_a_schedule_may_share_a_name(desk: Desk) -> None:
    odd = Engine("unused.db")
    odd.include(engine)
    odd.schedule(load.of(), name="pause", every=HOUR)
    with using(odd, desk.folder / "walk.db") as bench:
        bench.drain()
        assert desk.out("crons", "show", "pause").startswith("pause open\n  times     every 1:00:00 UTC\n")
        assert "Missing argument 'NAME'" in desk.err("crons", "pause", code=2)


def test_an_unknown_schedule_is_answered_with_those_that_are_close(desk: Desk, bench: Workbench) -> None:
    for command in (["reprot"], ["show", "reprot"], ["pause", "reprot"], ["trigger", "reprot"], ["remove", "reprot"]):
        assert desk.err("crons", *command, code=2).endswith(
            "ramify: no schedule 'reprot'. There is 'report' (and 1 other).\n"
        )
    assert "There are 'etl', 'report'" in desk.err("crons", "xyz", code=2)


def test_nothing_hostile_reaches_the_terminal_by_a_name(desk: Desk, bench: Workbench) -> None:
    told = desk.type("crons", HOSTILE, code=2)
    assert not any(sign in told.output for sign in RAW)


def test_pause_and_resume_decide_by_name_and_say_why(desk: Desk, bench: Workbench) -> None:
    declared(bench, "etl")
    assert desk.out("crons", "pause", "etl", "--by", "ann", "--reason", "holidays") == "schedule 'etl' is paused\n"
    assert desk.out("crons", "etl").splitlines()[:2] == ["etl paused", "  paused by ann: holidays"]
    assert "late" not in desk.out("crons", "etl")
    assert desk.out("crons", "pause", "etl") == "schedule 'etl' is paused\n"
    assert desk.out("crons", "resume", "etl") == "schedule 'etl' continues\n"
    assert desk.out("crons", "resume", "etl") == "schedule 'etl' was not paused\n"
    assert desk.json("crons", "pause", "etl")[0]["state"] == "paused"


def test_a_paused_schedule_starts_nothing_and_catches_up_when_it_is_resumed(desk: Desk, bench: Workbench) -> None:
    desk.out("crons", "pause", "etl")
    ran.clear()
    bench.drain(raising=False)
    assert "load" not in ran
    desk.out("crons", "resume", "etl")
    for _ in range(20):
        bench.advance(60)
        bench.drain(raising=False)
    assert ran.count("load") == 2


def test_trigger_starts_a_slot_now(desk: Desk, bench: Workbench) -> None:
    ran.clear()
    said = desk.out("crons", "trigger", "report").splitlines()
    assert said[0].startswith("schedule 'report': a slot starts now (task ")
    assert said[1] == "no live worker declares it. Start your program"
    bench.drain(raising=False)
    assert ran.count("report") == 1
    (answer,) = desk.json("crons", "trigger", "report")
    assert store_of(bench).reads.task(answer["task"]) is not None


def test_trigger_keeps_who_wants_the_slot_and_why(desk: Desk, bench: Workbench) -> None:
    desk.out("crons", "trigger", "report", "--by", "ann", "--reason", "the last one lacked a page")
    desk.out("crons", "trigger", "report")
    bench.drain(raising=False)
    told = {line["text"] for line in desk.json("logs", "cron/report")}
    assert told == {"triggered by ann: the last one lacked a page", f"triggered by {person()}"}


def test_trigger_of_a_paused_schedule_says_what_it_waits_for(desk: Desk, bench: Workbench) -> None:
    declared(bench, "report")
    desk.out("crons", "pause", "report")
    assert desk.out("crons", "trigger", "report").splitlines()[1] == (
        "it is paused: `ramify crons resume report` lets it continue"
    )


def test_remove_ends_a_schedule_and_says_that_live_workers_bring_it_back(desk: Desk, bench: Workbench) -> None:
    assert desk.out("crons", "remove", "report") == "schedule 'report' is removed\n"
    declared(bench, "etl")
    assert desk.out("crons", "remove", "etl", "--by", "ann").splitlines() == [
        "schedule 'etl' is removed",
        "1 live worker declares it: it comes back with their next start, unless you remove it there",
    ]
    assert desk.out("crons") == 'no schedules. Write @engine.cron("0 6 * * *") above a task, and start a worker\n'
    assert [each["state"] for each in desk.json("crons", "--all")] == ["removed", "removed"]
    assert desk.out("crons", "remove", "report") == "schedule 'report' was removed before\n"
    assert desk.out("crons", "resume", "report") == "schedule 'report' was removed\n"
    for command in (["trigger", "report"], ["backfill", "report", "--from", "2026-03-01"]):
        assert "schedule 'report' was removed. Start a worker" in desk.err("crons", *command, code=2)
    # The worker starts again.
    bench.drain(raising=False)
    assert [each["state"] for each in desk.json("crons")] == ["open", "open"]


def test_a_dry_run_lists_the_slots_and_starts_none(desk: Desk, bench: Workbench) -> None:
    begin = cron(store_of(bench), "etl").run.id
    before = len(desk.ids(begin))
    out = desk.out("crons", "backfill", "etl", "--from", hours_ago(51), "--to", hours_ago(47), "--dry-run")
    assert out.splitlines() == [
        "schedule 'etl' would start 3 slots, from 2126-03-27 10:00:00 UTC to 2126-03-27 12:00:00 UTC",
        "  2126-03-27 10:00:00 UTC",
        "  2126-03-27 11:00:00 UTC",
        "  2126-03-27 12:00:00 UTC",
    ]
    assert len(desk.ids(begin)) == before
    (told,) = desk.json("crons", "backfill", "etl", "--from", hours_ago(51), "--to", hours_ago(47), "--dry-run")
    assert (told["slots"], len(told["at"]), told["dry_run"]) == (3, 3, True)


def test_backfill_starts_slots_that_were_missed_and_no_slot_twice(desk: Desk, bench: Workbench) -> None:
    ran.clear()
    given = ("crons", "backfill", "etl", "--from", hours_ago(60), "--to", hours_ago(44))
    # It was declared 48 hours ago, and ran from then on.
    assert desk.out(*given, "--parallel", "3").splitlines() == [
        "schedule 'etl' starts 12 slots, from 2126-03-27 01:00:00 UTC to 2126-03-27 12:00:00 UTC",
        "no live worker declares it. Start your program",
    ]
    for _ in range(20):
        bench.advance(60)
        bench.drain(raising=False)
    # And the two that the schedule was late with.
    assert ran.count("load") == 12 + 2
    assert desk.out(*given).startswith("schedule 'etl': nothing to do, no slot was missed from ")


def test_times_without_a_zone_are_read_in_that_of_the_schedule_and_it_says_so(desk: Desk, bench: Workbench) -> None:
    found = desk.type(
        "crons",
        "backfill",
        "report",
        "--from",
        "2026-03-29T05:30",
        "--to",
        "2026-03-29T06:00",
        "--dry-run",
        "-s",
        "walk.db",
    )
    assert "  2026-03-29 06:00:00 CEST\n" in found.stdout
    assert found.stderr.splitlines() == [
        "2026-03-29 05:30:00 is read in the zone of the schedule, Europe/Berlin",
        "2026-03-29 06:00:00 is read in the zone of the schedule, Europe/Berlin",
    ]
    aware = desk.out("crons", "backfill", "report", "--from", "2026-03-29T04:00Z", "--to", "2026-03-29T04:00Z")
    assert aware.startswith("schedule 'report' starts 1 slot: 2026-03-29 06:00:00 CEST\n")


def test_backfill_leaves_what_has_just_come_to_the_schedule(desk: Desk, bench: Workbench) -> None:
    told = desk.out("crons", "backfill", "etl", "--from", hours_ago(3), "--dry-run")
    assert told.startswith("schedule 'etl': nothing to do")
    assert "on are left to the schedule, which catches up by itself" in told


def test_backfill_says_how_far_back_it_knows_what_ran(desk: Desk, bench: Workbench) -> None:
    told = desk.out("crons", "backfill", "etl", "--from", hours_ago(24 * 40), "--dry-run")
    assert "ran is no longer known: they count as missed" in told
    assert "no longer known" not in desk.out("crons", "backfill", "etl", "--from", hours_ago(24), "--dry-run")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["--from", "yesterday"], "expected a time, got 'yesterday'. Write 2026-03-01, 2026-03-01T06:00"),
        ([], "Missing option '--from'"),
        (["--from", "2026-03-02", "--to", "2026-03-01"], "--to 2026-03-01 00:00:00: expected a time after --from"),
        (["--from", "2026-03-01", "--parallel", "0"], "--parallel"),
        (["--from", "1970-01-01"], "expected at most 100,000 slots"),
    ],
)
def test_odd_times_are_refused_with_what_to_write(desk: Desk, bench: Workbench, given: list[str], text: str) -> None:
    assert text in desk.err("crons", "backfill", "etl", *given, code=2)


def test_health_tells_of_a_schedule_that_no_worker_declares(desk: Desk, bench: Workbench) -> None:
    told = desk.out("health", code=1)
    assert "wrong schedule 'etl' is due since 2126-03-29 11:00:00 UTC and no worker declares it\n" in told
    assert "declare it, or remove it: `ramify crons remove etl`" in told
    desk.out("crons", "remove", "etl")
    assert desk.out("health").endswith("healthy\n")


def test_a_removed_schedule_is_no_problem(desk: Desk, bench: Workbench) -> None:
    deciding.cancel(store_of(bench), cron(store_of(bench), "etl").run.id)
    assert desk.json("health")[0]["problems"] == []
