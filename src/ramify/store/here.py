"""Where this process is: its machine, the boot of it, its space of process ids, and whose it is.

Promises: two processes with the same `boot` and the same `pids` see each other by process id; any other two do not,
whatever their hosts are called. Where the system does not tell, the answer is empty.
"""

from __future__ import annotations

import os
import pwd
import socket
from functools import cache
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PIDS = "/proc/self/ns/pid"


def host() -> str:
    """Return what this machine, or container, is called. Nothing keeps two of them from having one name."""
    return socket.gethostname()


@cache
def boot() -> str:
    """A name for the time since this machine was started."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def pids() -> str:
    """A name for the space of process ids that this process sees; containers have one each."""
    try:
        return os.readlink(_PIDS)
    except OSError:
        return ""


def sees(host_name: str, boot_id: str, pid_space: str) -> bool:
    """Return whether a process that is there can be told by its process id from here."""
    if (boot_id, pid_space) != (boot(), pids()):
        return False
    # Where the system tells neither, the name of the host is all there is.
    return bool(boot_id) or host_name == host()


def person() -> str:
    """Return who decides here, unless told otherwise: `user@host`."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    return f"{user}@{host()}"
