"""Jobs: tasks that come one by one, from whoever has something to do. A queue of them is an endless run.

Promises: a queue is made by its first job, once, whoever comes first. What is added together is there together or not
at all, with what follows it, whichever queues it is for. A queue that was cancelled takes no more jobs, and the next
one begins it anew, as its next generation, also while jobs of the last one still run.

Operations wait *behind* a job: each starts when that job has ended well and the one before it has ended in any way, and
is skipped if that job ends otherwise. An operation is the task of a join of three slots (`model/join.py`): two are the
job's, the third is that of the last operation that came behind the same job, or the job's for the first. The store
names the last one and makes the new one the last in the transaction that adds it. So the order is that of commits,
whichever process adds, and within one call that of its list; and an addition that is sent again is there once. The end
of the job is an arrival like any other, early or late: whoever comes behind a job that has ended is decided by how.

An operation stays the last one when it has ended, so who comes then still comes after all of them. One that is
cancelled while it waits hands its place on to the one before it, or those after it would overtake those before it. One
whose key is taken is not added, and takes no place. A job and the operations behind it are forgotten each by itself;
once the job is gone, nobody can come behind it, because nobody can tell how it ended.

A job that is tried again revives the operations of its queue that it held up, and no other: one that ran keeps its
outcome, and one that is tried again by itself runs alone.

Does not wait for jobs, and does not read what became of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, groupby, islice
from typing import Any

from msgspec import structs

from ramify.errors import BadPayload, ConfigError
from ramify.kernel.outgoing.continuations import reads_results
from ramify.kernel.outgoing.offspring import Brood, in_order, new_tasks
from ramify.model.call import Call, Extra
from ramify.model.codec.escape import has_slots
from ramify.model.job import QUEUES, SHAPE, queue_run
from ramify.model.join import AHEAD, BEFORE, NewJoins, NewWaiters, Rule
from ramify.model.key import Hold
from ramify.model.run import NewRun, StoredRun
from ramify.model.task import NewTasks
from ramify.shapes.plan import Added, Beginning, laid_out
from ramify.shapes.start import until_answered
from ramify.store.contract import Store

#: The first of so many ids that are larger than another.
Reserve = Callable[[int, int], int]


@dataclass(frozen=True, slots=True)
class NewJobs:
    """Calls that are to be jobs together, each in its queue, and what follows when all of them have ended.

    With `again`, one with the key of a job that has ended takes its place. `behind` is a job that each of the calls
    waits for, in their order. `after` are tasks that are there already and that `then` waits for as well.
    """

    calls: Sequence[Call[Any]]
    again: bool = False
    then: Call[Any] | None = None
    after: Sequence[int] = ()
    behind: int | None = None

    @property
    def all(self) -> Sequence[Call[Any]]:
        """The calls, and at the end what follows."""
        return self.calls if self.then is None else [*self.calls, self.then]


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
            f"run {found.id} has the name {QUEUES + queue!r} and is not a queue. Choose another name for the queue."
        )
    return found


class JobQueues:
    """The queues of a store, and how jobs get into them: by name, so that no queue is looked up."""

    def __init__(self, store: Store, reserve: Reserve) -> None:
        self.store = store
        self._reserve = reserve
        #: By queue, the run that begins it if it must; each begins one at most.
        self._spare: dict[str, NewRun] = {}
        #: The queues of which it is known that nothing else has their name.
        self._checked: set[str] = set()

    def add(self, new: Sequence[NewJobs], first: int | None = None) -> list[tuple[Added, ...]]:
        """Add jobs, all of them in one transaction, and say what became of each.

        Their ids begin with `first`, if that was reserved for them: added again under it, they are there once.
        """
        opens = {call.group.queue: self._opening(call.group.queue) for each in new for call in each.all}
        if first is None:
            first = self._reserve(sum(len(each.all) for each in new), max(run.id for run in opens.values()))
        rows = _laid_out(new, first, self.store.now())
        additions = [row.into(0, opens[queue]) for queue, row in rows]
        try:
            answers = until_answered(partial(self.store.append, additions))
        except BaseException as error:
            # Perhaps they are there, in runs that began with them.
            self._spare.clear()
            if isinstance(error, BadPayload):
                self.check(opens)
            raise
        became: dict[int, Added] = {}
        for (queue, row), answer in zip(rows, answers, strict=True):
            if answer.run == opens[queue].id:
                self._spare.pop(queue, None)
            became.update(zip(sorted(row.order), row.added(answer), strict=True))
        places = count()
        return [tuple(became[next(places)] for _ in each.all) for each in new]

    def check(self, queues: Iterable[str]) -> None:
        """Refuse queues whose name something else has."""
        for queue in queues:
            if queue not in self._checked:
                until_answered(partial(queue_called, self.store, queue))
                self._checked.add(queue)

    def _opening(self, queue: str) -> NewRun:
        if queue not in self._spare:
            self._spare[queue] = queue_run(queue, self._reserve(1, 0))
        return self._spare[queue]


#: Rows of a queue.
_Rows = tuple[str, Beginning]
#: A call and its place among all.
_Placed = tuple[int, Call[Any]]


def _laid_out(new: Sequence[NewJobs], first: int, now: int) -> list[_Rows]:
    """All of them as columns. Those that nobody waits for and that take no key over share rows."""
    places, ids = count(), count(first)
    plain: list[_Placed] = []
    rows: list[_Rows] = []
    for each in new:
        mine = [(next(places), call) for call in each.calls]
        if each.again or each.then is not None or each.behind is not None:
            rows += _apart(each, mine, places, ids, now)
        else:
            plain += mine
    return rows + _by_queue(plain, ids, now)


def _by_queue(placed: Sequence[_Placed], ids: Iterator[int], now: int) -> list[_Rows]:
    """Calls as rows, those of a queue together."""
    queues: dict[str, list[_Placed]] = {}
    for place, call in placed:
        queues.setdefault(call.group.queue, []).append((place, call))
    rows: list[_Rows] = []
    for queue, mine in queues.items():
        first, *_ = islice(ids, len(mine))
        laid = laid_out([call for _, call in mine], first, now)
        rows.append((queue, Beginning(laid.tasks, order=[mine[at][0] for at in laid.order])))
    return rows


def _apart(new: NewJobs, placed: Sequence[_Placed], places: Iterator[int], ids: Iterator[int], now: int) -> list[_Rows]:
    """Calls as rows of their own, with what follows them."""
    is_awaited = new.then is not None
    rows: list[_Rows] = []
    laid_out = _by_queue(placed, ids, now) if new.behind is None else _behind(new.behind, placed, ids, now)
    for queue, laid in laid_out:
        tasks = [structs.replace(row, again=new.again, awaited=is_awaited) for row in laid.tasks]
        rows.append((queue, replace(laid, tasks=tasks)))
    if new.then is not None:
        given: dict[int, int] = {}
        for _, laid in rows:
            given.update(zip(laid.order, (id for row in laid.tasks for id in row.ids), strict=True))
        members = [*new.after, *(given[place] for place, _ in placed)]
        rows.append((new.then.group.queue, _following(new.then, members, next(places), next(ids), now)))
    return rows


def _behind(job: int, placed: Sequence[_Placed], ids: Iterator[int], now: int) -> list[_Rows]:
    """Calls as rows that wait behind a job, in their order; neighbours of one queue together."""
    rows: list[_Rows] = []
    for queue, some in groupby(zip(placed, ids, strict=False), key=lambda each: each[0][1].group.queue):
        given, joins = zip(*some, strict=True)
        tasks: list[NewTasks] = []
        first, many = joins[0], len(joins)
        for group, brood in in_order(0, (call for _, call in given)):
            tasks.append(structs.replace(new_tasks(group, first, brood, now, waits=True), parents=None))
            first += len(brood.bodies)
        waiters = [NewWaiters([job] * many, joins, [slot] * many) for slot in AHEAD]
        waiters.append(NewWaiters([job] * many, joins, [BEFORE] * many, behind=True))
        new = NewJoins(joins, [len(AHEAD) + 1] * many, Rule.BEHIND)
        rows.append((queue, Beginning(tasks, [new], waiters, [place for place, _ in given])))
    return rows


def _following(then: Call[Any], members: Sequence[int], place: int, join: int, now: int) -> Beginning:
    """A call that waits for tasks."""
    joins = NewJoins(
        (join,),
        (len(members),),
        Extra.decode(then.extra).rule,
        brings=reads_results(then.group) or has_slots(then.body),
    )
    waiters = NewWaiters(members, [join] * len(members), range(len(members)))
    return Beginning([_continuation(then, join, now)], [joins], [waiters], [place])


def _continuation(then: Call[Any], join: int, now: int) -> NewTasks:
    brood = Brood()
    brood.add(0, then)
    return structs.replace(new_tasks(then.group, join, brood, now, waits=True), parents=None)
