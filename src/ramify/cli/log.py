"""`--log`: what a worker does as one line for each event, for the commands that work."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ramify.engine.processes.signal_text import Form
from ramify.engine.runtime import Runtime

F = TypeVar("F", bound=Callable[..., Any])

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def log_options(command: F) -> F:
    """`--log` and `--log-level`, as the arguments `log` and `log_level` of a command."""
    form = click.option(
        "--log", type=click.Choice(["text", "json"]), help="Write a line with a time stamp per event to stderr."
    )
    level = click.option(
        "--log-level",
        type=click.Choice(list(_LEVELS)),
        default="info",
        show_default=True,
        help="With --log: the lowest level to write. Successful attempts are at debug.",
    )
    return form(level(command))


def begin_log(runtime: Runtime, log: Form | None, log_level: str) -> None:
    """Let an engine, and its worker processes, write a log until the command is over, if one is wanted."""
    if log is not None:
        click.get_current_context().call_on_close(runtime.write_log(log, _LEVELS[log_level]))
