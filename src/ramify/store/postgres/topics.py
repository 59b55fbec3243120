"""Topics in the PostgreSQL store.

Whoever publishes has the row of the last number until the end of the transaction, so numbers follow the order of
commits, and a reader sees no number before those below it. The row is taken last of all: who has it waits for nobody
but those who have a topic that comes before in name order.
"""

from __future__ import annotations

from collections.abc import Iterable

from ramify.model.topic import Publication, StoredPublication, TopicNumbers, by_topic
from ramify.store.postgres.link import Transaction

#: Take the next numbers of a topic, at a time that is not before those before, and publish under them.
PUBLISH = (
    "WITH taken AS (INSERT INTO @topic AS t (name, last, at) VALUES ($1::text, $2::bigint, $3::bigint)"
    " ON CONFLICT (name) DO UPDATE SET last = t.last + excluded.last, at = greatest(t.at, excluded.at)"
    " RETURNING id, last, at)"
    " INSERT INTO @publication (topic, number, value, key, at, expires, task)"
    " SELECT id, last - $2::bigint + i, x.value, x.key, at, at + x.keep, x.task FROM taken CROSS JOIN"
    " unnest($4::bytea[], $5::text[], $6::bigint[], $7::bigint[]) WITH ORDINALITY AS x(value, key, keep, task, i)"
)
PAGE = (
    "SELECT name, number, value, key, p.at, expires, task FROM @topic t JOIN @publication p ON p.topic = t.id"
    " WHERE name = $1::text AND number > $2::bigint ORDER BY number LIMIT $3::bigint"
)
TOPICS = (
    "SELECT name, coalesce((SELECT min(number) FROM @publication WHERE topic = id), last + 1), last FROM @topic"
    " WHERE name >= $1::text AND name <> $2::text AND name < $3::text ORDER BY name LIMIT $4::bigint"
)
EXPIRED = """DELETE FROM @publication WHERE (topic, number) IN
    (SELECT topic, number FROM @publication JOIN @topic ON id = topic
     WHERE expires IS NOT NULL AND expires <= $1::bigint ORDER BY expires, name, number LIMIT $2::bigint) RETURNING 1"""


def write(db: Transaction, publications: Iterable[Publication], now: int) -> None:
    """Give publications the next numbers of their topics."""
    for name, some in by_topic(publications):
        columns = [[new.value for new in some], [new.key for new in some], [new.keep for new in some]]
        db.later(PUBLISH, name, len(some), now, *columns, [new.task for new in some])


def publications(db: Transaction, topic: str, after: int, limit: int) -> list[StoredPublication]:
    """Publications of a topic that come after a number."""
    return [StoredPublication(*row) for row in db.ask(PAGE, topic, after, limit)]


def page(db: Transaction, prefix: str, after: str, limit: int) -> list[TopicNumbers]:
    """Topics by name that come after one."""
    found = db.ask(TOPICS, max(after, prefix), after, f"{prefix}\U0010ffff", limit)
    return [TopicNumbers(*row) for row in found]
