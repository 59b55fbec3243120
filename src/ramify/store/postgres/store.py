"""The PostgreSQL store: any number of processes on any number of machines, on one server.

Every verb is one transaction at READ COMMITTED, in two trips: what it asks, locked in one order, and what it writes,
with the commit. Who came in between others in a bad way is done once more. With `durability="power"` a verb that
returned is on the server's disk; with `"process"` the server may lose the last of them with its machine.

The clock is the server's, by one function in the schema. A verb that was given up here may still be carried out there.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Literal, TypeVar

from ramify.errors import BadPayload, Reaped, StoreRefused, StoreUnavailable
from ramify.model.death import NOBODYS_FAULT, Death
from ramify.model.decision import UNSAID, Said
from ramify.model.forgetting import FORGET_LIMIT, Cutoffs, Forgot, Removal, check_removal
from ramify.model.log import LogLine, storable_lines
from ramify.model.process import NewProcess, Reap, Stamp
from ramify.model.run import Advanced
from ramify.model.task import NewTasks, check_count
from ramify.store.changes import AskAfter
from ramify.store.clock import Clock, StoreTime, SystemClock
from ramify.store.commit_wait import CommitWait
from ramify.store.contract import Beat, Vacuumed
from ramify.store.description import KEEPS, Description
from ramify.store.postgres import forgetting, held, processes, rows, schema
from ramify.store.postgres.link import Occupied, ServerLink, Transaction
from ramify.store.postgres.listening import OFTEN, Listening
from ramify.store.postgres.pipe import Asked
from ramify.store.postgres.reads import PgReads
from ramify.store.postgres.tables import PgTables, report_asked, reported
from ramify.store.presence.liveness import Liveness
from ramify.store.store import DurableStore
from ramify.store.tables import Reported, Tables
from ramify.store.verbs import advancing, burying

T = TypeVar("T")

#: So many ids, one after the other: nobody else is given any in between.
RESERVE = (
    "SELECT pg_advisory_xact_lock(hashtextextended('@ids', 0))",
    "SELECT min(nextval('@ids')) FROM generate_series(1, $1::bigint)",
)
BLOCKS = "SELECT seqincrement FROM pg_sequence WHERE seqrelid = '@ids'::regclass"


class PostgresStore(DurableStore):
    """One client of a server. See `ramify.store.contract.Store` for what each verb promises."""

    delivers_late = True

    def __init__(
        self,
        url: str,
        *,
        durability: Literal["power", "process"] = "power",
        clock: Clock | None = None,
        patience: float = 30.0,
        reading: bool = False,
        create: bool = True,
        block: int = schema.BLOCK,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        """Open the store behind a URL, making its tables if they are not there (not for `reading`).

        `folder` is where processes of this machine keep their lock files.
        """
        super().__init__()
        self._link = ServerLink(
            url, durability=durability, patience=patience, block=block, create=create, reading=reading
        )
        self._durability = durability
        self._server = ServerClock(self._link) if clock is None else None
        self._clock: Clock = clock if clock is not None else self._server or SystemClock()
        with self._link.read() as db:
            self._time = StoreTime(self._clock, rows.latest(db))
            ((self._block,),) = db.ask(BLOCKS)
        place = Path(folder) if folder is not None else Path(tempfile.gettempdir()) / f"ramify-{os.getuid()}"
        self._liveness = Liveness(place / f"{self._link.id}-live", self._clock, durability=durability)
        self._folder = "" if reading else folder_id(self._liveness.folder)
        self._listening = Listening(self._link)
        self._commit_wait = CommitWait(self._listening.changed, self._listening.sensor, OFTEN)
        #: Answers that came along with a commit, by the question, until they are asked for.
        self._along: dict[int, tuple[AskAfter, Reported]] = {}
        self.reads = PgReads(self._link, self._liveness, self._folder, self.now)

    @contextmanager
    def _reading(self) -> Iterator[PgTables]:
        with self._link.read() as db:
            yield PgTables(db, writes=False)

    def _write(self, verb: Callable[[Tables], T], groups: Sequence[NewTasks] = (), stamp: Stamp | None = None) -> T:
        return self._transact(verb)

    def _transact(self, verb: Callable[[PgTables], T], *, tries: bool = False) -> T:
        """Carry a verb out; the answer that goes back with it and what others are told travel with its commit."""
        tables: list[PgTables] = []
        asked: list[Asked] = []

        def carry_out(db: Transaction) -> T:
            tables[:] = [PgTables(db, writes=True, tries=tries, doubts=bool(tables))]
            return verb(tables[0])

        def after() -> list[Asked]:
            along = tables[0].after
            asked[:] = [] if along is None else report_asked(along, self.now())
            return [*asked, *(self._listening.tell() if tables[0].is_news else ())]

        found, more = self._link.write(carry_out, after)
        if (along := tables[0].after) is not None:
            self._along[id(along)] = along, reported(along, more, self.now())
        if tables[0].is_news:
            self._commit_wait.outcome(None)
        return found

    def _report(self, after: AskAfter) -> Reported:
        along = self._along.pop(id(after), None)
        return super()._report(after) if along is None else along[1]

    def _nothing_to_write(self) -> None:
        """Nobody asks here whether a process can write."""

    @property
    def id(self) -> str:
        """The store's own id."""
        return self._link.id

    def describe(self) -> Description:
        """Say what this store is."""
        keeps, late = KEEPS[self._durability], self.delivers_late
        return Description("postgresql", self._link.place, keeps, "nothing", shared=True, sql=True, delivers_late=late)

    def close(self) -> None:
        """Let go of the connections and of the locks; claims of processes that did not leave look like a death."""
        self._liveness.close()
        self._link.close()
        self._commit_wait.close()
        self._listening.close()

    def now(self) -> int:
        """The store's clock."""
        return self._time.now()

    def wait(self, seconds: float, seen: int) -> int:
        """Sleep until somebody committed something, or somebody calls."""
        return self._commit_wait.wait(seconds, seen)

    def wake(self) -> None:
        """End the waits of this store."""
        self._commit_wait.ring()

    # processes

    def enter(self, process: NewProcess) -> Beat:
        """Open a session: first the lock, then the row, so that no row is ever without its lock."""
        try:
            self._liveness.enter(process.id, process.pid)
        except BadPayload:
            # A lock file may outlive the session: that it is over says more.
            with self._link.read() as db:
                processes.check_not_ended(db, process.id)
            raise
        # CRASH: a lock file without a row -> its lock is free, nobody asks for it, and vacuum removes it.
        try:
            now = self.now()
            peers, _ = self._link.write(lambda db: processes.enter(db, process, self._folder, now))
        except Reaped:
            self._liveness.leave(process.id)
            raise
        return Beat(peers=peers, now=now)

    def leave(self, process: int) -> None:
        """End a session without blame."""
        self._write(lambda tables: burying.leave(tables, process, NOBODYS_FAULT, self.now()))
        self._liveness.leave(process)

    def beat(self, process: int) -> Beat:
        """Say "alive" in the lock file and in the session, which waits behind no verb of this process."""
        self._liveness.beat(process)
        if self._server is not None:
            self._server.read()
        now = self.now()
        held_in = (held.HELD_IN, (process, "paused"))
        told = held.told_asked(process)
        asked = [(processes.BEAT, (process, now)), (processes.PEERS, ()), held_in, (held.TIMED_HELD, (process,)), *told]
        # It need not be on the disk: who is alive after the server was lost says so again.
        _, beat, ((peers,),), paused, timed, *marks = self._link.alone(processes.UNSYNCED, *asked)
        if not beat:
            return Beat(reaped=True)
        paused_runs = tuple(run for run, _ in paused)
        return Beat(False, held.told(marks), paused_runs, peers, held.time_left(timed, now), beat[0][0], now)

    def drain(self, process: int, said: Said = UNSAID) -> bool:
        """Ask a process to leave."""
        return self._link.write(lambda db: processes.drain(db, process, said))[0]

    @property
    def records(self) -> Path:
        """Beside the lock files."""
        return self._liveness.folder

    def bury(self, process: int, death: Death) -> int:
        """Mark a process as dead, and offer its claims again."""
        tasks = self._write(lambda tables: burying.bury(tables, process, death, self.now()))
        # CRASH: its files stay -> its lock is free, nobody asks for it, and vacuum removes them.
        self._liveness.forget(process)
        return tasks

    def reap(self, process: int, dead_after: float) -> Reap:
        """Bury the dead."""
        return processes.reap(self._link, self._liveness, self._folder, process, dead_after, self.now)

    # adding

    def reserve(self, count: int) -> int:
        """Blocks of ids that follow one another."""
        check_count(count)
        lock, take = RESERVE
        *_, ((first,),) = self._link.alone((lock, ()), (take, (-(-count // self._block),)))
        return int(first)

    def advance(self, asked: Sequence[tuple[int, int]]) -> tuple[Advanced, ...]:
        """Judge rounds and ends, after a look that finds something to do. Who cannot have the runs to itself at once
        comes back later: whoever waits for them holds up all who commit to them.
        """
        with self._reading() as tables:
            if (still := advancing.look(tables, asked, self.now())) is not None:
                return still
        try:
            return self._transact(lambda tables: advancing.advance(tables, asked, self.now()), tries=True)
        except Occupied:
            with self._reading() as tables:
                return advancing.unmoved(tables, asked, self.now())

    # logs

    def note(self, process: int, lines: Sequence[LogLine]) -> None:
        """Keep log lines."""
        kept = [
            (line.n, line.at, line.run, line.task, line.attempt, line.level, line.logger.encode(), line.text.encode())
            for line in storable_lines(lines)
        ]
        if kept:
            self._link.alone(*processes.note_asked(process, kept))

    # care

    def backup(self, path: str | os.PathLike[str], *, new_id: bool = False) -> None:
        """Refuse: a server is copied by its own tools."""
        raise StoreRefused(
            f"{self._link.place}: a store on a server cannot be a file. Use pg_dump --schema={self._link.schema} or a "
            "base backup"
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
        return self._link.write(lambda db: forgetting.forget(db, run, removal, self.now()))[0]

    def vacuum(self, limit: int = 65_536, *, spare: float = 0.0) -> Vacuumed:
        """Remove what nobody can reach."""
        return processes.vacuum(self._link, self._liveness, limit, self.now())


class ServerClock:
    """The server's clock, read now and then, and in between the monotonic time of this machine."""

    def __init__(self, link: ServerLink) -> None:
        self._link, self._lock = link, Lock()
        self._ahead = 0
        self.read()

    def read(self) -> None:
        """Ask the server."""
        (((now,),),) = self._link.alone(("SELECT @clock()", ()))
        with self._lock:
            self._ahead = now - self.monotonic()

    def now(self) -> int:
        """Wall time of the server since the epoch."""
        with self._lock:
            return self._ahead + self.monotonic()

    def monotonic(self) -> int:
        """Time that never jumps while this machine is up."""
        return time.monotonic_ns() // 1000


def folder_id(folder: Path) -> str:
    """The id of a folder of lock files, made if it is missing. Whoever reads the same id sees the same files."""
    name = folder / "id"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            try:
                return name.read_text(encoding="ascii")
            except FileNotFoundError:
                fresh = folder / f"{token_hex(8)}.new"
                fresh.write_text(token_hex(16), encoding="ascii")
                try:
                    # Of two who make it at once, one wins.
                    os.link(fresh, name)
                except FileExistsError:
                    pass
                finally:
                    fresh.unlink()
    except OSError as error:
        raise StoreUnavailable(f"{folder}: lock files cannot be kept there ({error.strerror}); try again") from error
