"""Numbers that are typed: ids, sequences and counts, each within what a store or a machine can take."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import cast

import click

from ramify.kernel.settings import MOST_PROCESSES, MOST_THREADS
from ramify.model.task import MAX_ID

_AGE = re.compile(r"(\d{1,6})([smhdw])", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class _Age(click.ParamType[timedelta]):
    """A length of time as a number with its unit: 30d."""

    name = "age"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """From what was typed."""
        found = _AGE.fullmatch(str(value))
        if found is None:
            self.fail(f"expected a number with s, m, h, d or w, got {value!a}. Write 30d", param, ctx)
        return timedelta(**{_UNITS[found[2]]: int(found[1])})


class _Seconds(click.FloatRange):
    """A length of time that ends."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """From what was typed."""
        seconds = super().convert(cast("float", value), param, ctx)
        if not math.isfinite(seconds):
            self.fail(f"expected a number of seconds, got {value!a}", param, ctx)
        return seconds


AGE = _Age()
#: 0 or more.
SECONDS = _Seconds(0)
#: The id of a task, or the last one of the page before.
TASK = click.IntRange(0, MAX_ID)
#: Where a tail stands.
SEQUENCE = click.IntRange(0, MAX_ID)
#: How many of something are wanted.
COUNT = click.IntRange(1, MAX_ID)
#: How many live workers are wanted.
WORKERS = click.IntRange(0)
PROCESSES = click.IntRange(0, MOST_PROCESSES)
THREADS = click.IntRange(0, MOST_THREADS)
