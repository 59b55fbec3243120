"""The reference store: the contract kept in plain Python, readable as the specification.

It keeps nothing beyond its process. Everything else is as on the other stores: payloads are bytes, the same things are
refused, and the same conformance suite must pass.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import msgspec

from ramify.errors import BadPayload, Reaped, StoreRefused
from ramify.model.addition import Addition, check_queued
from ramify.model.claim import Claimed, Want
from ramify.model.commit import Committed, Part
from ramify.model.death import NOBODYS_FAULT, Death
from ramify.model.deciding import Settle, check_into, check_settle, decide
from ramify.model.decision import UNSAID, Said, What
from ramify.model.event import Status
from ramify.model.forgetting import FORGET_LIMIT, Cutoffs, Forgot, Removal, check_removal
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.log import LogLine, storable_lines
from ramify.model.mark import Mark, Settled, reason_value
from ramify.model.process import NewProcess, Reap, Stamp
from ramify.model.reopening import Reopened
from ramify.model.run import Advanced, NewRun, RunState, Started, check_run
from ramify.model.task import Appended, NewTasks, check_count, check_staged
from ramify.model.topic import Publication, check_publications
from ramify.model.value import Swap, check_swaps
from ramify.store.clock import Clock, StoreTime, SystemClock
from ramify.store.contract import Beat, Vacuumed
from ramify.store.description import Description
from ramify.store.memory import (
    adding,
    claims,
    commits,
    deciding,
    entries,
    forgetting,
    lines,
    processes,
    reopening,
    runs,
    values,
)
from ramify.store.memory.reads import MemoryReads
from ramify.store.memory.tables import MemoryTables

T = TypeVar("T")


class Staged(NamedTuple):
    """The remembered answer to a stage."""

    done: bool


class Released(NamedTuple):
    """The remembered answer to a release."""

    void: tuple[bytes, ...]


class Swapped(NamedTuple):
    """The remembered answer to a swap."""

    done: bool


class MemoryStore:
    """One client of a `Tables`. See `ramify.store.contract.Store` for what each verb promises."""

    def __init__(self, tables: MemoryTables | None = None, clock: Clock | None = None) -> None:
        self._tables = tables if tables is not None else MemoryTables()
        self._clock = clock if clock is not None else SystemClock()
        with self._tables.lock:
            self._time = StoreTime(self._clock, self._tables.latest())
        self._turn = 0
        self._calls = 1
        self.reads = MemoryReads(self._tables, self._clock)

    @property
    def id(self) -> str:
        """Its own id, chosen with its tables."""
        return self._tables.id

    def describe(self) -> Description:
        """Say what this store is."""
        return Description("memory", "this process", "nothing once the process ends", "durability; other processes")

    def close(self) -> None:
        """Nothing to let go of."""

    def now(self) -> int:
        """The store's clock."""
        return self._time.now()

    def wait(self, seconds: float, seen: int) -> int:
        """Sleep until a verb changed something, or somebody calls."""
        with self._tables.lock:
            self._tables.changed.wait_for(lambda: self._version != seen, max(0.0, seconds))
            return self._version

    @property
    def _version(self) -> int:
        return self._tables.version + self._calls

    def wake(self) -> None:
        """End the waits of this client."""
        with self._tables.lock:
            self._calls += 1
            self._tables.changed.notify_all()

    def enter(self, process: NewProcess) -> Beat:
        """Open a session."""
        with self._tables.lock:
            processes.enter(self._tables, process, self.now(), self._clock.monotonic())
            return Beat(peers=processes.peers(self._tables), now=self.now())

    def leave(self, process: int) -> None:
        """End a session without blame."""
        with self._tables.lock:
            processes.end(self._tables, process, self.now(), NOBODYS_FAULT)
            self._changed()

    def beat(self, process: int) -> Beat:
        """Say "alive"."""
        with self._tables.lock:
            session = self._tables.sessions.get(process)
            if session is None or session.gone_at is not None:
                return Beat(reaped=True)
            session.beats.append(self._clock.monotonic())
            return Beat(
                marks=claims.marks_for(self._tables, process),
                paused=claims.paused_for(self._tables, process),
                time_left=claims.time_left_for(self._tables, process, self.now()),
                peers=processes.peers(self._tables),
                draining=session.draining is not None,
                now=self.now(),
            )

    def drain(self, process: int, said: Said = UNSAID) -> bool:
        """Ask a process to leave."""
        with self._tables.lock:
            return processes.drain(self._tables, process, said)

    @property
    def records(self) -> None:
        """Nothing of it outlives the process, so no process leaves a record."""

    def bury(self, process: int, death: Death) -> int:
        """Mark a process as dead, and offer its claims again."""
        with self._tables.lock:
            tasks = processes.bury(self._tables, process, self.now(), death)
            self._changed()
            return tasks

    def reap(self, process: int, dead_after: float) -> Reap:
        """Bury the dead."""
        with self._tables.lock:
            answer = processes.reap(self._tables, process, dead_after, self.now(), self._clock.monotonic())
            self._changed()
            return answer

    def reserve(self, count: int) -> int:
        """A block of ids."""
        check_count(count)
        with self._tables.lock:
            first = self._tables.next_id
            self._tables.next_id += count
            return first

    def start(
        self,
        run: NewRun,
        tasks: Sequence[NewTasks] = (),
        joins: Sequence[NewJoins] = (),
        waiters: Sequence[NewWaiters] = (),
    ) -> Started:
        """Create a run with its first tasks."""
        check_run(run)
        with self._tables.lock:
            answer = entries.start(self._tables, run, tasks, joins, waiters, self.now())
            if answer.created:
                self._tables.wake()
            return answer

    def append(self, additions: Sequence[Addition]) -> Sequence[Appended]:
        """Publish tasks from outside."""
        with self._tables.lock:
            answers = entries.append(self._tables, additions, self.now())
            if not all(answer.already for answer in answers):
                self._changed()
            return answers

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        """Take segments."""
        with self._tables.lock:
            again = self._tables.consumed(stamp)
            if again is not None:
                return _same(again.answer, Claimed)
            claimed, self._turn = claims.take(self._tables, stamp.process, want, self._turn, self.now())
            lines.refill(self._tables, self.now())
            if claimed.claims:
                self._tables.consume(stamp, claimed)
            return claimed

    def stage(self, stamp: Stamp, token: bytes, tasks: Sequence[NewTasks]) -> bool:
        """Write unpublished rows."""
        check_staged(tasks)
        with self._tables.lock:
            again = self._tables.consumed(stamp)
            if again is not None:
                return _same(again.answer, Staged).done
            row = commits.holding(self._tables, stamp.process, token)
            if row is not None:
                adding.check_room(self._tables, tasks)
                for group in tasks:
                    adding.stage(self._tables, self._tables.run(row.run), group, row)
            self._tables.consume(stamp, Staged(row is not None))
            return row is not None

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        """Write outcomes and all that follows from them."""
        with self._tables.lock:
            now = self.now()
            try:
                again = self._tables.consumed(stamp)
            except Reaped:
                for part in parts:
                    commits.refuse(self._tables, stamp, part, now)
                raise
            if again is not None:
                answer = _same(again.answer, Committed)
                return msgspec.structs.replace(
                    answer, claimed=claims.answered_again(self._tables, answer.claimed, then_claim, now)
                )
            commits.check(self._tables, stamp, parts)
            refused = [p for p in parts if commits.holding(self._tables, stamp.process, p.token) is None]
            for part in refused:
                commits.refuse(self._tables, stamp, part, now)
            valid = [p for p in parts if commits.holding(self._tables, stamp.process, p.token) is not None]
            applied, lost = values.swapped(self._tables, valid, now)
            seq = self._tables.new_commit(stamp.process, stamp.n, now) if applied else 0
            before = runs.bounded(self._tables)
            commits.apply(self._tables, stamp, applied, now)
            runs.hold_to_caps(self._tables, before, now)
            lines.refill(self._tables, now)
            claimed = Claimed()
            if then_claim is not None:
                claimed, self._turn = claims.take(self._tables, stamp.process, then_claim, self._turn, now)
            marks = claims.marks_for(self._tables, stamp.process)
            answer = Committed(seq, tuple(p.token for p in refused), lost, marks, claimed, now)
            self._tables.consume(stamp, answer)
            self._changed()
            return answer

    def release(self, stamp: Stamp, tokens: Sequence[bytes]) -> tuple[bytes, ...]:
        """Put claims back."""
        with self._tables.lock:
            again = self._tables.consumed(stamp)
            if again is not None:
                return _same(again.answer, Released).void
            rows = {token: commits.holding(self._tables, stamp.process, token) for token in tokens}
            for row in rows.values():
                if row is not None:
                    commits.put_back(self._tables, row)
                    commits.come_apart(self._tables, row)
            void = tuple(token for token in tokens if rows[token] is None)
            self._tables.consume(stamp, Released(void))
            self._changed()
            return void

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
        with self._tables.lock:
            again = self._tables.consumed(stamp)
            if again is not None:
                return _same(again.answer, Swapped).done
            done = values.swap(self._tables, stamp, swaps, additions, publications, self.now())
            self._tables.consume(stamp, Swapped(done))
            self._changed()
            return done

    def movable(self, limit: int) -> tuple[tuple[int, int], ...]:
        """Runs that can be moved on."""
        with self._tables.lock:
            return runs.movable(self._tables, limit, self.now())

    def advance(self, asked: Sequence[tuple[int, int]]) -> tuple[Advanced, ...]:
        """Judge rounds and ends."""
        with self._tables.lock:
            for run, _ in asked:
                self._tables.run(run)
            answers = tuple(self._advance(run, round) for run, round in asked)
            if any(answer.moved for answer in answers):
                self._changed()
            return answers

    def _changed(self) -> None:
        """Give lines their heads, and tell who waits."""
        lines.refill(self._tables, self.now())
        self._tables.wake()

    def _advance(self, run: int, round: int) -> Advanced:
        return runs.advance(self._tables, self._tables.run(run), round, self.now())

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
        with self._tables.lock:
            answer = deciding.cancel(self._tables, self._tables.run(run), said, into, self.now())
            self._changed()
            return answer

    def settle(self, run: int, task: int, status: Status, value: bytes | None = None, said: Said = UNSAID) -> Settled:
        """Say how a task ends."""
        return self._settle(run, check_settle(Settle(task, said, status, value)))

    def _settle(self, run: int, ask: Settle) -> Settled:
        with self._tables.lock:
            answer = deciding.settle(self._tables, self._tables.run(run), ask, self.now())
            self._changed()
            return answer

    def pause(self, run: int, said: Said = UNSAID) -> RunState:
        """Grant no further claims."""
        with self._tables.lock:
            state = deciding.pause(self._tables, self._tables.run(run), said, self.now())
            self._changed()
            return state

    def resume(self, run: int, said: Said = UNSAID) -> RunState:
        """Grant claims again."""
        with self._tables.lock:
            state = deciding.resume(self._tables, self._tables.run(run), said, self.now())
            self._changed()
            return state

    def reopen(
        self,
        stamp: Stamp,
        run: int,
        tasks: Sequence[int],
        *,
        settle: Mark | None = None,
        said: Said = UNSAID,
    ) -> Reopened:
        """Begin new lives."""
        with self._tables.lock:
            again = self._tables.consumed(stamp)
            if again is not None:
                return _same(again.answer, Reopened)
            row = self._tables.run(run)
            now, why = self.now(), reason_value(said.reason, said.by)
            answer = reopening.reopen(self._tables, row, tasks, settle, why, stamp.process, now)
            if answer.tasks:
                # Before the run is judged again, which may end it at once.
                decided = decide(What.REOPENED, row.state, row.decision, said, now)
                assert decided is not None
                deciding.keep(self._tables, row, decided)
                runs.begin(self._tables, row, now)
            self._tables.consume(stamp, answer)
            self._changed()
            return answer

    def note(self, process: int, lines: Sequence[LogLine]) -> None:
        """Keep log lines."""
        kept = storable_lines(lines)
        with self._tables.lock:
            processes.note(self._tables, process, kept)
            self._tables.wake()

    def backup(self, path: str | os.PathLike[str], *, new_id: bool = False) -> None:
        """There is no file to copy."""
        raise StoreRefused(
            f"{os.fspath(path)}: the memory store keeps nothing beyond its process, so there is nothing to copy. Use a "
            "file store for work that must be kept"
        )

    def forget(
        self,
        run: int,
        tasks: range | None = None,
        *,
        before: int | Cutoffs | None = None,
        said: Said = UNSAID,
        limit: int = FORGET_LIMIT,
        dry: bool = False,
    ) -> Forgot:
        """Remove ended work."""
        removal = check_removal(Removal(tasks, before, said, limit, dry))
        with self._tables.lock:
            return forgetting.forget(self._tables, self._tables.run(run), removal, self.now())

    def vacuum(self, limit: int = 65_536, *, spare: float = 0.0) -> Vacuumed:
        """Remove what nobody can reach."""
        with self._tables.lock:
            return processes.vacuum(self._tables, self.now(), limit)


def _same(answer: object, kind: type[T]) -> T:
    """The stored answer of a verb that is sent again; a stamp reused for another verb is a mistake of the caller."""
    if not isinstance(answer, kind):
        raise BadPayload("this stamp was used for another verb; number the verbs of a process 1, 2, 3, …")
    return answer
