"""Processes in the SQLite store: sessions in the database, life in lock files.

A free lock is certain death, a held one is not known life: then the beat decides. Beats are written to the lock file,
not to the database, so that nobody is declared dead for waiting behind a long commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from ramify.errors import Reaped
from ramify.model.death import NOBODYS_FAULT
from ramify.model.deciding import storable_said
from ramify.model.decision import Said
from ramify.model.decoder import decoder
from ramify.model.policy import SECOND
from ramify.model.process import Away, NewProcess, Process, Reap
from ramify.store import here
from ramify.store.contract import SESSION_SECONDS, Vacuumed
from ramify.store.presence.liveness import Liveness
from ramify.store.record import death_of, is_stopping
from ramify.store.sqlite import rows, topics, values
from ramify.store.sqlite.file.db import Db
from ramify.store.sqlite.file.link import Link
from ramify.store.sqlite.tables import SqliteTables
from ramify.store.verbs.burying import bury

SESSION = (
    "SELECT process, pid, host, entered, gone_at IS NOT NULL, last, kinds, queues, version, boot, pids, draining,"
    " parent FROM session"
)
#: Why a process takes nothing more that nobody asked to by `drain`.
STOPPING = Said("it is stopping")
_said, _texts = decoder(Said), decoder(tuple[str, ...])


def read_process(row: tuple[Any, ...], liveness: Liveness) -> Process:
    """A process from a row of `SESSION` and, if it is alive, from its files; times there become ages."""
    number, pid, host, entered, gone, last, kinds, queues, version, boot, pids, draining, parent = row
    told = liveness.alive(number)
    said = None if draining is None else _said.decode(draining)
    if told is not None and said is None and is_stopping(liveness.folder, number):
        said = STOPPING
    known, served = (None if names is None else _texts.decode(names) for names in (kinds, queues))
    process = Process(
        number, pid, host, entered, None, bool(gone), last, known, served, version, boot=boot, pids=pids,
        draining=said, parent=parent,
    )  # fmt: skip
    if told is None:
        return process
    return replace(
        process,
        beat_age=liveness.age(told.beat),
        writing=None if told.writing is None else liveness.age(told.writing),
        away=None if told.away is None else Away(liveness.age(told.away), told.why),
        durability=told.durability,
    )


def enter(db: Db, process: NewProcess, now: int) -> None:
    """Open a session; the caller already holds its lock file. Sent again, it stays as it is."""
    check_not_ended(db, process.id)
    db.execute(
        "INSERT OR IGNORE INTO session (process, pid, host, version, parent, entered, kinds, queues, boot, pids)"
        " VALUES (?,?,?,?,?,?,?,?,?,?)",
        (
            process.id, process.pid, process.host, process.version, process.parent, now,
            _names(process.kinds), _names(process.queues), process.boot, process.pids,
        ),
    )  # fmt: skip
    if db.changes() and process.kinds != ():
        db.execute("UPDATE store SET starts = starts + 1")


def _names(names: tuple[str, ...] | None) -> str | None:
    return None if names is None else msgspec.json.encode(names).decode()


def check_not_ended(db: Db, process: int) -> None:
    """Refuse an incarnation whose session is over; one that never entered may come in."""
    if db.execute("SELECT 1 FROM session WHERE process = ? AND gone_at IS NOT NULL", (process,)).fetchone():
        raise Reaped(f"process {process:x} was reaped or has left; an incarnation enters once")


def is_gone(db: Db, process: int) -> bool:
    """Return whether a session has ended, or never began."""
    row = db.execute("SELECT gone_at FROM session WHERE process = ?", (process,)).fetchone()
    return row is None or row[0] is not None


def is_draining(db: Db, process: int) -> bool | None:
    """Return whether a process was asked to leave; None when its session has ended, or never began."""
    row = db.execute("SELECT draining, gone_at FROM session WHERE process = ?", (process,)).fetchone()
    return None if row is None or row[1] is not None else row[0] is not None


def drain(db: Db, process: int, said: Said) -> bool:
    """Note that a process is to leave; False when its session has ended, or never began."""
    told = msgspec.json.encode(storable_said(said)).decode()
    db.execute(
        "UPDATE session SET draining = ifnull(draining, ?) WHERE process = ? AND gone_at IS NULL", (told, process)
    )
    return db.changes() > 0


class Other(NamedTuple):
    """A session that has not ended; whether its `parent` lives can be asked for only where its process id means it."""

    process: int
    parent: int | None
    is_seen: bool


def others(db: Db, process: int) -> list[Other]:
    """The sessions that have not ended, but for one."""
    found = db.execute(
        "SELECT process, parent, host, boot, pids FROM session WHERE gone_at IS NULL AND process <> ?", (process,)
    )
    return [Other(number, parent, here.sees(*place)) for number, parent, *place in found.fetchall()]


def peers(db: Db) -> int:
    """How many sessions have not ended."""
    return int(db.execute("SELECT count(*) FROM session INDEXED BY living WHERE gone_at IS NULL").fetchall()[0][0])


def known(db: Db) -> set[int]:
    """Every process that has a session."""
    return {number for (number,) in db.execute("SELECT process FROM session").fetchall()}


def reap(link: Link, liveness: Liveness, process: int, dead_after: float, now: Callable[[], int]) -> Reap:
    """Bury the dead. Suspicion comes from a read; the verdict from a second look inside the transaction."""
    with link.read() as db:
        if is_gone(db, process):
            raise Reaped(f"process {process:x} was reaped or never entered; it cannot reap others")
        suspects = [
            other.process
            for other in others(db, process)
            if liveness.judge(process, other.process, dead_after) and not liveness.is_left_to(*other)
        ]
    clean = liveness.clean_window(process, dead_after)
    if not suspects:
        return Reap(clean_window=clean)
    buried, tasks = list[int](), 0
    with link.write() as db:
        for number in suspects:
            dead = liveness.judge(process, number, dead_after)
            if dead is not None and not is_gone(db, number):
                death = death_of(liveness.folder, number) if dead.same_boot else NOBODYS_FAULT
                tasks += bury(SqliteTables(db), number, death, now())
                buried.append(number)
    liveness.forget(*buried)
    return Reap(tuple(buried), tasks, clean)


def vacuum(link: Link, liveness: Liveness, limit: int, spare: float, now: Callable[[], int]) -> Vacuumed:
    """Remove what nobody can reach, files of processes without a session included, and give file space back."""
    with link.write() as db:
        removed, sessions = _vacuum(db, now(), limit, spare)
        left = known(db)
        # Before the sessions: without one, what a lock file says was committed would seem to be lost.
        liveness.forget(*sessions)
    liveness.forget(*set(liveness.known()) - left)
    return removed


def _vacuum(db: Db, now: int, limit: int, spare: float) -> tuple[Vacuumed, list[int]]:
    """The rows that were removed, and whose sessions were."""
    tasks, keys = _remove_garbage(db, limit), _remove_expired(db, now, limit)
    # They ended long ago: nothing can name them any more.
    old = (now - SESSION_SECONDS * SECOND,)
    gone = [number for (number,) in db.execute("DELETE FROM session WHERE gone_at < ? RETURNING process", old)]
    ours, published = values.remove_expired(db, now, limit), topics.remove_expired(db, now, limit)
    return Vacuumed(tasks, keys, len(gone), _give_back(db, limit, spare), ours, published), gone


def _give_back(db: Db, limit: int, spare: float) -> int:
    """Give up to `limit` free pages to the file system, but for a share of all pages; the bytes that went."""
    size, pages, free = (_pragma(db, what) for what in ("page_size", "page_count", "freelist_count"))
    if (many := min(limit, free - int(spare * pages))) <= 0:
        return 0
    db.execute(f"PRAGMA incremental_vacuum({many})").fetchall()
    return size * (pages - _pragma(db, "page_count"))


def _pragma(db: Db, what: str) -> int:
    return int(db.execute(f"PRAGMA {what}").fetchone()[0])


def _remove_garbage(db: Db, limit: int) -> int:
    """Remove up to `limit` unpublished rows that nobody will publish."""
    removed = 0
    for row in rows.segments(db, "INDEXED BY garbage WHERE state = 5 ORDER BY first", ()):
        size = min(row.count, limit - removed)
        removed += size
        last = row.last - size
        db.execute("DELETE FROM task WHERE id BETWEEN ? AND ?", (last + 1, row.last))
        if last < row.first:
            db.execute("DELETE FROM span WHERE first = ?", (row.span,))
            db.execute("DELETE FROM segment WHERE id = ?", (row.id,))
            continue
        db.execute("UPDATE span SET last = ? WHERE first = ?", (last, row.span))
        db.execute("UPDATE segment SET last = ? WHERE id = ?", (last, row.id))
        break
    return removed


def _remove_expired(db: Db, now: int, limit: int) -> int:
    """Remove keys whose time is over."""
    db.execute(
        "DELETE FROM key WHERE digest IN (SELECT digest FROM key INDEXED BY key_expires"
        " WHERE expires IS NOT NULL AND expires <= ? ORDER BY expires, digest LIMIT ?)",
        (now, limit),
    )
    return db.changes()
