"""Owners: the program that began a run, and whether it is still there.

A run without a name belongs to the program that began it. When that program is gone, the same program started again
may go on with it; while it is there, a second one must not. So a run remembers who began it: machine, boot, space of
process ids, process id, and the moment that process was started, because process ids are used again.

Promises: says "gone" only when it is certain: no process with that id and beginning is there. About a process that
cannot be seen from here (another machine or container, whatever its name, or the time before a restart) it asks the
store: gone when none of its sessions there is alive.

Does not decide what follows from it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ramify.model.process import Process
from ramify.store import here


class Owner(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who began a run. `stays` when that program itself does the work, and does not leave it to others."""

    host: str
    boot: str
    pid: int
    began: str
    stays: bool = True
    pids: str = ""

    @classmethod
    def here(cls, *, stays: bool) -> Owner:
        """This process."""
        return cls(here.host(), here.boot(), os.getpid(), _began(os.getpid()) or "", stays, here.pids())

    @property
    def is_here(self) -> bool:
        """Whether it is this very process."""
        return self == Owner.here(stays=self.stays)

    def is_gone(self, sessions: Sequence[Process]) -> bool:
        """Whether that program is certain not to be there any more."""
        if here.sees(self.host, self.boot, self.pids):
            return not _exists(self.pid) or _began(self.pid) != (self.began or None)
        return not any(self._is_of(each) and _is_alive(each) for each in sessions)

    def _is_of(self, session: Process) -> bool:
        """Whether a session is that program's own, or of a worker process that it looks after."""
        place = (self.host, self.boot, self.pids)
        return (session.host, session.boot, session.pids) == place and self.pid in (session.pid, session.parent)


def is_at_work(session: Process) -> bool:
    """Whether another process may be working on the store: not this one, and not known to be gone."""
    if not here.sees(session.host, session.boot, session.pids):
        return _is_alive(session)
    return not session.reaped and session.pid != os.getpid() and _exists(session.pid)


def _is_alive(session: Process) -> bool:
    """Whether the store does not know it to be dead."""
    return not session.reaped and session.beat is not None


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
