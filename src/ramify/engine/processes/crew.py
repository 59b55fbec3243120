"""A crew: worker processes, started as `python -m ramify.child`, watched, replaced, and stopped.

Each child is a kernel of its own on the same store, so the crew keeps no work and decides nothing about it. A child
that dies is noticed at once, buried with what its end tells and replaced; one that has not been heard of
for `hung_after` is killed first, and sooner when a task of it is over its time limit. A child that cannot even start
(its module does not import) ends the crew with its words. When this process dies, the children notice by the line to
it, which closes, and stop by themselves.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable

import msgspec

from ramify.engine.processes.crew_signals import CrewSignals
from ramify.engine.processes.exit_status import ExitStatus
from ramify.engine.processes.hang_detector import HangDetector
from ramify.engine.processes.member import NOT_STARTED, OTHER_TROUBLE, TROUBLES, Member, Orders, hire, why
from ramify.errors import ConfigError, RamifyError
from ramify.inspect.words import plural
from ramify.kernel.core.steps import REPLACE_ME
from ramify.kernel.signals import Buried, Replaced, Signals, Stopping
from ramify.store import forks
from ramify.store.contract import Store

#: A child that was not heard of for this long is killed and replaced.
HUNG_AFTER = 50.0
#: A child that worked for less than this is replaced after a pause that doubles from the first to the longest.
SHORT_LIFE = 1.0
FIRST_PAUSE = 0.1
#: So many children in a row that end with a word about why (a broken store, say) end the crew.
MOST_TROUBLES = 5
#: A child that lived for longer than this was well; its trouble is the first of a row.
LONG_LIFE = 60.0
LONGEST_PAUSE = 5.0
#: A burst is over when its children had nothing to do for so long: one may just be about to say that it has found work.
QUIET = 0.2
#: How much longer than its grace period a child may take to be gone: what finished at the last moment is saved first.
TO_BE_GONE = 7.0


class Crew:
    """`size` children at work. `start`, then `wait`; `stop` from any thread. What they have to say goes to `say`."""

    def __init__(
        self,
        orders: Orders,
        size: int,
        store: Store,
        signals: Signals,
        *,
        url: str,
        hung_after: float = HUNG_AFTER,
        clock: Callable[[], float] = time.monotonic,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        if size < 1:
            raise ConfigError(f"processes={size}: expected 1 or more, or 0 to work in this process.")
        self._orders = orders.begun_now()
        self._size = size
        self._store = store
        self._url = url
        self.signals = signals
        self._crew_signals = CrewSignals(signals.send)
        self._hung_after = hung_after
        self._clock = clock
        self._tell = say
        self._members: set[Member] = set()
        self._changed = threading.Condition()
        self._is_stopping = False
        self._is_saving = False
        #: How many children did not save all that they were doing before they were stopped.
        self._unsaved = 0
        self._failure: RamifyError | None = None
        self._pauses = 0
        self._troubles = 0
        self._reloads = 0
        self._timers: set[threading.Timer] = set()
        self._hang_detector = HangDetector(store, orders.beat_every, hung_after, clock)
        #: Since when no child of a burst has anything to do.
        self._idle_since: float | None = None
        forks.register(self)

    @property
    def members(self) -> list[Member]:
        """The children alive, the oldest first."""
        with self._changed:
            return sorted(self._members, key=lambda member: member.started)

    @property
    def _staying(self) -> list[Member]:
        """The members that stay: neither asked to go, nor on trial while another still has the place."""
        return [member for member in self.members if not member.is_dismissed and not member.is_trial]

    @property
    def pids(self) -> list[int]:
        """Their numbers in the operating system."""
        return [member.child.pid for member in self.members]

    def silence_of(self, member: Member) -> float:
        """Seconds since it was last heard of."""
        return self._clock() - member.heard

    def start(self) -> None:
        """Start the children: all of them, or none."""
        with contextlib.ExitStack() as half_started:
            half_started.callback(self.kill)
            for _ in range(self._size):
                if not self._is_stopping:
                    self._hire()
            half_started.pop_all()

    def wait(self) -> None:
        """Watch until every child has ended by itself or was stopped; raises what keeps them from working."""
        with self._changed:
            while self._members or self._timers:
                self._changed.wait(min(QUIET if self._orders.service.burst else 1.0, self._hung_after / 4))
                self._hang_detector.look(self._members)
                self._end_burst()
        if self._failure is not None:
            raise self._failure
        if self._is_stopping:
            self.signals.send(Stopping("done", self._unsaved))

    def stop(self) -> None:
        """Ask every child to stop; those that do not within the grace period are killed, blamed for nothing."""
        with self._changed:
            self._is_stopping = True
            for timer in self._timers:
                timer.cancel()
            self._timers.clear()
            members = list(self._members)
            self._changed.notify_all()
        self.signals.send(Stopping("draining", len(members)))
        self._dismiss(members)

    def add(self) -> None:
        """One more child."""
        if not self._is_stopping:
            self._hire()
            self._say(f"one more worker process: {len(self._staying)}")

    def remove(self) -> None:
        """One child less, the youngest; the last one stays."""
        with self._changed:
            staying = self._staying
            is_last = len(staying) < 2
            if not is_last:
                self._dismiss(staying[-1:])
        last = "the last worker process stays; SIGTERM stops it"
        self._say(last if is_last else f"one worker process less: {len(staying) - 1}")

    def reload(self) -> None:
        """Replace the children one by one, each as soon as its successor has come in. Returns at once."""
        with self._changed:
            self._orders = self._orders.begun_now()
            is_first, self._reloads = not self._reloads, self._reloads + 1
        if is_first:
            threading.Thread(target=self._replace_all, name="ramify-reload", daemon=True).start()

    def kill(self) -> None:
        """End every child at once, blamed for nothing. Claims of theirs are offered again."""
        with self._changed:
            self._is_stopping = True
            members = list(self._members)
        for member in members:
            # Whoever buries it reads only this, and a child may not have heard yet that it was asked to stop.
            member.exit_status.excuse(member.process)
            member.send(signal.SIGKILL)

    def orphan(self) -> None:
        """In a forked child: close the lines, which tell the children of the crew by closing that its process died."""
        for member in self._members:
            # Detached first, so that nothing closes the number a second time when it belongs to another file.
            with contextlib.suppress(OSError):
                os.close(member.line.detach())

    def _say(self, text: str) -> None:
        # Whoever should be told may be gone; that is no reason to look after nobody any more.
        with contextlib.suppress(OSError, ValueError):
            self._tell(text)

    def _dismiss(self, members: list[Member]) -> None:
        """Let children go, whom nobody replaces."""
        for member in members:
            member.is_dismissed = True
            member.send(signal.SIGTERM)
        threading.Thread(target=self._insist, args=(members,), name="ramify-insist", daemon=True).start()

    def _replace_all(self) -> None:
        """As often as it was asked for: what changed while children were being replaced is news to some of them."""
        done = 0
        while True:
            with self._changed:
                if done == self._reloads or self._is_stopping:
                    self._reloads = 0
                    return
                done = self._reloads
            staying = self._staying
            self._say(f"reloading {plural(len(staying), 'worker process', 'worker processes')}, one by one")
            if all(map(self._replace, staying)):
                self._say("reloaded")

    def _replace(self, member: Member) -> bool:
        """Let a successor take the place of a child; False when it could not come in, and the child stays."""
        if member.is_dismissed:
            return True
        try:
            successor = self._hire(is_trial=True)
        except OSError as error:
            self._say(f"not reloaded: no process could be started ({error}); the others continue as they are")
            return False
        with self._changed:
            self._changed.wait_for(lambda: successor.process is not None or successor not in self._members)
            if successor.process is None:
                words = " ".join(successor.last_words) or "it ended before it was ready"
                self._say(
                    f"not reloaded: a new worker process could not start: {words}; the others continue as they are"
                )
                return False
            successor.is_trial = False
            # One that died meanwhile was replaced already.
            leaver = member if member in self._members else successor
            self._dismiss([leaver])
            self._changed.wait_for(lambda: leaver not in self._members)
        return True

    def _insist(self, members: list[Member]) -> None:
        end = self._clock() + self._orders.grace + TO_BE_GONE
        with self._changed:
            while self._members.intersection(members) and self._clock() < end:
                self._changed.wait(end - self._clock())
            stubborn = list(self._members.intersection(members))
        for member in stubborn:
            member.send(signal.SIGKILL)

    def _hire(self, threads: int | None = None, *, is_trial: bool = False) -> Member:
        orders = self._orders if threads is None else msgspec.structs.replace(self._orders, threads=threads)
        member = hire(orders, self._url, ExitStatus(self._store.records), self._clock())
        member.is_trial = is_trial
        with self._changed:
            self._members.add(member)
            stopping = self._is_stopping
        threading.Thread(target=self._watch, args=(member,), name="ramify-watch", daemon=True).start()
        if stopping:
            member.send(signal.SIGTERM)
        return member

    def _watch(self, member: Member) -> None:
        """Listen to one child until it ends. Its end is told by the operating system, not by silence."""
        listener = threading.Thread(target=self._listen, args=(member,), name="ramify-listen", daemon=True)
        listener.start()
        code = member.child.wait()
        listener.join(timeout=0.2)
        self._bury(member, code)
        self._crew_signals.forget(member)
        with self._changed:
            self._members.discard(member)
            self._ended(member, code)
            self._changed.notify_all()

    def _bury(self, member: Member, code: int) -> None:
        """Say at once how it died. CRASH: others find it dead, and know less about it."""
        if member.process is not None:
            # The store may be away; then others bury it.
            with contextlib.suppress(RamifyError):
                tasks = self._store.bury(member.process, member.exit_status.death(member.process, code))
                if tasks:
                    self.signals.send(Buried((member.process,), tasks))

    def _listen(self, member: Member) -> None:
        # A child that is killed before it has read which store to work on ends the line with an error.
        with contextlib.suppress(ConnectionError), member.line, member.line.makefile("rb") as lines:
            for line in lines:
                member.heard = self._clock()
                word, _, rest = line.decode("utf-8", "replace").strip().partition(" ")
                if word == "process":
                    with self._changed:
                        member.process, member.entered = int(rest), self._clock()
                        self._changed.notify_all()
                elif word == "beat":
                    member.exit_status.beat()
                    member.threads = int(rest)
                elif word in ("over", "drained"):
                    member.is_over = True
                elif word == OTHER_TROUBLE or word in TROUBLES:
                    member.last_words.append(rest)
                    member.trouble = TROUBLES.get(word, ConfigError)
                elif word == "left":
                    member.left = int(rest)
                elif word == "signal":
                    self._crew_signals.hear(member, rest)
                elif word == "said":
                    self._say(f"worker {member.child.pid}: {rest}")
                elif word == "saving":
                    self._saves()
                elif word == "recycled":
                    member.recycled_for = rest
                elif word in ("idle", "busy"):
                    member.is_idle = word == "idle"
                    self._idle_since = None

    def _saves(self) -> None:
        """A child saves what it has done; said once, for all of them."""
        with self._changed:
            first, self._is_saving = self._is_stopping and not self._is_saving, True
        if first:
            self.signals.send(Stopping("saving"))

    def _ended(self, member: Member, code: int) -> None:
        if self._is_stopping or (code == 0 and member.is_over) or member.is_dismissed:
            self._parted(member)
            return
        if member.is_trial and member.process is None:
            # Nobody waits for it but who hired it.
            return
        lived = self._clock() - member.started
        others_work = any(other.process is not None for other in self._members)
        # A task may end the process with the same code; then it had started.
        not_started = code == NOT_STARTED and member.process is None
        is_put_off = not_started and others_work and not member.met_damage
        if is_put_off:
            # What it needs is not there just now, such as a module that is being replaced; the others work.
            self._say(f"a worker process could not start: {' '.join(member.last_words)}; it is tried again")
            member.last_words.clear()
        self._troubles = 0 if not member.last_words else 1 if lived > LONG_LIFE else self._troubles + 1
        if (not_started and not is_put_off) or self._troubles >= MOST_TROUBLES or member.met_damage:
            self._fail(member, "start" if not_started else "continue")
            return
        if not is_put_off:
            planned = code == 0 and member.recycled_for is not None
            self.signals.send(Replaced("process", why(member, code), planned))
        was_well = self._clock() - member.entered >= SHORT_LIFE
        if was_well or code == REPLACE_ME or member.recycled_for is not None:
            self._pauses = 0
            pause = 0.0
        else:
            self._pauses += 1
            pause = min(FIRST_PAUSE * 2 ** (self._pauses - 1), LONGEST_PAUSE) if self._pauses > 2 else 0.0
        # Less at a time needs less memory.
        starved = member.exit_status.is_out_of_memory(code) and member.threads is not None
        self._rehire_in(pause, max(1, (member.threads or 1) // 2) if starved else None)

    def _parted(self, member: Member) -> None:
        """Nobody takes its place; but what it could not save is not passed over in silence."""
        has_saved = member.process is None or member.left == 0
        could_not = bool(member.last_words) and member.process is not None and member.left is None
        if member.met_damage or (could_not and self._is_stopping):
            self._fail(member, "save what it did")
        elif could_not:
            self._say(f"a worker process could not save what it did: {' '.join(member.last_words)}; it is done again")
        self._unsaved += self._is_stopping and not has_saved

    def _fail(self, member: Member, at: str) -> None:
        """End the crew with the words of a child, the first that had a reason."""
        words = " ".join(member.last_words) or "see what it wrote above"
        self._failure = self._failure or member.trouble(f"a worker process could not {at}: {words}")
        self._is_stopping = True
        for other in self._members:
            other.send(signal.SIGTERM)

    def _rehire_in(self, seconds: float, threads: int | None) -> None:
        timer = threading.Timer(seconds, self._rehire, (threads,))
        timer.daemon = True
        self._timers.add(timer)
        timer.start()

    def _rehire(self, threads: int | None) -> None:
        timer = threading.current_thread()
        assert isinstance(timer, threading.Timer)
        with self._changed:
            is_wanted = timer in self._timers and not self._is_stopping
        again = False
        try:
            if is_wanted:
                self._hire(threads)
        except OSError:
            # The machine has no process or no memory to spare just now.
            again = True
        with self._changed:
            self._timers.discard(timer)
            if again and not self._is_stopping:
                self._rehire_in(LONGEST_PAUSE, threads)
            self._changed.notify_all()

    def _end_burst(self) -> None:
        """Stop once all children have found nothing to do; one that is at work may make work for the others."""
        if self._timers or self._is_stopping or not all(member.is_idle for member in self._members):
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = self._clock()
        elif self._clock() - self._idle_since >= QUIET:
            self.stop()
