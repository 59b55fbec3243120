"""Every value on the page of defaults is that of the code, and no default is missing there that people choose."""

from __future__ import annotations

import inspect
import logging
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from ramify import Backoff, Engine, Tasks
from ramify.cli.commands.health import health
from ramify.cli.commands.worker import worker
from ramify.engine.jobs.retention import DAY, KEEP_CANCELLED, KEEP_DONE, KEEP_FAILED
from ramify.engine.processes.crew import HUNG_AFTER, TO_BE_GONE
from ramify.engine.processes.member import Orders
from ramify.engine.tasks.options import Options
from ramify.inspect.health import DEAD_AFTER, SILENT_SECONDS
from ramify.kernel.core.handler import Policy
from ramify.kernel.settings import GRACE, Settings
from ramify.kernel.tuning import (
    CHOSEN_COROUTINES,
    CHOSEN_THREADS,
    FIRST_COROUTINES,
    FIRST_THREADS,
    GUEST_STAYS,
    LONGEST_REST,
)
from ramify.model.blame import RAN_APART
from ramify.model.codec.limits import MAX_BYTES
from ramify.model.event import Status
from ramify.model.policy import LEVELS, SECOND, rank_of
from ramify.model.run import Order
from ramify.model.value import MAX_VALUE, MOST_TRIES
from ramify.shapes.cron.declaration import KEEP, PUNCTUAL
from ramify.shapes.launch import LONGEST_LOOK, look_again_after
from ramify.shapes.pipeline.steps import Steps
from ramify.testing import using

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "defaults.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("## Defaults")[2].partition("\n## ")[0]
#: Each setting with its default and what else is said of it; headings of the table have none.
ROWS = {
    setting: (default, meaning)
    for setting, default, meaning in re.findall(r"^\| (.+?) \| (.*?) ?\| (.*?) ?\|$", TABLE, re.MULTILINE)
    if default and setting != "setting"
}


def default_of(function: Any, name: str) -> Any:
    return inspect.signature(function).parameters[name].default


def option_of(command: Any, name: str) -> Any:
    (found,) = [each for each in command.params if each.name == name]
    return found.default


OPTIONS, POLICY, SETTINGS, WAIT = Options(), Policy(), Settings(), Backoff()
LEVEL = f"{(rank_of(0, 1) - rank_of(0, 0)) // SECOND} s"
#: The default of each setting, and the numbers in what is said of it, both from the code.
EXPECTED: dict[str, tuple[str, list[str]]] = {
    "`queue`": (f'`"{OPTIONS.queue}"`', []),
    "`retries`": (
        f"{OPTIONS.retries}",
        [f"{OPTIONS.retries + 1} attempts in all", f"the first one and {OPTIONS.retries} retries"],
    ),
    "`retry_on`": (f"`{OPTIONS.retry_on[0].__name__}`" if isinstance(OPTIONS.retry_on, tuple) else "", []),
    "`backoff`": (
        f"up to {WAIT.longest(1):g}, {WAIT.longest(2):g}, {WAIT.longest(3):g} s",
        [
            f"at most {WAIT.longest(99):g} s",
            f"`Backoff(first={WAIT.first:g}, factor={WAIT.factor:g}, cap={WAIT.cap:g}, jitter={WAIT.jitter})`",
        ],
    ),
    "`timeout`": ("none" if OPTIONS.timeout is None else f"{OPTIONS.timeout}", []),
    "`max_crashes`": (f"{OPTIONS.max_crashes}", [str(RAN_APART + 1)]),
    "`concurrency`, `rate`": ("none" if (OPTIONS.concurrency, OPTIONS.rate) == (None, None) else "", []),
    "`max_running`, `max_rate`, `limit`": (
        "none" if {OPTIONS.max_running, OPTIONS.max_rate, OPTIONS.limit} == {None} else "",
        [],
    ),
    "`priority`": (
        "0",
        [f"from {LEVELS[0]} to {LEVELS[-1]}", f"a head start of {LEVEL}", f"added {LEVEL} later", "priority 1"],
    ),
    "`keep`": (f"{KEEP_DONE / DAY:g} day" if OPTIONS.keep is None else "", []),
    "kept after a failure": (f"{KEEP_FAILED / DAY:g} days", []),
    "kept after a cancel": (f"{KEEP_CANCELLED / DAY:g} day", []),
    "`max_pending`": ("none", []),
    **{f"`{name}`": (f'`"{default_of(Tasks.schedule, name)}"`', []) for name in ("tz", "catch_up")},
    "`max_catch_up`": (f"{default_of(Tasks.schedule, 'max_catch_up')}", []),
    "`overlap`": (f'`"{default_of(Tasks.schedule, "overlap")}"`', []),
    "`jitter`": (f"{default_of(Tasks.schedule, 'jitter')} s", []),
    "`late_after`": ("none" if default_of(Tasks.schedule, "late_after") is None else "", []),
    'too late for `catch_up="none"`': (f"{PUNCTUAL // SECOND} s", []),
    "a schedule's `keep`": (f"{KEEP / SECOND / DAY:g} days", []),
    "`order`": (f'`"{Order.ROUNDS.value}"`', []),
    "`max_running`, `max_tasks`, `deadline`": (
        "none" if {default_of(Engine.run, name) for name in ("max_running", "max_tasks", "deadline")} == {None} else "",
        [],
    ),
    "a gate's `timeout`": ("none" if default_of(Steps.gate, "timeout") is None else "", []),
    "`dag.wait` looks again": (f"{look_again_after(0):g} s", [f"at least every {LONGEST_LOOK:g} s"]),
    "`processes`": (f"{default_of(Engine.working, 'processes')}", []),
    "`threads`": (
        "adapts" if default_of(Engine.working, "threads") is None else "",
        [
            f"begins with {FIRST_THREADS}, goes up to {CHOSEN_THREADS}",
            f"begin with {FIRST_COROUTINES} and go up to {CHOSEN_COROUTINES}",
        ],
    ),
    "`grace`": (f"{GRACE:g} s", [f"get {TO_BE_GONE:g} s more"]),
    "saves after": (f"{SETTINGS.flush_after:g} s", [f"there are {SETTINGS.flush_at:,} of them"]),
    "claims": (f"{SETTINGS.claim_at_most:,}", []),
    "poll": (f"{LONGEST_REST:g} s", []),
    "heartbeat": (f"{SETTINGS.beat_every:g} s", []),
    "starts nothing after": (f"{SILENT_SECONDS:g} s", []),
    "dead after": (f"{SETTINGS.dead_after:g} s", []),
    "hung worker process": (f"{HUNG_AFTER:g} s", []),
    "`store`": (f'`"{default_of(Engine, "store")}"`', []),
    "`durability`": (f'`"{default_of(Engine, "durability")}"`', []),
    "`log_level`, `log_lines`": (
        f'`"{default_of(Engine, "log_level")}"`, {default_of(Engine, "log_lines"):,}',
        [],
    ),
    "arguments and results": (f"{MAX_BYTES / 2**20:g} MiB", []),
    "a [value](../guides/values.md) of a space": (f"{MAX_VALUE / 2**10:g} KiB", []),
    "tries of a change": (f"{MOST_TRIES + 1}", []),
    "a program's session": (f"{GUEST_STAYS:g} s", []),
    "`--max-age`": ("none" if default_of(Engine.health, "max_age") is None else "", []),
    "`--min-workers`": (f"{option_of(health, 'min_workers')}", []),
}


def test_the_page_has_a_row_for_each_setting_and_no_other() -> None:
    assert list(ROWS) == list(EXPECTED)


@pytest.mark.parametrize("setting", EXPECTED)
def test_what_the_page_says_of_a_setting_is_what_the_code_does(setting: str) -> None:
    (default, meaning), (expected, numbers) = ROWS[setting], EXPECTED[setting]
    assert default == expected
    for each in numbers:
        assert each in meaning
        meaning = meaning.replace(each, "")
    # An example may have any number in it, such as `retries=0`.
    assert re.findall(r"\d+", re.sub(r"`[^`]*`", "", meaning)) == []


def test_every_option_of_a_task_that_has_a_default_is_on_the_page() -> None:
    given = {each.name for each in fields(Options)}
    # Without a value of their own: what is not said is not there.
    absent = {"name", "aliases", "give_up_on", "key", "once", "lane", "max_children", "per"}
    on_page = {name for setting in ROWS for name in re.findall(r"`([a-z_]+)`", setting)}
    assert given - absent <= on_page


def test_those_who_repeat_a_default_repeat_this_one() -> None:
    assert [getattr(POLICY, name) for name in ("retries", "backoff", "timeout", "max_crashes")] == [
        getattr(OPTIONS, name) for name in ("retries", "backoff", "timeout", "max_crashes")
    ]
    orders = Orders("shop:engine")
    assert {option_of(worker, "grace"), orders.grace, SETTINGS.grace, default_of(Engine.working, "grace")} == {GRACE}
    assert {orders.dead_after, SETTINGS.dead_after} == {DEAD_AFTER}
    assert orders.beat_every == SETTINGS.beat_every
    assert logging.getLevelNamesMapping()[default_of(Engine, "log_level")] == SETTINGS.log_level
    assert default_of(Engine, "log_lines") == SETTINGS.log_lines
    assert default_of(Engine.health, "min_workers") == option_of(health, "min_workers")


tasks = Tasks()


@tasks.task
def fails() -> None:
    raise OSError("always")


def test_three_retries_are_four_attempts_in_a_run_in_rounds_of_priority_zero() -> None:
    engine = Engine("memory:", include=[tasks])
    with using(engine) as bench:
        run = engine.start(fails.of())
        bench.finish()
        assert run._stored.order is Order.ROUNDS
        task = run.roots[0].task
        assert task is not None
        events = engine._runtime.store.reads.events(task, task)
        row = engine._runtime.store.reads.task(task)
    assert [event.status for event in events] == [Status.RETRYING] * OPTIONS.retries + [Status.FAILED]
    assert row is not None
    assert row.priority == 0
