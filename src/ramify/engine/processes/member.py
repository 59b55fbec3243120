"""One member of a crew: a worker process, what it was told, and what its parent knows of it.

A child is started as `python -m ramify.child` with its orders, which everybody can read in a list of processes, and a
line to its parent, over which the URL of the store goes, because it may hold a password. Words come back over the
line; what they mean is the crew's business.
"""

from __future__ import annotations

import contextlib
import math
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field

import msgspec

from ramify.engine.processes.exit_status import ExitStatus
from ramify.engine.processes.signal_text import Form
from ramify.errors import ConfigError, RamifyError, StoreBroken, StoreUnavailable
from ramify.kernel.core.queues import Queues
from ramify.kernel.core.steps import REPLACE_ME
from ramify.kernel.settings import GRACE
from ramify.model.decoder import decoder
from ramify.store.open import Durability

#: Neither a URL nor a file name can hold it.
END_OF_URL = b"\0"
#: A child that could not be started at all leaves with this code and one line on its standard error.
NOT_STARTED = 3
#: The words by which a child says why it ends, with what its crew raises for them, and the one for all other reasons.
TROUBLES: dict[str, type[RamifyError]] = {"broken": StoreBroken, "away": StoreUnavailable}
OTHER_TROUBLE = "trouble"


class Service(msgspec.Struct, frozen=True):
    """When workers end although nobody stops them: in a `burst` once nothing is ready, and to be replaced after so many
    tasks, more than which none of them takes, or as soon as they use more than so many megabytes, but never in the
    middle of a task.
    """

    burst: bool = False
    recycle_tasks: int | None = None
    recycle_mb: int | None = None


#: Until somebody stops them.
NO_SERVICE = Service()


class Orders(msgspec.Struct, frozen=True):
    """The orders of a child: where the engine is, and what to work on. Everybody can read it in a list of processes, so
    the store's URL, which may hold a password, is not in it: that goes through the line.
    """

    address: str
    #: Where the program finds modules.
    path: tuple[str, ...] = ()
    durability: Durability = "power"
    runs: tuple[int, ...] | None = None
    until_ended: bool = False
    queues: Queues | None = None
    threads: int | None = None
    #: The form and the level of its log, if it writes one.
    log: tuple[Form, int] | None = None
    grace: float = GRACE
    beat_every: float = 1.0
    dead_after: float = 60.0
    service: Service = NO_SERVICE
    #: When its program was started or reloaded, in microseconds since the epoch.
    since: int = 0

    def begun_now(self) -> Orders:
        """The same for children of a program that was just started or reloaded."""
        return msgspec.structs.replace(self, since=time.time_ns() // 1_000)

    def encode(self) -> str:
        """As one argument of a command line."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, text: str) -> Orders:
        """Return what `encode` made."""
        return _orders.decode(text)


_orders = decoder(Orders)


@dataclass(slots=True, eq=False)
class Member:
    """One child."""

    child: subprocess.Popen[bytes]
    line: socket.socket
    started: float
    heard: float
    #: What is known of it in case it dies.
    exit_status: ExitStatus
    process: int | None = None
    #: When it came in.
    entered: float = math.inf
    #: How many threads it works with, as far as it said.
    threads: int | None = None
    #: Whether nobody need take its place: its runs have ended, or somebody asked it to leave.
    is_over: bool = False
    last_words: list[str] = field(default_factory=list)
    #: Why we killed it.
    killed_for: str | None = None
    #: Why it leaves by itself, for another one to take its place.
    recycled_for: str | None = None
    #: Whether we asked it to go, and nobody takes its place.
    is_dismissed: bool = False
    #: Whether it is to show that children can start; if it cannot come in, nobody takes its place.
    is_trial: bool = False
    #: When it was last seen to run while it said nothing, and the processor time it had used at some moment.
    ran: float = -math.inf
    used: tuple[float, float] = (-math.inf, 0.0)
    #: Whether it found nothing to do, in a burst.
    is_idle: bool = False
    #: What is to be raised, should its last words end the crew.
    trouble: type[RamifyError] = ConfigError
    #: How many tasks it had not finished when it left; None while it has not.
    left: int | None = None

    @property
    def met_damage(self) -> bool:
        """True if it ended because a person must look at the store."""
        return self.trouble is StoreBroken

    def send(self, number: int) -> None:
        """Send it a signal of the operating system."""
        # Popen knows whether the child was waited for already, so a number that somebody else has by now is never hit.
        if self.child.poll() is None:
            self.child.send_signal(number)


def hire(orders: Orders, url: str, exit_status: ExitStatus, now: float) -> Member:
    """Start a child; OSError when the machine has no process or no memory to spare just now."""
    ours, theirs = socket.socketpair()
    with contextlib.ExitStack() as half_hired:
        half_hired.enter_context(ours)
        # The child has its end by then, or there is no child.
        with theirs:
            child = subprocess.Popen(
                [sys.executable, "-m", "ramify.child", orders.encode(), str(theirs.fileno())],
                # What a task starts may read it to its end, so it is not the line, which has none.
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        # It fits into the line, so this waits for nobody; a child that is gone by now is noticed when it is waited for.
        with contextlib.suppress(OSError):
            ours.sendall(url.encode("utf-8", "surrogateescape") + END_OF_URL)
        half_hired.pop_all()
    return Member(child, ours, now, now, exit_status)


def why(member: Member, code: int) -> str:
    """Why a child ended; `code` is its exit status, or minus the signal that ended it."""
    if member.killed_for is not None:
        return member.killed_for
    if code == 0 and member.recycled_for is not None:
        return member.recycled_for
    if code == REPLACE_ME:
        return "it ended itself to be rid of a task that ran out of time, or continued after it was cancelled"
    if code < 0:
        try:
            return f"it was killed ({signal.Signals(-code).name})"
        except ValueError:
            return f"it was killed (signal {-code})"
    return " ".join(member.last_words) or f"it ended with code {code}"
