"""`manage.py ramify_worker`: the same as `ramify worker`, with Django's settings saying what for.

It has the options of that command, taken from there, but for the store, which the settings name. `call_command` works
on the store of the settings as they are then, and writes to `stderr=`, or else `stdout=`, if one is given.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import redirect_stderr
from typing import Any

import click
from django.core.management.base import BaseCommand, CommandError  # type: ignore[import-untyped]

from ramify.cli.commands.worker import worker
from ramify.cli.main import Commands
from ramify.contrib.django.backend import RamifyBackend
from ramify.contrib.django.framework import task_backends

_OPTIONS = [each for each in worker.params if isinstance(each, click.Option) and each.name != "url"]


class _Manage(Commands):
    """`ramify` with this one command: what goes wrong is told in the same way, under the name that was typed."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        return worker


class Command(BaseCommand):  # type: ignore[misc]  # Django has no types
    """Pass the arguments on to the command line of Ramify."""

    help = "Run the tasks of a Ramify backend until stopped."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the options of `ramify worker`, as text for that command to read."""
        parser.add_argument("--backend", default="default", help="The alias in TASKS; by default `default`.")
        for each in _OPTIONS:
            how: dict[str, Any] = {"dest": each.name, "help": (each.help or "").replace("%", "%%")}
            if each.is_flag:
                how["action"] = "store_true"
            else:
                how |= {
                    "action": "append" if each.multiple else "store",
                    "metavar": each.metavar or each.opts[-1][2:].upper(),
                }
            parser.add_argument(*each.opts, **how)

    def handle(self, *args: object, backend: str, **options: Any) -> None:
        """Work until stopped; the exit code is that of `ramify worker`."""
        ours = sorted(alias for alias in task_backends if isinstance(task_backends[alias], RamifyBackend))
        if backend not in ours:
            there = f"there is {', '.join(ours)}" if ours else "TASKS names none"
            raise CommandError(f"--backend {backend}: no RamifyBackend; {there}")
        # Here, because that module sets Django up.
        from ramify.contrib.django.worker import _engine_of as find_engine

        find_engine(backend)
        typed = ["ramify_worker", f"ramify.contrib.django.worker:{backend}", *_typed(options)]
        # It talks on standard error; a program that calls it may want to have that, or not.
        with redirect_stderr(options.get("stderr") or options.get("stdout") or sys.stderr):
            code = _Manage().main(typed, prog_name="manage.py", standalone_mode=False)
        if code:
            sys.exit(code)


def _typed(options: dict[str, Any]) -> Iterator[str]:
    """Yield the given options as arguments of `ramify worker`."""
    for each in _OPTIONS:
        given = options.get(each.name or "")
        if each.is_flag:
            yield from [each.opts[-1]] if given else []
        elif given is not None:
            # Who calls the command from a program may give numbers.
            for one in given if isinstance(given, list) else [given]:
                yield from (each.opts[-1], str(one))
