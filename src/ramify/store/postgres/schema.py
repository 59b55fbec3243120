"""The tables of the PostgreSQL store, in a schema of their own, and the version check on it.

They are those of the SQLite store, where their reasons are written, with these differences. Texts that people write
may hold a NUL, which `text` cannot, so they are `bytea`; names are compared by their bytes. Keys that are held for ever
have one table. A place in the log is made of the number of its transaction, so that a tail that stops below the oldest
one in flight misses nothing. Ids come from a sequence whose increment is the block, because a sequence that is set
gives ids out twice. Publications need no place in the log: whoever gives them numbers has their topic alone. A session
has its last beat and the folder that its lock file lies in.

Rows of `segment`, `session`, `counter`, `joins` and `run` are changed all the time: room is left on their pages, so
that a change finds it beside the row, and their dead versions are removed early, because all claims walk past those.

In statements `@` stands for the schema.
"""

from __future__ import annotations

import secrets

from ramify.errors import SchemaTooNew, StoreBroken, StoreRefused
from ramify.store.postgres.pipe import Asked, Pipe, Refused

VERSION = 2
#: Ids that one number of the sequence stands for.
BLOCK = 64
#: Places in the log that one transaction has.
PLACES = 4096

_HOT = "WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500)"
_NAME = 'text COLLATE "C"'
_READY = "WHERE state = 0 AND due IS NULL AND deaths & 1 = 0"
_DUE = "WHERE state = 0 AND due IS NOT NULL AND deaths & 1 = 0"

TABLES = f"""
CREATE TABLE @store (
    id text NOT NULL, version int NOT NULL, starts bigint NOT NULL DEFAULT 0, deaths bigint NOT NULL DEFAULT 0,
    redelivered bigint NOT NULL DEFAULT 0
);
CREATE SEQUENCE @ids START 1 INCREMENT {{block}};
CREATE SEQUENCE @pulse;
CREATE FUNCTION @clock() RETURNS bigint LANGUAGE sql VOLATILE
    AS 'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint';

CREATE TABLE @session (
    process bigint PRIMARY KEY, pid bigint NOT NULL, host bytea NOT NULL, version bytea NOT NULL, parent bigint,
    entered bigint NOT NULL, last bigint NOT NULL DEFAULT 0, answer bytea, gone_at bigint,
    kinds bytea, queues bytea, boot bytea NOT NULL, pids bytea NOT NULL, draining bytea, folder text NOT NULL,
    beat bigint NOT NULL
) {_HOT};
CREATE INDEX living ON @session (process) WHERE gone_at IS NULL;

CREATE TABLE @run (
    id bigint PRIMARY KEY, name {_NAME}, generation bigint NOT NULL, shape text NOT NULL, ordering text NOT NULL,
    follows bigint, lead bigint, endless bool NOT NULL, params bytea, digest bytea, shown bytea NOT NULL,
    owner {_NAME}, max_running bigint, max_tasks bigint, deadline bigint, fails_as text NOT NULL,
    tolerates text NOT NULL, definition bytea, state text NOT NULL, round bigint NOT NULL, reason bytea,
    created bigint NOT NULL, ended bigint, since bigint NOT NULL, becomes text NOT NULL
) {_HOT};
CREATE UNIQUE INDEX run_name ON @run (name, generation) WHERE name IS NOT NULL;
CREATE INDEX run_since ON @run (since);
CREATE INDEX run_open ON @run (id) WHERE ended IS NULL;
CREATE INDEX run_unnamed ON @run (digest, owner) WHERE name IS NULL AND ended IS NULL;
CREATE INDEX run_bounded ON @run (id) WHERE max_running IS NOT NULL AND ended IS NULL;

CREATE TABLE @decision (
    run bigint NOT NULL, n bigint NOT NULL, seq bigint NOT NULL, told bytea NOT NULL, PRIMARY KEY (run, n)
);
CREATE INDEX decision_seq ON @decision (seq);

CREATE TABLE @span (
    first bigint PRIMARY KEY, last bigint NOT NULL, run bigint NOT NULL, round bigint NOT NULL, kind {_NAME} NOT NULL,
    queue {_NAME} NOT NULL, lane {_NAME}, priority bigint NOT NULL, due bigint, hold smallint NOT NULL,
    keep bigint NOT NULL, joined bigint, shift bigint NOT NULL, keyed bool NOT NULL, extra bool NOT NULL,
    laned bool NOT NULL, awaited bool NOT NULL, published bool NOT NULL, low_parent bigint, high_parent bigint,
    added bigint NOT NULL
);
CREATE INDEX span_run ON @span (run, first);
CREATE INDEX span_parents ON @span (low_parent, high_parent) WHERE low_parent IS NOT NULL;
CREATE INDEX span_far_parents ON @span (low_parent, high_parent) WHERE high_parent - low_parent >= 8192;
CREATE INDEX span_join ON @span (joined, (first + shift)) WHERE joined IS NOT NULL;

CREATE TABLE @task (
    id bigint PRIMARY KEY, parent bigint, body bytea NOT NULL, key bytea, more bytea, lane {_NAME}, added bigint
);
CREATE TABLE @event (
    task bigint NOT NULL, n int NOT NULL, seq bigint NOT NULL, status smallint NOT NULL, value bytea, took bigint,
    PRIMARY KEY (task, n)
);
CREATE INDEX event_failed ON @event (task) WHERE status IN (2, 5);
CREATE TABLE @commits (
    seq bigint PRIMARY KEY, process bigint NOT NULL, n bigint NOT NULL, at bigint NOT NULL, events bigint NOT NULL,
    ranges bytea NOT NULL
);
CREATE TABLE @sweep (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, run bigint NOT NULL, first bigint NOT NULL,
    last bigint NOT NULL, mask bytea, seq bigint NOT NULL
);
CREATE INDEX sweep_run ON @sweep (run, first);
CREATE INDEX sweep_seq ON @sweep (seq);

CREATE TABLE @segment (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, span bigint NOT NULL, run bigint NOT NULL,
    round bigint NOT NULL, kind {_NAME} NOT NULL, queue {_NAME} NOT NULL, lane {_NAME}, first bigint NOT NULL,
    last bigint NOT NULL, mask bytea, rank bigint NOT NULL, due bigint, state smallint NOT NULL,
    attempt int NOT NULL DEFAULT 0, deaths bigint NOT NULL DEFAULT 0, owner bigint, token bytea, awaits bigint,
    line {_NAME}
) {_HOT};
CREATE INDEX ready ON @segment (kind, queue, rank, id) {_READY};
CREATE INDEX ready_run ON @segment (run, kind, rank, id) {_READY};
CREATE INDEX due ON @segment (kind, queue, due, id) {_DUE};
CREATE INDEX due_at ON @segment (due) {_DUE};
CREATE INDEX awaiting ON @segment (awaits) WHERE awaits IS NOT NULL;
CREATE INDEX line ON @segment (line, state, kind, queue, rank, id) WHERE line IS NOT NULL;
CREATE INDEX head ON @segment (kind, queue) WHERE state = 0 AND line IS NOT NULL;
CREATE INDEX limited ON @segment (run, kind, queue, line, rank, id) WHERE state = 6;
CREATE INDEX running ON @segment (kind, lane) WHERE state = 3 AND line IS NOT NULL;
CREATE INDEX suspect ON @segment (rank, id) WHERE state = 0 AND deaths & 1 = 1;
CREATE INDEX gated ON @segment (run, round) WHERE state = 1;
CREATE INDEX held ON @segment (owner, run) WHERE state = 3;
CREATE INDEX fence ON @segment (token) WHERE token IS NOT NULL;
CREATE INDEX garbage ON @segment (first) WHERE state = 5;
CREATE INDEX segment_run ON @segment (run, round);
CREATE INDEX segment_first ON @segment (first);

CREATE TABLE @counter (
    run bigint NOT NULL, kind {_NAME} NOT NULL, queue {_NAME} NOT NULL, what smallint NOT NULL, slot smallint NOT NULL,
    value bigint NOT NULL, PRIMARY KEY (run, kind, queue, what, slot)
) {_HOT};
CREATE TABLE @total (
    kind {_NAME} NOT NULL, queue {_NAME} NOT NULL, what smallint NOT NULL, value bigint NOT NULL,
    PRIMARY KEY (kind, queue, what)
) {_HOT};

CREATE TABLE @key (digest bytea PRIMARY KEY, task bigint NOT NULL, expires bigint) {_HOT};
CREATE INDEX key_expires ON @key (expires, digest) WHERE expires IS NOT NULL;
CREATE TABLE @once (digest bytea PRIMARY KEY, task bigint NOT NULL);
CREATE TABLE @label (digest bytea NOT NULL, task bigint NOT NULL, PRIMARY KEY (digest, task));

CREATE TABLE @joins (
    id bigint PRIMARY KEY, run bigint NOT NULL, rule smallint NOT NULL, brings bool NOT NULL, needs bigint NOT NULL,
    parts bigint NOT NULL, filled bigint NOT NULL, instance bigint NOT NULL, fired bool NOT NULL, size int,
    arrived bigint NOT NULL, failed bigint NOT NULL, skipped bigint NOT NULL, cancelled bigint NOT NULL
) {_HOT};
CREATE INDEX joins_run ON @joins (run, id);
CREATE TABLE @join_part (
    id bigint NOT NULL, number int NOT NULL, size int NOT NULL, arrived bytea NOT NULL, failed bytea NOT NULL,
    skipped bytea NOT NULL, cancelled bytea NOT NULL, PRIMARY KEY (id, number)
) {_HOT};
CREATE TABLE @waiter (task bigint NOT NULL, id bigint NOT NULL, slot bigint NOT NULL, PRIMARY KEY (task, id, slot));
CREATE INDEX waiter_join ON @waiter (id, slot);
CREATE TABLE @behind (task bigint PRIMARY KEY, last bigint NOT NULL);

CREATE TABLE @mark (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, run bigint NOT NULL, scope smallint NOT NULL,
    task bigint, status smallint NOT NULL, reason bytea NOT NULL, value bytea, who bytea NOT NULL
);
CREATE INDEX mark_run ON @mark (run, task);

CREATE TABLE @context (
    run bigint NOT NULL, name {_NAME} NOT NULL, value bytea NOT NULL, task bigint NOT NULL, first_set bigint NOT NULL,
    last_set bigint NOT NULL, PRIMARY KEY (run, name)
);
CREATE TABLE @value (
    space {_NAME} NOT NULL, name {_NAME} NOT NULL, value bytea NOT NULL, version bigint NOT NULL, expires bigint,
    PRIMARY KEY (space, name)
) {_HOT};
CREATE INDEX value_expires ON @value (expires, space, name) WHERE expires IS NOT NULL;

CREATE TABLE @topic (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name {_NAME} NOT NULL UNIQUE, last bigint NOT NULL,
    at bigint NOT NULL
) {_HOT};
CREATE TABLE @publication (
    topic bigint NOT NULL, number bigint NOT NULL, value bytea NOT NULL, key {_NAME}, at bigint NOT NULL,
    expires bigint, task bigint, PRIMARY KEY (topic, number)
);
CREATE INDEX publication_expires ON @publication (expires) WHERE expires IS NOT NULL;

CREATE TABLE @note (
    seq bigint PRIMARY KEY, process bigint NOT NULL, n bigint NOT NULL, at bigint NOT NULL, run bigint NOT NULL,
    task bigint, attempt int NOT NULL, level int NOT NULL, logger bytea NOT NULL, text bytea NOT NULL
);
CREATE UNIQUE INDEX note_once ON @note (process, n);
CREATE INDEX note_run ON @note (run, seq);
CREATE INDEX note_task ON @note (task, seq) WHERE task IS NOT NULL;

CREATE TABLE @refusal (
    process bigint NOT NULL, n bigint NOT NULL, token bytea NOT NULL, tasks bigint NOT NULL, at bigint NOT NULL,
    PRIMARY KEY (process, n, token)
)
"""

#: The place in the log of a row: of a transaction the first is the number of it, times `PLACES`.
TRANSACTION = f"SELECT pg_current_xact_id()::text::bigint * {PLACES}"
#: All places below this one are decided.
HORIZON = f"(SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint * {PLACES})"


IS_USED = "SELECT EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = $1::text"


def found(pipe: Pipe, schema: str, *, block: int, create: bool) -> str:
    """Create the tables if they are not there, or check them; the id of the store. Two who begin at once do it once."""

    def here(text: str, *values: object) -> Asked:
        return text.replace("@", f'"{schema}".'), values

    # By rows of the catalogue: whoever made them while this waited for the lock is seen.
    known = (f"{IS_USED} AND relname = 'store')", (schema,))
    (((is_there,),),) = pipe.trip([known], once=True)
    if not is_there:
        if not create:
            raise StoreBroken(f"there is no store in schema {schema}: it was removed, or this is another database")
        lock = ("SELECT pg_advisory_xact_lock(hashtextextended($1::text, 0))", (f"ramify {schema}",))
        others = (f"{IS_USED})", (schema,))
        try:
            _, _, ((is_there,),), ((is_used,),) = pipe.trip([("BEGIN", ()), lock, known, others], once=True)
            if not is_there:
                if is_used:
                    raise StoreRefused(f"schema {schema} holds tables of another program. Name another one: ?schema=")
                made = [here(text) for text in TABLES.replace("{block}", str(block)).split(";\n") if text.strip()]
                pipe.trip(
                    [
                        (f'CREATE SCHEMA IF NOT EXISTS "{schema}"', ()),
                        *made,
                        here("INSERT INTO @store VALUES ($1::text, $2::int)", secrets.token_hex(8), VERSION),
                    ],
                    once=True,
                )
            pipe.trip([("COMMIT", ())], once=True)
        except (Refused, StoreRefused):
            pipe.trip([("ROLLBACK", ())], once=True)
            raise
    (((number, version),),) = pipe.trip([here("SELECT id, version FROM @store")], once=True)
    if version > VERSION:
        raise SchemaTooNew(
            f"schema {schema} was made by a newer Ramify (version {version}, this one knows {VERSION}). Install that "
            "version or newer"
        )
    if version < VERSION:
        raise StoreRefused(
            f"schema {schema} was made by a Ramify from before the first release (version {version}, this one knows "
            f"{VERSION}) and cannot be upgraded. Name another one: ?schema="
        )
    return str(number)
