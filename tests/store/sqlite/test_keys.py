"""Keys that end with their tasks are released together."""

from itertools import count

import apsw

from ramify.model.event import Status
from ramify.model.key import Hold, digest
from ramify.store.sqlite.keys import KEYS_OF, Offer, release
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
