"""Jobs: tasks that come one by one, from whoever has something to do. A queue of them is an endless run.

Promises: a queue is made by its first job, once, whoever comes first. What is added to a queue together is there
together or not at all, with what follows it. A queue that was cancelled has ended with all its jobs, and the next job
begins it anew, as its next generation.

Does not wait for jobs, and does not read what became of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import msgspec

from ramify.errors import ConfigError, RunEnded
from ramify.kernel.continuations import reads_results
from ramify.kernel.offspring import Brood, new_tasks
from ramify.model.call import Call, Extra
from ramify.model.job import QUEUES
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.key import Hold
from ramify.model.run import NewRun, Order, StoredRun, Tolerance
from ramify.model.task import NewTasks
from ramify.shapes.plan import Added, Beginning, laid_out
from ramify.shapes.start import until_answered
from ramify.store.contract import Store

SHAPE = "jobs"

#: The first of so many ids that are larger than another.
Reserve = Callable[[int, int], int]


@dataclass(frozen=True, slots=True)
class NewJobs:
    """Calls that are to be jobs of one queue together, and what follows when all of them have ended.

    With `again`, one with the key of a job that has ended takes its place. `after` are tasks that are there already and
    that `then` waits for as well.
    """

    calls: Sequence[Call[Any]]
    again: bool = False
    then: Call[Any] | None = None
    after: Sequence[int] = ()

    @property
    def size(self) -> int:
        """How many tasks they are."""
        return len(self.calls) + (self.then is not None)


def kept(call: Call[Any], keep: int) -> Call[Any]:
    """The call as a job whose result is kept for so many microseconds, and its key with it, unless somebody chose."""
    if call.group.hold is not Hold.UNIQUE or call.group.keep is not None:
        return call
    return call._grouped(keep=keep)


def queue_called(store: Store, queue: str) -> StoredRun | None:
    """The run that is this queue now; None before its first job. ConfigError when something else has its name."""
    found = store.reads.find_run(QUEUES + queue)
    if found is not None and found.shape != SHAPE:
        raise ConfigError(
            f"run {found.id} is called {QUEUES + queue!r} and is no queue of jobs; enqueue into a queue of another name"
        )
    return found


class JobQueues:
    """The queues of a store, and how jobs get into them. Which run a queue is, is looked up once."""

    def __init__(self, store: Store, reserve: Reserve) -> None:
        self.store = store
        self._reserve = reserve
        self._known: dict[str, StoredRun] = {}

    def add(self, queue: str, new: Sequence[NewJobs]) -> list[tuple[Added, ...]]:
        """Add jobs to a queue, all of them in one transaction, and say what became of each."""
        while True:
            run = self._known.get(queue) or self._opened(queue)
            try:
                return self._add(run.id, new)
            except RunEnded:
                # Somebody cancelled it, and perhaps nobody works who would see to its end. It has none while jobs run.
                self._known.pop(queue, None)
                if not until_answered(partial(self.store.advance, [(run.id, run.round)]))[0].state.is_end:
                    raise

    def _add(self, run: int, new: Sequence[NewJobs]) -> list[tuple[Added, ...]]:
        beginning = _laid_out(new, self._reserve(sum(each.size for each in new), run), self.store.now())
        answer = until_answered(partial(self.store.append, run, beginning.tasks, beginning.joins, beginning.waiters))
        added = iter(beginning.added(answer))
        return [tuple(next(added) for _ in range(each.size)) for each in new]

    def _opened(self, queue: str) -> StoredRun:
        """The run that a queue is, begun if there is none, or if the last one has ended."""
        known = until_answered(partial(queue_called, self.store, queue))
        if known is None or known.state.is_end:
            known = self._begun(queue, 1 if known is None else known.generation + 1)
        self._known[queue] = known
        return known

    def _begun(self, queue: str, generation: int) -> StoredRun:
        run = NewRun(
            id=self._reserve(1, 0),
            name=QUEUES + queue,
            generation=generation,
            shape=SHAPE,
            order=Order.ANY,
            endless=True,
            shown=f"the jobs of queue {queue!r}",
            tolerates=Tolerance.ANY,
        )
        return until_answered(partial(self.store.start, run)).run


def _laid_out(new: Sequence[NewJobs], first: int, now: int) -> Beginning:
    """All of them as columns. Those that nobody waits for and that take no key over share rows."""
    places = count()
    plain: list[tuple[int, Call[Any]]] = []
    ids = count(first)
    rows: list[tuple[Beginning, Sequence[int]]] = []
    for each in new:
        mine = [(next(places), call) for call in each.calls]
        if each.again or each.then is not None:
            rows.append(_apart(each, mine, next(places) if each.then is not None else None, ids, now))
        else:
            plain += mine
    if plain:
        rows.append(_together(plain, ids, now))
    tasks = [row for beginning, _ in rows for row in beginning.tasks]
    joins = [row for beginning, _ in rows for row in beginning.joins]
    waiters = [row for beginning, _ in rows for row in beginning.waiters]
    return Beginning(tasks, joins, waiters, [place for _, order in rows for place in order])


def _together(placed: Sequence[tuple[int, Call[Any]]], ids: Iterator[int], now: int) -> tuple[Beginning, Sequence[int]]:
    """Calls as rows, and the place of each task among all."""
    mine = [next(ids) for _ in placed]
    laid = laid_out([call for _, call in placed], mine[0], now)
    return laid, [placed[at][0] for at in laid.order]


def _apart(
    new: NewJobs, placed: Sequence[tuple[int, Call[Any]]], place: int | None, ids: Iterator[int], now: int
) -> tuple[Beginning, Sequence[int]]:
    """Calls as rows of their own, with what follows them."""
    laid, order = _together(placed, ids, now) if placed else (Beginning(()), ())
    tasks = [msgspec.structs.replace(row, again=new.again, awaited=new.then is not None) for row in laid.tasks]
    if new.then is None or place is None:
        return Beginning(tasks), order
    given = dict(zip(laid.order, (id for row in tasks for id in row.ids), strict=True))
    members = [*new.after, *(given[position] for position in range(len(placed)))]
    join = next(ids)
    tasks.append(_continuation(new.then, join, now))
    joins = NewJoins((join,), (len(members),), Extra.decode(new.then.extra).rule, brings=reads_results(new.then.group))
    waiters = NewWaiters(members, [join] * len(members), range(len(members)))
    return Beginning(tasks, [joins], [waiters]), [*order, place]


def _continuation(then: Call[Any], join: int, now: int) -> NewTasks:
    brood = Brood()
    brood.add(0, then)
    return msgspec.structs.replace(new_tasks(then.group, join, brood, now, waits=True), parents=None)
