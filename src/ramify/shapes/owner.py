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
from pathlib import Path

import msgspec

from ramify.model.process import Process


class Owner(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who began a run. `stays` when that program itself does the work, and does not leave it to others."""

    host: str
    boot: str
    pid: int
    began: str
    stays: bool = True

    @classmethod
    def here(cls, *, stays: bool) -> Owner:
        """This process."""
        return cls(socket.gethostname(), _boot(), os.getpid(), _began(os.getpid()) or "", stays)

    @property
    def is_here(self) -> bool:
        """Whether it is this very process."""
        return self == Owner.here(stays=self.stays)

    def is_gone(self, sessions: Sequence[Process]) -> bool:
        """Whether that program is certain not to be there any more."""
        if self.host != socket.gethostname():
            return not any(each.host == self.host and each.pid == self.pid and not each.reaped for each in sessions)
        if self.boot != _boot():
            return True
        return not _exists(self.pid) or _began(self.pid) != (self.began or None)


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
