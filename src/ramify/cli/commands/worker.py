"""`ramify worker`: work on whatever is in the store, until stopped."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import click

from ramify.cli.loading import engine_at
from ramify.cli.log import begin_log, log_options
from ramify.cli.main import INTERRUPTED
from ramify.cli.numbers import COUNT, PROCESSES, SECONDS
from ramify.engine.engine import Engine
from ramify.engine.processes.file_changes import watching
from ramify.engine.processes.member import Service
from ramify.engine.processes.signal_text import Form, StopTeller
from ramify.engine.processes.steering import steered, steering, steering_here
from ramify.engine.processes.stopping import Stopped, stopping_well
from ramify.engine.processes.supervise import attend, crew_of
from ramify.engine.runtime import Runtime
from ramify.errors import ConfigError, Terminated
from ramify.inspect.left import left_in_words
from ramify.inspect.text import tell
from ramify.kernel.core.queues import Queues
from ramify.kernel.settings import GRACE, MOST_THREADS, Settings


def _queues(context: click.Context, parameter: click.Parameter, typed: tuple[str, ...]) -> Queues | None:
    """From `high,low` or `high:3,low:1`."""
    if not typed:
        return None
    names = ",".join(typed).split(",")
    weighed = [re.fullmatch(r"(.*):(\d{1,9})", name, re.ASCII) for name in names]
    for name, found in zip(names, weighed, strict=True):
        if found is None and ":" in name:
            raise click.BadParameter(f"{name!a}: expected a whole number as weight behind the colon. Write high:3")
    weights = {found[1]: int(found[2]) for found in weighed if found is not None}
    if weights and len(weights) < len(names):
        raise click.BadParameter(f"{','.join(typed)!a}: expected a weight for every queue or for none, each queue once")
    try:
        return Queues.of(weights or names)
    except ConfigError as error:
        raise click.BadParameter(str(error)) from error


@click.command()
@click.argument("address", metavar="MODULE:ENGINE")
@click.option(
    "-q",
    "--queue",
    "queues",
    multiple=True,
    metavar="Q,…",
    callback=_queues,
    help="Serve only these queues: high,low in that order, or by weight high:3,low:1.",
)
@click.option(
    "--threads", type=click.IntRange(1, MOST_THREADS), help="Number of threads; adapts to the load by default."
)
@click.option("--processes", type=PROCESSES, help="Number of worker processes; by default the tasks run in this one.")
@click.option("--burst", is_flag=True, help="Exit when nothing is ready, and print what is left.")
@click.option(
    "--grace",
    type=SECONDS,
    default=GRACE,
    show_default=True,
    help="Seconds that running tasks get to finish at a stop.",
)
@click.option("--recycle-tasks", type=COUNT, help="Replace a worker process after this many tasks.")
@click.option(
    "--recycle-mb", type=COUNT, help="Replace a worker process that uses more than this many megabytes of memory."
)
@click.option(
    "--reload", is_flag=True, help="Replace the worker processes when a source file changes; for development."
)
@log_options
@click.option(
    "--metrics", type=click.IntRange(0, 65_535), metavar="PORT", help="Serve Prometheus metrics on this port."
)
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="The address to serve metrics on.")
@click.option("-s", "--store", "url", metavar="URL|FILE", help="Use this store instead of the engine's own.")
@click.pass_context
def worker(
    context: click.Context, /, address: str, queues: Queues | None, threads: int | None, processes: int | None,
    burst: bool, grace: float, recycle_tasks: int | None, recycle_mb: int | None, reload: bool, log: Form | None,
    log_level: str, metrics: int | None, metrics_host: str, url: str | None,
) -> None:  # fmt: skip
    """Run the tasks in the store that MODULE:ENGINE defines, until stopped.

    Ctrl-C or SIGTERM starts no more tasks, finishes the running ones and saves them. The exit code is 0 after SIGTERM;
    it is 130 after Ctrl-C, or when a task did not finish within --grace. A second signal ends the worker at once, with
    130 (Ctrl-C) or 143 (SIGTERM).

    SIGUSR1 prints the worker's tasks and the stacks of all threads to stderr. With --processes, SIGHUP replaces the
    worker processes one by one and reloads your code; SIGTTIN adds one, and SIGTTOU removes one.
    """
    service = Service(burst, recycle_tasks, recycle_mb)
    if processes is None:
        # Somebody must be there to start the next one.
        processes = int(reload or recycle_tasks is not None or recycle_mb is not None)
    elif reload and not processes:
        raise click.UsageError("--reload: expected worker processes. Leave --processes out, or give 1 or more")
    engine = engine_at(address, url or context.obj)
    runtime = engine._runtime
    begin_log(runtime, log, log_level)
    chosen = Settings(queues=queues, threads=threads, grace=grace)
    try:
        with nullcontext() if metrics is None else _serving(engine, metrics, metrics_host):
            if processes:
                stopped = _in_processes(runtime, processes, chosen, service, reload)
            else:
                stopped = _here(runtime, chosen, service)
        if burst and not stopped.was_asked():
            runtime.say(f"nothing is ready; left: {left_in_words(runtime.store) or 'nothing'}")
        if stopped.by == signal.SIGTERM and stopped.unfinished == 0:
            # A service is ended like this, and has done what it was told.
            runtime.say("stopped")
        else:
            stopped.raise_it()
    except (KeyboardInterrupt, Terminated):
        runtime.say("stopped")
        raise click.exceptions.Exit(INTERRUPTED) from None
    finally:
        engine.close()


@contextmanager
def _serving(engine: Engine, port: int, host: str) -> Iterator[None]:
    from ramify.contrib.prometheus import Metrics

    with Metrics(engine).serve(port, host) as given:
        engine._runtime.say(f"metrics on http://{host}:{given}/metrics")
        yield


def _say_where(runtime: Runtime, queues: Queues | None) -> None:
    # Once signals are heard: whoever reads it may send one.
    about = runtime.store.describe()
    runtime.say(f"working on {about.location} [{about.name}: keeps {about.keeps}; lacks {about.lacks}]")
    for text in runtime.unknown_queues(() if queues is None else queues.names):
        runtime.complain(text)


def _in_processes(runtime: Runtime, processes: int, chosen: Settings, service: Service, reload: bool) -> Stopped:
    crew = crew_of(runtime, processes, chosen, service)

    def changed(file: str) -> None:
        runtime.say(f"{file} changed")
        crew.reload()

    with steered(steering(crew, runtime.store, tell)), watching(changed) if reload else nullcontext():
        _say_where(runtime, chosen.queues)
        return attend(runtime, crew)


def _here(runtime: Runtime, chosen: Settings, service: Service) -> Stopped:
    with runtime.using_resources():
        kernel = runtime.kernel(replace(chosen, on_idle=(lambda: kernel.stop()) if service.burst else None))
        with (
            steered(steering_here(kernel, runtime.store, tell)),
            stopping_well(kernel.stop, runtime.say) as stopped,
        ):
            _say_where(runtime, chosen.queues)
            kernel.signals.listen(StopTeller(runtime.say, stopped))
            kernel.start()
            kernel.join()
    return stopped
