"""The pages about services and monitoring name the options and numbers of the code."""

import re
from pathlib import Path

from ramify.cli.commands.health import health
from ramify.cli.commands.worker import worker
from ramify.engine.processes.crew import FIRST_PAUSE, HUNG_AFTER, LONGEST_PAUSE, TO_BE_GONE
from ramify.inspect.health import SILENT_SECONDS
from ramify.kernel.settings import Settings

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "guides" / "service.md").read_text(encoding="utf-8")
MONITOR = (DOCS / "operations" / "monitor.md").read_text(encoding="utf-8")
#: As everywhere, and said there.
GENERAL = {"--store", "--help", "--json"}


def test_every_option_is_on_the_page_and_every_option_there_exists() -> None:
    taken = {name for option in worker.params for name in option.opts if name.startswith("--")} - GENERAL
    table = PAGE.split("## Options")[1].split("\n## ")[0]
    assert set(re.findall(r"--[a-z]+(?:-[a-z]+)*", table)) == taken


def test_every_option_of_health_is_on_the_page_and_every_option_there_exists() -> None:
    taken = {name for option in health.params for name in option.opts if name.startswith("--")} - GENERAL
    section = MONITOR.split("## Health")[1].split("\n## ")[0]
    assert set(re.findall(r"--[a-z]+(?:-[a-z]+)*", section)) - GENERAL == taken


def test_the_numbers_on_the_page_are_those_of_the_code() -> None:
    assert f"({Settings().grace:g})" in PAGE
    assert f"was not heard of for {SILENT_SECONDS:g} seconds" in MONITOR
    assert f"get {TO_BE_GONE:g} seconds beyond it" in PAGE
    assert f"doubles from {FIRST_PAUSE:g} to {LONGEST_PAUSE:g} seconds" in PAGE
    assert f"says nothing for {HUNG_AFTER:g} seconds" in PAGE
