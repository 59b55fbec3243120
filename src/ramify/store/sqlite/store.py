"""The SQLite store: one local file, any number of processes on one machine, no server.

Every verb is one `BEGIN IMMEDIATE` transaction on the writer's connection; reads have a connection of their own. Who
is alive is told by lock files beside the database. With `durability="power"` a verb that returned survives the loss of
power; with `"process"` it survives anything but that.

It does not work on network file systems and says so.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from ramify.errors import Reaped
from ramify.model.addition import Addition
from ramify.model.claim import Claimed, Want
from ramify.model.commit import Committed, Part
from ramify.model.death import NOBODYS_FAULT, Death
from ramify.model.deciding import Settle, check_into, check_settle
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
from ramify.store.clock import Clock, StoreTime, SystemClock
from ramify.store.contract import Beat, Vacuumed
from ramify.store.description import KEEPS, Description
from ramify.store.sqlite import (
    adding,
    answers,
    claims,
    commits,
    copying,
    deciding,
    entries,
    forgetting,
    held,
    notes,
    processes,
    reopening,
    rows,
    runs,
    schema,
)
from ramify.store.sqlite.answers import Answer
from ramify.store.sqlite.commit_wait import CommitWait
from ramify.store.sqlite.db import Db
from ramify.store.sqlite.link import Link
from ramify.store.sqlite.liveness import Liveness
from ramify.store.sqlite.location import check_there
from ramify.store.sqlite.noting import Noting, latest, witnessed
from ramify.store.sqlite.reads import SqliteReads


class SqliteStore:
    """One client of a SQLite file. See `ramify.store.contract.Store` for what each verb promises."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Literal["power", "process"] = "power",
        clock: Clock | None = None,
        busy_timeout: float = 30.0,
        reading: bool = False,
        create: bool = True,
    ) -> None:
        """Open the file, creating it if it is missing (not for `reading`)."""
        if not create:
            check_there(path)
        self._clock = clock if clock is not None else SystemClock()
        self._durability = durability
        self._link = Link(
            path, durability=durability, busy_timeout=busy_timeout, on_first_open=witnessed, reading=reading
        )
        self._time = StoreTime(self._clock, latest(self._link))
        self._liveness = Liveness(Path(f"{self._link.path}-live"), self._clock, durability=durability)
        self._link.holder = self._liveness.holder_in_words
        self._noting = Noting(self._liveness, self._clock)
        link = weakref.proxy(self._link)  # a store that nobody holds any more lets go of its locks at once
        self._commit_wait = CommitWait(lambda: int(link.changed()), f"{self._link.path}-wal")
        self._link.on_writing = self._noting.writing
        self._link.on_outcome += [self._commit_wait.outcome, self._noting.outcome]
        self._turn, self._idle, self._still = 0, True, True
        self.reads = SqliteReads(self._link, self._liveness)

    def _consume(self, db: Db, stamp: Stamp, answer: Answer) -> None:
        """Use a stamp up with its answer; once that is committed, the lock file tells of it."""
        processes.consume(db, stamp, answers.remember(answer))
        self._noting.consumed(stamp)

    @cached_property
    def id(self) -> str:
        """The file's own id."""
        with self._link.read() as db:
            return schema.store_id(db)

    def describe(self) -> Description:
        """Say what this store is."""
        file = str(self._link.path)
        return Description("sqlite", file, KEEPS[self._durability], "other machines", shared=True, file=file, sql=True)

    def close(self) -> None:
        """Let go of the file and of the locks; claims of processes that did not leave look like a death."""
        self._liveness.close()
        self._link.close()
        self._commit_wait.close()

    def now(self) -> int:
        """The store's clock."""
        return self._time.now()

    def wait(self, seconds: float, seen: int) -> int:
        """Sleep until some connection committed something, or somebody calls."""
        return self._commit_wait.wait(seconds, seen)

    def wake(self) -> None:
        """End the waits of this store."""
        self._commit_wait.ring()

    # processes

    def enter(self, process: NewProcess) -> None:
        """Open a session: first the lock, then the row, so that no row is ever without its lock."""
        with self._link.read() as db:
            processes.check_not_ended(db, process.id)
        self._commit_wait.prepare()
        self._liveness.enter(process.id, process.pid)
        self._noting.entered(process.id)
        # CRASH: a lock file without a row -> its lock is free, nobody asks for it, and vacuum removes it.
        with self._link.write() as db:
            processes.enter(db, process, self.now())

    def leave(self, process: int) -> None:
        """End a session without blame."""
        with self._link.write() as db:
            processes.end(db, process, self.now(), NOBODYS_FAULT)
        self._noting.left(process)
        self._liveness.leave(process)

    def beat(self, process: int) -> Beat:
        """Say "alive" in the lock file; the rest is a read, and trouble with it does not hold up the beat."""
        # Who has nothing to write finds out here that the file is gone; its lock file must not come again then.
        self._link.check_in_place()
        self._liveness.beat(process)
        with self._link.read() as db:
            draining = processes.is_draining(db, process)
            if draining is None:
                return Beat(reaped=True)
            now = self.now()
            marks, paused = held.marks_for(db, process), held.paused_for(db, process)
            return Beat(False, marks, paused, processes.peers(db), held.time_left_for(db, process, now), draining, now)

    def drain(self, process: int, said: Said = UNSAID) -> bool:
        """Ask a process to leave."""
        with self._link.write() as db:
            return processes.drain(db, process, said)

    @property
    def records(self) -> Path:
        """Beside the lock files."""
        return self._liveness.folder

    def bury(self, process: int, death: Death) -> int:
        """Mark a process as dead, and offer its claims again."""
        with self._link.write() as db:
            tasks = processes.bury(db, process, self.now(), death)
        # CRASH: its files stay -> its lock is free, nobody asks for it, and vacuum removes them.
        self._liveness.forget(process)
        return tasks

    def reap(self, process: int, dead_after: float) -> Reap:
        """Bury the dead."""
        return processes.reap(self._link, self._liveness, process, dead_after, self.now)

    # adding

    def reserve(self, count: int) -> int:
        """A block of ids, in a transaction of its own."""
        check_count(count)
        with self._link.write() as db:
            return int(db.execute("UPDATE ids SET next = next + ?1 RETURNING next - ?1", (count,)).fetchall()[0][0])

    def start(
        self,
        run: NewRun,
        tasks: Sequence[NewTasks] = (),
        joins: Sequence[NewJoins] = (),
        waiters: Sequence[NewWaiters] = (),
    ) -> Started:
        """Create a run with its first tasks."""
        check_run(run)
        with self._link.write() as db:
            return entries.start(db, run, tasks, joins, waiters, self.now())

    def append(self, additions: Sequence[Addition]) -> Sequence[Appended]:
        """Publish tasks from outside."""
        with self._link.write() as db:
            return entries.append(db, additions, self.now())

    # working

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        """Take segments. Who found nothing the last time looks first, which is a read and in nobody's way."""
        if self._idle:
            with self._link.read() as db:
                again = processes.consumed(db, stamp)
                nothing = claims.look(db, stamp.process, want, self.now()) if again is None else None
                if nothing is not None:
                    # Who wants nothing written has no trouble with it.
                    self._noting.away(None)
                    return answers.claimed(db, answers.of_claim(nothing), want, self.now())
        with self._link.write() as db:
            again = processes.consumed(db, stamp)
            if again is not None:
                answer = answers.recall(again, "claim")
            else:
                taken = claims.take(db, stamp.process, want, self._turn, self.now())
                self._turn = taken.turn
                answer = answers.of_claim(taken)
                self._idle = not taken.tokens
                if not self._idle:
                    self._consume(db, stamp, answer)
        with self._link.read() as db:
            return answers.claimed(db, answer, want, self.now())

    def stage(self, stamp: Stamp, token: bytes, tasks: Sequence[NewTasks]) -> bool:
        """Write unpublished rows."""
        check_staged(tasks)
        with self._link.write() as db:
            again = processes.consumed(db, stamp)
            if again is not None:
                return answers.recall(again, "stage").done
            row = commits.holding(db, stamp.process, token)
            if row is not None:
                adding.stage(db, tasks, row)
            self._consume(db, stamp, Answer("stage", row is not None))
            return row is not None

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        """Write outcomes and all that follows from them."""
        columns = commits.prepare(parts)
        try:
            with self._link.write() as db:
                answer = self._commit(db, stamp, parts, columns, then_claim)
        except Reaped:
            with self._link.write() as db:
                commits.refuse(db, stamp, parts, self.now())
            raise
        with self._link.read() as db:
            return answers.committed(db, answer, stamp.process, then_claim, self.now())

    def _commit(
        self, db: Db, stamp: Stamp, parts: Sequence[Part], columns: commits.Columns, then_claim: Want | None
    ) -> Answer:
        again = processes.consumed(db, stamp)
        if again is not None:
            return answers.recall(again, "commit")
        now = self.now()
        seq, refused, grown = commits.write(db, stamp, parts, columns, now)
        runs.hold_to_caps(db, grown, now)
        taken = claims.Taken((), False, self._turn)
        if then_claim is not None:
            taken = claims.take(db, stamp.process, then_claim, self._turn, now)
            self._turn = taken.turn
        answer = answers.of_commit(seq, refused, taken)
        self._consume(db, stamp, answer)
        return answer

    def release(self, stamp: Stamp, token: bytes) -> bool:
        """Put a claim back."""
        with self._link.write() as db:
            again = processes.consumed(db, stamp)
            if again is not None:
                return answers.recall(again, "release").done
            row = commits.holding(db, stamp.process, token)
            if row is not None:
                commits.put_back(db, row)
                commits.come_apart(db, row)
            self._consume(db, stamp, Answer("release", row is not None))
            return row is not None

    # runs

    def movable(self, limit: int) -> tuple[tuple[int, int], ...]:
        """Runs that can be moved on."""
        with self._link.read() as db:
            return runs.movable(db, limit, self.now())

    def advance(self, asked: Sequence[tuple[int, int]]) -> tuple[Advanced, ...]:
        """Judge rounds and ends. After an answer that nothing moves it looks first, which is a read."""
        if self._still:
            with self._link.read() as db:
                if (still := runs.look(db, asked, self.now())) is not None:
                    return still
        with self._link.write() as db:
            answers = runs.advance(db, asked, self.now())
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
        with self._link.write() as db:
            return deciding.cancel(db, rows.run_row(db, run), said, into, self.now())

    def settle(self, run: int, task: int, status: Status, value: bytes | None = None, said: Said = UNSAID) -> Settled:
        """Say how a task ends."""
        return self._settle(run, check_settle(Settle(task, said, status, value)))

    def _settle(self, run: int, ask: Settle) -> Settled:
        with self._link.write() as db:
            return deciding.settle(db, rows.run_row(db, run), ask, self.now())

    def pause(self, run: int, said: Said = UNSAID) -> RunState:
        """Grant no further claims."""
        with self._link.write() as db:
            return deciding.pause(db, rows.run_row(db, run), said, self.now())

    def resume(self, run: int, said: Said = UNSAID) -> RunState:
        """Grant claims again."""
        with self._link.write() as db:
            return deciding.resume(db, rows.run_row(db, run), said, self.now())

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
        with self._link.write() as db:
            again = processes.consumed(db, stamp)
            if again is not None:
                return answers.recall(again, "reopen").reopened
            row = rows.run_row(db, run)
            now, why = self.now(), reason_value(said.reason, said.by)
            answer = reopening.reopen(db, row, tasks, settle, why, stamp.process, now)
            if answer.tasks:
                deciding.note(db, rows.run_row(db, run), What.REOPENED, said, now)
            self._consume(db, stamp, Answer("reopen", reopened=answer))
            return answer

    # logs

    def note(self, process: int, lines: Sequence[LogLine]) -> None:
        """Keep log lines."""
        kept = storable_lines(lines)
        with self._link.write() as db:
            notes.add(db, process, kept)

    # care

    def backup(self, path: str | os.PathLike[str], *, new_id: bool = False) -> None:
        """Copy the file."""
        with self._link.snapshot() as db:
            copying.copy(db, path, schema.give_new_id if new_id else None)

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
        with self._link.write() as db:
            return forgetting.forget(db, rows.run_row(db, run), removal, self.now())

    def vacuum(self, limit: int = 65_536, *, spare: float = 0.0) -> Vacuumed:
        """Remove what nobody can reach, and give file space back."""
        return processes.vacuum(self._link, self._liveness, limit, spare, self.now)
