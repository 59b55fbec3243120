"""The sender: the verbs of this process, each sent until it is answered.

Numbered verbs queue up, because a store accepts one at a time from each process. When an answer does not come (the
store is away, the disk is full, a reply was lost) the same verb is sent again under the same number: it is applied
once, whatever had happened. Nothing is ever decided from a read. The store's time is taken from its answers, so that
no verb is sent to ask for it.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from ramify.errors import StoreUnavailable
from ramify.kernel.faults import reach
from ramify.kernel.machine import HERE, Machine
from ramify.kernel.outgoing.ids import Ids
from ramify.kernel.settings import Settings
from ramify.kernel.signals import Signals, StoreAway, StoreBack
from ramify.kernel.tuning import BLOCK, FIRST_BLOCK, FIRST_RESEND, LONGEST_RESEND
from ramify.model.claim import Claimed
from ramify.model.commit import Committed
from ramify.model.policy import SECOND
from ramify.model.process import NewProcess, Stamp
from ramify.store import here
from ramify.store.contract import Beat, Store

T = TypeVar("T")


class Absence:
    """A store that does not answer, as the threads of one kernel meet it: told once, and once when all have it back."""

    def __init__(self, signals: Signals, clock: Callable[[], float]) -> None:
        self._signals = signals
        self._clock = clock
        self._lock = threading.Lock()
        self._threads = 0
        self._since = 0.0

    def begins(self, why: str) -> None:
        """A thread gets no answer."""
        with self._lock:
            self._threads += 1
            is_first = self._threads == 1
            if is_first:
                self._since = self._clock()
        if is_first:
            self._signals.send(StoreAway(why))

    def ends(self) -> None:
        """A thread got its answer."""
        with self._lock:
            self._threads -= 1
            is_last = not self._threads
        if is_last:
            self._signals.send(StoreBack(self._clock() - self._since))

    def given_up(self) -> None:
        """A thread waits no longer; the store is not back for it."""
        with self._lock:
            self._threads -= 1


class Sender:
    """One incarnation. `give_up` is set when nobody wants an answer any more; `until` is when that is at the latest.
    `kinds` are told to people who ask.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        signals: Signals,
        give_up: threading.Event,
        kinds: Iterable[str] | None = None,
        machine: Machine = HERE,
    ) -> None:
        self.store = store
        self.process = 0
        self._kinds = None if kinds is None else tuple(sorted(kinds))
        self._settings = settings
        self._give_up = give_up
        self.until = math.inf
        self._machine = machine
        self._n = 0
        self._lock = machine.lock()
        self._absence = Absence(signals, machine.clock)
        self._clock = machine.clock
        #: The store's time as it was last told, and when that was asked for.
        self._told: tuple[int, float] | None = None
        #: The first of so many contiguous ids that nobody else has.
        self.reserve = Ids(self._reserve, FIRST_BLOCK, BLOCK, machine).reserve

    def enter(self) -> Beat:
        """Begin as a new process; the answer is that of its first beat."""
        with self._lock:
            process, settings = self._machine.number(), self._settings
            queues = None if settings.queues is None else settings.queues.names
            newcomer = NewProcess(
                process, os.getpid(), here.host(), settings.version, settings.supervisor,
                self._kinds, queues, here.boot(), here.pids(),
            )  # fmt: skip
            answer = self.until_answered(lambda: self.store.enter(newcomer))
            # Only now: the heartbeat must not speak for a process that the store does not know yet.
            self.process, self._n = process, 0
            reach("entered")
            return answer

    def send(self, verb: Callable[[Stamp], T]) -> T:
        """Send a numbered verb until it is answered."""
        with self._lock:
            self._n += 1
            stamp = Stamp(self.process, self._n)
            return self.until_answered(lambda: verb(stamp))

    def until_answered(self, verb: Callable[[], T]) -> T:
        """Send a verb that may be repeated until it is answered; StoreUnavailable once nobody waits any more."""
        pause, is_away = FIRST_RESEND, False
        while True:
            sent = self._clock()
            try:
                answer = verb()
            except StoreUnavailable as trouble:
                left = self.until - self._machine.clock()
                if self._give_up.is_set() or left <= 0:
                    if is_away:
                        self._absence.given_up()
                    raise
                if not is_away:
                    self._absence.begins(str(trouble))
                    is_away = True
                # Jitter, so that a crowd of processes does not come back at the same moment.
                self._give_up.wait(min(left, pause * (0.5 + self._machine.chance() / 2)))
                pause = min(2 * pause, LONGEST_RESEND)
            else:
                if is_away:
                    self._absence.ends()
                self.heard(answer, sent)
                return answer

    def heard(self, answer: object, sent: float) -> None:
        """An answer to what was sent then: it may tell the store's time."""
        if isinstance(answer, Claimed | Committed | Beat) and answer.now:
            self._told = answer.now, sent

    def now(self) -> int:
        """The store's time, by what it last told and by the clock of this process.

        Counted from when the answer was asked for: a wait that begins now is a moment longer rather than shorter.
        """
        if self._told is None:
            return self.store.now()
        told, sent = self._told
        return told + max(0, round((self._clock() - sent) * SECOND))

    def _reserve(self, many: int) -> int:
        reach("before-reserve")
        first = self.until_answered(lambda: self.store.reserve(many))
        reach("after-reserve")
        return first
