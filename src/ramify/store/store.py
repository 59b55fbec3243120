"""The one store of all durable backends: each verb in a transaction, numbered, remembered, and sent again.

What a verb decides is in `verbs/`; what rows there are and how they are written is the backend's (`tables.py`). A
backend adds what it alone knows: its file or its connections, who lives, what a person reads, and the care of space.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

from ramify.errors import Reaped
from ramify.model.addition import Addition, check_queued
from ramify.model.claim import Claimed, Want
from ramify.model.commit import Committed, Part, check_part
from ramify.model.deciding import Settle, check_into, check_settle
from ramify.model.decision import UNSAID, Said
from ramify.model.event import Status
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.mark import Mark, Settled
from ramify.model.process import Stamp
from ramify.model.reopening import Reopened
from ramify.model.run import Advanced, NewRun, RunState, Started, check_run
from ramify.model.task import Appended, NewTasks, check_staged
from ramify.model.topic import Publication, check_publications
from ramify.model.value import Swap, check_swaps
from ramify.store.changes import AskAfter, Changes
from ramify.store.tables import Reported, Tables
from ramify.store.verbs import advancing, claim, commit, deciding, entries, reopening, staging, swapping
from ramify.store.verbs.beliefs import Beliefs

T = TypeVar("T")


class DurableStore(ABC):
    """The verbs of `ramify.store.contract.Store` that are the same on every backend."""

    #: A verb that its caller has given up may still be carried out: see `claim`.
    delivers_late = False

    def __init__(self) -> None:
        self._turn = 0
        self._beliefs = Beliefs()
        #: Who found nothing to take, or nothing to move, the last time looks first: a read, in nobody's way.
        self._idle, self._still = self.delivers_late, False
        self._claimed: Stamp | None = None

    @abstractmethod
    def now(self) -> int:
        """The store's clock."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Tables]:
        """One snapshot of the tables."""

    @abstractmethod
    def _write(self, verb: Callable[[Tables], T], groups: Sequence[NewTasks] = (), stamp: Stamp | None = None) -> T:
        """Carry a verb out in a transaction that others cannot come between; `groups` are new tasks that it may write.

        `stamp` is the number of the verb, if it has one: once committed, it may have been used up. A backend whose
        transactions can come between one another does it once more when they have, from what is there then.
        """

    @abstractmethod
    def _nothing_to_write(self) -> None:
        """Note that a process is well that has no reason to write."""

    # adding

    def start(
        self,
        run: NewRun,
        tasks: Sequence[NewTasks] = (),
        joins: Sequence[NewJoins] = (),
        waiters: Sequence[NewWaiters] = (),
    ) -> Started:
        """Create a run with its first tasks."""
        check_run(run)
        return self._write(lambda tables: entries.start(tables, run, tasks, joins, waiters, self.now()), tasks)

    def append(self, additions: Sequence[Addition]) -> Sequence[Appended]:
        """Publish tasks from outside."""
        groups = [tasks for each in additions for tasks in each.tasks]
        return self._write(lambda tables: entries.append(tables, additions, self.now(), self._beliefs), groups)

    # working

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        """Take segments. Who found nothing the last time looks first, and uses no number up.

        Where a verb may be carried out late, one that was sent before does not look: its answer is the one that was
        remembered, or it was never carried out. For the same reason one that goes on to take uses its number up even if
        it gets nothing; delivered once more, it would take what nobody asks about any more.
        """
        is_new, self._claimed = stamp != self._claimed, stamp
        if self._idle and (is_new or not self.delivers_late):
            with self._reading() as tables:
                nothing = claim.look(tables, stamp, want, self.now())
                if nothing is not None:
                    # Who wants nothing written has no trouble with it.
                    self._nothing_to_write()
                    return nothing

        def take(tables: Tables) -> claim.Outcome:
            return claim.claim(tables, stamp, want, self._turn, self.now(), keeps=self.delivers_late)

        answer, after, turn, again = self._write(take, stamp=stamp)
        if not again:
            self._turn, self._idle = turn, not answer.tokens
        return claim.claimed(answer, want, self._report(after), self.now())

    def _report(self, after: AskAfter) -> Reported:
        """Answer what goes back with a verb that is over. A backend may have asked it together with the write."""
        with self._reading() as tables:
            return tables.report(after, self.now())

    def stage(self, stamp: Stamp, token: bytes, tasks: Sequence[NewTasks]) -> bool:
        """Write unpublished rows."""
        check_staged(tasks)
        return self._write(lambda tables: staging.stage(tables, stamp, token, tasks, self.now()), tasks, stamp)

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        """Write outcomes and all that follows from them."""
        for part in parts:
            check_part(part)
        children = [tasks for part in parts for tasks in part.children]
        late = [(part.token, len(part.tasks)) for part in parts]
        try:
            answer, after, self._turn, _ = self._write(
                lambda tables: commit.commit(tables, stamp, parts, then_claim, self._turn, self.now()), children, stamp
            )
        except Reaped:
            self._write(lambda tables: tables.write(Changes(stamp.process, stamp.n, self.now(), refused=late)))
            raise
        report = self._report(after)
        taken = Claimed() if then_claim is None else claim.claimed(answer, then_claim, report, self.now())
        return Committed(answer.seq, answer.refused, answer.lost, report.marks, taken, self.now())

    def release(self, stamp: Stamp, tokens: Sequence[bytes]) -> tuple[bytes, ...]:
        """Put claims back."""
        return self._write(lambda tables: staging.release(tables, stamp, tokens, self.now()), stamp=stamp)

    def swap(
        self,
        stamp: Stamp,
        swaps: Sequence[Swap],
        additions: Sequence[Addition] = (),
        publications: Sequence[Publication] = (),
    ) -> bool:
        """Change values, with what is added and published if they change."""
        check_swaps(swaps)
        check_publications(publications)
        for each in additions:
            check_queued(each, links=True)
        groups = [tasks for each in additions for tasks in each.tasks]
        return self._write(
            lambda tables: swapping.swap(tables, stamp, swaps, additions, publications, self.now()), groups, stamp
        )

    # runs

    def movable(self, limit: int) -> tuple[tuple[int, int], ...]:
        """Runs that can be moved on."""
        with self._reading() as tables:
            return advancing.movable(tables, limit, self.now())

    def advance(self, asked: Sequence[tuple[int, int]]) -> tuple[Advanced, ...]:
        """Judge rounds and ends. After an answer that nothing moves it looks first."""
        if self._still:
            with self._reading() as tables:
                if (still := advancing.look(tables, asked, self.now())) is not None:
                    return still
        answers = self._decide(lambda tables, now: advancing.advance(tables, asked, now))
        self._still = not any(answer.moved for answer in answers)
        return answers

    def cancel(
        self,
        run: int,
        task: int | None = None,
        *,
        below: bool = False,
        said: Said = UNSAID,
        into: RunState = RunState.CANCELLED,
    ) -> Settled:
        """Cancel a run, a task, or a task with its descendants."""
        check_into(into)
        if task is not None:
            return self._settle(run, Settle(task, said, below=below))
        return self._decide(lambda tables, now: deciding.cancel(tables, run, said, into, now))

    def settle(self, run: int, task: int, status: Status, value: bytes | None = None, said: Said = UNSAID) -> Settled:
        """Say how a task ends."""
        return self._settle(run, check_settle(Settle(task, said, status, value)))

    def _settle(self, run: int, ask: Settle) -> Settled:
        return self._decide(lambda tables, now: deciding.settle(tables, run, ask, now))

    def reopen(
        self, stamp: Stamp, run: int, tasks: Sequence[int], *, settle: Mark | None = None, said: Said = UNSAID
    ) -> Reopened:
        """Begin new lives."""
        return self._write(
            lambda tables: reopening.reopen(tables, stamp, run, tasks, settle, said, self.now()), stamp=stamp
        )

    def pause(self, run: int, said: Said = UNSAID) -> RunState:
        """Grant no further claims."""
        return self._decide(lambda tables, now: deciding.pause(tables, run, said, now))

    def resume(self, run: int, said: Said = UNSAID) -> RunState:
        """Grant claims again."""
        return self._decide(lambda tables, now: deciding.resume(tables, run, said, now))

    def _decide(self, verb: Callable[[Tables, int], T]) -> T:
        return self._write(lambda tables: verb(tables, self.now()))
