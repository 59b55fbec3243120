"""A run in worker processes: start a crew, watch it until the run has ended, and stop it well.

This process runs no tasks itself. It looks after its children and hears the signals; the children do the work on the
same store, each with a kernel of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ramify.engine.processes.address import address_of
from ramify.engine.processes.crew import Crew
from ramify.engine.processes.importing import check_guarded
from ramify.engine.processes.member import NO_SERVICE, Orders, Service
from ramify.engine.processes.signal_text import StopTeller
from ramify.engine.processes.stopping import Stopped, stopping_well
from ramify.errors import ConfigError
from ramify.kernel.settings import Settings

if TYPE_CHECKING:
    from ramify.engine.runtime import Runtime


def address_for_others(runtime: Runtime) -> str:
    """Where worker processes find this engine; ConfigError when they could not, or could not share its store."""
    about = runtime.store.describe()
    if not about.shared:
        raise ConfigError(
            f"processes=...: a {about.name} store cannot be shared between processes. Give a file, or use threads."
        )
    address = address_of(runtime.tasks)
    check_guarded(address.rpartition(":")[0])
    return address


def crew_of(runtime: Runtime, processes: int, chosen: Settings, service: Service = NO_SERVICE) -> Crew:
    """Worker processes for an engine, each with a kernel of these settings."""
    orders = Orders(
        address=address_for_others(runtime),
        path=tuple(each for each in sys.path if os.path.isabs(each)),
        durability=runtime.durability,
        runs=None if chosen.runs is None else tuple(sorted(chosen.runs)),
        until_ended=chosen.until_ended,
        queues=chosen.queues,
        threads=chosen.threads,
        log=runtime.log,
        grace=chosen.grace,
        service=service,
    )
    # A file not as it was given: this process may have moved to another folder since, and a child begins there.
    url = runtime.store.describe().file or os.fspath(runtime.url)
    return Crew(orders, processes, runtime.store, runtime.signals(), url=url, say=runtime.say)


def supervise(runtime: Runtime, runs: Iterable[int], processes: int, threads: int | None) -> Stopped:
    """Let worker processes work on runs until these have ended, or a signal stops them."""
    return attend(
        runtime, crew_of(runtime, processes, Settings(runs=frozenset(runs), until_ended=True, threads=threads))
    )


def attend(runtime: Runtime, crew: Crew) -> Stopped:
    """Look after a crew until it has ended by itself, or a signal stops it."""
    with stopping_well(crew.stop, runtime.say, crew.kill) as stopped:
        crew.signals.listen(StopTeller(runtime.say, stopped))
        crew.start()
        crew.wait()
    return stopped
