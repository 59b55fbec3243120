"""The workplace: what attempts find around them, in whatever thread they run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Container
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ramify.kernel.notes import Notes
from ramify.kernel.pulse import Pulse
from ramify.kernel.session import Session
from ramify.store.record import Record

if TYPE_CHECKING:
    from ramify.kernel.stream import Stream


class RunFacts(msgspec.Struct, frozen=True):
    """What a handler may know about its run without asking the store again."""

    id: int
    name: str | None = None
    params: Any = None
    follows: int | None = None


class Leader(Protocol):
    """What a following run sees of the one it follows."""

    def get(self, key: str) -> Any:
        """The result of the leader's task with this key; KeyError when there is none that ended well."""

    def children(self, key: str) -> Any:
        """The calls that the leader's task with this key made."""


class Library(Protocol):
    """What the kernel does not know and the engine supplies: everything that is read for handlers."""

    def facts(self, run: int) -> RunFacts:
        """Facts about a run that never change; kept after the first time."""

    def leader(self, run: int) -> Leader:
        """The run that this one follows; ConfigError when it follows none."""

    def members(self, join: int, of: Any) -> Stream[Any]:
        """Results of the members of a full join, in order, decoded as `of`."""

    def stop(self, run: int, reason: str) -> None:
        """Let a run end early, as halted."""

    async def put_away(self) -> None:
        """Close what handlers opened on the event loop; called there, once, when nothing runs on it any more."""


@dataclass(frozen=True, slots=True)
class Workplace:
    """Shared by all attempts of one kernel. The two sets are those of the core, read without its lock.

    `held` are the tokens of the claims that this process still holds; None where attempts are made without a claim.
    `record` says what runs, to whoever buries this process. `on_raise` hears what handlers raise, before it becomes the
    outcome of their task. No task is started once `clock` has reached the end of the `pulse`.
    """

    session: Session
    library: Library
    notes: Notes
    cancelled_runs: AbstractSet[int]
    cancelled_tasks: AbstractSet[int]
    record: Record = field(default_factory=Record)
    on_raise: Callable[[BaseException], None] = lambda error: None
    held: Container[bytes] | None = None
    pulse: Pulse = field(default_factory=lambda: Pulse(math.inf))
    clock: Callable[[], float] = time.monotonic
