"""The loop: claim, lease, attempt, commit. Read this first; it is the description of the engine.

The core decides, the loop does. Each step is one verb of the store, or a rest:

    Enter     open a session; from now on this process beats
    ClaimWork claim tasks: they are ours until a commit ends them, we put them back, or we are declared dead
    Flush     commit what workers brought (events, children, arrivals, all in one), and claim the next tasks with it
    Move      nothing left of these runs here: ask whether they can go on, or have ended
    Look      nothing to do at all: find runs that could go on, because whoever should have asked may be gone
    PutBack   give up claims that we will not work on (paused, cancelled, too many)
    Rest      wait for a worker, or for the store to change
    Leave     everything is saved: end the session

Workers run beside it, in threads or on the event loop, and take their leases from the core themselves. Every verb is
sent until it is answered. A crash between any two lines loses nothing that was committed and repeats nothing that was.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import assert_never

from ramify.errors import RamifyError, Reaped, StoreUnavailable
from ramify.kernel.attempts.attempt_env import AttemptEnv
from ramify.kernel.attempts.workers import Workers
from ramify.kernel.core.steps import REPLACE_ME, ClaimWork, Die, Enter, Flush, Leave, Look, Move, PutBack, Rest, Step
from ramify.kernel.faults import reach
from ramify.kernel.handover import Handover
from ramify.kernel.heartbeat import Heartbeat
from ramify.kernel.machine import HERE, Machine
from ramify.kernel.outgoing.account import Account
from ramify.kernel.outgoing.outbox import ends_of, part_of
from ramify.kernel.outgoing.sender import Sender
from ramify.kernel.settings import Settings
from ramify.kernel.signals import Entered, Moved, Saved, Signals, Stopping, Took
from ramify.kernel.tuning import LAST_CHANCE
from ramify.model.policy import SECOND


class Loop:
    """One kernel's main thread. `stop` is how it ends itself when nothing is left to do and nobody waits for more."""

    def __init__(
        self,
        handover: Handover,
        workers: Workers,
        sender: Sender,
        heartbeat: Heartbeat,
        attempt_env: AttemptEnv,
        settings: Settings,
        signals: Signals,
        account: Account,
        stop: Callable[[], None],
        machine: Machine = HERE,
    ) -> None:
        self._handover = handover
        self._core = handover.core
        self._workers = workers
        self._sender = sender
        self._store = sender.store
        self._heartbeat = heartbeat
        self._record = attempt_env.record
        self._notes = attempt_env.notes
        self._library = attempt_env.library
        self._settings = settings
        self._signals = signals
        self._account = account
        self._stop = stop
        self._clock = machine.clock
        self._exit = machine.exit
        self._is_draining = False
        #: How many outcomes are on their way to the store.
        self._sending = 0
        self._has_given_up = False
        self.is_over = False

    def run(self) -> None:
        """Go on until everything is saved, or something breaks it."""
        while not self.is_over:
            self.iterate()

    def iterate(self) -> bool:
        """One step, by whichever thread has the loop; False when it was the last."""
        with self._handover.core_lock:
            step = self._core.step(self._clock())
            self._workers.call()
        self._heartbeat.raise_trouble()
        try:
            self._do(step)
        except Reaped:
            with self._handover.core_lock:
                self._core.reaped()
        except StoreUnavailable as trouble:
            self._give_up(trouble)
        # A stand-in may have taken the last step while this one rested.
        self.is_over |= isinstance(step, Leave)
        self._write_notes()
        return not self.is_over

    def _do(self, step: Step) -> None:
        if self._core.is_stopping and not self._is_draining:
            self._is_draining = True
            reach("draining")
            self._signals.send(Stopping("draining", self._core.leases.running))
        match step:
            case Enter():
                self._enter()
            case ClaimWork(want):
                reach("before-claim")
                claimed = self._sender.send(lambda stamp: self._store.claim(stamp, want))
                reach("after-claim")
                with self._handover.core_lock:
                    self._core.claimed(claimed, self._clock())
                self._signals.send(Took(self._account.claimed(claimed.claims)))
            case Flush():
                self._flush(step)
            case Move(asked):
                reach("before-advance")
                answers = self._sender.until_answered(lambda: self._store.advance(asked))
                reach("after-advance")
                runs = [run for run, _ in asked]
                with self._handover.core_lock:
                    for run, answer in zip(runs, answers, strict=True):
                        self._core.advanced(run, answer, self._clock())
                for run, answer in zip(runs, answers, strict=True):
                    if answer.moved:
                        self._signals.send(Moved(run, answer.state, answer.round, self._name_of(run)))
            case PutBack(tokens):
                reach("before-release")
                self._sender.send(lambda stamp: self._store.release(stamp, tokens))
                reach("after-release")
                with self._handover.core_lock:
                    self._core.released(tokens)
            case Look(limit):
                movable = self._sender.until_answered(lambda: self._store.movable(limit))
                with self._handover.core_lock:
                    self._core.found(movable, self._clock())
            case Rest(seconds, idle):
                self._rest(seconds, idle)
            case Leave() | Die():
                self._signals.send(Stopping("saving"))
                unfinished = self._core.leases.running
                self._leave()
                self._signals.send(Stopping("done", unfinished))
                if isinstance(step, Die):
                    self._exit(REPLACE_ME)
            case _:
                assert_never(step)

    def _give_up(self, trouble: StoreUnavailable) -> None:
        """The store did not answer until the end of a stop: say what is not saved, if anything is not.

        CRASH: a session that did not end, of a process that said it was stopping -> others end it, and blame nobody.
        """
        finished, running = self._sending + self._core.outbox.unsent, self._core.leases.running
        # Once: what a stand-in raised comes by again in the loop's own thread.
        if not self._core.is_stopping or self._has_given_up:
            raise trouble
        self._has_given_up = True
        if finished or running:
            raise StoreUnavailable(
                f"{trouble}. Not saved when this process stopped: {finished:,} finished and {running:,} unfinished "
                "attempts, which run again with the next start"
            ) from trouble
        self.is_over = True
        self._signals.send(Stopping("done"))

    def _enter(self) -> None:
        again, sent = self._sender.process != 0, self._clock()
        beat = self._sender.enter()
        with self._handover.core_lock:
            self._core.entered(beat, sent)
        self._record.begin(self._store.records, self._sender.process)
        self._heartbeat.start()
        self._signals.send(Entered(self._sender.process, again))
        if beat.peers > 1:
            # Before the first claim, which then finds what dead processes held: `--burst` ends when a claim finds
            # nothing.
            self._heartbeat.reap()

    def _flush(self, step: Flush) -> None:
        self._sending = step.outcomes
        if self._notes.have_progress_of(task for finished in step.batch for task in finished.tasks):
            self._write_notes(early=True)
        began = self._clock()
        now = self._sender.now()
        parts = [part_of(each, self._sender.reserve, now, self._settings.exact_waits) for each in step.batch]
        dues = [(later.due - now) / SECOND for part in parts for later in part.later]
        reach("before-commit")
        answer = self._sender.send(lambda stamp: self._store.commit(stamp, parts, step.want))
        self._sending = 0
        reach("after-commit")
        ended = self._clock()
        with self._handover.core_lock:
            self._core.committed(step.batch, answer, ended, dues)
            if step.want is not None:
                self._core.claimed(answer.claimed, ended)
        if answer.lost:
            self._notes.count_anew(answer.lost)
        saved = step.without(answer.lost)
        self._account.claimed(answer.claimed.claims)
        self._account.saved(saved.batch, answer.refused, ended - began)
        ends = partial(ends_of, saved.batch, frozenset(answer.refused), self._name_of)
        self._signals.send(Saved(saved.outcomes, saved.children, len(answer.refused), ended - began, ends))

    def _name_of(self, run: int) -> str | None:
        """The name of a run, for whoever listens; one that cannot be read has none."""
        try:
            return self._library.facts(run).name
        except RamifyError:
            return None

    def _rest(self, seconds: float, idle: bool) -> None:
        """Nothing to do for the loop: it runs quick tasks itself, or waits."""
        if self._workers.run_here(self.iterate):
            return
        if self._settings.until_idle or (idle and self._core.claim_policy.is_over):
            self._stop()
            return
        # Not while it only waits to be allowed to claim, or to look for runs that can go on.
        is_dry = idle and self._core.claim_policy.is_dry and self._core.watch.next_look is None
        if is_dry and self._settings.on_idle is not None:
            self._settings.on_idle()
        self._handover.rest(seconds, idle)

    def _write_notes(self, *, early: bool = False, all_of_them: bool = False) -> None:
        """Write log lines that wait; they are worth little, so trouble with them is not waited out."""
        lines = self._notes.rest() if all_of_them else self._notes.due(self._clock(), early=early)
        if lines and self._sender.process:
            reach("before-note")
            try:
                self._store.note(self._sender.process, lines)
            except RamifyError:
                return

    def _leave(self) -> None:
        self._write_notes(all_of_them=True)
        self._account.tell()
        reach("before-leave")
        if self._core.is_in:
            self._sender.until = min(self._sender.until, self._clock() + LAST_CHANCE)
            self._sender.until_answered(lambda: self._store.leave(self._sender.process))
        reach("after-leave")
