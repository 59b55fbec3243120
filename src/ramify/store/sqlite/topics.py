"""Topics in the SQLite store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import apsw

from ramify.model.topic import Publication, StoredPublication, TopicNumbers, by_topic
from ramify.store.sqlite.bulk import CUT, LENGTH, fixed_width
from ramify.store.sqlite.file.db import Db

#: Take the next numbers of a topic, at a time that is not before those before.
TAKE = """INSERT INTO topic (name, last, at) VALUES (?1, ?2, ?3)
    ON CONFLICT (name) DO UPDATE SET last = last + ?2, at = max(at, ?3) RETURNING id, last, at"""
PUBLISH = "INSERT INTO publication VALUES (?, ?, CAST(? AS TEXT), ?, ?, ?, ?)"
#: Many at once, which are kept for one time: tasks go along as a column of fixed width, keys in front of the values.
PUBLISH_ALL = (
    f"INSERT INTO publication SELECT ?2, ?3 + rowid, CAST({{value}} AS TEXT), {{key}}, ?4, ?5, nullif({CUT}, 0)"
    " FROM carray(?6)"
)
_KEY = f"CAST(substr(value, 1, {LENGTH}) AS INTEGER)"
KEYLESS = PUBLISH_ALL.format(value="value", key="NULL")
KEYED = PUBLISH_ALL.format(
    value=f"substr(value, {LENGTH + 1} + {_KEY})", key=f"CAST(substr(value, {LENGTH + 1}, {_KEY}) AS TEXT)"
)
#: Fewer than that are bound one by one.
MANY_PUBLICATIONS = 8
PAGE = (
    "SELECT name, number, CAST(value AS BLOB), key, publication.at, expires, task FROM topic CROSS JOIN publication"
    " ON topic = id WHERE name = ? AND number > ? ORDER BY number LIMIT ?"
)
TOPICS = (
    "SELECT name, ifnull((SELECT min(number) FROM publication WHERE topic = id), last + 1), last FROM topic"
    " WHERE name >= ? AND name <> ? AND name < ? ORDER BY name LIMIT ?"
)
EXPIRED = (
    "DELETE FROM publication WHERE (topic, number) IN (SELECT topic, number"
    " FROM publication INDEXED BY publication_expires CROSS JOIN topic ON id = topic"
    " WHERE expires IS NOT NULL AND expires <= ? ORDER BY expires, name, number LIMIT ?)"
)


def write(db: Db, publications: Iterable[Publication], now: int) -> None:
    """Give publications the next numbers of their topics."""
    for name, some in by_topic(publications):
        ((topic, last, at),) = db.execute(TAKE, (name, len(some), now)).fetchall()
        _insert(db, topic, last - len(some), at, some)


def _insert(db: Db, topic: int, before: int, at: int, some: Sequence[Publication]) -> None:
    """Add publications of a topic under the numbers after one."""
    keeps = {new.keep for new in some}
    keyless = sum(new.key is None for new in some)
    if len(some) < MANY_PUBLICATIONS or len(keeps) > 1 or 0 < keyless < len(some):
        numbered = enumerate(some, before + 1)
        expires = ((number, new, None if new.keep is None else at + new.keep) for number, new in numbered)
        db.executemany(PUBLISH, [(topic, n, new.value, new.key, at, end, new.task) for n, new, end in expires])
        return
    keep, tasks = keeps.pop(), fixed_width([new.task for new in some])
    statement, values = KEYLESS, [new.value for new in some]
    if not keyless:
        keys = [(new.key or "").encode() for new in some]
        pack = (b"%%0%dd%%b%%b" % LENGTH).__mod__
        statement, values = KEYED, list(map(pack, zip(map(len, keys), keys, values, strict=True)))
    column = apsw.carray(tuple(values))
    db.execute(statement, (tasks, topic, before, at, None if keep is None else at + keep, column))


def publications(db: Db, topic: str, after: int, limit: int) -> list[StoredPublication]:
    """Publications of a topic that come after a number."""
    return [StoredPublication(*row) for row in db.execute(PAGE, (topic, after, limit)).fetchall()]


def page(db: Db, prefix: str, after: str, limit: int) -> list[TopicNumbers]:
    """Topics by name that come after one."""
    # One lower bound: where a page begins is found, not searched for.
    bound = (max(after, prefix), after, f"{prefix}\U0010ffff", limit)
    return [TopicNumbers(*row) for row in db.execute(TOPICS, bound).fetchall()]


def remove_expired(db: Db, now: int, limit: int) -> int:
    """Remove up to so many publications that have expired; how many went."""
    db.execute(EXPIRED, (now, limit))
    return db.changes()
