"""The watch: what must hold after every turn. It looks at cores and at the store, and raises at the first thing wrong.

Each check is small, because it runs a million times: the books of the process that had its turn, the events and tasks
that the last verb added, and every lease at the moment it is given.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from ramify.kernel.core.steps import ClaimWork, Enter, Flush, Leave, PutBack, Rest, Step
from ramify.kernel.core.work import Chunk
from ramify.model.event import Event, Status
from ramify.store.contract import Beat
from ramify.testing.clock import SECOND
from tests.simulation.tree import number_of
from tests.simulation.weather import DEADLY

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World

#: How often in a row a loop may find that it should not rest after all, or may rest for next to no time.
RESTLESS = 20
SHORTEST_REST = 0.0005


class Violation(Exception):
    """A promise was broken."""


class Watch:
    """Looks on."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._place = world.tables
        self._seen_commits = 0
        self._seen_spans = 0
        #: The task of each node that exists, and the node of each task.
        self.tasks: dict[int, int] = {}
        self.numbers: dict[int, int] = {}
        self._ended: dict[int, Status] = {}
        #: When runs were cancelled or paused, and nodes cancelled, alone or with all below.
        self.cancelled_runs: dict[int, float] = {}
        self.cancelled_nodes: dict[int, float] = {}
        self.cancelled_trees: dict[int, float] = {}
        self._paused: dict[int, float] = {}
        self._restless: Counter[Process] = Counter()
        #: Until when a process wanted to rest, unless it is told more than by then.
        self._resting: dict[Process, tuple[float, int]] = {}
        self._limit = world.handlers["limited"].policy.concurrency
        self.looked()

    # what people did

    def cancelled(self, run: int, number: int | None, below: bool) -> None:
        """Somebody cancelled a run, a task, or a task with all below it."""
        now = self._world.now
        if number is None:
            self.cancelled_runs.setdefault(run, now)
        else:
            (self.cancelled_trees if below else self.cancelled_nodes).setdefault(number, now)

    def paused(self, run: int) -> None:
        """Somebody paused a run."""
        if self._place.runs[run].state.value == "paused":
            self._paused.setdefault(run, self._world.now)

    def resumed(self, run: int) -> None:
        """Somebody resumed it."""
        self._paused.pop(run, None)

    def cancel_of(self, number: int) -> float | None:
        """When a task was cancelled, in whatever way; None when it was not."""
        nodes = self._world.tree.nodes
        moments = [self.cancelled_runs.get(self._world.runs[nodes[number].run]), self.cancelled_nodes.get(number)]
        above: int | None = number
        while above is not None:
            moments.append(self.cancelled_trees.get(above))
            above = nodes[above].parent
        return min((moment for moment in moments if moment is not None), default=None)

    # the store

    def looked(self) -> None:
        """A verb was carried out: look at what it added."""
        place = self._place
        fresh = len(place.spans) - self._seen_spans
        if fresh:
            self._seen_spans += fresh
            for span in islice(reversed(place.spans.values()), fresh):
                for task, (body, parent) in enumerate(zip(span.bodies, span.parents, strict=True), span.first):
                    self._added(task, number_of(body), parent)
        while self._seen_commits < len(place.commits):
            for event in place.commits[self._seen_commits][1]:
                self._happened(event)
            self._seen_commits += 1

    def _added(self, task: int, number: int, parent: int | None) -> None:
        if number in self.tasks:
            raise Violation(f"node {number} exists twice: tasks {self.tasks[number]} and {task}")
        planned = self._world.tree.nodes[number].parent
        if (None if parent is None else self.numbers.get(parent)) != planned:
            raise Violation(f"task {task} has parent {parent}, and node {number} is a child of node {planned}")
        self.tasks[number] = task
        self.numbers[task] = number

    def _happened(self, event: Event) -> None:
        number = self.numbers[event.task]
        if event.task in self._ended:
            ended = self._ended[event.task].name
            raise Violation(f"task {event.task} has {event.status.name} after it ended as {ended}")
        if event.status.is_end:
            self._ended[event.task] = event.status
        if event.status is Status.DONE:
            missing = [child for child in self._world.tree.nodes[number].offered if child not in self.tasks]
            if missing:
                raise Violation(f"node {number} is done and its children {missing} do not exist")
        elif any(child in self.tasks for child in self._world.tree.nodes[number].offered):
            raise Violation(f"node {number} is {event.status.name} and has children")

    def buried(self, processes: tuple[int, ...], reaper: int) -> None:
        """A reaper found these dead."""
        world = self._world
        if processes:
            world.tell("buried", processes)
        if world.weather.faults & DEADLY:
            return
        # One that has just heard that it is in has not beaten yet; if that took very long, it is rightly missed.
        heard = [process for process in world.alive() if process.core.is_in and process.heard_of > float("-inf")]
        living = {process.sender.process: process for process in heard}
        for number in processes:
            # Beats get lost too: who alone was silent for so long is rightly missed. But if the reaper was not heard of
            # either, the store was away from both, and nobody may be buried for that.
            if number in living and not (self._was_silent(number) and self._was_heard_of(reaper)):
                raise Violation(f"{living[number]} was buried alive")

    def _was_silent(self, process: int) -> bool:
        limit = self._world.weather.dead_after * SECOND
        return self._world.clock.monotonic() - self._place.sessions[process].beats[-1] > limit

    def _was_heard_of(self, process: int) -> bool:
        """Whether its beats reach back for as long as a process may be silent, with no gap over half of that."""
        now, limit = self._world.clock.monotonic(), self._world.weather.dead_after * SECOND
        beats = [beat for beat in self._place.sessions[process].beats if now - beat < 2 * limit]
        gaps = [later - earlier for earlier, later in pairwise([*beats, now])]
        since = [gap <= limit / 2 for gap in reversed(gaps)]
        clean = len(since) if all(since) else since.index(False)
        return bool(beats) and now - beats[len(beats) - clean] >= limit if clean else False

    # cores

    def books(self, process: Process) -> None:
        """The books of a core add up, and say what the workers hold."""
        core = process.core
        leases = core.leases
        out: dict[bytes, int] = {}
        leased, chunks, ready = [0, 0], [0, 0], [0, 0]
        limited: Counter[str | None] = Counter()
        kinds: Counter[str] = Counter()
        waiting: Counter[tuple[str, str | None]] = Counter()
        for chunk, tasks in process.out.items():
            many = len(tasks)
            if not chunk.lost:
                claim, colour = chunk.claim, chunk.handler.calling.is_async
                out[claim.token] = out.get(claim.token, 0) + many
                leased[colour] += many
                chunks[colour] += 1
                kinds[claim.kind] += many
                if claim.kind == "limited":
                    limited.update(claim.lane_of(place) for place in chunk.positions if claim.tasks[place] in tasks)
        self._holdings(process, out)
        for holding in core.holdings.values():
            ready[holding.handler.calling.is_async] += holding.available
            kinds[holding.claim.kind] += holding.available
            waiting[holding.where] += holding.available
        for name, told, true in (
            ("ready", leases.ready, ready),
            ("leased", leases.leased, leased),
            ("in chunks", leases.chunks, chunks),
        ):
            if [told[False], told[True]] != true:
                raise Violation(f"{process} says {told} are {name}; there are {true}")
        if leases.waiting != waiting:
            raise Violation(f"{process} says {leases.waiting} wait in their lanes; there are {waiting}")
        if any(many < 0 or many > kinds[kind] for kind, many in leases.stuck.items()):
            raise Violation(f"{process} says {leases.stuck} are held back, of {kinds}")
        if leases.kinds != kinds:
            raise Violation(f"{process} says {leases.kinds} wait or run; there are {kinds}")
        if core.outbox.unsent != (unsent := sum([len(finished.tasks) for finished in core.outbox.finished.values()])):
            raise Violation(f"{process} says that {core.outbox.unsent} outcomes are unsent; there are {unsent}")
        if self._limit is not None:
            for lane in (None, "left", "right"):
                # Fewer than were asked for, while most of them defer themselves.
                most = leases.limits.at_a_time("limited", lane) or 0
                if not 1 <= most <= self._limit:
                    raise Violation(f"{process} lets {most} run at a time in lane {lane}; the limit is {self._limit}")
                room = max(0, most - limited[lane])
                if leases.limits.allowed("limited", lane, self._limit, 0.0) != room:
                    raise Violation(f"{process} lost count of what runs in lane {lane}: {room} more may start")

    def _holdings(self, process: Process, out: dict[bytes, int]) -> None:
        core = process.core
        under_way: Counter[bytes] = Counter()
        for finished in process.in_flight:
            under_way[finished.claim.token] += len(finished.tasks)
        for token, holding in core.holdings.items():
            if not holding.adds_up():
                raise Violation(f"a holding of {process} does not add up: {_shown(holding)}")
            if holding.leased != out.get(token, 0):
                raise Violation(
                    f"a holding of {process} says {holding.leased} are leased; there are {out.get(token, 0)}"
                )
            unsent = under_way[token] + (len(core.outbox.finished[token].tasks) if token in core.outbox.finished else 0)
            if holding.unsent != unsent:
                raise Violation(f"a holding of {process} says {holding.unsent} are unsent; there are {unsent}")
            if holding.is_suspect and len(core.holdings) > 1:
                raise Violation(f"{process} holds a suspect together with something else")
        if not core.is_in and core.holdings:
            raise Violation(f"{process} is not in and holds {len(core.holdings)} claims")

    def leased(self, process: Process, chunk: Chunk) -> None:
        """Tasks go to a worker: they must be this process's, alive, wanted, and at the attempt they are said to be."""
        core, claim, world = process.core, chunk.claim, self._world
        sender = self._place.sessions[process.sender.process]
        if sender.gone_at is not None:
            raise Violation(f"{process} leases tasks after it was declared dead")
        if not core.is_in or core.is_stopping:
            raise Violation(f"{process} leases tasks while it is out or stopping")
        row = self._place.tokens.get(claim.token)
        for place in chunk.positions:
            task = claim.tasks[place]
            if row is None or row.owner != process.sender.process or not row.covers(task):
                raise Violation(f"{process} leases task {task}, which is not its own")
            tried = sum(event.status is Status.RETRYING for event in self._place.events.get(task, ()))
            if chunk.attempts.get(place, 1) != tried + 1:
                raise Violation(f"attempt {chunk.attempts.get(place, 1)} of task {task} begins after {tried} are saved")
            if (number := self.numbers[task]) and (at := self.cancel_of(number)) is not None:
                self._must_not_know(process, chunk, at, f"task {task} was cancelled")
        if (at := self._paused.get(claim.run)) is not None:
            self._must_not_know(process, chunk, at, f"run {claim.run} was paused")
        if claim.round > self._place.runs[claim.run].round and world.tables.runs[claim.run].new.order.value == "rounds":
            raise Violation(f"{process} leases tasks of round {claim.round}, which is not open")

    def began(self, process: Process, task: int) -> None:
        """A handler is entered."""
        if self._place.sessions[process.sender.process].gone_at is not None:
            raise Violation(f"{process} starts task {task} after it was declared dead")

    def _must_not_know(self, process: Process, chunk: Chunk, at: float, what: str) -> None:
        """A beat sent after it happened and after the claim came has told the process."""
        if process.heard_of > max(at, process.claimed_at[chunk.claim.token]):
            raise Violation(f"{process} leases on at {self._world.now:.3f}: {what} at {at:.3f}, and it heard of that")

    def stepped(self, process: Process, step: Step) -> None:
        """The core decided."""
        core, now = process.core, process.clock()
        until, facts = self._resting.pop(process, (now, -1))
        # One that runs tasks while it rests is told of them.
        is_told = facts != process.facts
        if now < until and not is_told:
            self._did_not_rest(process)
        if not isinstance(step, Rest):
            self._restless[process] = 0
        elif not step.idle:
            self._resting[process] = now + 0.9 * step.seconds, process.facts
        if process.knows_its_death and not isinstance(step, Enter | Leave):
            raise Violation(f"{process} knows that it was declared dead, and does not enter anew but {step}")
        match step:
            case ClaimWork(_) | Flush(_, want=_) if not (isinstance(step, Flush) and step.want is None):
                if any(holding.is_suspect for holding in core.holdings.values()):
                    raise Violation(f"{process} wants more while it holds a suspect")
                if not core.may_lease(process.clock()):
                    raise Violation(f"{process} wants more and may not lease")
            case PutBack(tokens):
                if any(chunk.claim.token in tokens and not chunk.lost for chunk in process.out):
                    raise Violation(f"{process} puts back a claim of which tasks run")
                if any(token in core.outbox.finished for token in tokens):
                    raise Violation(f"{process} puts back a claim of which outcomes are unsent")
            case Leave() if core.is_in and core.outbox.finished:
                raise Violation(f"{process} leaves with {core.outbox.unsent} outcomes unsent")
            case Rest() if process.is_out_of_grace:
                raise Violation(f"{process} rests although its grace period is over")
            case Rest(seconds, idle=False) if seconds <= SHORTEST_REST and not is_told:
                self._did_not_rest(process)
            case _:
                pass

    def heard(self, process: Process, beat: Beat, sent: float) -> None:
        """A beat was answered: what it says is obeyed from now on."""
        for holding in process.core.holdings.values():
            if holding.claim.run in beat.paused and not holding.closing:
                raise Violation(f"{process} heard that run {holding.claim.run} is paused and goes on with it")

    def _did_not_rest(self, process: Process) -> None:
        """A loop wanted to rest and hardly did, although it was told nothing."""
        self._restless[process] += 1
        if self._restless[process] > RESTLESS:
            raise Violation(f"{process} never rests: it has nothing to do and looks again and again")

    def left(self, process: Process) -> None:
        """A process is gone for good: nothing is in its name."""
        held = self._place.held_by(process.sender.process)
        if held:
            raise Violation(f"{process} has left and still holds {len(held)} rows")


def _shown(holding: object) -> str:
    names = ("fresh", "back", "leased", "waiting", "unsent", "left")
    return ", ".join(f"{name}={getattr(holding, name)}" for name in names)
