"""17. Schedules.

A schedule starts something at each of its times, its slots. Workers that declare it do that between them, each slot
once; no process is in charge of it. In a test, `using` gives you the clock, so that a week takes a moment.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from ramify import Engine, RunState, current
from ramify.testing import Workbench, using

engine = Engine("shop.db")

#: What was done in a test, for us to look at.
done: list[str] = []


# A cron expression on a task enqueues it at each slot. The zone is UTC, unless you say otherwise.
@engine.cron("0 6 * * mon-fri", tz="Europe/Berlin")
@engine.task
def report() -> None:
    slot = current().slot
    assert slot is not None
    done.append(f"report from {slot.previous:%a %H:%M} to {slot.at:%a %H:%M}")


@engine.task
def load(day: date) -> None:
    done.append(f"load {day}")


# Anything else that can be started is scheduled with a function of the slot: a DAG with its params, for one.
etl = engine.dag("etl")
etl.add(load.of(etl.param("day", date)))
engine.schedule(lambda slot: etl.of(day=slot.at.date()), name="etl", cron="30 2 * * *", catch_up="all", overlap="allow")

THURSDAY = datetime(2026, 3, 26, 12, tzinfo=UTC)


def pass_days(bench: Workbench, days: int) -> None:
    """Let time pass with somebody at work all along: we look in every hour."""
    for _ in range(24 * days):
        bench.advance(timedelta(hours=1))
        bench.drain()


def test_a_task_runs_at_each_slot_and_knows_which_one_it_is() -> None:
    done.clear()
    with using(engine, now=THURSDAY) as bench:
        # A worker that starts declares the schedules of its engine. Before that the store knows nothing of them.
        bench.drain()
        pass_days(bench, 5)
        # At the weekend the clocks of Berlin were put forward: its mornings stay where they are.
        assert [each for each in done if each.startswith("report")] == [
            "report from Thu 06:00 to Fri 06:00",
            "report from Fri 06:00 to Mon 06:00",
            "report from Mon 06:00 to Tue 06:00",
        ]


def test_the_slot_of_a_dag_is_a_run_with_its_name() -> None:
    with using(engine, now=THURSDAY) as bench:
        bench.drain()
        pass_days(bench, 1)
        run = engine.find("cron/etl/2026-03-27T02:30:00Z")
        assert run is not None
        assert run.state is RunState.DONE
        assert run.params == {"day": "2026-03-27"}


def test_slots_that_nobody_was_there_for_are_caught_up_with() -> None:
    done.clear()
    with using(engine, now=THURSDAY) as bench:
        bench.drain()
        # Everything is down for three days.
        bench.advance(timedelta(days=3))
        bench.drain()
        # `etl` wants all of them. `report` is content with the latest: there was one, on Friday.
        assert sorted(done) == [
            "load 2026-03-27",
            "load 2026-03-28",
            "load 2026-03-29",
            "report from Thu 06:00 to Fri 06:00",
        ]


def test_a_schedule_is_a_run_so_it_can_be_paused() -> None:
    done.clear()
    with using(engine, now=THURSDAY) as bench:
        bench.drain()
        schedule = engine.find("cron/report")
        assert schedule is not None
        # The same as `ramify crons pause report --reason "holidays"`.
        schedule.pause("holidays")
        pass_days(bench, 5)
        assert not any(each.startswith("report") for each in done)
        # It goes on with the latest of the slots that it has missed.
        schedule.resume()
        bench.drain()
        assert [each for each in done if each.startswith("report")] == ["report from Mon 06:00 to Tue 06:00"]
