"""Processes in the PostgreSQL store: sessions in the database, life in lock files of a machine's folder.

Whoever keeps its lock file in the same folder sees the death of a process at once and for certain. A folder has an id
of its own, because machines and containers may share a name, a boot and even a path. For all others a process is dead
when its session has not beaten for long enough, by the server's clock; nobody is to blame for that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from ramify.errors import Reaped
from ramify.model.death import NOBODYS_FAULT, Death
from ramify.model.deciding import storable_said
from ramify.model.decision import Said
from ramify.model.decoder import decoder
from ramify.model.policy import SECOND
from ramify.model.process import Away, NewProcess, Process, Reap
from ramify.store import here
from ramify.store.contract import SESSION_SECONDS, Vacuumed
from ramify.store.postgres import rows, topics
from ramify.store.postgres.link import ServerLink, Transaction
from ramify.store.postgres.pipe import Asked, Rows
from ramify.store.postgres.tables import PgTables
from ramify.store.presence.liveness import Dead, Liveness
from ramify.store.record import death_of, is_stopping
from ramify.store.tuples import segment_row
from ramify.store.verbs.burying import bury

SESSION = (
    "SELECT process, pid, host, entered, gone_at IS NOT NULL, last, kinds, queues, version, boot, pids, draining,"
    " parent, folder, beat FROM @session"
)
ENTER = (
    "INSERT INTO @session (process, pid, host, version, parent, entered, kinds, queues, boot, pids, folder, beat)"
    " VALUES ($1::bigint, $2::bigint, $3::bytea, $4::bytea, $5::bigint, $6::bigint, $7::bytea, $8::bytea, $9::bytea,"
    " $10::bytea, $11::text, $6::bigint) ON CONFLICT DO NOTHING RETURNING 1"
)
PEERS = "SELECT count(*) FROM @session WHERE gone_at IS NULL"
BEAT = (
    "UPDATE @session SET beat = $2::bigint WHERE process = $1::bigint AND gone_at IS NULL"
    " RETURNING draining IS NOT NULL"
)
UNSYNCED: Asked = ("SELECT set_config('synchronous_commit', 'off', true)", ())
DRAIN = (
    "UPDATE @session SET draining = coalesce(draining, $1::bytea) WHERE process = $2::bigint AND gone_at IS NULL"
    " RETURNING 1"
)
OTHERS = (
    "SELECT process, parent, folder, beat, host, boot, pids FROM @session"
    " WHERE gone_at IS NULL AND process <> $1::bigint ORDER BY process"
)
IS_GONE = "SELECT gone_at IS NOT NULL FROM @session WHERE process = $1::bigint"
#: Why a process takes nothing more that nobody asked to by `drain`.
STOPPING = Said("it is stopping")
#: A batch of lines has its places from the number of its transaction, so that a reader that stops below the oldest one
#: in flight misses none.
NOTES = (
    "INSERT INTO @note (seq, process, n, at, run, task, attempt, level, logger, text)"
    " SELECT (pg_current_xact_id()::text::bigint << 20) + row_number() OVER (), $1::bigint, x.*"
    " FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::int[], $7::int[], $8::bytea[],"
    " $9::bytea[]) AS x(n, at, run, task, attempt, level, logger, text)"
    " WHERE NOT EXISTS (SELECT 1 FROM @run WHERE id = x.run AND state = 'forgotten')"
    " ON CONFLICT (process, n) DO NOTHING"
)
GARBAGE = f"{rows.SEGMENT} WHERE state = 5 ORDER BY first LIMIT $1::bigint FOR UPDATE SKIP LOCKED"
EXPIRED_KEYS = (
    "DELETE FROM @key WHERE digest = ANY(ARRAY(SELECT digest FROM @key WHERE expires IS NOT NULL"
    " AND expires <= $1::bigint ORDER BY expires, digest LIMIT $2::bigint)) AND expires <= $1::bigint RETURNING 1"
)
EXPIRED_VALUES = (
    "DELETE FROM @value WHERE (space, name) IN (SELECT space, name FROM @value WHERE expires IS NOT NULL"
    " AND expires <= $1::bigint ORDER BY expires, space, name LIMIT $2::bigint) AND expires <= $1::bigint RETURNING 1"
)
OLD_SESSIONS = "DELETE FROM @session WHERE gone_at < $1::bigint RETURNING process"
_said, _texts = decoder(Said), decoder(tuple[str, ...])


def read_process(row: tuple[Any, ...], liveness: Liveness, folder: str, now: int) -> Process:
    """A process from a row of `SESSION` and, if its files are here, from them; times become ages."""
    number, pid, host, entered, gone, last, kinds, queues, version, boot, pids, draining, parent, there, beat = row
    said = None if draining is None else _said.decode(draining)
    told = liveness.alive(number) if there == folder else None
    if told is not None and said is None and is_stopping(liveness.folder, number):
        said = STOPPING
    known, served = (None if names is None else _texts.decode(names) for names in (kinds, queues))
    process = Process(
        number, pid, host.decode(), entered, None, gone, last, known, served, version.decode(), boot=boot.decode(),
        pids=pids.decode(), draining=said, parent=parent,
    )  # fmt: skip
    if there != folder:
        return process if gone else replace(process, beat_age=max(0, now - beat) / SECOND)
    if told is None:
        return process
    return replace(
        process,
        beat_age=liveness.age(told.beat),
        away=None if told.away is None else Away(liveness.age(told.away), told.why),
        durability=told.durability,
    )


def enter(db: Transaction, process: NewProcess, folder: str, now: int) -> int:
    """Open a session; the caller already holds its lock file. Sent again, it stays as it is; how many peers it has."""
    check_not_ended(db, process.id)
    is_new = db.ask(
        ENTER, process.id, process.pid, process.host.encode(), process.version.encode(), process.parent, now,
        _names(process.kinds), _names(process.queues), process.boot.encode(), process.pids.encode(), folder,
    )  # fmt: skip
    if is_new and process.kinds != ():
        db.later("UPDATE @store SET starts = starts + 1")
    return int(db.ask(PEERS)[0][0])


def _names(names: tuple[str, ...] | None) -> bytes | None:
    return None if names is None else msgspec.json.encode(names)


def check_not_ended(db: Transaction, process: int) -> None:
    """Refuse an incarnation whose session is over; one that never entered may come in."""
    if any(gone for (gone,) in db.ask(IS_GONE, process)):
        raise Reaped(f"process {process:x} was reaped or has left; an incarnation enters once")


def is_gone(found: Rows) -> bool:
    """Return whether a session has ended, or never began, from what `IS_GONE` found."""
    return not found or bool(found[0][0])


def drain(db: Transaction, process: int, said: Said) -> bool:
    """Note that a process is to leave; False when its session has ended, or never began."""
    return bool(db.ask(DRAIN, msgspec.json.encode(storable_said(said)), process))


class OtherSession(NamedTuple):
    """A session that has not ended; whether its `parent` lives can be asked for only where its process id means it."""

    process: int
    parent: int | None
    folder: str
    beat: int
    is_seen: bool


def others(found: Rows) -> list[OtherSession]:
    """The sessions that have not ended, but for one, from what `OTHERS` found."""
    return [
        OtherSession(number, parent, folder, beat, here.sees(host.decode(), boot.decode(), pids.decode()))
        for number, parent, folder, beat, host, boot, pids in found
    ]


def judge(
    other: OtherSession, liveness: Liveness, folder: str, reaper: int, dead_after: float, now: int
) -> Dead | None:
    """Return whether a process is dead: by its lock file where that can be seen, else by its silence."""
    if other.folder == folder:
        return liveness.judge(reaper, other.process, dead_after)
    is_silent = now - other.beat > dead_after * SECOND
    return Dead(same_boot=False) if is_silent and liveness.clean_window(reaper, dead_after) else None


def reap(
    link: ServerLink, liveness: Liveness, folder: str, process: int, dead_after: float, now: Callable[[], int]
) -> Reap:
    """Bury the dead. Suspicion comes from a read; the verdict from a second look inside each one's transaction."""
    gone, found = link.alone((IS_GONE, (process,)), (OTHERS, (process,)))
    if is_gone(gone):
        raise Reaped(f"process {process:x} was reaped or never entered; it cannot reap others")
    suspects = [
        other
        for other in others(found)
        if judge(other, liveness, folder, process, dead_after, now())
        and not (other.folder == folder and liveness.is_left_to(other.process, other.parent, other.is_seen))
    ]
    clean = liveness.clean_window(process, dead_after)
    buried, tasks = list[int](), 0

    def one(db: Transaction, suspect: OtherSession) -> int | None:
        # Locked: a beat that comes meanwhile is seen, or comes too late.
        again = db.ask(f"{OTHERS.replace('<>', '=')} FOR NO KEY UPDATE", suspect.process)
        for other in others(again):
            dead = judge(other, liveness, folder, process, dead_after, now())
            if dead is not None:
                here_now = other.folder == folder and dead.same_boot
                death: Death = death_of(liveness.folder, other.process) if here_now else NOBODYS_FAULT
                return bury(PgTables(db, writes=True), other.process, death, now())
        return None

    for suspect in suspects:
        many, _ = link.write(lambda db, suspect=suspect: one(db, suspect))  # type: ignore[misc]
        if many is not None:
            buried.append(suspect.process)
            tasks += many
    liveness.forget(*buried)
    return Reap(tuple(buried), tasks, clean)


def note_asked(process: int, lines: list[tuple[Any, ...]]) -> list[Asked]:
    """Return what keeps lines."""
    return [(NOTES, (process, *map(list, zip(*lines, strict=True))))] if lines else []


def vacuum(link: ServerLink, liveness: Liveness, limit: int, now: int) -> Vacuumed:
    """Remove what nobody can reach, files of processes without a session included. Space is the server's own care."""

    def remove(db: Transaction) -> tuple[Vacuumed, list[int]]:
        tasks = _remove_garbage(db, limit)
        expired, values, published, gone = db.trip(
            [
                (EXPIRED_KEYS, (now, limit)),
                (EXPIRED_VALUES, (now, limit)),
                (topics.EXPIRED, (now, limit)),
                (OLD_SESSIONS, (now - SESSION_SECONDS * SECOND,)),
            ]
        )
        removed = Vacuumed(tasks, len(expired), len(gone), 0, len(values), len(published))
        return removed, [number for (number,) in gone]

    (removed, gone), _ = link.write(remove)
    liveness.forget(*gone)
    (known,) = link.alone(("SELECT process FROM @session", ()))
    liveness.forget(*set(liveness.known()) - {number for (number,) in known})
    return removed


def _remove_garbage(db: Transaction, limit: int) -> int:
    """Remove up to `limit` unpublished rows that nobody will publish."""
    removed = 0
    for row in map(segment_row, db.ask(GARBAGE, limit)):
        size = min(row.count, limit - removed)
        if not size:
            break
        removed += size
        last = row.last - size
        db.later("DELETE FROM @task WHERE id BETWEEN $1::bigint AND $2::bigint", last + 1, row.last)
        if last < row.first:
            db.later("DELETE FROM @span WHERE first = $1::bigint", row.span)
            db.later("DELETE FROM @segment WHERE id = $1::bigint", row.id)
            continue
        db.later("UPDATE @span SET last = $1::bigint WHERE first = $2::bigint", last, row.span)
        db.later("UPDATE @segment SET last = $1::bigint WHERE id = $2::bigint", last, row.id)
    return removed
