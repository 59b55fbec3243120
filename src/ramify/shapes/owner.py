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
from functools import lru_cache
from pathlib import Path

from ramify.model.process import Process
from ramify.model.run import Owner
from ramify.store import here


def this_program(*, stays: bool) -> Owner:
    """This process."""
    return _program(os.getpid(), stays)


@lru_cache(maxsize=2)
def _program(pid: int, stays: bool) -> Owner:
    # By the process id: a forked child is another program.
    return Owner(here.host(), here.boot(), pid, _began(pid) or "", stays, here.pids())


def is_here(owner: Owner) -> bool:
    """Return whether it is this very process."""
    return owner == this_program(stays=owner.stays)


def is_gone(owner: Owner, sessions: Sequence[Process]) -> bool:
    """Return whether that program is certain not to be there any more."""
    if here.sees(owner.host, owner.boot, owner.pids):
        return not _exists(owner.pid) or _began(owner.pid) != (owner.began or None)
    return not any(_is_of(owner, each) and each.is_alive for each in sessions)


def _is_of(owner: Owner, session: Process) -> bool:
    """Return whether a session is that program's own, or of a worker process that it looks after."""
    place = (owner.host, owner.boot, owner.pids)
    return (session.host, session.boot, session.pids) == place and owner.pid in (session.pid, session.parent)


def is_at_work(session: Process) -> bool:
    """Return whether another process may be working on the store: not this one, and not known to be gone.

    One that said it knows no kinds came for something else.
    """
    if session.kinds == ():
        return False
    if not here.sees(session.host, session.boot, session.pids):
        return session.is_alive
    return not session.reaped and session.pid != os.getpid() and _exists(session.pid)


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
