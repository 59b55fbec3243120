"""Timetables: the slots of expressions and intervals, and what happens to them where a clock is moved.

Each row of `ROWS` is a row of the table in the docs. The property tests compare slots with `minutes.py`, which walks
real minutes.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import islice, pairwise
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ramify.errors import ConfigError
from ramify.model.slot import Slot
from ramify.shapes.cron.expression import NAMES
from ramify.shapes.cron.timetable import Timetable
from tests.shapes.cron.minutes import CHANGES, Expression, expressions, walked, windows

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"


def moment(when: datetime | str) -> int:
    when = datetime.fromisoformat(when) if isinstance(when, str) else when
    return (when - EPOCH) // timedelta(microseconds=1)


def shown(table: Timetable, moments: Any) -> list[str]:
    return [table.datetime_of(slot).isoformat(timespec="minutes") for slot in moments]


@dataclass(frozen=True)
class Row:
    """The slots of a timetable from `low` to `high`, local days or times of its zone, both included."""

    name: str
    times: str | timedelta
    zone: str
    low: str
    high: str
    slots: list[str]

    def table(self) -> Timetable:
        if isinstance(self.times, str):
            return Timetable.of(self.times, tz=self.zone)
        return Timetable.of(every=self.times, tz=self.zone)

    def bounds(self) -> tuple[int, int]:
        low, high = (datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(self.zone)) for text in (self.low, self.high))
        return moment(low) - 1, moment(high)


def on(day: str, *times: str) -> list[str]:
    return [f"{day}T{time}" for time in times]


ROWS = [
    # A skipped hour: Berlin's clock jumps from 02:00+01:00 to 03:00+02:00 on 2026-03-29.
    Row(
        "Berlin, fixed time in the skipped hour",
        "30 2 * * *",
        BERLIN,
        "2026-03-28",
        "2026-03-31",
        ["2026-03-28T02:30+01:00", "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"],
    ),
    Row(
        "Berlin, several fixed times in and after the skipped hour",
        "0,30 2,3 * * *",
        BERLIN,
        "2026-03-29",
        "2026-03-30",
        on("2026-03-29", "03:00+02:00", "03:30+02:00"),
    ),
    Row(
        "Berlin, hourly over the skipped hour",
        "0 * * * *",
        BERLIN,
        "2026-03-29T01:00",
        "2026-03-29T04:00",
        on("2026-03-29", "01:00+01:00", "03:00+02:00", "04:00+02:00"),
    ),
    Row(
        "Berlin, every 15 minutes over the skipped hour",
        "*/15 * * * *",
        BERLIN,
        "2026-03-29T01:30",
        "2026-03-29T03:15",
        on("2026-03-29", "01:30+01:00", "01:45+01:00", "03:00+02:00", "03:15+02:00"),
    ),
    Row(
        "Berlin, every half hour within the skipped hour only",
        "*/30 2 * * *",
        BERLIN,
        "2026-03-28",
        "2026-03-30T02:15",
        ["2026-03-28T02:00+01:00", "2026-03-28T02:30+01:00", "2026-03-30T02:00+02:00"],
    ),
    # A repeated hour: Berlin's clock goes back from 03:00+02:00 to 02:00+01:00 on 2026-10-25.
    Row(
        "Berlin, fixed time in the repeated hour",
        "30 2 * * *",
        BERLIN,
        "2026-10-24",
        "2026-10-27",
        ["2026-10-24T02:30+02:00", "2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"],
    ),
    Row(
        "Berlin, hourly over the repeated hour",
        "0 * * * *",
        BERLIN,
        "2026-10-25T01:00",
        "2026-10-25T03:00",
        on("2026-10-25", "01:00+02:00", "02:00+02:00", "02:00+01:00", "03:00+01:00"),
    ),
    Row(
        "Berlin, every 15 minutes over the repeated hour",
        "*/15 * * * *",
        BERLIN,
        "2026-10-25T02:30",
        "2026-10-25T03:00",
        on(
            "2026-10-25",
            *("02:30+02:00", "02:45+02:00", "02:00+01:00", "02:15+01:00", "02:30+01:00", "02:45+01:00", "03:00+01:00"),
        ),
    ),
    Row(
        "Berlin, every half hour within the repeated hour only",
        "*/30 2 * * *",
        BERLIN,
        "2026-10-25",
        "2026-10-26",
        on("2026-10-25", "02:00+02:00", "02:30+02:00", "02:00+01:00", "02:30+01:00"),
    ),
    # Intervals are counted in real time.
    Row(
        "Berlin, an interval of 15 minutes over the skipped hour",
        timedelta(minutes=15),
        BERLIN,
        "2026-03-29T01:45",
        "2026-03-29T03:15",
        on("2026-03-29", "01:45+01:00", "03:00+02:00", "03:15+02:00"),
    ),
    Row(
        "Berlin, an interval of 30 minutes over the repeated hour",
        timedelta(minutes=30),
        BERLIN,
        "2026-10-25T02:00",
        "2026-10-25T03:00",
        on("2026-10-25", "02:00+02:00", "02:30+02:00", "02:00+01:00", "02:30+01:00", "03:00+01:00"),
    ),
    Row(
        "Berlin, an interval of a day over the skipped hour",
        timedelta(days=1),
        BERLIN,
        "2026-03-28",
        "2026-03-30T03:00",
        ["2026-03-28T01:00+01:00", "2026-03-29T01:00+01:00", "2026-03-30T02:00+02:00"],
    ),
    # New York: 02:00-05:00 to 03:00-04:00 on 2026-03-08; 02:00-04:00 back to 01:00-05:00 on 2026-11-01.
    Row(
        "New York, fixed time in the skipped hour",
        "15 2 * * *",
        NEW_YORK,
        "2026-03-07",
        "2026-03-10",
        ["2026-03-07T02:15-05:00", "2026-03-08T03:00-04:00", "2026-03-09T02:15-04:00"],
    ),
    Row(
        "New York, fixed time in the repeated hour",
        "15 1 * * *",
        NEW_YORK,
        "2026-10-31",
        "2026-11-03",
        ["2026-10-31T01:15-04:00", "2026-11-01T01:15-04:00", "2026-11-02T01:15-05:00"],
    ),
    Row(
        "New York, hourly over the skipped hour",
        "30 * * * *",
        NEW_YORK,
        "2026-03-08T01:00",
        "2026-03-08T04:00",
        on("2026-03-08", "01:30-05:00", "03:30-04:00"),
    ),
    Row(
        "New York, hourly over the repeated hour",
        "30 * * * *",
        NEW_YORK,
        "2026-11-01T00:00",
        "2026-11-01T03:00",
        on("2026-11-01", "00:30-04:00", "01:30-04:00", "01:30-05:00", "02:30-05:00"),
    ),
    # Lord Howe moves by half an hour: 02:00+10:30 to 02:30+11:00 on 2026-10-04, 02:00+11:00 to 01:30 on 2026-04-05.
    Row(
        "Lord Howe, fixed time in the skipped half hour",
        "15 2 * * *",
        LORD_HOWE,
        "2026-10-03",
        "2026-10-06",
        ["2026-10-03T02:15+10:30", "2026-10-04T02:30+11:00", "2026-10-05T02:15+11:00"],
    ),
    Row(
        "Lord Howe, fixed time in the repeated half hour",
        "45 1 * * *",
        LORD_HOWE,
        "2026-04-04",
        "2026-04-07",
        ["2026-04-04T01:45+11:00", "2026-04-05T01:45+11:00", "2026-04-06T01:45+10:30"],
    ),
    Row(
        "Lord Howe, hourly over the skipped half hour",
        "0 * * * *",
        LORD_HOWE,
        "2026-10-04T01:00",
        "2026-10-04T04:00",
        on("2026-10-04", "01:00+10:30", "03:00+11:00", "04:00+11:00"),
    ),
    Row(
        "Lord Howe, hourly over the repeated half hour",
        "0 * * * *",
        LORD_HOWE,
        "2026-04-05T01:00",
        "2026-04-05T03:00",
        on("2026-04-05", "01:00+11:00", "02:00+10:30", "03:00+10:30"),
    ),
    Row(
        "Lord Howe, every 15 minutes over the skipped half hour",
        "*/15 * * * *",
        LORD_HOWE,
        "2026-10-04T01:45",
        "2026-10-04T02:45",
        on("2026-10-04", "01:45+10:30", "02:30+11:00", "02:45+11:00"),
    ),
    Row(
        "Lord Howe, every 15 minutes over the repeated half hour",
        "*/15 * * * *",
        LORD_HOWE,
        "2026-04-05T01:30",
        "2026-04-05T02:00",
        on("2026-04-05", "01:30+11:00", "01:45+11:00", "01:30+10:30", "01:45+10:30", "02:00+10:30"),
    ),
    Row(
        "Lord Howe, every 15 minutes of the hour after the repeated half hour",
        "*/15 2 * * *",
        LORD_HOWE,
        "2026-04-05",
        "2026-04-06",
        on("2026-04-05", "02:00+10:30", "02:15+10:30", "02:30+10:30", "02:45+10:30"),
    ),
    # Clocks that moved at midnight.
    Row(
        "Sao Paulo, a midnight that is skipped",
        "@daily",
        "America/Sao_Paulo",
        "2018-11-03",
        "2018-11-05",
        ["2018-11-03T00:00-03:00", "2018-11-04T01:00-02:00", "2018-11-05T00:00-02:00"],
    ),
    Row(
        "Sao Paulo, the hour before midnight repeated",
        "30 23 * * *",
        "America/Sao_Paulo",
        "2018-02-16",
        "2018-02-19",
        ["2018-02-16T23:30-02:00", "2018-02-17T23:30-02:00", "2018-02-18T23:30-03:00"],
    ),
    Row(
        "Tehran, a weekly midnight that is skipped",
        "0 0 * * tue",
        "Asia/Tehran",
        "2022-03-15",
        "2022-03-29",
        ["2022-03-15T00:00+03:30", "2022-03-22T01:00+04:30", "2022-03-29T00:00+04:30"],
    ),
    # Apia skipped the whole day 2011-12-30.
    Row(
        "Apia, fixed time on the skipped day",
        "0 6 * * *",
        "Pacific/Apia",
        "2011-12-29",
        "2012-01-01",
        ["2011-12-29T06:00-10:00", "2011-12-31T00:00+14:00", "2011-12-31T06:00+14:00"],
    ),
    Row(
        "Apia, midnight of the skipped day",
        "0 0 * * *",
        "Pacific/Apia",
        "2011-12-29",
        "2012-01-01",
        ["2011-12-29T00:00-10:00", "2011-12-31T00:00+14:00", "2012-01-01T00:00+14:00"],
    ),
    Row(
        "Apia, hourly over the skipped day",
        "0 * * * *",
        "Pacific/Apia",
        "2011-12-29T22:00",
        "2011-12-31T01:00",
        ["2011-12-29T22:00-10:00", "2011-12-29T23:00-10:00", "2011-12-31T00:00+14:00", "2011-12-31T01:00+14:00"],
    ),
    # UTC, where no clock moves, and the calendar.
    Row(
        "UTC, hourly where others skip an hour",
        "0 * * * *",
        "UTC",
        "2026-03-29T00:00",
        "2026-03-29T03:00",
        on("2026-03-29", "00:00+00:00", "01:00+00:00", "02:00+00:00", "03:00+00:00"),
    ),
    Row(
        "UTC, leap days",
        "0 12 29 2 *",
        "UTC",
        "2092-01-01",
        "2109-01-01",
        [f"{year}-02-29T12:00+00:00" for year in (2092, 2096, 2104, 2108)],
    ),
    Row(
        "Berlin, the 31st",
        "0 12 31 * *",
        BERLIN,
        "2026-01-01",
        "2026-12-01",
        [
            f"2026-{month}-31T12:00+0{offset}:00"
            for month, offset in (("01", 1), ("03", 2), ("05", 2), ("07", 2), ("08", 2), ("10", 1))
        ],
    ),
    Row(
        "UTC, the last day of the month",
        "0 0 L * *",
        "UTC",
        "2024-01-01",
        "2024-05-01",
        [f"2024-{day}T00:00+00:00" for day in ("01-31", "02-29", "03-31", "04-30")],
    ),
    Row(
        "New York, every 15 minutes over the end of the year",
        "*/15 * * * *",
        NEW_YORK,
        "2026-12-31T23:45",
        "2027-01-01T00:15",
        ["2026-12-31T23:45-05:00", "2027-01-01T00:00-05:00", "2027-01-01T00:15-05:00"],
    ),
    Row(
        "Berlin, weekdays over the end of the year",
        "0 6 * * mon-fri",
        BERLIN,
        "2026-12-31",
        "2027-01-05",
        ["2026-12-31T06:00+01:00", "2027-01-01T06:00+01:00", "2027-01-04T06:00+01:00"],
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_slots_where_a_clock_is_moved_or_the_calendar_is_odd(row: Row) -> None:
    table = row.table()
    low, high = row.bounds()
    found = list(table.between(low, high))
    assert shown(table, found) == row.slots
    backwards = []
    at = table.before(high + 1)
    while at is not None and at > low:
        backwards.append(at)
        at = table.before(at)
    assert backwards[::-1] == found
    assert [table.after(one) for one in found[:-1]] == found[1:]


@pytest.mark.parametrize(
    ("cron", "slots"),
    [
        ("0 0 * * 0", ["03-01", "03-08", "03-15", "03-22", "03-29"]),
        ("0 0 * * 7", ["03-01", "03-08", "03-15", "03-22", "03-29"]),
        ("0 0 * MAR Sun", ["03-01", "03-08", "03-15", "03-22", "03-29"]),
        ("0 0 * * 5-7/2", ["03-01", "03-06", "03-08", "03-13", "03-15", "03-20", "03-22", "03-27", "03-29"]),
        ("0 0 * * mon#1", ["03-02"]),
        ("0 0 * * 5L", ["03-27"]),
        ("0 0 LW * *", ["03-31"]),
        ("0 0 */10 * *", ["03-01", "03-11", "03-21", "03-31"]),
        ("0 0 1,10-12 jan-mar *", ["03-01", "03-10", "03-11", "03-12"]),
        ("0 0 20 * fri", ["03-06", "03-13", "03-20", "03-27"]),
        ("0 0 */2 * fri", ["03-13", "03-27"]),
    ],
)
def test_fields_take_names_ranges_lists_steps_and_days_counted_from_either_end(cron: str, slots: list[str]) -> None:
    table = Timetable.of(cron)
    found = table.between(moment("2026-02-28T12:00Z"), moment("2026-03-31T12:00Z"))
    assert shown(table, found) == [f"2026-{day}T00:00+00:00" for day in slots]


NAMED = [
    ("@hourly", "2026-05-06T08:00+00:00"),
    ("@daily", "2026-05-07T00:00+00:00"),
    ("@midnight", "2026-05-07T00:00+00:00"),
    ("@weekly", "2026-05-10T00:00+00:00"),
    ("@monthly", "2026-06-01T00:00+00:00"),
    ("@yearly", "2027-01-01T00:00+00:00"),
    ("@annually", "2027-01-01T00:00+00:00"),
]


@pytest.mark.parametrize(("name", "slot"), NAMED)
def test_names_stand_for_expressions_and_are_kept_as_written(name: str, slot: str) -> None:
    table = Timetable.of(name)
    assert table.cron == name
    assert shown(table, [table.after(moment("2026-05-06T07:08:09Z"))]) == [slot]
    assert {name for name, _ in NAMED} == set(NAMES)


# Intervals, bounds and values


def test_an_interval_is_counted_from_the_epoch_so_that_every_process_computes_the_same_slots() -> None:
    table = Timetable.of(every=timedelta(minutes=7))
    week = 7 * 60 * 1_000_000
    assert [table.after(0), table.after(week - 1), table.after(week)] == [week, week, 2 * week]
    assert [table.before(week), table.before(week + 1), table.before(2 * week)] == [0, week, week]
    assert table.after(-1) == 0


def test_an_interval_is_counted_from_its_start() -> None:
    start = datetime(2026, 3, 28, 23, 50, tzinfo=UTC)
    table = Timetable.of(every=5400, start=start, tz=BERLIN)
    assert shown(table, islice(table.between(0, 2**62), 3)) == [
        "2026-03-29T00:50+01:00",
        "2026-03-29T03:20+02:00",
        "2026-03-29T04:50+02:00",
    ]
    assert table.before(moment(start)) is None
    assert table.before(moment(start) + 1) == moment(start)


@pytest.mark.parametrize("times", [{"cron": "0 6 * * *"}, {"every": timedelta(days=1), "tz": "UTC"}], ids=str)
def test_start_and_end_may_be_slots_themselves_and_nothing_lies_outside(times: dict[str, Any]) -> None:
    start, end = datetime(2026, 1, 1, 6, tzinfo=UTC), datetime(2026, 1, 3, 6, tzinfo=UTC)
    table = Timetable.of(**times, start=start, end=end)
    first, last = moment(start), moment(end)
    assert list(table.between(-(2**62), 2**62)) == [first, first + 86_400_000_000, last]
    assert (table.after(0), table.after(last)) == (first, None)
    assert (table.before(2**62), table.before(first)) == (last, None)
    assert (table.after(last - 1), table.before(last + 1)) == (last, last)


def test_a_slot_knows_its_neighbours_in_the_zone_of_the_timetable() -> None:
    berlin = ZoneInfo(BERLIN)
    end = datetime(2026, 3, 30, 6, tzinfo=berlin)
    table = Timetable.of("0 6 * * *", tz=BERLIN, start=datetime(2026, 3, 28, tzinfo=berlin), end=end)
    days = [datetime(2026, 3, day, 6, tzinfo=berlin) for day in (28, 29, 30)]
    assert [table.slot(moment(day)) for day in days] == [
        Slot(days[0], None, days[1]),
        Slot(days[1], days[0], days[2]),
        Slot(days[2], days[1], None),
    ]
    assert table.slot(moment(days[0])).at.tzinfo is berlin
    assert table.slot(moment(days[0]) + 1).previous == days[0]


def test_a_moment_in_a_repeated_hour_is_told_from_its_twin() -> None:
    table = Timetable.of("@hourly", tz=BERLIN)
    first, second = (table.datetime_of(moment(text)) for text in ("2026-10-25T00:30Z", "2026-10-25T01:30Z"))
    assert (first.fold, second.fold) == (0, 1)
    assert Timetable.of("@hourly").datetime_of(0).tzinfo is UTC


@pytest.mark.parametrize("times", [{"cron": "* * * * *"}, {"every": 1}, {"every": timedelta.max}], ids=str)
@pytest.mark.parametrize("zone", ["UTC", BERLIN, "Pacific/Apia"])
def test_the_ends_of_the_calendar_are_no_error(times: dict[str, Any], zone: str) -> None:
    table = Timetable.of(**times, tz=zone)
    assert table.after(2**62) is None
    assert table.before(-(2**62)) is None
    for slot in (table.after(-(2**62)), table.before(2**62)):
        assert slot is None or table.datetime_of(slot).year in {1, 9999} or times == {"every": timedelta.max}
    year = moment("9999-12-01T00:00Z")
    assert Timetable.of("0 0 1 6 *", tz=zone).after(year) is None


def test_moments_between_whole_seconds_lose_no_slot() -> None:
    table = Timetable.of("0 6 * * *")
    slot = moment("2026-01-01T06:00Z")
    assert table.after(slot - 1) == slot
    assert table.after(slot - 500_000) == slot
    assert table.before(slot + 1) == slot
    assert table.before(slot + 500_000) == slot


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (Timetable.of(" 0  6 * * mon-fri ", tz=BERLIN), "0 6 * * mon-fri Europe/Berlin"),
        (Timetable.of("@daily"), "@daily UTC"),
        (Timetable.of(every=600), "every 0:10:00 UTC"),
        (
            Timetable.of(
                "@daily", tz=BERLIN, start=datetime(2026, 1, 1, tzinfo=UTC), end=datetime(2026, 7, 1, tzinfo=UTC)
            ),
            "@daily Europe/Berlin from 2026-01-01 01:00:00+01:00 until 2026-07-01 02:00:00+02:00",
        ),
    ],
    ids=str,
)
def test_a_timetable_reads_as_words(table: Timetable, words: str) -> None:
    assert str(table) == words


def test_a_timetable_is_a_value_that_is_stored_briefly_and_comes_back_equal() -> None:
    table = Timetable.of("0 6 * * *", tz=ZoneInfo(BERLIN))
    stored = msgspec.json.encode(table)
    assert stored == b'{"cron":"0 6 * * *","tz":"Europe/Berlin"}'
    assert msgspec.json.decode(stored, type=Timetable) == table
    assert len({table, Timetable.of("0 6 * * *", tz=BERLIN)}) == 1
    assert Timetable.of("0 6 * * *", tz=UTC) == Timetable.of("0 6 * * *")


def test_zones_come_from_tzdata_where_the_system_has_none() -> None:
    program = (
        "import zoneinfo; assert zoneinfo.TZPATH == ()\n"
        "from ramify.shapes.cron.timetable import Timetable\n"
        "print(Timetable.of('0 6 * * *', tz='Europe/Berlin').after(0))"
    )
    environment = {**os.environ, "PYTHONTZPATH": ""}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == str(moment("1970-01-01T05:00Z")), done.stderr


# Bad input


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("61 * * * *", "cron '61 * * * *': the minute must be 0 to 59, got '61'. Write a single value, a range"),
        ("*/0 * * * *", "the minute must be 0 to 59, got '*/0'"),
        ("1,,2 * * * *", "the minute must be 0 to 59, got '1,,2'"),
        ("9" * 5000 + " * * * *", "the minute must be 0 to 59"),
        ("0 24 * * *", "the hour must be 0 to 23, got '24'"),
        ("0 17-9 * * *", "the hour must be 0 to 23, got '17-9'. Write a single value, a range such as 9-17"),
        ("0 0 0 * *", "the day of the month must be 1 to 31, L (the last day)"),
        ("0 0 32 * *", "the day of the month must be 1 to 31"),
        ("0 0 1 13 *", "the month must be 1 to 12 or jan to dec, got '13'"),
        ("0 0 1 foo *", "the month must be 1 to 12 or jan to dec, got 'foo'"),
        ("0 0 * * 8", "the day of the week must be 0 to 7 (0 and 7 are Sunday) or sun to sat, got '8'"),
        ("0 0 * * monday", "the day of the week must be 0 to 7"),
        ("0 0 * * mon#6", "the day of the week must be 0 to 7"),
        ("0 0 * * sat-sun", "got 'sat-sun'. Write a single value, a range such as mon-fri, a list such as sat,sun"),
        ("0 0 30 2 *", "cron '0 0 30 2 *': never comes"),
        ("0 0 31 4,6,9,11 *", "never comes"),
        ("* * */20 * 1L", "never comes"),
        ("0 6 * *", "expected five fields (minute, hour, day of the month, month, day of the week), got 4. Write"),
        ("", "expected five fields"),
        ("0 0 6 * * *", "got 6. Leave out the field of seconds or years; for several slots a minute write every="),
        ("@reboot", "cron '@reboot': unknown name. Write one of @hourly, @daily"),
        (600, "cron=600: expected an expression as text, got int. Write five fields"),
        (datetime(2026, 1, 1), "expected an expression as text, got datetime"),
    ],
)
def test_a_mistake_in_an_expression_names_the_field_and_what_to_write(cron: Any, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Timetable.of(cron)
    assert words in str(refused.value)


AWARE, LATER = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "expected either cron= or every=, got neither. Write cron="),
        ({"cron": "@daily", "every": 60}, "expected either cron= or every=, got both. Write cron="),
        ({"every": 0}, "every=0: expected seconds or a timedelta, 1 second or more. Write every=timedelta"),
        ({"every": -60}, "1 second or more"),
        ({"every": 0.5}, "1 second or more"),
        ({"every": timedelta(milliseconds=999)}, "1 second or more"),
        ({"every": float("inf")}, "expected seconds or a timedelta"),
        ({"every": float("nan")}, "expected seconds or a timedelta"),
        ({"every": True}, "expected seconds or a timedelta"),
        ({"every": "10m"}, "every='10m': expected seconds or a timedelta"),
        ({"cron": "@daily", "tz": "Europe/Berln"}, "tz='Europe/Berln': unknown time zone. Write 'Europe/Berlin'"),
        ({"cron": "@daily", "tz": "berlin"}, "'Europe/Berlin'"),
        ({"cron": "@daily", "tz": "kathmandu"}, "'Asia/Kathmandu'"),
        ({"cron": "@daily", "tz": "qqqqqq"}, "Write an IANA name such as 'Europe/Berlin'"),
        ({"cron": "@daily", "tz": ""}, "tz='': unknown time zone"),
        ({"cron": "@daily", "tz": "Europe"}, "tz='Europe': unknown time zone"),
        ({"cron": "@daily", "tz": "../passwd"}, "unknown time zone"),
        ({"cron": "@daily", "tz": "localtime"}, "unknown time zone"),
        ({"cron": "@daily", "tz": "right/Europe/Berlin"}, "unknown time zone"),
        ({"cron": "@daily", "tz": None}, "tz=None: expected an IANA name or a ZoneInfo with a name, got NoneType"),
        ({"cron": "@daily", "tz": 1}, "got int. Write tz="),
        ({"cron": "@daily", "tz": timezone(timedelta(hours=1))}, "got timezone. Write tz="),
        ({"cron": "@daily", "start": datetime(2026, 1, 1)}, "with a time zone, got one without. Write start=datetime("),
        ({"cron": "@daily", "end": datetime(2026, 1, 1)}, "with a time zone, got one without. Write end=datetime("),
        ({"cron": "@daily", "start": date(2026, 1, 1)}, "expected a datetime with a time zone, got date. Write start="),
        ({"cron": "@daily", "end": 5}, "end=5: expected a datetime with a time zone, got int"),
        ({"cron": "@daily", "start": LATER, "end": AWARE}, "expected a time after start="),
        ({"cron": "@monthly", "start": LATER, "end": LATER}, "no slot lies between start and end. Write a later end"),
    ],
)
def test_what_is_wrong_with_a_timetable_is_refused_with_what_to_write(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Timetable.of(**options)
    assert words in str(refused.value)


def test_a_stored_timetable_that_this_machine_cannot_read_says_so() -> None:
    with pytest.raises(ConfigError, match="unknown time zone"):
        Timetable(cron="@daily", tz="Mars/Phobos").after(0)


# Properties


@pytest.mark.parametrize("zone", sorted(CHANGES))
def test_the_oracle_is_given_real_changes_of_clocks(zone: str) -> None:
    moved = 0
    for text in CHANGES[zone]:
        at = datetime.fromisoformat(text).replace(tzinfo=UTC)
        before, after = (
            (at + step).astimezone(ZoneInfo(zone)).utcoffset() for step in (-timedelta(seconds=1), timedelta())
        )
        moved += before != after
    assert moved == (0 if zone in {"UTC", "Asia/Kathmandu"} else len(CHANGES[zone]))


@settings(max_examples=250)
@given(expressions, windows())
def test_slots_are_those_that_a_walk_over_real_minutes_finds(
    expression: Expression, window: tuple[str, datetime, datetime]
) -> None:
    table = table_of(expression, window[0])
    zone, low, high = ZoneInfo(window[0]), window[1], window[2]
    expected = [moment(slot) for slot in walked(expression, zone, low, high)]
    assert list(table.between(moment(low), moment(high))) == expected
    # Each `before` and `after` walks anew, so of thousands of neighbours some are enough.
    for one, two in list(pairwise(expected))[:: max(1, len(expected) // 50)]:
        assert (table.after(one), table.before(two)) == (two, one)
        assert (table.after(two - 1), table.before(one + 1)) == (two, one)


@settings(max_examples=250)
@given(expressions, windows(), st.lists(st.integers(0, 48 * 3600 * 1_000_000), min_size=1, max_size=5))
def test_after_and_before_agree_from_any_moment(
    expression: Expression, window: tuple[str, datetime, datetime], steps: list[int]
) -> None:
    zone, low, _ = window
    table = table_of(expression, zone)
    for step in steps:
        here = moment(low) + step
        following, previous = table.after(here), table.before(here)
        assert following is not None
        assert previous is not None
        assert previous < here < following
        assert table.after(table.before(following) or 0) == following
        assert table.before(table.after(previous) or 0) == previous
        assert (table.before(following) or 0) <= here <= (table.after(previous) or 0)


@settings(max_examples=100)
@given(st.integers(1_000_000, 10**13), st.integers(-(10**16), 10**16), st.integers(-(10**16), 10**16), st.booleans())
def test_intervals_are_multiples_from_their_origin(every: int, start: int, here: int, from_start: bool) -> None:
    table = Timetable(every=every, start=start if from_start else None)
    origin = start if from_start else 0
    following, previous = table.after(here), table.before(here)
    assert following is not None
    assert (following - origin) % every == 0
    assert following > here
    assert previous is None or ((previous - origin) % every == 0 and previous < here)
    assert (previous is None) == (from_start and here <= start)
    found = list(islice(table.between(here, here + 3 * every), 4))
    assert found == sorted(found)
    assert not found or (here < found[0] and found[-1] <= here + 3 * every)


def table_of(expression: Expression, zone: str) -> Timetable:
    try:
        return Timetable.of(str(expression), tz=zone)
    except ConfigError as refused:
        assume("never comes" not in str(refused))
        raise
