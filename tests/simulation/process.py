"""A process of the simulation: a real core, and around it what loop, pool, coroutines and heartbeat do with threads.

Each thread is a strand here. The loop carries out the core's steps against the store as `kernel/loop.py` does: verbs
are numbered and sent until they are answered, ids come from the real session, parts from the real outbox.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar, assert_never

from ramify.errors import Reaped, StoreUnavailable
from ramify.kernel.core import Core
from ramify.kernel.heartbeat import REAP_EVERY
from ramify.kernel.offspring import Fork
from ramify.kernel.outbox import Finished, part_of
from ramify.kernel.session import FIRST_PAUSE, LONGEST_PAUSE, Session
from ramify.kernel.settings import Settings
from ramify.kernel.signals import Signals
from ramify.kernel.steps import Die, Enter, Flush, Leave, Look, Move, PutBack, Rest, Step, Take
from ramify.kernel.work import Chunk, Dropped, Interrupted, Postponed, Raised, Ran
from ramify.model.claim import Claim
from ramify.model.death import NOBODYS_FAULT, Death
from ramify.model.outcome import Failure
from ramify.model.policy import SECOND
from ramify.model.process import NewProcess, Stamp
from ramify.store.memory import MemoryStore
from tests.simulation.strand import Strand
from tests.simulation.tree import DEFER_SECONDS, Act, Node, number_of
from tests.simulation.weather import Fault

if TYPE_CHECKING:
    from tests.simulation.world import World

T = TypeVar("T")
Story = Generator[float, None, T]


class Process:
    """One process. What starts with an underscore belongs to it; the rest is for the world and the watch."""

    def __init__(self, world: World, settings: Settings) -> None:
        luck = world.luck
        self.world = world
        self.settings = settings
        self.core = Core(world.handlers, settings, luck.random)
        self.store = MemoryStore(world.place, world.clock)
        self.session = Session(self.store, settings, Signals(), threading.Event(), clock=self.clock)
        self.name = len(world.processes)
        self.is_alive = True
        self.has_left = False
        #: Whether its core was told or asked something since its books were looked at.
        self.is_touched = False
        self.frozen_until = 0.0
        #: Whether its session was declared dead, it was told so, and has not entered anew.
        self.knows_its_death = False
        self.stop_asked: float | None = None
        #: When the last beat that was answered was sent, in the world's time.
        self.heard_of = float("-inf")
        #: When each claim was answered, in the world's time.
        self.claimed_at: dict[bytes, float] = {}
        #: What is in the hands of workers: chunks, and how many of their tasks are not back.
        self.out: dict[Chunk, set[int]] = {}
        #: Tasks inside an attempt, each with the deaths its kind allows.
        self.running: dict[int, int | None] = {}
        self.in_flight: tuple[Finished, ...] = ()
        #: The numbered verb under way.
        self.sending: tuple[Stamp, Callable[[Stamp], object]] | None = None
        self._n = 0
        skewed = Fault.SKEW in world.faults
        self._rate = luck.uniform(0.9, 1.1) if skewed else 1.0
        self._zero = luck.random() * 1e6 if skewed else 1_000.0
        self._loop: Strand | None = None
        self._heartbeat: Strand | None = None
        self._resting = ""
        self._seen = -1
        self._waking = 0
        self._coroutines: dict[Strand, tuple[Chunk, int]] = {}
        self._unwanted: set[Strand] = set()

    def __str__(self) -> str:
        return f"process {self.name} ({self.session.process})"

    def clock(self) -> float:
        """This process's own clock."""
        return self._zero + self.world.now * self._rate

    @property
    def is_out_of_grace(self) -> bool:
        """Whether it was asked to stop and the time for that is over."""
        return self.stop_asked is not None and self.clock() > self.stop_asked + self.settings.grace

    # what the world does to it

    def begin(self) -> None:
        """It starts."""
        self._loop = Strand(self, self._run())

    def kill(self) -> None:
        """It is no more."""
        self.is_alive = False

    def stop(self) -> None:
        """Somebody asks it to stop."""
        if self.stop_asked is None:
            self.stop_asked = self.clock()
        self._write_record()
        self.core.stop(self.clock())
        self._notify()
        self.stir()

    def stir(self) -> None:
        """The store has changed."""
        if self._resting == "store" and self._loop is not None:
            self._loop.stir()

    def _notify(self) -> None:
        if self._resting == "turn" and self._loop is not None:
            self._loop.stir()

    # the loop

    def _run(self) -> Story[None]:
        while True:
            step = self.core.step(self.clock())
            self.is_touched = True
            self._call_workers()
            if self.world.is_told:
                self.world.tell(self, self._told(step))
            self.world.watch.stepped(self, step)
            try:
                yield from self._do(step)
            except Reaped:
                self.world.tell(self, "was reaped")
                self.knows_its_death = True
                self.core.reaped()
            self.is_touched = True
            self.sending, self.in_flight = None, ()
            if isinstance(step, Leave | Die):
                self.has_left, self.is_alive = True, False
                if isinstance(step, Die):
                    self.world.after(self.world.luck.random() * 3.0, self.world.replace)
                return

    def _told(self, step: Step) -> str:
        """A step in words that are the same each time: tokens are not."""
        match step:
            case Flush(batch, want):
                return f"Flush of {[list(finished.tasks) for finished in batch]}, {want}"
            case PutBack(token):
                return f"PutBack of {list(self.core.holdings[token].claim.tasks)}"
            case _:
                return str(step)

    def _do(self, step: Step) -> Story[None]:
        store, core = self.store, self.core
        match step:
            case Enter():
                yield from self._enter()
            case Take(want):
                claimed = yield from self._send(lambda stamp: store.claim(stamp, want))
                self._note_claims(claimed.claims)
                core.claimed(claimed, self.clock())
            case Flush():
                yield from self._flush(step)
            case Move(asked):
                answers = yield from self._until_answered(lambda: store.advance(asked))
                for (run, _), answer in zip(asked, answers, strict=True):
                    core.advanced(run, answer, self.clock())
            case PutBack(token):
                yield from self._send(lambda stamp: store.release(stamp, token))
                core.released(token)
            case Look(limit):
                movable = yield from self._until_answered(lambda: store.movable(limit))
                core.found(movable, self.clock())
            case Rest(seconds, idle):
                yield from self._rest(seconds, idle)
            case Die() | Leave():
                if core.is_in:
                    yield from self._until_answered(lambda: store.leave(self.session.process))
            case _:
                assert_never(step)

    def _enter(self) -> Story[None]:
        self._n = 0
        self.session.process = number = self.world.number()
        sent = self.clock()
        # It does not beat before this is answered, so a very late answer would find it buried.
        yield from self._until_answered(lambda: self.store.enter(NewProcess(number)), self.settings.dead_after / 3)
        self.heard_of = float("-inf")
        self.knows_its_death = False
        self._write_record()
        self.core.entered(sent)
        if self._heartbeat is None:
            self._heartbeat = Strand(self, self._beat())

    def _flush(self, step: Flush) -> Story[None]:
        now = self.session.now()
        self.in_flight = step.batch
        exact = self.settings.exact_waits
        parts = [part_of(finished, self.session.take, now, exact) for finished in step.batch]
        answer = yield from self._send(lambda stamp: self.store.commit(stamp, parts, step.want))
        self.in_flight = ()
        self._note_claims(answer.claimed.claims)
        dues = [(later.due - now) / SECOND for part in parts for later in part.later]
        self.core.committed(step.batch, answer, self.clock(), dues)
        if step.want is not None:
            self.core.claimed(answer.claimed, self.clock())

    def _note_claims(self, claims: tuple[Claim, ...]) -> None:
        for claim in claims:
            self.claimed_at[claim.token] = self.world.now

    def _rest(self, seconds: float, idle: bool) -> Story[None]:
        if idle:
            if self.world.place.version == self._seen and not self.core.is_stopping:
                self._resting = "store"
                yield seconds
                self._resting = ""
            else:
                yield 1e-4
            self._seen = self.world.place.version
            self.core.stirred()
        elif not self.core.needs_step():
            self._resting = "turn"
            yield seconds
            self._resting = ""
        else:
            self.world.watch.did_not_rest(self)
            yield 1e-5

    # verbs

    def _send(self, verb: Callable[[Stamp], T]) -> Story[T]:
        self._n += 1
        stamp = Stamp(self.session.process, self._n)
        self.sending = (stamp, verb)
        answer = yield from self._until_answered(lambda: verb(stamp))
        self.sending = None
        self.world.echo(stamp, verb)
        return answer

    def _until_answered(self, verb: Callable[[], T], slowest: float = 3.0) -> Story[T]:
        luck, pause = self.world.luck, FIRST_PAUSE
        slow = luck.choice((0.0, 0.0, slowest)) if Fault.SLOW in self.world.faults else 0.0
        while True:
            sent = self.clock()
            try:
                answer = yield from self.world.call(verb, slow)
                self.session.heard(answer, sent)
                return answer
            except StoreUnavailable:
                yield pause * luck.uniform(0.5, 1.0)
                pause = min(2 * pause, LONGEST_PAUSE)

    # the heartbeat

    def _beat(self) -> Story[None]:
        beats = 0
        while True:
            yield from self._one_beat()
            if beats % REAP_EVERY == 0:
                yield from self._reap(self.session.process)
            beats += 1
            yield self.settings.beat_every / self._rate

    def _reap(self, process: int) -> Story[None]:
        with suppress(StoreUnavailable, Reaped):
            found = yield from self.world.call(lambda: self.store.reap(process, self.settings.dead_after))
            self.world.watch.buried(found.processes, process)

    def _one_beat(self) -> Story[None]:
        luck = self.world.luck
        slow = 1.2 * self.settings.dead_after if Fault.LATE in self.world.faults and luck.random() < 0.1 else 0.0
        process, sent, now = self.session.process, self.clock(), self.world.now
        try:
            answer = yield from self.world.call(lambda: self.store.beat(process), slow)
        except StoreUnavailable:
            return
        self.session.heard(answer, sent)
        # An answer to a beat of an earlier incarnation says nothing about this one.
        if process != self.session.process or not self.core.is_in:
            return
        self.heard_of = now
        if answer.reaped:
            self.world.tell(self, "heard that it was reaped")
            self.knows_its_death = True
        self.is_touched = True
        self.core.heard(answer, sent)
        self.world.watch.heard(self, answer, sent)
        self._notify()
        if answer.marks:
            self._drop_unwanted()

    # workers

    def _lease(self, colour: bool) -> Chunk | None:
        chunk = self.core.lease(colour, self.clock())
        if chunk is not None:
            self.is_touched = True
            self.out[chunk] = set(chunk.columns()[0])
            self.world.watch.leased(self, chunk)
        elif self.core.needs_step():
            self._notify()
        return chunk

    def _call_workers(self) -> None:
        leases = self.core.leases
        room = leases.adapters[False].target - leases.chunks[False]
        for _ in range(min(leases.ready[False], room) - self._waking):
            self._waking += 1
            Strand(self, self._thread())
        if leases.ready[True]:
            Strand(self, self._poke())

    def _thread(self) -> Story[None]:
        yield self.world.luck.random() * 1e-3
        self._waking -= 1
        while (chunk := self._lease(False)) is not None:
            if Fault.THREAD in self.world.faults and self.world.luck.random() < 0.15:
                yield self.world.luck.random() * 0.1
                tasks = [chunk.claim.tasks[place] for place in chunk.places]
                self._deliver(Ran(chunk, others=[(task, Interrupted()) for task in tasks]), True)
                self._notify()
                return
            ran = Ran(chunk)
            for place in chunk.places:
                yield from self._attempt(chunk, place, ran)
            was_lost = chunk.lost
            self._deliver(ran, True)
            if was_lost:
                return
            if self.core.needs_step():
                self._notify()

    def _fill(self) -> None:
        while (chunk := self._lease(True)) is not None:
            for place in chunk.places:
                strand = Strand(self, self._coroutine(chunk, place))
                self._coroutines[strand] = (chunk, place)

    def _poke(self) -> Story[None]:
        yield self.world.luck.random() * 1e-3
        self._fill()

    def _coroutine(self, chunk: Chunk, place: int) -> Story[None]:
        ran = Ran(chunk)
        attempt = self._attempt(chunk, place, ran)
        me = next(strand for strand, what in self._coroutines.items() if what == (chunk, place))
        for delay in attempt:
            yield delay
            if me in self._unwanted:
                ran.others = [(chunk.claim.tasks[place], Dropped("cancelled while it ran"))]
                break
        self._unwanted.discard(me)
        del self._coroutines[me]
        is_last = len(self.out[chunk]) == 1
        self._deliver(ran, is_last)
        if self.core.needs_step():
            self._notify()
        self._fill()

    def _drop_unwanted(self) -> None:
        for strand, (chunk, place) in self._coroutines.items():
            task = chunk.claim.tasks[place]
            if chunk.claim.run in self.core.cancelled_runs or task in self.core.cancelled_tasks:
                self._unwanted.add(strand)
                strand.stir()

    def _deliver(self, ran: Ran, is_over: bool) -> None:
        chunk = ran.chunk
        self.is_touched = True
        self.out[chunk] -= set(ran.tasks)
        if is_over:
            del self.out[chunk]
        self.core.finished(ran, self.clock())
        if is_over:
            self.core.came_back(chunk)

    def _attempt(self, chunk: Chunk, place: int, ran: Ran) -> Story[None]:
        world, task = self.world, chunk.claim.tasks[place]
        node = world.tree.nodes[number_of(chunk.claim.bodies[place])]
        act = node.act(len(world.place.events.get(task, ())))
        timeout = chunk.handler.policy.timeout
        seconds = 3 * timeout if act is Act.SLOW and timeout is not None else node.seconds
        ran.seconds += seconds * self._rate
        ran.busy += seconds * self._rate * world.luck.random()
        self.running[task] = chunk.handler.policy.max_crashes
        self._write_record()
        if act is Act.KILL:
            yield seconds / 2
            world.kill(self, by_a_task=True)
        yield seconds
        self.running.pop(task, None)
        self._write_record()
        if act is Act.KILL_LATER:
            world.after(0.005, lambda: world.kill(self, by_a_task=True))
        self._bring(node, act, task, ran)

    def _write_record(self) -> None:
        """What whoever buries this process will find."""
        if self.is_alive:
            stopping = self.stop_asked is not None
            self.world.place.records[self.session.process] = NOBODYS_FAULT if stopping else Death(dict(self.running))

    def _bring(self, node: Node, act: Act, task: int, ran: Ran) -> None:
        match act:
            case Act.DONE | Act.KILL_LATER:
                self._succeed(node, task, ran)
            case Act.RAISE | Act.SLOW:
                ran.others.append((task, Raised(Failure("ValueError", "as planned"))))
            case Act.FATAL:
                ran.others.append((task, Raised(Failure("ValueError", "as planned"), final=True)))
            case Act.DEFER | Act.DEFER_LONG:
                ran.others.append((task, Postponed(DEFER_SECONDS[act])))
            case Act.KILL:
                raise AssertionError("a dead process brings nothing")
            case _:
                assert_never(act)

    def _succeed(self, node: Node, task: int, ran: Ran) -> None:
        nodes = self.world.tree.nodes
        if ran.values is None and node.value is not None:
            ran.values = [None] * len(ran.done)
        if ran.values is not None:
            ran.values.append(node.value)
        ran.done.append(task)
        ran.offspring.add(task, [nodes[child].call for child in node.children])
        for split in node.splits:
            members = [nodes[member].call for member in split.members]
            ran.offspring.forks.append(Fork(task, members, nodes[split.then].call))
