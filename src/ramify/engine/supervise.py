"""A run in worker processes: start a crew, watch it until the run has ended, and stop it well.

This process runs no tasks itself. It looks after its children and hears the signals; the children do the work on the
same store, each with a kernel of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ramify.engine.address import address_of
from ramify.engine.crew import Crew
from ramify.engine.importing import check_guarded
from ramify.engine.member import NO_SERVICE, Orders, Service
from ramify.engine.stopping import Stopped, stopping_well
from ramify.engine.telling import StopTeller
from ramify.errors import ConfigError
from ramify.kernel.settings import Settings

if TYPE_CHECKING:
    from ramify.engine.inside import Inside


def address_for_others(inside: Inside) -> str:
    """Where worker processes find this engine; ConfigError when they could not, or could not share its store."""
    about = inside.store.describe()
    if not about.shared:
        raise ConfigError(
            f"processes=...: a {about.name} store cannot be shared between processes. Give a file, or use threads."
        )
    address = address_of(inside.tasks)
    check_guarded(address.rpartition(":")[0])
    return address


def crew_of(inside: Inside, processes: int, chosen: Settings, service: Service = NO_SERVICE) -> Crew:
    """Worker processes for an engine, each with a kernel of these settings."""
    orders = Orders(
        address=address_for_others(inside),
        path=tuple(each for each in sys.path if os.path.isabs(each)),
        durability=inside.durability,
        runs=None if chosen.runs is None else tuple(sorted(chosen.runs)),
        until_ended=chosen.until_ended,
        queues=chosen.queues,
        threads=chosen.threads,
        log=inside.log,
        grace=chosen.grace,
        service=service,
    )
    # A file not as it was given: this process may have moved to another folder since, and a child begins there.
    url = inside.store.describe().file or os.fspath(inside.url)
    return Crew(orders, processes, inside.store, inside.signals(), url=url, say=inside.say)


def supervise(inside: Inside, runs: Iterable[int], processes: int, threads: int | None) -> Stopped:
    """Let worker processes work on runs until these have ended, or a signal stops them."""
    return attend(inside, crew_of(inside, processes, Settings(runs=frozenset(runs), until_ended=True, threads=threads)))


def attend(inside: Inside, crew: Crew) -> Stopped:
    """Look after a crew until it has ended by itself, or a signal stops it."""
    with stopping_well(crew.stop, inside.say, crew.kill) as stopped:
        crew.signals.listen(StopTeller(inside.say, stopped))
        crew.start()
        crew.wait()
    return stopped
