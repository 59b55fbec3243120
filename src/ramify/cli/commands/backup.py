"""`ramify backup`: copy the store while others work on it."""

from __future__ import annotations

import os

import click

from ramify.cli.visit import Visit, on_store
from ramify.errors import ConfigError
from ramify.inspect.words import MEGA


@click.command()
@click.argument("target", type=click.Path(dir_okay=False))
@click.option("--new-id", is_flag=True, help="Give the copy its own store id, so that it can run beside the original.")
@on_store
def backup(visit: Visit, target: str, new_id: bool) -> None:
    """Copy the store to the file TARGET, as of one moment, while workers run.

    The copy is a complete store. An existing file is never overwritten. Without --new-id the copy keeps the store's
    id, and its tasks keep their idempotency keys.
    """
    if os.path.lexists(target):
        raise ConfigError(f"{target} exists. Give the copy another name.")
    visit.store.backup(target, new_id=new_id)
    size = os.stat(target).st_size
    if visit.out.as_json:
        visit.out.json({"target": os.path.abspath(target), "bytes": size})
    else:
        visit.out.say(f"copied to {target} ({size / MEGA:,.1f} MB)")
