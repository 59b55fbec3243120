"""Topics in the SQLite store."""

from __future__ import annotations

from collections.abc import Iterable

from ramify.model.topic import Publication, StoredPublication, Topic, by_topic
from ramify.store.sqlite.file.db import Db

#: Take the next numbers of a topic, at a time that is not before those before.
TAKE = """INSERT INTO topic (name, last, at) VALUES (?1, ?2, ?3)
    ON CONFLICT (name) DO UPDATE SET last = last + ?2, at = max(at, ?3) RETURNING id, last, at"""
PUBLISH = "INSERT INTO publication VALUES (?, ?, CAST(? AS TEXT), ?, ?, ?, ?)"
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
        stored = (new.stored(number, at) for number, new in enumerate(some, last - len(some) + 1))
        db.executemany(PUBLISH, [(topic, s.number, s.value, s.key, s.at, s.expires, s.task) for s in stored])


def publications(db: Db, topic: str, after: int, limit: int) -> list[StoredPublication]:
    """Publications of a topic that come after a number."""
    return [StoredPublication(*row) for row in db.execute(PAGE, (topic, after, limit)).fetchall()]


def page(db: Db, prefix: str, after: str, limit: int) -> list[Topic]:
    """Topics by name that come after one."""
    # One lower bound: where a page begins is found, not searched for.
    bound = (max(after, prefix), after, f"{prefix}\U0010ffff", limit)
    return [Topic(*row) for row in db.execute(TOPICS, bound).fetchall()]


def remove_expired(db: Db, now: int, limit: int) -> int:
    """Remove up to so many publications that have expired; how many went."""
    db.execute(EXPIRED, (now, limit))
    return db.changes()
