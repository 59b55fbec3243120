"""17. Schedules.

A schedule starts something at each of its times, its slots. Any worker that declares the schedule can start a slot, and
each slot starts once; there is no scheduler process. In a test, `using` gives you the clock, so that a week takes a
moment.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from ramify import Engine, RunState, current
from ramify.testing import Workbench, using

engine = Engine("shop.db")

done: list[str] = []


# A cron expression on a task enqueues it at each slot. The default time zone is UTC.
@engine.cron("0 6 * * mon-fri", tz="Europe/Berlin")
@engine.task
def report() -> None:
    slot = current().slot
    assert slot is not None
    done.append(f"report from {slot.previous:%a %H:%M} to {slot.at:%a %H:%M}")


@engine.task
def load(day: date) -> None:
    done.append(f"load {day}")


# A function of the slot schedules anything else that can be started, such as a DAG with its params.
etl = engine.dag("etl")
etl.add(load.of(etl.param("day", date)))
engine.schedule(lambda slot: etl.of(day=slot.at.date()), name="etl", cron="30 2 * * *", catch_up="all", overlap="allow")

THURSDAY = datetime(2026, 3, 26, 12, tzinfo=UTC)


def pass_days(bench: Workbench, days: int) -> None:
    """Let days pass, with a worker at work in every hour."""
    for _ in range(24 * days):
        bench.advance(timedelta(hours=1))
        bench.drain()


def test_a_task_runs_at_each_slot() -> None:
    """`current().slot` is the slot with its neighbours, in the schedule's time zone. A worker declares the schedules of
    its engine when it starts.
    """
    done.clear()
    with using(engine, now=THURSDAY) as bench:
        bench.drain()
        pass_days(bench, 5)
        # Summer time begins at the weekend; 6 o'clock in Berlin stays 6 o'clock.
        assert [each for each in done if each.startswith("report")] == [
            "report from Thu 06:00 to Fri 06:00",
            "report from Fri 06:00 to Mon 06:00",
            "report from Mon 06:00 to Tue 06:00",
        ]


def test_a_slot_of_a_dag_is_a_named_run() -> None:
    """Its name holds the schedule and the time of the slot."""
    with using(engine, now=THURSDAY) as bench:
        bench.drain()
        pass_days(bench, 1)
        run = engine.find("cron/etl/2026-03-27T02:30:00Z")
        assert run is not None
        assert run.state is RunState.DONE
        assert run.params == {"day": "2026-03-27"}


def test_missed_slots_are_caught_up() -> None:
    """After an outage, `catch_up="all"` starts every missed slot. The default starts the latest only."""
    done.clear()
    with using(engine, now=THURSDAY) as bench:
        bench.drain()
        # All workers are down for three days.
        bench.advance(timedelta(days=3))
        bench.drain()
        # `etl` starts all of them, `report` the latest.
        assert sorted(done) == [
            "load 2026-03-27",
            "load 2026-03-28",
            "load 2026-03-29",
            "report from Thu 06:00 to Fri 06:00",
        ]


def test_a_schedule_can_be_paused() -> None:
    """A schedule is an endless run, so `ramify crons pause` and `resume` work on it. It continues with the latest
    missed slot.
    """
    done.clear()
    with using(engine, now=THURSDAY) as bench:
        bench.drain()
        schedule = engine.find("cron/report")
        assert schedule is not None
        # The same as `ramify crons pause report --reason "holidays"`.
        schedule.pause("holidays")
        pass_days(bench, 5)
        assert not any(each.startswith("report") for each in done)
        schedule.resume()
        bench.drain()
        assert [each for each in done if each.startswith("report")] == ["report from Mon 06:00 to Tue 06:00"]
