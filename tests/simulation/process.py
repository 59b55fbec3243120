"""A process of the simulation: a real kernel, whole, on a machine that is made up.

Its loop, hand-over, workers, stand-in, event loop, heartbeat and session are those of `ramify.kernel`; only their
threads, locks and clocks are the simulation's (`strand.py`), and the store is on the other side of the weather
(`client.py`). The core is looked at as it is told and asked; nothing here decides anything in its place.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, cast

from ramify.engine.library import StoreLibrary
from ramify.errors import StoreUnavailable
from ramify.kernel.attempts.control import Defer, Fatal
from ramify.kernel.attempts.current import current
from ramify.kernel.core.steps import Flush, PutBack, Step
from ramify.kernel.core.work import Chunk, Ran
from ramify.kernel.kernel import Kernel
from ramify.kernel.machine import Machine
from ramify.kernel.outgoing.offspring import LinkedCall
from ramify.kernel.outgoing.outbox import Finished
from ramify.kernel.settings import Settings
from ramify.model.claim import Claimed
from ramify.model.commit import Committed
from ramify.model.process import Stamp
from ramify.store.contract import Beat, Store
from ramify.store.record import told
from tests.simulation.client import Client
from tests.simulation.strand import Condition, Event, EventLoop, Gone, Lock, Strand, here
from tests.simulation.tree import DEFER_SECONDS, Act, Node
from tests.simulation.weather import Fault

if TYPE_CHECKING:
    from tests.simulation.world import World


class Process:
    """One process. What starts with an underscore belongs to it; the rest is for the world and the watch."""

    def __init__(self, world: World, settings: Settings) -> None:
        chance = world.chance
        self.world = world
        self.settings = settings
        self.name = len(world.processes)
        self.is_alive = True
        self.has_left = False
        self.strands: dict[Strand, None] = {}
        #: Whether its core was told or asked something since its books were looked at.
        self.is_touched = False
        #: How often it was told something.
        self.facts = 0
        self.frozen_until = 0.0
        #: Whether its session was declared dead, it was told so, and has not entered anew.
        self.knows_its_death = False
        #: When its core was told to stop.
        self.stop_asked: float | None = None
        #: When the last beat that was answered was sent, in the world's time.
        self.heard_of = float("-inf")
        #: When each claim was answered, in the world's time.
        self.claimed_at: dict[bytes, float] = {}
        #: What is in the hands of workers: chunks, and their tasks that are not back.
        self.out: dict[Chunk, set[int]] = {}
        self.in_flight: tuple[Finished, ...] = ()
        #: The numbered verb under way.
        self.sending: tuple[Stamp, Callable[[Stamp], object]] | None = None
        skewed = Fault.SKEW in world.faults
        self._rate = chance.uniform(0.9, 1.1) if skewed else 1.0
        self._zero = chance.random() * 1e6 if skewed else 1_000.0
        self._client = Client(self)
        self.kernel = Kernel(
            cast(Store, self._client),
            world.handlers,
            StoreLibrary(cast(Store, self._client), world.handlers),
            settings,
            machine=self._machine(),
        )
        self.core = self.kernel.core
        self.sender = self.kernel.sender
        _Spy(self)

    def __str__(self) -> str:
        return f"process {self.name} ({self.sender.process})"

    def clock(self) -> float:
        """This process's own clock."""
        return self._zero + self.world.now * self._rate

    def in_world(self, seconds: float) -> float:
        """What that long by its own clock is in the world's time."""
        return seconds / self._rate

    def check_alive(self) -> None:
        """End the strand that asks, if its process has ended."""
        if not self.is_alive:
            raise Gone

    @property
    def is_out_of_grace(self) -> bool:
        """Whether it was asked to stop and the time for that is over."""
        return self.stop_asked is not None and self.clock() > self.stop_asked + self.settings.grace

    # what the world does to it

    def begin(self) -> None:
        """It starts."""
        Strand(self, self._main, "main").start()

    def kill(self, evidence: bool = False) -> None:
        """It is no more; with evidence when it died of its own doing."""
        self.keep_record(evidence)
        self.is_alive = False
        for strand in list(self.strands):
            strand.stir()

    def stop(self) -> None:
        """Somebody asks it to stop."""
        Strand(self, self.kernel.stop, "stop").start()

    def stir(self) -> None:
        """The store has changed."""
        self._client.stir()

    def keep_record(self, evidence: bool = False) -> None:
        """What whoever buries this process will find: written as it goes, and complete whatever ends it."""
        if self.is_alive:
            self.world.tables.records[self.sender.process] = told(self.kernel._record.words, evidence)

    def _main(self) -> None:
        """What `engine.run` does."""
        try:
            self.kernel.start()
            self.kernel.join()
        except StoreUnavailable:
            # It was asked to stop and the store did not answer: what it held is found by whoever buries it.
            if self.stop_asked is None:
                raise
            self.world.tell(self, "gave up")
        else:
            self.has_left = True
        self.kill()

    def _exit(self, code: int) -> NoReturn:
        self.has_left = True
        self.kill()
        self.world.after(self.world.chance.random() * 3.0, self.world.replace)
        raise Gone

    def _machine(self) -> Machine:
        chance = self.world.chance
        return Machine(
            clock=self._time,
            cpu=lambda: sum(strand.busy for strand in self.strands),
            busy=lambda: here().busy,
            chance=chance.random,
            number=self.world.number,
            is_scarce=lambda: chance.random() < self.world.weather.scarce,
            lock=cast(Any, Lock),
            condition=cast(Any, Condition),
            event=cast(Any, Event),
            thread=lambda target, name: Strand(self, target, name),
            event_loop=lambda: EventLoop(self),
            exit=self._exit,
        )

    def _time(self) -> float:
        strand = threading.current_thread()
        # Coroutines of a process that is no more are cleared away in any thread.
        if self.is_alive and isinstance(strand, Strand):
            strand.hiccup()
        return self.clock()

    # attempts

    def attempt(self, number: int) -> int | None:
        """What the handlers do that run in threads."""
        node, act, seconds = self._begun(number)
        if act is Act.KILL:
            here().park(seconds / 2)
            self.world.kill(self, by_a_task=True)
        here().park(seconds)
        here().busy += seconds * self._rate * self.world.chance.random()
        return self._ended(node, act)

    async def attempt_woven(self, number: int) -> int | None:
        """What the handlers do that run on the event loop."""
        node, act, seconds = self._begun(number)
        if act is Act.KILL:
            await asyncio.sleep(seconds * self._rate / 2)
            self.world.kill(self, by_a_task=True)
        if act is Act.SLOW and self.world.chance.random() < 0.5:
            # It does not let the event loop turn.
            self.world.tell(self, "blocks its loop")
            here().park(seconds)
        await asyncio.sleep(seconds * self._rate)
        return self._ended(node, act)

    def _begun(self, number: int) -> tuple[Node, Act, float]:
        self.check_alive()
        node, task = self.world.tree.nodes[number], current().task
        act = node.act(len(self.world.tables.events.get(task, ())))
        timeout = self.world.handlers[node.group.kind].policy.timeout
        self.world.watch.began(self, task)
        if node.sets:
            current().context.set(node.sets, number)
        if node.counter and number % 3 == 0:
            # What is read early is more often changed by others before it is committed.
            current().values("counter", int).get(node.counter)
        return node, act, 3 * timeout if act is Act.SLOW and timeout is not None else node.seconds

    def _ended(self, node: Node, act: Act) -> int | None:
        match act:
            case Act.RAISE | Act.SLOW:
                raise ValueError("as planned")
            case Act.FATAL:
                raise Fatal("as planned")
            case Act.DEFER | Act.DEFER_LONG:
                raise Defer(DEFER_SECONDS[act])
            case Act.KILL_LATER:
                self.world.after(0.005, lambda: self.world.kill(self, by_a_task=True))
            case _:
                pass
        nodes, me = self.world.tree.nodes, current()
        if node.counter:
            me.values("counter", int).update(node.counter, lambda number: number + 1, default=0)
        if node.children:
            me.spawn(*(nodes[child].call for child in node.children))
        for split in node.splits:
            me.spawn(*(nodes[member].call for member in split.members), then=nodes[split.then].call)
        if node.grown:
            inside = [nodes[number] for number in node.grown]
            places = {each.number: place for place, each in enumerate(inside)}
            me._grow([LinkedCall(each.call, [places[n] for n in each.waits], each.rule, False) for each in inside])
        return None if node.value is None else int(node.value)


def attempt(number: int) -> int | None:
    """A handler that runs in a thread."""
    return here().process.attempt(number)


async def attempt_woven(number: int) -> int | None:
    """A handler that runs on the event loop."""
    return await here().process.attempt_woven(number)


class _Spy:
    """Looks over the shoulder of a core: what it is told and asked goes through here, unchanged."""

    def __init__(self, process: Process) -> None:
        self._process = process
        core = process.core
        for name, after in (
            ("step", self._step), ("lease", self._lease), ("finished", self._finished), ("came_back", self._came_back),
            ("claimed", self._claimed), ("committed", self._committed), ("reaped", self._reaped),
            ("entered", self._entered), ("heard", self._heard), ("stop", self._stop),
        ):  # fmt: skip
            setattr(core, name, self._watched(getattr(core, name), after))

    def _watched(self, call: Callable[..., Any], after: Callable[..., None]) -> Callable[..., Any]:
        process = self._process

        def watched(*args: Any, **kwargs: Any) -> Any:
            process.check_alive()
            answer = call(*args, **kwargs)
            process.is_touched = True
            process.facts += after not in (self._step, self._lease)
            try:
                after(answer, *args)
            except Exception as violation:
                process.world.blame(violation)
                raise Gone from violation
            return answer

        return watched

    def _step(self, step: Step, now: float) -> None:
        process = self._process
        process.in_flight = step.batch if isinstance(step, Flush) else ()
        if process.world.is_told:
            process.world.tell(process, "stands in:" if process.core.is_caught else "", self._told(step))
        process.world.watch.stepped(process, step)

    def _told(self, step: Step) -> str:
        """A step in words that are the same each time: tokens are not."""
        match step:
            case Flush(batch, want):
                return f"Flush of {[list(finished.tasks) for finished in batch]}, {want}"
            case PutBack(tokens):
                holdings = self._process.core.holdings
                return f"PutBack of {[list(holdings[token].claim.tasks) for token in tokens]}"
            case _:
                return str(step)

    def _lease(self, chunk: Chunk | None, colour: bool, now: float) -> None:
        if chunk is not None:
            process = self._process
            process.out[chunk] = set(chunk.columns()[0])
            if here().name == "ramify-loop":
                where = "inline" if process.settings.threads == 0 else "in the thread of the loop"
                process.world.tell(process, "runs", where, len(chunk.positions))
            process.world.watch.leased(process, chunk)

    def _finished(self, _: None, ran: Ran, now: float) -> None:
        if ran.chunk in self._process.out:
            self._process.out[ran.chunk] -= set(ran.tasks)

    def _came_back(self, _: None, chunk: Chunk) -> None:
        self._process.out.pop(chunk, None)

    def _claimed(self, _: None, answer: Claimed, now: float) -> None:
        for claim in answer.claims:
            self._process.claimed_at[claim.token] = self._process.world.now

    def _committed(self, _: None, batch: object, answer: Committed, *rest: object) -> None:
        self._process.in_flight = ()
        if answer.lost:
            self._process.world.tell("LOST by", self._process, answer.lost)

    def _stop(self, _: None, now: float, patience: float | None = None) -> None:
        # Who ends itself because of a cancel lets others finish, however long they take.
        if self._process.stop_asked is None and patience != math.inf:
            self._process.stop_asked = now

    def _reaped(self, _: None) -> None:
        process = self._process
        process.world.tell(process, "was reaped")
        process.knows_its_death, process.in_flight = True, ()

    def _entered(self, _: None, beat: Beat, sent: float) -> None:
        self._process.heard_of, self._process.knows_its_death = float("-inf"), False

    def _heard(self, _: None, beat: Beat, sent: float) -> None:
        process = self._process
        process.heard_of = (sent - process._zero) / process._rate
        process.world.watch.heard(process, beat, sent)
