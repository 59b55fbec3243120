"""From `walk.py:engine` to the engine, for the commands that run user code."""

from __future__ import annotations

import traceback

import click

from ramify.cli.main import TROUBLE
from ramify.cli.out import tell
from ramify.engine.address import load_engine
from ramify.engine.engine import Engine
from ramify.engine.importing import importing
from ramify.errors import RamifyError


def engine_at(address: str, url: str | None) -> Engine:
    """The engine at a place, on another store if one is given; what the user's module raises is shown in full."""
    try:
        with importing(address, by="`ramify`"):
            engine = load_engine(address)
    except RamifyError:
        raise
    except Exception as error:
        for line in "".join(traceback.format_exception(error)).splitlines():
            tell(line)
        tell(f"ramify: {address.rpartition(':')[0]} could not be imported; its own error is above")
        raise click.exceptions.Exit(TROUBLE) from error
    engine._inside.say = tell
    if url is not None:
        engine._inside.url = url
    return engine
