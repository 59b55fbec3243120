"""From `walk.py:engine` to the engine, and from `etl.py:etl` to the DAG or pipeline, for commands that import them."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from ramify.cli.main import TROUBLE
from ramify.cli.out import tell
from ramify.engine.engine import Engine
from ramify.engine.processes.address import load_dag, load_engine, load_startable
from ramify.engine.processes.importing import importing
from ramify.errors import RamifyError
from ramify.shapes.dag.dag import Dag

if TYPE_CHECKING:
    from ramify.engine.processes.address import Startable

T = TypeVar("T")


def engine_at(address: str, url: str | None) -> Engine:
    """The engine at a place, on another store if one is given; what the user's module raises is shown in full."""
    return _on(_imported(address, load_engine), url)


def startable_at(address: str, url: str | None) -> tuple[Startable, Engine, str]:
    """Return what is at a place, an engine, DAG or pipeline; the engine that runs it; and the address of that."""
    found, engine, where = _imported(address, load_startable)
    return found, _on(engine, url), where


def dag_at(address: str) -> Dag:
    """The DAG at a place."""
    return _imported(address, load_dag)


def _on(engine: Engine, url: str | None) -> Engine:
    engine._runtime.say = tell
    if url is not None:
        engine._runtime.url = url
    return engine


def _imported(address: str, load: Callable[[str], T]) -> T:
    try:
        with importing(address, by="`ramify`"):
            return load(address)
    except RamifyError:
        raise
    except (Exception, SystemExit) as error:  # a module that ends the program would end it without a word
        for line in "".join(traceback.format_exception(error)).splitlines():
            tell(line)
        tell(f"ramify: {address.rpartition(':')[0]} could not be imported; its own error is above")
        raise click.exceptions.Exit(TROUBLE) from error
