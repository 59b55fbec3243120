"""The contender nobody should want: a queue in SQLite with one mutable row a task.

Select what is pending, set it to running, run it, insert the children, set it to done. Each form has apsw and the same
SQLite, WAL, a large cache, claims by one `UPDATE … RETURNING`, children and end in one transaction. Durability is that
of `store/sqlite-core`: fsync per commit.

`store/mutable-rows`         one task at a time, two transactions each, as most row queues work. A row names its owner,
                             its attempt and its times, without which nobody could find what a dead worker left; an
                             index on the status, without which nobody could count or list.
`store/mutable-rows-100`     the same, 100 tasks at a time
`store/mutable-rows-bare`    100 at a time and stripped of all that: status, arguments, an index of pending rows only.
                             It cannot recover, count or share, and shows what those cost.
`store/mutable-rows-growth`  100 at a time over the chains of `growth.py`, the last fifth against the first

They run on smaller trees than the race, and so do the deque and `sqlite-core` they are compared with in the same turns;
a small tree is not where segments do best. None of them has tokens, rounds, counters or a history.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import apsw

from bench import deque
from bench.contest import hold, say
from bench.figure import Figure, Setting, Suite
from bench.growth import chains, fifths, fifths_figure
from bench.race import sqlite_core
from bench.scratch import KEEPS, bytes_of, folder_in
from bench.tree import Work, decode, encode, tree
from ramify.model.process import new_process_id

ONE, HUNDRED, BARE = "store/mutable-rows", "store/mutable-rows-100", "store/mutable-rows-bare"
GROWTH = "store/mutable-rows-growth"
GROWTH_TASKS = 500_000
REPEAT = 3

OPEN = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536;"
PENDING = "SELECT id FROM task WHERE status = 0 ORDER BY id LIMIT :batch"
ADD = "INSERT INTO task (parent, body) VALUES (?, ?)"
LEFT = "SELECT count(*) FILTER (WHERE status = 2), count(*) FROM task"


@dataclass(frozen=True)
class Form:
    """One way to write such a queue, how many tasks it takes at a time, and its share of the full tree."""

    schema: str
    claim: str
    end: str
    batch: int
    share: float


USUAL_SCHEMA = """
CREATE TABLE task (
    id INTEGER PRIMARY KEY, parent INTEGER, body BLOB NOT NULL, status INTEGER NOT NULL DEFAULT 0,
    attempt INTEGER NOT NULL DEFAULT 0, owner INTEGER, started INTEGER, ended INTEGER
);
CREATE INDEX task_status ON task (status, id);
"""
USUAL_CLAIM = f"""
UPDATE task SET status = 1, attempt = attempt + 1, owner = :owner, started = :now WHERE id IN ({PENDING})
RETURNING id, body
"""
USUAL_END = "UPDATE task SET status = 2, ended = :now WHERE id = :id AND owner = :owner"
BARE_SCHEMA = """
CREATE TABLE task (id INTEGER PRIMARY KEY, parent INTEGER, body BLOB NOT NULL, status INTEGER NOT NULL DEFAULT 0);
CREATE INDEX task_pending ON task (id) WHERE status = 0;
"""
BARE_CLAIM = f"UPDATE task SET status = 1 WHERE id IN ({PENDING}) RETURNING id, body"
BARE_END = "UPDATE task SET status = 2 WHERE id = :id"

FORMS = {
    ONE: Form(USUAL_SCHEMA, USUAL_CLAIM, USUAL_END, 1, 0.01),
    HUNDRED: Form(USUAL_SCHEMA, USUAL_CLAIM, USUAL_END, 100, 0.1),
    BARE: Form(BARE_SCHEMA, BARE_CLAIM, BARE_END, 100, 0.1),
}

Steps = list[tuple[int, float]]
Rows = list[tuple[int, bytes]]


def drain(path: Path, work: Work, form: Form, seconds: float = math.inf) -> tuple[float, Steps]:
    """Run the work in one file, at most so long: when it began, and (tasks done, time) after each batch."""
    connection = apsw.Connection(str(path))
    try:
        connection.execute(OPEN + form.schema).fetchall()  # apsw stops at the first row of an answer otherwise
        began = time.monotonic()
        connection.execute(ADD, (None, encode(work.root)))
        steps = _loop(connection, work, form, began + seconds)
        if seconds == math.inf:
            _check(connection, work)
    finally:
        connection.close()
    return began, steps


def _loop(connection: apsw.Connection, work: Work, form: Form, until: float) -> Steps:
    node, steps, done = work.node, Steps(), 0
    known = {"batch": form.batch, "owner": new_process_id(), "now": _now()}
    while rows := cast(Rows, connection.execute(form.claim, known).fetchall()):
        children = [(task, encode(child)) for task, body in rows for child in node(*decode(body))]
        known["now"] = _now()
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(ADD, children)
        connection.executemany(form.end, [{**known, "id": task} for task, _ in rows])
        connection.execute("COMMIT")
        done += len(rows)
        steps.append((done, time.monotonic()))
        if steps[-1][1] >= until:
            break
    return steps


def _now() -> int:
    return time.time_ns() // 1000


def _check(connection: apsw.Connection, work: Work) -> None:
    done, rows = next(connection.execute(LEFT))
    if done != work.count or rows != work.count:
        raise AssertionError(f"{done} of {rows} rows are done; the work has {work.count} tasks")


def rate(work: Work, folder: Path, form: Form) -> float:
    """Tasks a second."""
    with folder_in(folder) as place:
        began, steps = drain(place / "rows.db", work, form)
    return work.count / (steps[-1][1] - began)


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """Each wanted figure in a contest of its own, because their trees differ."""
    for name, form in FORMS.items():
        if name in wanted:
            yield _race(setting, name, form)
    if GROWTH in wanted:
        yield _growth(setting)


def _race(setting: Setting, name: str, form: Form) -> Figure:
    work, side = tree(setting.scale * form.share), name.removeprefix("store/")
    contenders = {
        "deque": partial(deque.run, work),
        "sqlite-core": partial(sqlite_core, work, setting.folder),
        side: partial(rate, work, setting.folder, form),
    }
    rates = hold(contenders, setting.turns(REPEAT))
    return Figure(
        name=name,
        value=rates.middle(side),
        unit="tasks/s",
        ratios={rival: rates.ratio(side, rival) for rival in ("deque", "sqlite-core")},
        durability={side: KEEPS["power"], "deque": KEEPS["none"], "sqlite-core": KEEPS["power"]},
        scale=setting.scale,
        repeat=len(rates.turns[side]),
        more={"tasks": work.count, "batch": form.batch},
    )


def _growth(setting: Setting) -> Figure:
    work, runs, sizes = chains(setting, GROWTH_TASKS), [], []
    for turn in range(setting.turns(REPEAT)):
        say(f"mutable rows, growth ({turn + 1} of {setting.turns(REPEAT)}): {work.count:,} tasks")
        with folder_in(setting.folder) as place:
            began, steps = drain(place / "rows.db", work, FORMS[HUNDRED])
            sizes.append(bytes_of(place / "rows.db") / work.count)
        runs.append(fifths(steps, began))
    return fifths_figure(setting, GROWTH, runs, sizes, KEEPS["power"])


SUITE = Suite(
    {
        ONE: "a queue of mutable rows, one task at a time, on a small tree",
        HUNDRED: "the same, 100 tasks at a time",
        BARE: "the same without owner, times and status index: it cannot recover, count or share",
        GROWTH: "a queue of mutable rows, 500 k tasks: the last fifth against the first, and bytes a task",
    },
    measure,
)
