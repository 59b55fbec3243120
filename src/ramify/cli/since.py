"""A place in a topic as it is typed: a number, a length of time back, or a time."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from ramify.cli.numbers import AGE
from ramify.coordination.places import Since
from ramify.model.task import MAX_ID


class _Since(click.ParamType[Since]):
    """A place in a topic."""

    name = "place"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Since:
        """From what was typed. A time without a zone is in UTC."""
        text = str(value)
        if text.isascii() and text.isdigit() and int(text) < MAX_ID:
            return int(text)
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        try:
            return AGE.convert(text, param, ctx)
        except click.BadParameter:
            self.fail(f"expected a number, 2h or 2030-01-31T12:00Z, got {text!a}. Write 0 for all", param, ctx)


SINCE = _Since()
