"""The house: what a store author supplies, and the few conveniences that every case is written with.

A house is one empty place (a file, a database, a dict) that several clients open. The author says how to open another
client on it, with the clock to obey, and how a client dies without a word. The rest here is sugar over the verbs: it
promises nothing of its own, and a case that is about a verb calls that verb by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec import structs

from ramify.model.addition import Addition
from ramify.model.claim import NO_BOUNDS, Claim, Claimed, Details, Want
from ramify.model.commit import Committed, Part
from ramify.model.death import Death
from ramify.model.event import Event, Status
from ramify.model.join import Join, NewJoins, NewWaiters
from ramify.model.process import NewProcess, Reap, Stamp, new_process_id
from ramify.model.reopening import Reopened
from ramify.model.run import Advanced, NewRun, Order, RunState, StoredRun
from ramify.model.segment import LIVE_STATES, Segment
from ramify.model.task import Appended, NewTasks
from ramify.store.clock import Clock
from ramify.store.contract import Beat, Store
from ramify.store.reads import PAGE_LIMIT
from ramify.testing.clock import FakeClock
from ramify.testing.paging import every

#: The kinds that workers of a house know unless told otherwise; "walk" is what `House.tasks` makes by default.
KINDS = frozenset({"walk", "copy", "sum"})
DEAD_AFTER = 60.0
MANY = 1_000_000

T = TypeVar("T")


def want(
    limit: int = 100,
    kinds: Iterable[str] = KINDS,
    *,
    queues: Iterable[str] | None = None,
    runs: Iterable[int] | None = None,
    busy_lanes: Iterable[str] = (),
    few: Mapping[str, int] = NO_BOUNDS,
) -> Want:
    """A `Want` that names only what matters to the case."""
    return Want(
        frozenset(kinds),
        limit,
        None if queues is None else frozenset(queues),
        None if runs is None else frozenset(runs),
        frozenset(busy_lanes),
        few,
    )


@contextmanager
def refused(*errors: type[Exception]) -> Iterator[None]:
    """The block must raise one of `errors`."""
    try:
        yield
    except errors:
        return
    raise AssertionError(f"expected {' or '.join(e.__name__ for e in errors)}, but it was accepted")


def only(found: Sequence[T]) -> T:
    """The one thing that was found."""
    assert len(found) == 1, f"expected exactly one, found {len(found)}: {found}"
    return found[0]


def tasks_of(claims: Iterable[Claim]) -> list[int]:
    """All claimed tasks, sorted."""
    return sorted(task for claim in claims for task in claim.tasks)


def members_and_broken(more: Details) -> tuple[int, int]:
    """How many members the join of a task had, and how many of them did not end well."""
    assert more.members is not None
    return more.members.all, more.members.broken


def plain(claimed: Claimed) -> list[object]:
    """A claim's answer in a form that compares by content: a range and a list of the same tasks are the same."""
    lists = ("tasks", "bodies", "parents", "lanes")
    maps = ("details", "history", "marks")
    return [
        claimed.suspects,
        *(
            {
                name: list(value) if name in lists and value is not None else dict(value) if name in maps else value
                for name, value in structs.asdict(claim).items()
            }
            for claim in claimed.claims
        ),
    ]


class Worker:
    """A process that has entered, on a client of its own, with a rising stamp number."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.process = new_process_id()
        self.n = 0
        store.enter(NewProcess(self.process, host="house"))
        store.beat(self.process)

    def stamp(self) -> Stamp:
        """The next number."""
        self.n += 1
        return self.last

    @property
    def last(self) -> Stamp:
        """The number used last: to send a verb again."""
        return Stamp(self.process, self.n)

    def ask(self, wanted: Want) -> Claimed:
        """`claim` under the next stamp."""
        return self.store.claim(self.stamp(), wanted)

    def claim(self, limit: int = 100, kinds: Iterable[str] = KINDS) -> tuple[Claim, ...]:
        """`claim` under the next stamp; only the claims."""
        return self.ask(want(limit, kinds)).claims

    def take(self, limit: int = 100, kinds: Iterable[str] = KINDS) -> Claim:
        """`claim`, where exactly one row is to be had."""
        return only(self.claim(limit, kinds))

    def commit(self, *parts: Part, then: Want | None = None) -> Committed:
        """`commit` under the next stamp."""
        return self.store.commit(self.stamp(), parts, then)

    def end(
        self, claim: Claim, tasks: Sequence[int] | None = None, status: Status = Status.DONE, **rest: Any
    ) -> Committed:
        """Commit `tasks` of a claim (all of them unless told) as `status`, with whatever else a part may carry."""
        answer = self.commit(Part(claim.token, claim.tasks if tasks is None else tasks, status, **rest))
        assert not answer.refused, "a part under a valid token was refused"
        return answer

    def done(self, claim: Claim, tasks: Sequence[int] | None = None, **rest: Any) -> Committed:
        """Commit `tasks` of a claim as done."""
        return self.end(claim, tasks, Status.DONE, **rest)

    def stage(self, claim: Claim, *tasks: NewTasks) -> bool:
        """`stage` under the next stamp."""
        return self.store.stage(self.stamp(), claim.token, tasks)

    def release(self, *claims: Claim) -> bool:
        """`release` under the next stamp; whether all of them were held."""
        return not self.store.release(self.stamp(), [claim.token for claim in claims])

    def reopen(self, run: int, tasks: Sequence[int], **rest: Any) -> Reopened:
        """`reopen` under the next stamp."""
        return self.store.reopen(self.stamp(), run, tasks, **rest)

    def beat(self) -> Beat:
        """`beat`."""
        return self.store.beat(self.process)

    def reap(self, dead_after: float = DEAD_AFTER) -> Reap:
        """`reap`."""
        return self.store.reap(self.process, dead_after)


class House:
    """One empty place, and everybody who works there.

    `open` opens another client of the place under the given clock. `kill` makes a client go as if its process had been
    killed: nothing is released, nothing is said, and what the operating system frees at a death is free.
    """

    def __init__(self, open: Callable[[Clock], Store], kill: Callable[[Store], None]) -> None:
        self.clock = FakeClock()
        self.workers: list[Worker] = []
        self._open = open
        self._kill = kill
        self._clients: list[Store] = []
        self._visitor: Worker | None = None
        self.store = self.client()

    def client(self) -> Store:
        """Another client of the same place."""
        store = self._open(self.clock)
        self._clients.append(store)
        return store

    def close(self) -> None:
        """Close every client that was not killed."""
        for store in self._clients:
            store.close()
        self._clients.clear()

    def worker(self) -> Worker:
        """Another process, entered, with one beat behind it."""
        worker = Worker(self.client())
        self.workers.append(worker)
        return worker

    # what is there to do

    def tasks(self, bodies: int | Sequence[bytes] = 1, kind: str = "walk", **columns: Any) -> NewTasks:
        """New tasks under freshly reserved ids, which never follow those of an earlier call."""
        if isinstance(bodies, int):
            bodies = [b"%d" % i for i in range(bodies)]
        return NewTasks(self.store.reserve(len(bodies) + 1), kind, bodies, **columns)

    def run(self, *groups: NewTasks, joins: Sequence[NewJoins] = (), **columns: Any) -> int:
        """The id of a run that was started with these tasks."""
        run = self.store.reserve(1)
        assert self.store.start(NewRun(run, **columns), groups, joins).created
        return run

    def start_graph(self, groups: Sequence[NewTasks], edges: Sequence[tuple[int, int]]) -> int:
        """The id of a run without a barrier whose waiting tasks are linked to others: (the awaited, who waits)."""
        run = self.store.reserve(1)
        slots: dict[int, int] = {task: 0 for tasks in groups if tasks.waits for task in tasks.ids}
        waiters = []
        for awaited, task in edges:
            waiters.append(NewWaiters.one(awaited, task, slots[task]))
            slots[task] += 1
        joins = NewJoins(list(slots), list(slots.values()))
        assert self.store.start(NewRun(run, order=Order.ANY), groups, [joins], waiters).created
        return run

    def queue(self, *groups: NewTasks) -> int:
        """The id of a started run that takes tasks at any time: no barrier, and no end when it runs empty."""
        return self.run(*groups, order=Order.ANY, endless=True)

    def any_run(self, *groups: NewTasks, **columns: Any) -> int:
        """The id of a started run without a barrier between its rounds."""
        return self.run(*groups, order=Order.ANY, **columns)

    def add(
        self, run: int, *groups: NewTasks, joins: Sequence[NewJoins] = (), waiters: Sequence[NewWaiters] = ()
    ) -> Appended:
        """`append`."""
        (answer,) = self.store.append([Addition(run, groups, joins, waiters)])
        return answer

    # what goes on

    def settle(self, run: int) -> StoredRun:
        """Ask `advance` until nothing moves, as workers do that find nothing to claim; where the run then stands."""
        while self.advance(run, self.store.reads.run(run).round).moved:
            pass
        return self.store.reads.run(run)

    def advance(self, run: int, round: int) -> Advanced:
        """`advance` of one run."""
        (answer,) = self.store.advance([(run, round)])
        return answer

    def finish(self, run: int) -> StoredRun:
        """Do all the work of a run that can be done, as marks say or else as done; where the run then stands."""
        worker = self._guest()
        while True:
            claimed = worker.ask(want(MANY, runs=[run]))
            for claim in claimed.claims:
                column = [claim.marks[t].status if t in claim.marks else Status.DONE for t in claim.tasks]
                assert not worker.commit(Part(claim.token, claim.tasks, column)).refused
            if not claimed.claims:
                before = self.store.reads.run(run).round
                if self.settle(run).round == before:
                    return self.store.reads.run(run)

    def offered(self, wanted: Want | None = None) -> list[int]:
        """The tasks that a process which holds nothing could start now; it claims them, and puts them back."""
        guest = self._guest()
        claims = guest.ask(wanted or want(MANY)).claims
        for claim in claims:
            assert guest.release(claim)
        return [task for task in tasks_of(claims) if not any(task in claim.marks for claim in claims)]

    def put_back_while_paused(self, run: int) -> Claim:
        """A worker takes a row, its run is paused, and the worker puts it back: nobody gets it before the resume."""
        worker = self.worker()
        claim = worker.take()
        self.store.pause(run)
        worker.release(claim)
        assert self.offered() == []
        self.store.resume(run)
        return claim

    def _guest(self) -> Worker:
        if self._visitor is None or self._visitor not in self.workers:
            self._visitor = self.worker()
        return self._visitor

    # who lives

    def watch(self, seconds: float, *, silent: Sequence[Worker] = ()) -> None:
        """Let time pass while every worker of the house beats, except the silent."""
        step = DEAD_AFTER / 4
        for _ in range(-int(-seconds // step)):
            self.clock.advance(step)
            for worker in self.workers:
                if worker not in silent:
                    worker.beat()

    def bury(self, dead: Worker, by: Worker | None = None) -> Reap:
        """The worker dies without a word; another one beats its way through a clean window and reaps."""
        by = by or self.worker()
        self._kill(dead.store)
        self._clients.remove(dead.store)
        return self._mourn(dead, by)

    def kill(self, dead: Worker, death: Death) -> int:
        """The worker dies like this, and its parent buries it; how many tasks were offered again."""
        self._kill(dead.store)
        self._clients.remove(dead.store)
        self.workers.remove(dead)
        return self.store.bury(dead.process, death)

    def write_off(self, frozen: Worker, by: Worker | None = None) -> Reap:
        """The worker lives, but is silent for too long; another one takes it for dead and reaps it."""
        return self._mourn(frozen, by or self.worker())

    def _mourn(self, dead: Worker, by: Worker) -> Reap:
        self.workers.remove(dead)
        self.watch(2 * DEAD_AFTER)
        reap = by.reap()
        assert reap.clean_window, "a process that beat without a gap for twice `dead_after` may reap"
        assert dead.process in reap.processes, "a process that was silent for twice `dead_after` was not reaped"
        return reap

    # what can be seen

    def segments(self, run: int | None = None) -> list[Segment]:
        """All rows of the segment table."""
        return every(lambda after: self.store.reads.segments(run=run, after=after))

    def live(self, run: int | None = None) -> list[Segment]:
        """The live rows, by their first task."""
        return sorted((s for s in self.segments(run) if s.state in LIVE_STATES), key=lambda s: s.first)

    def row_of(self, task: int) -> Segment:
        """The one live row in which a task is set."""
        rows = [s for s in self.live() if task in s.tasks]
        assert len(rows) == 1, f"task {task} is set in {len(rows)} live rows"
        return rows[0]

    def count(self, run: int, what: int, kind: str = "walk") -> int:
        """One counter of a run."""
        return self.store.reads.counts(run).get(kind, {}).get(what, 0)

    def ended(self, task: int) -> Status | None:
        """How the present life of a task ended."""
        return self.store.reads.history(task).ended

    def events(self, task: int) -> list[Status]:
        """Return the texts of the events of a task, in order."""
        return [event.status for event in self.store.reads.events(task, task)]

    def join(self, run: int, join: int) -> Join:
        """One join of a run."""
        return next(found for found in self._joins(run) if found.id == join)

    def _joins(self, run: int) -> list[Join]:
        return every(lambda after: self.store.reads.joins(run, after=after))

    def log(self) -> list[Event]:
        """Every event, by tail."""
        events: list[Event] = []
        after = 0
        while (tail := self.store.reads.tail(after)).commits:
            events.extend(tail.events)
            after = tail.after
        return events

    def picture(self) -> list[object]:
        """All that can be seen of the work in this place, to compare with a later one."""
        reads = self.store.reads
        runs = every(lambda after: reads.runs(after=after))
        spans = every(lambda after: reads.spans(after=after, limit=PAGE_LIMIT))
        counts = [{kind: dict(by) for kind, by in reads.counts(run.id).items()} for run in runs]
        joins = [self._joins(run.id) for run in runs]
        context = [reads.context(run.id) for run in runs if run.state is not RunState.FORGOTTEN]
        values = reads.values(limit=PAGE_LIMIT)
        decisions = [reads.decisions(run.id, limit=PAGE_LIMIT).rows for run in runs]
        topics = reads.topics(limit=PAGE_LIMIT)
        published = [reads.publications(topic.name, limit=PAGE_LIMIT) for topic in topics]
        return [runs, spans, self.segments(), self.log(), counts, joins, context, values, decisions, topics, published]

    @contextmanager
    def nothing_changes(self) -> Iterator[None]:
        """Check that a block leaves no visible trace."""
        before = self.picture()
        yield
        after = self.picture()
        for was, now in zip(before, after, strict=True):
            assert was == now, f"something changed that should not have:\n  was {was}\n  now {now}"
