"""The core: every decision of the kernel. No threads, no clock, no I/O; the caller brings facts and the time.

Facts come in (`entered`, `claimed`, `finished`, `committed`, `advanced`, `heard`, `stop`), decisions go out: `lease`
hands tasks to workers, `step` tells the loop what to do next. Callers take turns. What it keeps to:

- Attempt k + 1 of a task is leased only after the event of attempt k is committed.
- Nothing is leased by a process that has not beaten for half of `dead_after`, is stopping, or was declared dead; and
  what it leased before is not started any more either, except by a process that is stopping.
- A process that holds a suspect takes nothing else.
- A claim goes back only when nothing of it runs and nothing of it is unsent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from ramify.kernel.core.adapt import Change
from ramify.kernel.core.claim_policy import ClaimPolicy
from ramify.kernel.core.handler import Handler
from ramify.kernel.core.holding import Holding
from ramify.kernel.core.leases import Leases
from ramify.kernel.core.lost import LostTasks, in_order, sorted_out
from ramify.kernel.core.marks import Marks
from ramify.kernel.core.start_fence import StartFence
from ramify.kernel.core.steps import ClaimWork, Die, Enter, Flush, Leave, PutBack, Rest, Step
from ramify.kernel.core.suspects import are_held, held_up
from ramify.kernel.core.verdicts import EndedUntried, Verdict, contended, given_up, in_time, known_ends, verdict_of
from ramify.kernel.core.watch import Watch
from ramify.kernel.core.work import Chunk, Interrupted, Ran
from ramify.kernel.outgoing.outbox import Finished, Outbox
from ramify.kernel.settings import Settings
from ramify.kernel.tuning import LONGEST_REST, WATCHED
from ramify.model.claim import Claimed
from ramify.model.commit import Committed
from ramify.model.event import Status
from ramify.model.run import Advanced, RunState
from ramify.store.contract import Beat


class Core:
    """The state of one process: the claims it holds, and its next step."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        settings: Settings,
        chance: Callable[[], float],
        on_change: Callable[[str, Change], None] = lambda of, change: None,
        cpu: Callable[[], float] = lambda: 0.0,
        extra_time: Callable[[Chunk, float], float] = lambda chunk, now: 0.0,
    ) -> None:
        self._handlers = handlers
        self._settings = settings
        self._chance = chance
        self._on_change = on_change
        self._cpu = cpu
        self.leases = Leases(handlers, settings, extra_time)
        self.holdings: dict[bytes, Holding] = {}
        self.claim_policy = ClaimPolicy(handlers, settings, self.leases, self.holdings)
        self.outbox = Outbox()
        self._lost = LostTasks(self.leases)
        self._put_back = self.leases.put_back
        self.watch = Watch(settings.runs, awaits=settings.until_ended, launched=settings.launched)
        self._has_news = self._began_unsent = False
        #: Whether the loop's own thread is caught in a task that it took for a quick one.
        self.is_caught = False
        self.start_fence = StartFence()
        self._marks = Marks()
        self.cancelled_runs, self.cancelled_tasks = self._marks.runs, self._marks.tasks
        self.is_in = self.has_left = False
        self._deadline: float | None = None
        self._condemned: int | None = None
        self.lost_threads = 0

    # facts

    def entered(self, beat: Beat, sent: float) -> None:
        """A session was opened by a verb that was sent at `sent`; the answer is that of a first beat."""
        self.is_in = True
        self.start_fence.beat(sent, self._settings.dead_after)
        self.leases.sizes.peers = max(1, beat.peers)
        self.stirred()

    def reaped(self) -> None:
        """This process was declared dead: everything it held belongs to others now."""
        for token in list(self.holdings):
            self._forget(token)
        self.is_in = False
        self.start_fence.stop()

    def claimed(self, answer: Claimed, now: float) -> None:
        """A claim was answered."""
        if not self.is_in:
            # Declared dead while the answer was on its way: others have these tasks now.
            return
        for claim in answer.claims:
            holding = self.holdings[claim.token] = Holding(claim, self._handlers[claim.kind])
            self.watch.took(claim.run, claim.round)
            if verdicts := known_ends(holding, answer.now):
                finished = self._finished(holding, now)
                holding.settle(frozenset(map(holding.position_of, verdicts)))
                for task, verdict in verdicts.items():
                    self._judge(holding, finished, task, verdict)
                self.outbox.unsent += len(verdicts)
            self.leases.offer(holding, holding.available)
        self._marks.claimed()
        self.watch.note_time_left(answer.time_left, now)
        self.claim_policy.fed(answer, now)

    def stirred(self, *, changed: bool = True) -> None:
        """Expect new work: the store may have `changed`, or only time has passed."""
        self.claim_policy.stirred()
        if changed:
            self.watch.stirred()

    def finished(self, ran: Ran, now: float) -> None:
        """A worker brings outcomes. Those of a chunk that was taken away are refused."""
        chunk = ran.chunk
        self._has_news = True
        if chunk.lost:
            return
        holding = self.holdings.get(chunk.claim.token)
        self.leases.take_back(ran, holding)
        if holding is None:
            return
        ran, verdicts = in_time(ran), []
        for task, verdict in ran.others:
            if isinstance(verdict, Interrupted):
                self.leases.give_back(holding, holding.position_of(task), closing=verdict.refused)
            else:
                verdicts.append((task, verdict))
        if not ran.done and not verdicts and not ran.offspring.discarded:
            if holding.closing:
                self._put_back.append(chunk.claim.token)
            return
        finished = self._finished(holding, now)
        finished.done(ran)
        unsent = len(ran.done) + len(verdicts)
        deferred = [task for task, each in verdicts if self._judge(holding, finished, task, each) is Status.DEFERRED]
        holding.unsent += unsent
        self.outbox.unsent += unsent
        waited_for = holding.claim.limited and not self.leases.unleased[holding.claim.kind]
        if waited_for or (holding.losses and ran.offspring.apart):
            # Others wait for its place, or those that lost wait for the end of this one.
            self.outbox.hurry()
            self._began_unsent = True
        self.leases.learn(ran, holding, deferred, now, self._cpu())

    def came_back(self, chunk: Chunk) -> None:
        """A worker is done with its chunk and free again."""
        if not chunk.lost:
            chunk.is_back = True
            self.leases.free(chunk)

    def committed(self, batch: Sequence[Finished], answer: Committed, now: float, dues: Iterable[float] = ()) -> None:
        """A commit was answered; what it put off is due in so many seconds."""
        for seconds in dues:
            self.claim_policy.put_off(now + seconds)
        saved, lost = sorted_out(batch, answer.lost)
        for finished in lost:
            self._lose(finished, now)
        self._lost.committed(saved, lost, self.holdings)
        refused = set(answer.refused)
        fertile = False
        for finished in saved:
            token = finished.claim.token
            if token in refused:
                self._forget(token)
                continue
            fertile = fertile or finished.is_fertile
            holding = self.holdings.get(token)
            if holding is None:
                continue
            self.claim_policy.through += holding.saved(len(finished.tasks), len(finished.again))
            for task, wait in finished.again.items():
                self.leases.retry(holding, holding.position_of(task), now + wait.seconds)
            if not holding.left:
                self._forget(token)
            elif holding.closing:
                self._put_back.append(token)
        # What marks cover and nobody runs goes back, and the next claim honours them.
        self._close(self._marks.committed(answer.marks))
        self._lost.let_out(now)
        if fertile:
            self.claim_policy.stirred()

    def released(self, tokens: Iterable[bytes]) -> None:
        """Claims were put back."""
        for token in tokens:
            self._forget(token)

    def advanced(self, run: int, answer: Advanced, now: float) -> None:
        """A run was asked to move on."""
        self.watch.advanced(run, answer, now)
        if answer.state.is_end:
            self.cancelled_runs.pop(run, None)
        if answer.state is RunState.DRAINING:
            self._close(self._marks.drained(run))
        if answer.moved:
            self.claim_policy.stirred()

    def found(self, runs: Sequence[tuple[int, int]], now: float) -> None:
        """A look was answered: these runs can be moved on, each at its round."""
        self.watch.found(runs, now)

    def heard(self, beat: Beat, sent: float) -> None:
        """A beat that was sent at `sent` was answered."""
        self._has_news = True
        if beat.reaped:
            self.reaped()
            return
        self.start_fence.beat(sent, self._settings.dead_after)
        self.leases.sizes.peers = max(1, beat.peers)
        self.watch.note_time_left(beat.time_left, sent)
        self._close({*self._marks.heard(beat.marks), *beat.paused})
        if self._settings.supervisor is not None and self.cancelled_tasks:
            self.leases.wait_until(sent + self._settings.grace, self.cancelled_tasks)

    def overdue(self, now: float) -> None:
        """Take away the leases whose time is up, and those that went on although their task was cancelled."""
        for ran in given_up(self.leases.overdue(now), self.cancelled_tasks, now):
            self.leave_behind(ran, now)
            self.lost_threads += not ran.chunk.handler.calling.is_async
            if self._settings.supervisor is not None:
                # It ends itself. Others in it get the time they get at any stop; after a cancel, all they need.
                self._condemned = ran.tasks[0]
                self.stop(now, self._settings.grace if ran.chunk.is_late(now) else math.inf)

    def leave_behind(self, ran: Ran, now: float) -> None:
        """The last word on a chunk: its worker goes on, uncounted, and what it brings is refused."""
        self.finished(ran, now)
        self.leases.free(ran.chunk)
        ran.chunk.lost = True

    def stop(self, now: float, patience: float | None = None) -> None:
        """Begin to stop: lease nothing more, let what runs finish within the grace period, or with that `patience`."""
        self._has_news = True
        until = now + (self._settings.grace if patience is None else patience)
        self._deadline = until if self._deadline is None else min(self._deadline, until)

    @property
    def is_stopping(self) -> bool:
        """True if a stop was asked for."""
        return self._deadline is not None

    # decisions

    def lease(self, is_async: bool, now: float) -> Chunk | None:
        """Tasks for one worker (`is_async`: on the event loop), or None when there is nothing it may do."""
        leased = self.leases.lease(is_async, now) if self.may_lease(now) else None
        # Who stops puts nothing back one by one: leaving does that, and asking again and again would help nobody.
        self._has_news = self._has_news or (bool(self._put_back) and not self.is_stopping)
        return leased

    @property
    def is_calm(self) -> bool:
        """True if the loop should run tasks itself: one worker is enough, they are quick, and it is not caught."""
        return not self.is_caught and self.leases.is_calm

    def may_lease(self, now: float) -> bool:
        """Return whether this process may start tasks: it is in, not stopping, and was heard of lately."""
        may = self.is_in and now < self.start_fence.until and self._deadline is None
        return may and not self.claim_policy.is_too_soon(now)

    def step(self, now: float) -> Step:
        """Return what the loop does next."""
        self._has_news = self._began_unsent = False
        self.overdue(now)
        for of, change in self.leases.judge(now, self.claim_policy.scarce, self._cpu()):
            self._on_change(of, change)
        if self.has_left:
            return Leave()
        if not self.is_in:
            return Leave() if self.is_stopping else Enter()
        if self._deadline is not None:
            return self._wind_down(now)
        self.leases.ripen(now)
        self._lost.let_out(now)
        self._park(now)
        if (late := self.watch.late(now)) is not None:
            return late
        if self.outbox.finished and self._is_due(now) and self.outbox.is_fertile:
            # What follows from this commit can be taken along with it.
            self.claim_policy.stirred()
        want = self.claim_policy.want(now) if self.may_lease(now) and not self.watch.is_through else None
        self._marks.asked()
        if self.outbox.finished and (want is not None or self._is_due(now)):
            return Flush(in_order(self.outbox.take_all(), self.holdings), want)
        if self._put_back and (tokens := self.leases.next_put_back(self.holdings)):
            return PutBack(tokens)
        # First, because it makes room: what a run goes on with is found by the claim after it.
        if (ask := self.watch.next() or self.watch.look(now, idle=False)) is not None:
            return ask
        if want is not None:
            return ClaimWork(want)
        is_idle = not self.holdings and not self.outbox.finished and now >= self.claim_policy.holds_off_until
        return self._idle(now) if is_idle else self._rest(now)

    def _idle(self, now: float) -> Step:
        if self.watch.is_over:
            self.stop(now)
            return self._wind_down(now)
        if (look := self.watch.look(now, idle=True)) is not None:
            return look
        waits = [LONGEST_REST, *self._moments(now)]
        if (at := self.watch.next_look) is not None:
            waits.append(at - now)
        return Rest(max(0.0005, min(waits)), idle=True)

    def _rest(self, now: float) -> Step:
        waits = [LONGEST_REST, *self._moments(now)]
        if self.outbox.since is not None:
            waits.append(self._due_at(self.outbox.since) - now)
        # Once that moment has passed, something else keeps this process from claiming: a beat, say.
        if now < self.claim_policy.asks_again and not self.claim_policy.is_shut(now):
            waits.append(self.claim_policy.asks_again - now)
        return Rest(max(0.0005, min(waits)), idle=False)

    def _moments(self, now: float) -> Iterator[float]:
        """Seconds until something can be started that cannot be started now, or a run is out of time."""
        if (moment := self.leases.next_moment(now, self.claim_policy.parked)) is not None:
            yield moment
        # One that has passed waits for something else: for a beat, say.
        moments = self.claim_policy.next_due, self.watch.next_deadline, self.claim_policy.holds_off_until
        others = self._lost.next_moment(), self.claim_policy.grants.next_look
        yield from (at - now for at in (*moments, *others) if at is not None and at > now)

    def _wind_down(self, now: float) -> Step:
        assert self._deadline is not None
        waits = now < self._deadline and self.leases.running
        if self.outbox.finished and (not waits or self._is_due(now)):
            return Flush(in_order(self.outbox.take_all(), self.holdings), None)
        if waits:
            return Rest(min(self._settings.flush_after, LONGEST_REST), idle=False)
        if self._condemned is not None:
            return Die(self._condemned)
        self.has_left = True
        return Leave()

    def _due_at(self, since: float) -> float:
        """When outcomes that came in from `since` on are committed at the latest; suspects are watched until then."""
        return self.outbox.latest + WATCHED if are_held(self.holdings) else since + self._settings.flush_after

    def _is_due(self, now: float) -> bool:
        if self.outbox.since is None or now >= self._due_at(self.outbox.since):
            return True
        if are_held(self.holdings):
            return False
        # When nothing is left to hand out, whatever comes next waits for this commit.
        return self.outbox.unsent >= self._settings.flush_at or not (self.leases.waiting_tasks or self.leases.running)

    def needs_step(self) -> bool:
        """Return whether the loop should look again now, because of what it was told since its last step."""
        return self._has_news and (
            self._began_unsent
            or self.outbox.unsent >= self._settings.flush_at
            or not self.leases.running
            or self.claim_policy.is_hungry
            or bool(self._put_back)
            or self._deadline is not None
            or not self.is_in
        )

    # keeping the books

    def _judge(self, holding: Holding, finished: Finished, task: int, verdict: Verdict) -> Status:
        """Put the event of an attempt that did not end well into the outbox, and see to the next attempt."""
        position = holding.position_of(task)
        status, value, wait = verdict_of(verdict, holding, position, self._chance, self._settings.limited_queues)
        attempt = 0 if isinstance(verdict, EndedUntried) else holding.attempts.get(position, 1)
        finished.add(task, status, value, attempt)
        holding.losses.pop(position, None)
        if status is Status.RETRYING:
            holding.attempts[position] = attempt + 1
        if wait is not None:
            # A suspect that waits must not be held: as long as it is, nothing else is taken. Nor is what goes back.
            near = wait.fits_in(self._settings.memory_wait) and not holding.is_suspect and not holding.closing
            # Nor is a place of a limit, which others may be waiting for.
            near = near and not holding.claim.limited
            (finished.again if near else finished.later)[task] = wait
        return status

    def _lose(self, finished: Finished, now: float) -> None:
        """See to it that a task is tried again whose swap of values lost, as if this attempt had not been."""
        token, (task,) = finished.claim.token, finished.tasks
        holding = self.holdings.get(token)
        if holding is None:
            return
        holding.unsent -= 1
        if (undone := finished.offspring.undone()).discarded and not holding.closing:
            # CRASH: staged pieces that were not discarded yet -> garbage, as of any claim that goes back or is reaped.
            self._finished(holding, now).bring(undone)
        if not self._lost.add(holding, finished):
            self._judge(holding, self._finished(holding, now), task, contended(holding, finished.offspring.swaps))
            holding.unsent += 1
            self.outbox.unsent += 1
        if holding.closing:
            self._put_back.append(token)

    def _finished(self, holding: Holding, now: float) -> Finished:
        # The loop must learn when the first of them is due.
        self._began_unsent = self._began_unsent or self.outbox.since is None
        self.claim_policy.returned(holding, now)
        return self.outbox.of(holding.claim, now)

    def _park(self, now: float) -> None:
        for holding in list(held_up(self.holdings, self.leases.limits, now)):
            self.claim_policy.parked.add(holding.where)
            self.leases.send_back(holding)
        for holding in self.claim_policy.surplus(now):
            self.leases.send_back(holding)

    def _close(self, runs: Collection[int]) -> None:
        for holding in self.holdings.values() if runs else ():
            if not holding.closing and holding.claim.run in runs:
                self.leases.send_back(holding)

    def _forget(self, token: bytes) -> None:
        holding = self.holdings.pop(token, None)
        self.outbox.forget(token)
        if holding is not None:
            self.leases.close(holding)
            self.watch.dropped(holding.claim.run)
        if not self.holdings:
            # The last claim may have left out what was held back then, and nothing would ask for it now.
            self.claim_policy.stirred()
