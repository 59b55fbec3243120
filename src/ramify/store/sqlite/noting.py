"""Notes of a process in its lock file while it writes, for whoever looks: that it writes, or why it cannot, and which
of its verbs was committed last.

That number bears witness: a database that knows a smaller one has lost commits that returned, because its write-ahead
log was taken away or an older file was put in its place. Going on with it would lose them in silence, so it is refused.
A file without lock folder, such as a backup, has no witness and is opened as it is.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import apsw

from ramify.errors import StoreRefused
from ramify.model.process import Stamp
from ramify.store.clock import Clock, SystemClock
from ramify.store.presence.liveness import Liveness
from ramify.store.sqlite import rows, schema


def witnessed(db: apsw.Connection) -> None:
    """Make the tables or check them, and refuse a file that lacks what a process of this boot noted as committed."""
    path = Path(db.filename)
    # Read before the database, which is then never behind what it is compared with.
    noted = Liveness(Path(f"{path}-live"), SystemClock()).committed()
    schema.prepare(db)
    for process, told in noted.items():
        row = db.execute("SELECT last FROM session WHERE process = ?", (process,)).fetchone()
        last = 0 if row is None else row[0]
        if last < told.number:
            raise StoreRefused(
                f"{path} lacks commits that process {process:x} (pid {told.pid}) has made, the last of them number "
                f"{told.number}; the file knows {last}. Its write-ahead log {path.name}-wal was removed, or an older "
                "file was put in its place. Stop all processes and put the file back together with its -wal; to go on "
                f"without those commits, remove {path}-live"
            )


class FirstLook:
    """The first look at a file, in one transaction: its tables are made or checked, and the `latest` time is read.

    That is 0 where damage hides it: who needs it meets the damage, and doctor names it.
    """

    def __init__(self) -> None:
        self.latest = 0

    def __call__(self, db: apsw.Connection) -> None:
        """Look."""
        witnessed(db)
        with suppress(apsw.CorruptError, apsw.SQLError):
            self.latest = rows.latest(db)


class Noting:
    """The notes of the processes that entered through one store, mostly one; before one has, nothing is noted.

    All of them note that this store writes, or cannot; the number of a verb only the one that sent it. That is noted
    while the connection for writing is held, so that no other verb comes in between.
    """

    def __init__(self, liveness: Liveness, clock: Clock) -> None:
        self._liveness = liveness
        self._clock = clock
        self._here: tuple[int, ...] = ()
        #: The verb that was carried out in the transaction that is open.
        self._carried_out: Stamp | None = None

    def entered(self, process: int) -> None:
        """A process is here."""
        self._here = (*(each for each in self._here if each != process), process)

    def left(self, process: int) -> None:
        """A process is not here any more."""
        self._here = tuple(each for each in self._here if each != process)

    def writing(self, writing: bool) -> None:
        """The lock for writing was got, or let go."""
        if writing:
            self._carried_out = None
        since = self._clock.monotonic() if writing else None
        for process in self._here:
            self._liveness.writing(process, since)

    def consumed(self, stamp: Stamp) -> None:
        """A verb was carried out in the transaction that is open; it counts once that is committed."""
        self._carried_out = stamp

    def outcome(self, trouble: str | None) -> None:
        """Something was committed, or could not be written, and why."""
        self.away(trouble)
        if trouble is None and self._carried_out is not None:
            # Written with the note that the lock for writing is let go.
            self._liveness.numbered(*self._carried_out)

    def away(self, trouble: str | None) -> None:
        """Nothing can be written, and why; or there is no trouble."""
        for process in self._here:
            self._liveness.away(process, trouble)
