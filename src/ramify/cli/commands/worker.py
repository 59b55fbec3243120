"""`ramify worker`: work on whatever is in the store, until stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import click

from ramify.cli.loading import engine_at
from ramify.cli.log import begin_log, log_options
from ramify.cli.main import INTERRUPTED
from ramify.cli.numbers import PROCESSES
from ramify.engine.engine import Engine
from ramify.engine.inside import Inside
from ramify.engine.stopping import Stopped, Terminated, stopping_well
from ramify.engine.supervise import attend, crew_of
from ramify.engine.telling import Form, StopTeller
from ramify.kernel.settings import MOST_THREADS, Settings


@click.command()
@click.argument("address", metavar="MODULE:ENGINE")
@click.option("-q", "--queue", "queues", multiple=True, help="Only tasks of this queue; may be given several times.")
@click.option(
    "--threads", type=click.IntRange(1, MOST_THREADS), help="So many threads; without it, their number adapts."
)
@click.option("--processes", type=PROCESSES, default=0, help="So many worker processes.")
@log_options
@click.option("--metrics", type=click.IntRange(0, 65_535), metavar="PORT", help="Serve metrics for Prometheus there.")
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="The address to serve metrics on.")
@click.option("-s", "--store", "url", metavar="URL|FILE", help="Another store than the engine's own.")
@click.pass_context
def worker(
    context: click.Context,
    /,
    address: str,
    queues: tuple[str, ...],
    threads: int | None,
    processes: int,
    metrics: int | None,
    metrics_host: str,
    url: str | None,
    log: Form | None,
    log_level: str,
) -> None:
    """Work on every run of the store that MODULE:ENGINE has tasks for, until stopped.

    Ctrl-C or SIGTERM: nothing new starts, what runs is finished and saved. Once more: it ends at once.
    """
    engine = engine_at(address, url or context.obj)
    inside = engine._inside
    chosen = frozenset(queues) or None
    begin_log(inside, log, log_level)
    about = inside.store.describe()
    inside.say(f"working on {about.location} [{about.name}: keeps {about.keeps}; lacks {about.lacks}]")
    try:
        with nullcontext() if metrics is None else _serving(engine, metrics, metrics_host):
            if processes:
                attend(inside, crew_of(inside, processes, threads, queues=chosen)).raise_it()
            else:
                _here(inside, threads, chosen).raise_it()
    except (KeyboardInterrupt, Terminated):
        inside.say("stopped")
        raise click.exceptions.Exit(INTERRUPTED) from None
    finally:
        engine.close()


@contextmanager
def _serving(engine: Engine, port: int, host: str) -> Iterator[None]:
    from ramify.contrib.prometheus import Metrics

    with Metrics(engine).serve(port, host) as given:
        tell(f"metrics on http://{host}:{given}/metrics")
        yield


def _here(inside: Inside, threads: int | None, queues: frozenset[str] | None) -> Stopped:
    with inside.using_resources():
        kernel = inside.kernel(Settings(queues=queues, threads=threads))
        with stopping_well(kernel.stop, inside.say) as stopped:
            kernel.signals.listen(StopTeller(inside.say, stopped.was_asked))
            kernel.start()
            kernel.join()
    return stopped
