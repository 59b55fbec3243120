"""A program whose tasks ask a service under limits of the whole store, to be killed at a crash point or at any moment.

    python -m tests.crash.engine.limit_program

It is told what to do as `program.py` is. Several of them work on one store at a time. Each task asks the witness at
`port`, under the name of what limits it. Options: `point` and `at` (kill itself there, the n-th time), `tasks` of each
kind, and `threads`.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import cast

from ramify import Backoff, Engine
from ramify.kernel.attempts.current import current
from ramify.kernel.settings import Settings
from ramify.store.contract import Store
from ramify.store.sqlite import SqliteStore
from tests.crash.engine.programs import arm, options_of, serve

RUN = "asking"
#: At a time in all, and in each lane; starts of `paced` in so many seconds.
MOST, IN_LANE = 3, 1
LANES = 5
STARTS, SECONDS = 40, 1.0
SOON = Backoff(first=0.002, jitter=False)
PATIENCE = 30.0

engine = Engine("store.db", durability="process")
api = engine.limit("api", max_running=MOST)
host = engine.limit("host", max_running=IN_LANE, per="lane")
ports: list[int] = []


@engine.task(limit=api, max_crashes=None, retries=3, backoff=SOON)
def shared(number: int) -> int:
    """Keep to one limit with others; now and then only at the second try."""
    ask("api")
    if number % 7 == 3 and current().attempt == 1:
        raise ConnectionError("no answer")
    return number


@engine.task(limit=[api, host], lane="at", max_crashes=None)
def both(at: str, number: int) -> int:
    """Keep to one limit with others, and to one in its lane."""
    ask("api")
    return number


@engine.task(limit=host, lane="at", max_crashes=None)
def alone(at: str, number: int) -> int:
    """Be alone in its lane."""
    ask(f"host-{at}")
    return number


@engine.task(max_rate=(STARTS, SECONDS), max_crashes=None)
def paced(number: int) -> int:
    """Start as often as others let it."""
    ask("pace")
    return number


def ask(name: str) -> None:
    """Ask the service, and wait for its answer."""
    with socket.create_connection(("127.0.0.1", ports[0]), PATIENCE) as line:
        line.sendall(f"{name} {os.getpid()}\n".encode())
        assert line.recv(1) == b"."


def open_at(file: str | Path) -> None:
    """Put the engine on a store."""
    engine._runtime.use(cast(Store, SqliteStore(file, durability="process")))


def main(given_work: str, file: str, witness: str, seed: int, *given: str) -> None:
    """Do the work, until all of it is done."""
    options = options_of(given)
    arm(options)
    ports[:] = [int(options["port"])]
    open_at(file)
    roots = [
        call
        for number in range(int(options["tasks"]))
        for call in (
            shared.of(number), both.of(str(number % LANES), number), alone.of(str(number % LANES), number),
            paced.of(number),
        )
    ]  # fmt: skip
    run = engine.start(roots, name=RUN, order="any")
    settings = Settings(runs=frozenset({run.id}), until_ended=True, threads=int(options["threads"]), beat_every=0.02)
    kernel = engine._runtime.kernel(settings)
    kernel.start()
    kernel.join()
    engine.close()


if __name__ == "__main__":
    serve("tests.crash.engine.limit_program")
