"""Keys that end with their tasks are released together, and those of a run that is forgotten go range by range."""

from itertools import count

import apsw

from ramify.model.event import Status
from ramify.model.key import HASH, Hold, digest, scope
from ramify.store.sqlite import once
from ramify.store.sqlite.keys import KEYS_OF, Offer, forget_run, release
from ramify.store.sqlite.rows import SqliteSpan
from ramify.store.sqlite.schema import TABLES


def test_the_keys_of_many_tasks_are_looked_up_together_and_end_as_each_task_did() -> None:
    db = apsw.Connection(":memory:")
    db.execute(TABLES)
    keys = [b"%d" % i if i % 10 else None for i in range(100)]
    span = SqliteSpan(
        1, 100, 7, 0, "walk", "default", None, 0, None, Hold.UNIQUE, 60, None, 0, True, False, False, False, True
    )
    db.executemany("INSERT INTO task (id, body, key) VALUES (?, '[]', ?)", zip(count(1), keys, strict=False))
    Offer(db, span, keys, now=1_000).take(range(1, 101))
    asked: list[str] = []
    db.trace_v2(apsw.SQLITE_TRACE_PROFILE, lambda event: asked.append(event["sql"]))
    ended = {task: Status.DONE if task % 2 else Status.FAILED for task in range(1, 81)}
    release(db, span, ended.items(), now=1_000)
    assert [sql for sql in asked if sql.startswith("SELECT")] == [KEYS_OF]
    names = {task: digest(Hold.UNIQUE, 7, "walk", key) for task, key in enumerate(keys, 1) if key is not None}
    kept = {name: None if task > 80 else 1_060 for task, name in names.items() if ended.get(task) is not Status.FAILED}
    assert dict(db.execute("SELECT digest, expires FROM key")) == kept
    db.close()


def test_the_keys_of_a_forgotten_run_go_range_by_range_and_those_of_its_neighbours_stay() -> None:
    db = apsw.Connection(":memory:")
    db.execute(TABLES)
    for run in (6, 7, 8):
        span = SqliteSpan(
            1, 100, run, 0, "walk", "default", None, 0, None, Hold.ONCE, 0, None, 0, True, False, False, False, True
        )
        Offer(db, span, [b"%d" % i for i in range(100)], now=1_000).take(range(1, 101))
        db.execute("INSERT INTO label VALUES (?, ?)", (digest(Hold.LABEL, run, "walk", b"name"), 1))
        if run == 7:
            db.execute("INSERT INTO once_1 SELECT * FROM once_0 WHERE task <= 50")
            db.execute("DELETE FROM once_0 WHERE task <= 50")
            db.execute("UPDATE once_sizes SET first = 100, second = 100")
    assert left(db) == {6: 101, 7: 101, 8: 101}
    forget_run(db, 7, 30)
    assert left(db) == {6: 101, 7: 70, 8: 101}
    forget_run(db, 7, -1)
    assert left(db) == {6: 101, 8: 101}
    held = "(SELECT count(*) FROM once_0), (SELECT count(*) FROM once_1)"
    assert db.execute(f"SELECT (first, second) = ({held}) FROM once_sizes").fetchall() == [(1,)]
    db.close()


def left(db: apsw.Connection) -> dict[int, int]:
    """How many keys and labels there are of each run."""
    tables = (*once.TABLES, "label")
    found = [name[:-HASH] for table in tables for (name,) in db.execute(f"SELECT digest FROM {table}")]
    return {run: found.count(scope(Hold.ONCE, run)) for run in (6, 7, 8) if scope(Hold.ONCE, run) in found}
