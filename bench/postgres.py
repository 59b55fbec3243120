"""A PostgreSQL of one turn, for rivals that need one: made in a folder, served on a socket, and gone afterwards.

The programs are those of the wheel `pgserver`; all settings are PostgreSQL's own, so there is an fsync per commit. It
listens to no network. PostgreSQL refuses to run as root, so root gives a copy of the programs to a user without rights;
no user is made for it, and no rights are changed outside of the folder of the turn.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

USER = "nobody"
PATIENCE = 60.0


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a new, empty database below the folder of a turn; gives the address for clients."""
    user = USER if os.geteuid() == 0 else None
    place = folder / "postgres"
    place.mkdir()
    # Names of sockets must be short, and folders may be deep.
    with tempfile.TemporaryDirectory(prefix="pg-") as door:
        wheel = _wheel()
        if user is not None:
            # With the libraries beside it, which it finds from where it is.
            for part in wheel.parent.glob(f"{wheel.name}*"):
                shutil.copytree(part, place / part.name)
            wheel = place / wheel.name
            # It must get there, and needs not see what else is there.
            folder.chmod(0o711)
            shutil.chown(place, user)
            shutil.chown(door, user)
        bin = wheel / "pginstall" / "bin"
        subprocess.run(
            [bin / "initdb", "-D", place / "data", "-U", "bench", "--auth=trust", "--encoding=UTF8"],
            cwd=place,
            user=user,
            check=True,
            capture_output=True,
        )
        server = subprocess.Popen(
            [bin / "postgres", "-D", place / "data", "-k", door, "-h", ""],
            cwd=place,
            user=user,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_until_ready(bin, door, server)
            yield f"postgresql://bench@/postgres?host={door}"
        finally:
            # Fast: whoever is still connected is sent away.
            server.send_signal(signal.SIGINT)
            server.wait(PATIENCE)


def _wheel() -> Path:
    """Where the wheel was put. It is not imported: its own way to serve makes a user, and opens folders to all."""
    found = find_spec("pgserver")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def _wait_until_ready(bin: Path, door: str, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE
    while subprocess.run([bin / "pg_isready", "-q", "-h", door], check=False).returncode:
        if server.poll() is not None or time.monotonic() > until:
            raise RuntimeError("PostgreSQL did not start")
        time.sleep(0.05)
