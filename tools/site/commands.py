"""The page of commands, made of the commands themselves: each with its usage, text, arguments, options and defaults.

Exit codes are those that the docstring of `ramify.cli.main` lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import click

from ramify.cli import main as cli

_CODE = re.compile(r"^    (\d+) +(.+(?:\n {9,}.+)*)", re.MULTILINE)
_PLACEHOLDER = re.compile(r"(?<![\w`./=:-])--?[a-z][\w-]*(?![\w`])")
_QUOTED = re.compile(r"(`[^`]*`)")


def pages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the page."""
    yield "reference/cli.md", page()


def page() -> str:
    """Return the whole reference of the command line."""
    context = click.Context(cli.main, info_name="ramify")
    parts = [
        "# Command line",
        "Every command has `--help`. Commands that read take `--json`, and print one JSON object a line.",
        _paragraphs(cli.main),
        _parameters(cli.main, context),
        "## Exit codes\n\n"
        + _table(["code", "meaning"], [[f"`{code}`", _marked(text)] for code, text in exit_codes()]),
        "## Commands\n\n"
        + _table(
            ["command", "about"],
            [[f"[`{name}`](#ramify-{name})", _marked(about)] for name, about in cli.COMMANDS.items()],
        ),
    ]
    for name, command in commands():
        parts += _command(name, command, context)
    return "\n\n".join(part for part in parts if part) + "\n"


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command by its full name, those within others after them."""
    context = click.Context(cli.main, info_name="ramify")
    yield from _within("ramify", cli.main, context)


def exit_codes() -> Iterator[tuple[str, str]]:
    """Yield each exit code with its meaning."""
    for found in _CODE.finditer(cli.__doc__ or ""):
        yield found[1], " ".join(found[2].split())


def _within(above: str, group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{above} {name}", command
        if isinstance(command, click.Group):
            yield from _within(f"{above} {name}", command, context)


def _command(name: str, command: click.Command, above: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name)
    pieces = command.collect_usage_pieces(context)
    yield f"{'#' * (1 + len(name.split()))} {name}"
    yield f"```text\n{name} {' '.join(pieces)}\n```"
    yield _paragraphs(command)
    yield _parameters(command, context)


def _paragraphs(command: click.Command) -> str:
    """The help text, with options as code."""
    text = (command.help or "").replace("\b", "").strip()
    whole = [" ".join(line.strip() for line in part.splitlines()) for part in text.split("\n\n")]
    return "\n\n".join(_marked(part) for part in whole)


def _parameters(command: click.Command, context: click.Context) -> str:
    rows = []
    for each in command.get_params(context):
        if isinstance(each, click.Option) and not each.hidden:
            rows.append([f"`{_spelled(each, context)}`", _default(each, context), _marked(each.help or "")])
    heads = ["option", "default", "meaning"]
    if not any(row[1] for row in rows):
        heads, rows = ["option", "meaning"], [[row[0], row[2]] for row in rows]
    return _table(heads, rows) if rows else ""


def _spelled(option: click.Option, context: click.Context) -> str:
    names = ", ".join(sorted([*option.opts, *option.secondary_opts], key=lambda name: (len(name) > 2, name)))
    return names if option.is_flag or option.count else f"{names} {option.make_metavar(context)}"


def _default(option: click.Option, context: click.Context) -> str:
    value: Any = option.get_default(context)
    if option.is_flag or value is None or value == () or value == "" or "UNSET" in repr(value).upper():
        return ""
    return f"`{value.value if isinstance(value, Enum) else value}`"


def _marked(text: str) -> str:
    """Options that stand in prose are code; what is code already stays."""
    return "".join(
        part if part.startswith("`") else _PLACEHOLDER.sub(r"`\g<0>`", _escaped(part)) for part in _QUOTED.split(text)
    )


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("[", r"\[").replace("*", r"\*").replace("|", r"\|")


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
