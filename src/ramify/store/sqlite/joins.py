"""Joins in the SQLite store: arrivals, firing, and setting a join back. See the reference store for the rules."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ramify.model.event import Status
from ramify.model.join import PART_SLOTS, NewJoin, NewWaiter, part_sizes
from ramify.model.links import check_links
from ramify.model.segment import SegmentState, full, mask_of, trim, unpack
from ramify.model.task import NewTasks
from ramify.store.sqlite import rows
from ramify.store.sqlite.db import Db

Arrival = tuple[int, int, bool]
EMPTY = b"\0"


def check(db: Db, groups: Sequence[NewTasks], new_joins: Sequence[NewJoin], waiters: Sequence[NewWaiter]) -> None:
    """Refuse links that do not fit."""

    def sizes_of(join: int) -> list[int] | None:
        sizes = db.execute("SELECT size FROM join_part WHERE id = ? ORDER BY number", (join,)).fetchall()
        known = sizes or db.execute("SELECT 1 FROM joins WHERE id = ?", (join,)).fetchone()
        return [size for (size,) in sizes] if known else None

    def has_task(task: int) -> bool:
        span = rows.span_of(db, task)
        return span is not None and span.published

    check_links(groups, new_joins, waiters, sizes_of=sizes_of, has_task=has_task)


def create(db: Db, run: int, joins: Iterable[NewJoin]) -> None:
    """Write join rows; `settle` afterwards fires the ones that need nobody."""
    for new in joins:
        sizes = part_sizes(new.needs)
        outer_join, outer_slot = new.outer or (None, None)
        db.execute(
            "INSERT INTO joins VALUES (?,?,?,?,?,?,?,0,1,0)",
            (new.id, run, new.needs, new.task, outer_join, outer_slot, len(sizes)),
        )
        _add_parts(db, new.id, 0, sizes)


def _add_parts(db: Db, join: int, number: int, sizes: list[int]) -> None:
    db.executemany(
        "INSERT INTO join_part VALUES (?,?,?,?,?)",
        [(join, number + i, size, EMPTY, EMPTY) for i, size in enumerate(sizes)],
    )


def add_slots(db: Db, join: int, count: int) -> int:
    """New slots for members named late; the first of them. They start a part of their own, so no full part reopens."""
    (parts,) = db.execute("SELECT parts FROM joins WHERE id = ?", (join,)).fetchall()[0]
    sizes = part_sizes(count)
    _add_parts(db, join, parts, sizes)
    db.execute("UPDATE joins SET parts = parts + ?, needs = needs + ? WHERE id = ?", (len(sizes), count, join))
    return int(parts) * PART_SLOTS


def wait_for(db: Db, task: int, join: int, slot: int) -> list[Arrival]:
    """Make the end of `task` an arrival; if it has ended, that is the arrival now."""
    db.execute("INSERT OR IGNORE INTO waiter VALUES (?,?,?)", (task, join, slot))
    ended = ending(db, task)
    return [] if ended is None else [(join, slot, ended is not Status.DONE)]


def ending(db: Db, task: int) -> Status | None:
    """How a task ended, sweeps included; None while it is unfinished. A sweep ends the life that was present then."""
    row = db.execute("SELECT status, seq FROM event WHERE task = ? ORDER BY n DESC LIMIT 1", (task,)).fetchone()
    if row is not None and Status(row[0]).is_end:
        return Status(row[0])
    return Status.CANCELLED if _is_swept(db, task, row[1] if row is not None else 0) else None


def _is_swept(db: Db, task: int, since: int) -> bool:
    span = rows.span_of(db, task)
    if span is None:
        return False
    found = db.execute(
        "SELECT first, mask FROM sweep WHERE run = ? AND first <= ?2 AND last >= ?2 AND seq > ?",
        (span.run, task, since),
    )
    return any(mask is None or unpack(mask) >> (task - first) & 1 for first, mask in found.fetchall())


def settle(db: Db, arrivals: Iterable[Arrival], created: Iterable[NewJoin], run: int, round: int) -> None:
    """Set the bits of the arrivals, pass full joins on to outer ones, and publish the tasks of those that fired."""
    queue = list(arrivals)
    firing = deque(new.id for new in created if new.needs == 0)
    fired: list[int] = []
    while queue or firing:
        if queue:
            firing.extend(_arrive(db, queue))
            queue = []
            continue
        join = firing.popleft()
        task, outer_join, outer_slot = db.execute(
            "UPDATE joins SET fired = 1 WHERE id = ? RETURNING task, outer_join, outer_slot", (join,)
        ).fetchall()[0]
        if outer_join is not None:
            queue.append((outer_join, outer_slot, _is_broken(db, join)))
        if task is not None:
            fired.append(task)
    if fired:
        _publish(db, fired, run, round)


def _is_broken(db: Db, join: int) -> bool:
    return any(unpack(broken) for (broken,) in db.execute("SELECT broken FROM join_part WHERE id = ?", (join,)))


def _arrive(db: Db, arrivals: list[Arrival]) -> list[int]:
    """Set bits, one update per part; the joins that became full and had not fired. A bit set twice counts once."""
    parts: dict[tuple[int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    first_arrivals = {(join, slot): broken for join, slot, broken in reversed(arrivals)}
    for (join, slot), broken in first_arrivals.items():
        bits, bad = parts[join, slot // PART_SLOTS]
        bits.append(slot % PART_SLOTS)
        if broken:
            bad.append(slot % PART_SLOTS)
    filled: dict[int, int] = defaultdict(int)
    for (join, number), (bits, bad) in sorted(parts.items()):
        row = db.execute(
            "SELECT size, arrived, broken FROM join_part WHERE id = ? AND number = ?", (join, number)
        ).fetchone()
        if row is None:
            continue
        size, before, broken_before = row[0], unpack(row[1]) or 0, unpack(row[2]) or 0
        after = before | _bits(bits)
        # A slot that had arrived keeps how it arrived the first time.
        broken_after = broken_before | (_bits(bad) & ~before)
        if after != before:
            db.execute(
                "UPDATE join_part SET arrived = ?, broken = ? WHERE id = ? AND number = ?",
                (_blob(after), _blob(broken_after), join, number),
            )
            filled[join] += after.bit_count() == size
    full_now: list[int] = []
    for join, more in filled.items():
        if more:
            answer = db.execute(
                "UPDATE joins SET filled = filled + ? WHERE id = ? RETURNING filled = parts AND NOT fired", (more, join)
            ).fetchall()
            full_now += [join] if answer[0][0] else []
    return full_now


def _bits(slots: list[int]) -> int:
    return mask_of(slots, 0)


def _blob(mask: int) -> bytes:
    return mask.to_bytes((mask.bit_length() + 7) // 8 or 1, "little")


def _publish(db: Db, tasks: list[int], run: int, round: int) -> None:
    waiting: dict[int, tuple[rows.SegmentRow, list[int]]] = {}
    for task in sorted(tasks):
        row = rows.covering(db, task)
        if row is not None and row.state is SegmentState.WAITING:
            waiting.setdefault(row.id, (row, []))[1].append(task)
    for row, members in waiting.values():
        owner = rows.run_row(db, row.run)
        at = round if row.run == run else owner.round + 1
        take_out(db, row, members)
        first, last, left = trim(row.first, mask_of(members, row.first))
        replace(row, round=at, first=first, last=last, left=left, due=None, state=rows.state_for(owner, at)).insert(db)


def take_out(db: Db, row: rows.SegmentRow, tasks: list[int]) -> None:
    """Clear the bits of `tasks`; the row goes when nothing is left of it."""
    left = full(row.last - row.first + 1) if row.left is None else row.left
    rows.set_left(db, row, left & ~mask_of(tasks, row.first))


def set_back(db: Db, join: int, slots: Iterable[int], *, anew: bool) -> None:
    """Forget the arrivals in `slots`; `anew` makes the fired join a new instance that will fire again."""
    parts: dict[int, list[int]] = defaultdict(list)
    for slot in slots:
        parts[slot // PART_SLOTS].append(slot % PART_SLOTS)
    for number, bits in parts.items():
        row = db.execute(
            "SELECT size, arrived, broken FROM join_part WHERE id = ? AND number = ?", (join, number)
        ).fetchone()
        if row is None:
            continue
        before, broken = unpack(row[1]) or 0, unpack(row[2]) or 0
        keep = ~_bits(bits)
        db.execute(
            "UPDATE join_part SET arrived = ?, broken = ? WHERE id = ? AND number = ?",
            (_blob(before & keep), _blob(broken & keep), join, number),
        )
        if before.bit_count() == row[0] and before & ~keep:
            db.execute("UPDATE joins SET filled = filled - 1 WHERE id = ?", (join,))
    if anew:
        db.execute("UPDATE joins SET fired = 0, instance = instance + 1 WHERE id = ?", (join,))
