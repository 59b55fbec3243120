"""Owners: the program that began a run, and whether it is still there.

A run without a name belongs to the program that began it. When that program is gone, the same program started again
may go on with it; while it is there, a second one must not. So a run remembers who began it: machine, boot, process id
and the moment that process was started, because process ids are used again.

Promises: says "gone" only when it is certain: the machine was restarted, or no process with that id and beginning is
there. About another machine it asks the store: gone when none of its sessions there is alive.

Does not decide what follows from it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from ramify.model.process import Process
from ramify.model.run import Owner


def this_program(*, stays: bool) -> Owner:
    """This process."""
    return _program(os.getpid(), stays)


@lru_cache(maxsize=2)
def _program(pid: int, stays: bool) -> Owner:
    # By the process id: a forked child is another program.
    return Owner(socket.gethostname(), _boot(), pid, _began(pid) or "", stays)


def is_here(owner: Owner) -> bool:
    """Whether it is this very process."""
    return owner == this_program(stays=owner.stays)


def is_gone(owner: Owner, sessions: Sequence[Process]) -> bool:
    """Whether that program is certain not to be there any more."""
    if owner.host != socket.gethostname():
        return not any(each.host == owner.host and each.pid == owner.pid and not each.reaped for each in sessions)
    if owner.boot != _boot():
        return True
    return not _exists(owner.pid) or _began(owner.pid) != (owner.began or None)


def is_at_work(session: Process) -> bool:
    """Whether another process may be working on the store: not this one, not reaped, and not known to be gone."""
    if session.reaped or (session.host == socket.gethostname() and session.pid == os.getpid()):
        return False
    return session.host != socket.gethostname() or _exists(session.pid)


def _exists(pid: int) -> bool:
    if pid < 1:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _began(pid: int) -> str | None:
    """When a process was started, in ticks since boot; None where the system does not say, or it is no more."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The second field is the program's name in brackets, and may itself hold spaces and brackets.
    fields = stat.rpartition(")")[2].split()
    # A zombie is no more, although its parent has not looked yet.
    return None if fields[0] in ("Z", "X") else fields[19]
