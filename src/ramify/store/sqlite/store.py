"""The SQLite store: one local file, any number of processes on one machine, no server.

Every verb is one `BEGIN IMMEDIATE` transaction on the writer's connection; reads have a connection of their own. Who
is alive is told by lock files beside the database. With `durability="power"` a verb that returned survives the loss of
power; with `"process"` it survives anything but that.

It does not work on network file systems and says so.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

from ramify.errors import BadPayload, Reaped
from ramify.model.death import NOBODYS_FAULT, Death
from ramify.model.decision import UNSAID, Said
from ramify.model.forgetting import FORGET_LIMIT, Cutoffs, Forgot, Removal, check_removal
from ramify.model.log import LogLine, storable_lines
from ramify.model.process import NewProcess, Reap, Stamp
from ramify.model.task import NewTasks, check_count
from ramify.store.clock import Clock, StoreTime, SystemClock
from ramify.store.commit_wait import CommitWait
from ramify.store.contract import Beat, Vacuumed
from ramify.store.description import KEEPS, Description
from ramify.store.presence.liveness import Liveness
from ramify.store.sqlite import forgetting, held, notes, processes, rows, schema
from ramify.store.sqlite.bulk import TaskColumns
from ramify.store.sqlite.file import backup
from ramify.store.sqlite.file.link import Link
from ramify.store.sqlite.file.location import check_there
from ramify.store.sqlite.file.write_sensor import WriteSensor
from ramify.store.sqlite.noting import FirstLook, Noting
from ramify.store.sqlite.reads import SqliteReads
from ramify.store.sqlite.tables import SqliteTables
from ramify.store.store import DurableStore
from ramify.store.tables import Tables
from ramify.store.verbs import burying

T = TypeVar("T")


class SqliteStore(DurableStore):
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
        super().__init__()
        if not create:
            check_there(path)
        self._clock = clock if clock is not None else SystemClock()
        self._durability = durability
        look = FirstLook()
        self._link = Link(path, durability=durability, busy_timeout=busy_timeout, on_first_open=look, reading=reading)
        self._time = StoreTime(self._clock, look.latest)
        self._liveness = Liveness(Path(f"{self._link.path}-live"), self._clock, durability=durability)
        self._link.holder = self._liveness.holder_in_words
        self._noting = Noting(self._liveness, self._clock)
        link = weakref.proxy(self._link)  # a store that nobody holds any more lets go of its locks at once
        log = f"{self._link.path}-wal"
        self._commit_wait = CommitWait(lambda: int(link.changed()), lambda: WriteSensor(log))
        self._link.on_writing = self._noting.writing
        self._link.on_outcome += [self._commit_wait.outcome, self._noting.outcome]
        self.reads = SqliteReads(self._link, self._liveness)

    @contextmanager
    def _reading(self) -> Iterator[SqliteTables]:
        with self._link.read() as db:
            yield SqliteTables(db)

    @contextmanager
    def _writing(self, groups: Sequence[NewTasks] = (), stamp: Stamp | None = None) -> Iterator[SqliteTables]:
        # Columns are brought into form before the write lock is taken. Of those with keys some may be dropped.
        columns = {tasks.first: TaskColumns.of(tasks) for tasks in groups if tasks.keys is None}
        with self._link.write() as db:
            tables = SqliteTables(db, columns)
            yield tables
            if stamp is not None and tables.has_consumed:
                # Once that is committed, the lock file tells of it.
                self._noting.consumed(stamp)

    def _write(self, verb: Callable[[Tables], T], groups: Sequence[NewTasks] = (), stamp: Stamp | None = None) -> T:
        with self._writing(groups, stamp) as tables:
            return verb(tables)

    def _nothing_to_write(self) -> None:
        self._noting.away(None)

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

    def enter(self, process: NewProcess) -> Beat:
        """Open a session: first the lock, then the row, so that no row is ever without its lock."""
        self._commit_wait.prepare()
        try:
            self._liveness.enter(process.id, process.pid)
        except BadPayload:
            # A lock file may outlive the session: that it is over says more.
            with self._link.read() as db:
                processes.check_not_ended(db, process.id)
            raise
        self._noting.entered(process.id)
        # CRASH: a lock file without a row -> its lock is free, nobody asks for it, and vacuum removes it.
        try:
            with self._link.write() as db:
                processes.enter(db, process, now := self.now())
                return Beat(peers=processes.peers(db), now=now)
        except Reaped:
            self._let_go(process.id)
            raise

    def leave(self, process: int) -> None:
        """End a session without blame."""
        with self._link.write() as db:
            burying.leave(SqliteTables(db), process, NOBODYS_FAULT, self.now())
        self._let_go(process)

    def _let_go(self, process: int) -> None:
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
            tasks = burying.bury(SqliteTables(db), process, death, self.now())
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
            backup.copy(db, path, schema.give_new_id if new_id else None)

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
