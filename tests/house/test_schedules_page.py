"""The page about schedules has the defaults and the slots of the code. `test_pages` plays its programs."""

from __future__ import annotations

import inspect
import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ramify import Tasks
from ramify.shapes.cron.declaration import KEEP, PUNCTUAL
from ramify.shapes.cron.timetable import Timetable
from ramify.shapes.cron.wall import moment_of

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "schedules.md").read_text(encoding="utf-8")
ZONES = {
    "Berlin": "Europe/Berlin",
    "New York": "America/New_York",
    "Lord Howe": "Australia/Lord_Howe",
    "Sao Paulo": "America/Sao_Paulo",
    "Apia": "Pacific/Apia",
    "UTC": "UTC",
}
#: Situation, times, slots.
ROWS = re.findall(r"^\| ([^|,]+, [^|]+) \| `([^`|]+)` \| ([^|]+) \| [^|]+ \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(
    ("option", "default"),
    [
        ("tz", '`"UTC"`'),
        ("catch_up", '`"latest"`'),
        ("max_catch_up", "100"),
        ("overlap", '`"skip"`'),
        ("jitter", "0"),
        ("late_after", "none"),
        ("queue", '`"default"`'),
    ],
)
def test_the_defaults_on_the_page_are_those_of_the_code(option: str, default: str) -> None:
    found = inspect.signature(Tasks.schedule).parameters[option].default
    assert default == ("none" if found is None else f'`"{found}"`' if isinstance(found, str) else f"{found}")
    assert f"| `{option}` | {default} |" in PAGE


def test_the_page_names_every_option_and_the_lengths_of_time_of_the_code() -> None:
    options = set(inspect.signature(Tasks.schedule).parameters) - {"self", "make", "name"}
    assert options <= set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]+) \|", PAGE, re.MULTILINE))))
    assert f"| `keep` | {timedelta(microseconds=KEEP).days} days |" in PAGE
    assert f"more than {timedelta(microseconds=PUNCTUAL).seconds} seconds late" in PAGE


def test_the_table_of_slots_has_its_rows() -> None:
    assert len(ROWS) == 14


@pytest.mark.parametrize(("situation", "times", "slots"), ROWS, ids=lambda text: str(text)[:40])
def test_a_row_of_the_table_has_the_slots_of_the_code(situation: str, times: str, slots: str) -> None:
    day, expected = "", []
    for each in slots.split(", "):
        day, _, clock = each.rpartition(" ") if " " in each else (day, "", each)
        expected.append(moment_of(datetime.fromisoformat(f"{day} {clock}")))
    zone = ZONES[situation.partition(",")[0]]
    interval = re.fullmatch(r"every=timedelta\(days=(\d+)\)", times)
    table = (
        Timetable.of(times, tz=zone) if interval is None else Timetable.of(every=timedelta(int(interval[1])), tz=zone)
    )
    assert list(table.between(expected[0] - 1, expected[-1])) == expected
