"""The world: virtual time, strands that take turns in it, one store, and the faults between the two.

A strand is a thread that runs when it has its turn, until it waits; then the world goes on to whoever is next. One seed
decides every delay and every fault, so a story can be told again exactly. Nothing here waits in real time.
"""

from __future__ import annotations

import heapq
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import TypeVar

import msgspec

from ramify.errors import Reaped, StaleStamp, StoreUnavailable
from ramify.kernel.faults import arm, disarm
from ramify.model.decision import Said
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.mark import Settled
from ramify.model.process import Stamp
from ramify.model.run import Follows, NewRun, Order
from ramify.model.task import NewTasks
from ramify.store.memory import MemoryStore
from ramify.store.memory.tables import MemoryTables
from ramify.testing import oracle
from ramify.testing.clock import SECOND, FakeClock
from tests.simulation.judge import verdict
from tests.simulation.process import Process, attempt, attempt_woven
from tests.simulation.strand import Planted, Strand, here
from tests.simulation.tree import Tree, handlers_of
from tests.simulation.watch import Violation, Watch
from tests.simulation.weather import SUDDEN, Fault, Weather

T = TypeVar("T")

#: In stories with these numbers roots wait for each other, as the nodes of a DAG do.
LINKED = 2**40
#: From here on it is as before, and tasks change values that all of them share.
SHARING = 2 * LINKED
#: More turns than this and the run will never end: somebody does nothing over and over.
MOST_TURNS = 150_000


class World:
    """One seed."""

    def __init__(self, seed: int, tell: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.chance = chance = random.Random(seed)
        self.weather = Weather.of(chance)
        self.faults = set(self.weather.faults)
        self.handlers = handlers_of(chance, self.weather.killers > 0, attempt, attempt_woven)
        weather = self.weather
        self.tree = Tree(
            chance, self.handlers, weather.runs, weather.size, weather.killers,
            linked=seed % SHARING >= LINKED, sharing=seed >= SHARING,
        )  # fmt: skip
        self.now = 0.0
        self.turns = 0
        self.clock = FakeClock()
        self.tables = MemoryTables()
        self.store = MemoryStore(self.tables, self.clock)
        self.away_until = 0.0
        self.processes: list[Process] = []
        self.murders = 0
        self._tell = tell
        self.is_told = tell is not None
        self._ticks = 0
        self._line: list[tuple[float, int, Strand | Callable[[], None], int]] = []
        self._tie = count()
        self._numbers = count(1)
        self._version = 0
        self._is_calm = False
        #: Given back by a strand when it waits.
        self.back = threading.Lock()
        self.back.acquire()
        self._broken: BaseException | None = None
        #: Whether every run has ended.
        self.is_over = False
        self.runs = self._start_runs()
        self.watch = Watch(self)

    # time

    def after(self, delay: float, what: Strand | Callable[[], None], ticket: int = 0) -> None:
        """Do something, or go on with a strand, after a while."""
        heapq.heappush(self._line, (self.now + delay, next(self._tie), what, ticket))

    def turn(self) -> bool:
        """Let the next one have its turn; False when nobody is left."""
        if not self._line:
            return False
        at, _, what, ticket = heapq.heappop(self._line)
        self.now = max(self.now, at)
        self.turns += 1
        if isinstance(what, Strand):
            what.resume(ticket)
        else:
            what()
        if self._broken is not None:
            raise self._broken
        return True

    def blame(self, trouble: BaseException) -> None:
        """Something went wrong in a strand; the first one is raised."""
        self._broken = self._broken or trouble

    def tell(self, *words: object) -> None:
        """A line of the story, for whoever listens."""
        if self._tell is not None:
            self._tell(f"{self.now:9.4f} " + " ".join(map(str, words)))

    # the store, as it is seen from a process

    def call(self, verb: Callable[[], T], slow: float = 0.0) -> T:
        """One try of a verb: it takes time to get there and back, and may be lost either way."""
        chance, me = self.chance, here()
        me.park(chance.random() * self.weather.step + (chance.random() * slow))
        if self.now < self.away_until:
            raise StoreUnavailable("the store is away")
        is_lost = Fault.LOST in self.faults and chance.random() < 0.15
        if is_lost and chance.random() < 0.3:
            raise StoreUnavailable("the request was lost")
        answer = self.apply(verb)
        if slow or chance.random() < 0.5:
            me.park(chance.random() * self.weather.step + (chance.random() * slow))
        if is_lost:
            raise StoreUnavailable("the answer was lost")
        return answer

    def apply(self, verb: Callable[[], T]) -> T:
        """Carry a verb out, look at what it did, and let those know who wait for the store."""
        ticks = round(self.now * SECOND)
        self.clock.advance((ticks - self._ticks) / SECOND)
        self._ticks = ticks
        try:
            return verb()
        finally:
            self._look()
            if self.tables.version != self._version:
                self._version = self.tables.version
                self.is_over = all(self.tables.runs[run].state.is_end for run in self.runs)
                for process in self.processes:
                    # A hint: it may be missed.
                    if self.chance.random() < 0.95:
                        process.stir()

    def _look(self) -> None:
        try:
            self.watch.looked()
        except Violation as violation:
            self.blame(violation)
            raise

    def echo(self, stamp: Stamp, verb: Callable[[Stamp], object]) -> None:
        """An old verb arrives once more, long after it was answered. It must change nothing."""
        if Fault.ECHO in self.faults and self.chance.random() < 0.15:
            self.after(self.chance.random() * 10.0, lambda: self._deliver_again(stamp, verb))

    def _deliver_again(self, stamp: Stamp, verb: Callable[[Stamp], object]) -> None:
        sender = self.tables.sessions[stamp.process]
        # A claim that found nothing did not use its stamp up; a verb is over when its call returns.
        if sender.last < stamp.n:
            return
        before = self._fingerprint()
        self.tell("echo of", stamp)
        with suppress(Reaped, StaleStamp):
            self.apply(lambda: verb(stamp))
        if before != self._fingerprint():
            raise Violation(f"{stamp} was delivered again and changed something")

    def _fingerprint(self) -> tuple[object, ...]:
        return (
            len(self.tables.commits),
            sorted(self.tables.tokens),
            sorted(self.tables.segments),
            len(self.tables.spans),
        )

    # processes

    def number(self) -> int:
        """The number of a new incarnation."""
        return next(self._numbers)

    def newcomer(self) -> None:
        """A process starts."""
        if not self.is_over:
            process = Process(self, self.weather.settings(self.chance, frozenset(self.runs)))
            self.processes.append(process)
            process.begin()

    def alive(self) -> list[Process]:
        """Processes that are neither dead nor gone."""
        return [process for process in self.processes if process.is_alive]

    def kill(self, process: Process, *, by_a_task: bool = False) -> None:
        """A process is no more; what it had on the way may still arrive. A task that did it leaves evidence."""
        if not process.is_alive:
            return
        self.murders += by_a_task
        self.tell("CRASH of", process)
        process.kill(evidence=by_a_task)
        if process.sending is not None and self.chance.random() < 0.5:
            stamp, verb = process.sending
            self.after(self.chance.random() * 3.0, lambda: self._deliver_late(stamp, verb))
        self.after(self.chance.random() * (3.0 if self._is_calm else 8.0), self.replace)

    def _deliver_late(self, stamp: Stamp, verb: Callable[[Stamp], object]) -> None:
        self.tell("late", stamp)
        with suppress(Reaped, StaleStamp):
            self.apply(lambda: verb(stamp))

    def replace(self) -> None:
        """Somebody is gone, or going: another takes its place."""
        if sum(not process.core.is_stopping for process in self.alive()) < self.weather.processes:
            self.newcomer()

    # runs

    def _start_runs(self) -> list[int]:
        runs: list[int] = []
        for roots in self.tree.roots:
            run = self.store.reserve(1)
            follows = Follows(runs[0]) if runs and self.chance.random() < 0.5 else None
            order = Order.ROUNDS if follows is not None else self.chance.choice(list(Order))
            nodes = [self.tree.nodes[number] for number in roots]
            tasks, joins, waiters = [], [], []
            ids = {node.number: self.store.reserve(1) for node in nodes}
            for node in nodes:
                first, waits = ids[node.number], [ids[number] for number in node.waits]
                details = [node.call.extra] if node.call.extra is not None else None
                group = NewTasks(first, node.group.kind, [node.body], lane=node.lane, details=details)
                tasks.append(msgspec.structs.replace(group, waits=bool(waits), awaited=node.waited_for))
                if waits:
                    joins.append(NewJoins.one(first, len(waits), rule=node.rule))
                    waiters.append(NewWaiters(waits, [first] * len(waits), range(len(waits))))
            self.store.start(NewRun(run, order=order, follows=follows), tasks, joins, waiters)
            runs.append(run)
        return runs

    # the story

    def live(self) -> None:
        """Tell the whole story of the seed; Violation when a promise was broken."""
        arm("leased", self._leased)
        try:
            self._live()
        except Violation:
            raise
        except Exception as error:
            raise Violation(f"{type(error).__name__}: {error}") from error
        finally:
            disarm()
            self._end()

    def _leased(self) -> None:
        """A thread of a pool has got a chunk."""
        if Fault.THREAD in self.faults and self.chance.random() < 0.15:
            self.tell("THREAD of", here().process, "dies")
            here().park(self.chance.random() * 0.1)
            raise Planted

    def _end(self) -> None:
        """Nobody is left behind."""
        for process in self.processes:
            process.is_alive = False
            for strand in list(process.strands):
                strand.finish()

    def _live(self) -> None:
        self.tell(self.weather)
        for _ in range(self.weather.processes):
            self.after(self.chance.random() * 2.0, self.newcomer)
        self._plan_trouble()
        self._go_on(lambda: self.now >= self.weather.until or self.is_over)
        self._calm_down()
        limit = self.now + 60.0 + self.tree.extra_time()
        self._go_on(lambda: self.now > limit or self.is_over)
        if not self.is_over:
            raise Violation(f"no end after {limit:.0f} seconds: {self._what_is_left()}")
        self._close(limit)
        complaints = verdict(self) + oracle.check(self.store)
        if complaints:
            raise Violation("; ".join(complaints[:5]))

    def _go_on(self, until: Callable[[], bool]) -> None:
        while not until() and self.turn():
            if self.turns > MOST_TURNS:
                raise Violation(f"no end after {MOST_TURNS} turns: {self._what_is_left()}")

    def _what_is_left(self) -> str:
        runs = [(run, self.tables.runs[run].state.value, self.tables.runs[run].round) for run in self.runs]
        rows = [(row.state.name, row.first, row.last, row.owner) for row in self.tables.segments.values()][:5]
        return f"runs {runs}, rows {rows}, processes {list(map(str, self.alive()))}"

    def _close(self, limit: float) -> None:
        """The runs are over: whoever waited for that leaves by itself, the others are told to."""
        if not self.weather.until_ended:
            for process in self.alive():
                process.stop()
        self._go_on(lambda: not self.alive() or self.now > limit + 30.0)
        if self.alive():
            raise Violation(f"these never left: {list(map(str, self.alive()))}")
        for process in self.processes:
            if process.has_left:
                self.watch.left(process)

    # trouble

    def _plan_trouble(self) -> None:
        sudden = [fault for fault in SUDDEN if fault in self.faults]
        if sudden:
            self.after(self.chance.expovariate(1 / self.weather.gap), lambda: self._trouble(sudden))

    def _trouble(self, sudden: Sequence[Fault]) -> None:
        if self._is_calm:
            return
        self._strike(self.chance.choice(sudden))
        self.after(self.chance.expovariate(1 / self.weather.gap), lambda: self._trouble(sudden))

    def _strike(self, fault: Fault) -> None:
        chance, dead_after = self.chance, self.weather.dead_after
        alive = [process for process in self.alive() if self.now >= process.frozen_until]
        match fault:
            case Fault.CRASH if alive:
                self.kill(chance.choice(alive))
            case Fault.FREEZE if alive:
                process = chance.choice(alive)
                process.frozen_until = self.now + chance.random() * 2.5 * dead_after
                self.tell("FREEZE of", process, f"until {process.frozen_until:.3f}")
            case Fault.AWAY:
                self.away_until = self.now + chance.random() * 3 * dead_after * chance.random()
                self.tell(f"AWAY until {self.away_until:.3f}")
            case Fault.CANCEL:
                self._cancel()
            case Fault.PAUSE:
                run = chance.choice(self.runs)
                self.apply(lambda: self.store.pause(run))
                self.tell("PAUSE of", run)
                self.watch.paused(run)
                self.after(chance.random() * 6.0, lambda: self._resume(run))
            case Fault.STOP if alive:
                process = chance.choice(alive)
                self.tell("STOP of", process)
                process.stop()
                self.after(chance.random() * 8.0, self.replace)
            case _:
                pass

    def _resume(self, run: int) -> None:
        self.tell("RESUME of", run)
        self.apply(lambda: self.store.resume(run))
        self.watch.resumed(run)

    def _cancel(self) -> None:
        chance = self.chance
        number = chance.choice(list(self.watch.tasks))
        run = self.runs[self.tree.nodes[number].run]
        task = None if chance.random() < 0.1 else self.watch.tasks[number]
        below = task is not None and chance.random() < 0.5
        answer = self.apply(lambda: self.store.cancel(run, task, below=below, said=Said("no longer wanted")))
        self.tell("CANCEL of", run, task, below, answer.name)
        if answer is Settled.CERTAIN or answer is Settled.REQUESTED:
            self.watch.cancelled(run, None if task is None else number, below)

    def _calm_down(self) -> None:
        """Faults stop here; from now on the runs must come to their end."""
        self.tell("CALM")
        self._is_calm = True
        self.faults.clear()
        self.away_until = 0.0
        for process in self.processes:
            process.frozen_until = min(process.frozen_until, self.now)
        for run in self.runs:
            self._resume(run)
        if not self.alive() or all(process.core.is_stopping for process in self.alive()):
            self.after(1.0, self.newcomer)


def stories(seeds: Iterator[int] | Sequence[int]) -> Iterator[tuple[int, str]]:
    """Live through these seeds; those that went wrong, and why."""
    for seed in seeds:
        try:
            World(seed).live()
        except Violation as violation:
            yield seed, str(violation)
