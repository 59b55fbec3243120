"""The hang detector: which children of a crew are hung, and which are only kept from saying that they live.

A child is killed when it has been neither heard of nor seen to run for `hung_after`, and sooner when a task of it is
over its time limit and nothing else turns. One that is silent because a call holds the interpreter, and that uses the
processor, is at work: the crew beats for it, so that nobody else takes it for dead either. What never comes back is a
matter of `timeout=`.

That a process runs is told by the processor time it used (Linux); elsewhere silence alone decides.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

from ramify.engine.processes.member import Member
from ramify.errors import RamifyError
from ramify.store.contract import Store

#: A child that missed so many beats is not turning, and a task of it that is out of time is why.
BEATS_MISSED = 3
#: Who uses this share of a core runs. Threads that only wait for the interpreter use far less.
RUNS = 0.1
#: The numbers of user and system time among the fields of `/proc/PID/stat` that come after the name.
_TIMES = slice(11, 13)


class HangDetector:
    """Looks at the children of a crew now and then."""

    def __init__(self, store: Store, beat_every: float, hung_after: float, clock: Callable[[], float]) -> None:
        self._store = store
        self._beat_every = beat_every
        self._hung_after = hung_after
        self._clock = clock
        self._looked = clock()

    def look(self, members: Iterable[Member]) -> None:
        """Kill those that are hung, and beat for those that are busy."""
        now = self._clock()
        # Who has not looked for so long was asleep itself (a job in the background, a frozen container), as they were.
        has_slept, self._looked = now - self._looked > self._hung_after / 2, now
        for member in members:
            if has_slept:
                member.heard = now
            elif (reason := self._why_hung(member, now)) is not None:
                member.heard, member.killed_for = now, reason
                member.send(signal.SIGKILL)

    def _why_hung(self, member: Member, now: float) -> str | None:
        """Why a child must be killed; None when it need not."""
        if now - member.heard > BEATS_MISSED * self._beat_every:
            # A child that turns takes the lease of such a task away itself; this one is kept from it by the task.
            late = None if member.process is None else member.exit_status.find_late(member.process)
            if late is not None:
                return f"task {late} ran out of time and lets nothing else run"
            if self._runs(member, now) and member.process is not None:
                with contextlib.suppress(RamifyError):
                    self._store.beat(member.process)
        if now - max(member.heard, member.ran) > self._hung_after:
            member.exit_status.was_killed()
            return f"not heard of for {self._hung_after:g} s"
        return None

    def _runs(self, member: Member, now: float) -> bool:
        """Return whether a silent child was seen to run since the last time it was, or since it was heard of."""
        used = processor_seconds(member.child.pid)
        if used is None:
            return False
        at, before = member.used
        if at > member.heard:
            if used - before < RUNS * (now - at):
                return False
            member.ran = now
        member.used = now, used
        return member.ran == now


def processor_seconds(pid: int) -> float | None:
    """The processor time that a process has used so far; None where nobody tells."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[_TIMES])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return None
