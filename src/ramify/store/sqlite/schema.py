"""The tables of the SQLite store, and the version check that keeps an older Ramify from touching a newer file.

Small tables that change: `session`, `run`, `segment`, `counter`, `total`, `key`, `joins`, `join_part`, `behind`,
`mark`, `context`. The log, which only grows: `span`, `task`, `event`, `commits`, `sweep`, `decision`, and the keys that
are held for ever (`once.py`). Publications are logs of their own, numbered by the rows of `topic`, and go when they
expire.
What tasks logged is in `note`, which grows as well and which no verb of the work reads; its numbers are never used
twice. There are no updates of task and event rows, and no deletes but of ranges: what was never published (vacuum) and
what a person wants to be forgotten. There is no index on them but their own order, so inserts stay sequential however
long the log gets. Times are microseconds; masks are little-endian bit sets.

A span knows the lowest and the highest parent of its tasks. Those of one commit lie close together, so the few spans
that can hold the children of a task are found without an index on the tasks themselves.

Partial indexes hold exactly the rows a claim may look at: `ready` and `ready_run` what can be taken now, `due_at` and
`due` what has a due time, by that time alone and by kind, `suspect` what must run apart (its `deaths` are odd), and
`limited` what waits in lines, by runs, for claims that pass over the heads of others. A
million finished, gated or future tasks cost a claim nothing. In the same way `run_open` holds the runs that have not
ended, so that a million that have cost nothing to whoever looks for those to move on, and `awaiting` the rows that the
end of a run makes due.
"""

from __future__ import annotations

import apsw

from ramify.errors import SchemaTooNew, StoreRefused
from ramify.store.sqlite.file.db import Db

VERSION = 18
#: "Rmfy": tells our files from other SQLite databases.
APPLICATION_ID = 0x526D6679

TABLES = """
CREATE TABLE store (
    id TEXT NOT NULL, starts INTEGER NOT NULL DEFAULT 0, deaths INTEGER NOT NULL DEFAULT 0,
    redelivered INTEGER NOT NULL DEFAULT 0
);
INSERT INTO store (id) VALUES (lower(hex(randomblob(8))));

CREATE TABLE ids (next INTEGER NOT NULL);
INSERT INTO ids VALUES (1);

CREATE TABLE session (
    process INTEGER PRIMARY KEY, pid INTEGER NOT NULL, host TEXT NOT NULL, version TEXT NOT NULL, parent INTEGER,
    entered INTEGER NOT NULL, last INTEGER NOT NULL DEFAULT 0, answer BLOB, gone_at INTEGER,
    kinds TEXT, queues TEXT, boot TEXT NOT NULL, pids TEXT NOT NULL, draining TEXT
);
CREATE INDEX living ON session (gone_at) WHERE gone_at IS NULL;

CREATE TABLE run (
    id INTEGER PRIMARY KEY, name TEXT, generation INTEGER NOT NULL, shape TEXT NOT NULL, ordering TEXT NOT NULL,
    follows INTEGER, lead INTEGER, endless INTEGER NOT NULL, params BLOB, digest BLOB, shown TEXT NOT NULL,
    owner TEXT, max_running INTEGER, max_tasks INTEGER, deadline INTEGER, fails_as TEXT NOT NULL,
    tolerates TEXT NOT NULL, definition TEXT, state TEXT NOT NULL, round INTEGER NOT NULL, reason TEXT,
    created INTEGER NOT NULL, ended INTEGER, since INTEGER NOT NULL, becomes TEXT NOT NULL
);
CREATE UNIQUE INDEX run_name ON run (name, generation) WHERE name IS NOT NULL;
CREATE INDEX run_since ON run (since);
CREATE INDEX run_open ON run (state) WHERE ended IS NULL;
CREATE INDEX run_unnamed ON run (digest, owner) WHERE name IS NULL AND ended IS NULL;
CREATE INDEX run_bounded ON run (max_running) WHERE max_running IS NOT NULL AND ended IS NULL;

CREATE TABLE decision (
    run INTEGER NOT NULL, n INTEGER NOT NULL, seq INTEGER NOT NULL, told TEXT NOT NULL, PRIMARY KEY (run, n)
) WITHOUT ROWID;
CREATE INDEX decision_seq ON decision (seq);

CREATE TABLE span (
    first INTEGER PRIMARY KEY, last INTEGER NOT NULL, run INTEGER NOT NULL, round INTEGER NOT NULL, kind TEXT NOT NULL,
    queue TEXT NOT NULL, lane TEXT, priority INTEGER NOT NULL, due INTEGER, hold INTEGER NOT NULL,
    keep INTEGER NOT NULL, joined INTEGER, shift INTEGER NOT NULL, keyed INTEGER NOT NULL, extra INTEGER NOT NULL,
    laned INTEGER NOT NULL, awaited INTEGER NOT NULL, published INTEGER NOT NULL, low_parent INTEGER,
    high_parent INTEGER, added INTEGER NOT NULL
);
CREATE INDEX span_run ON span (run);
CREATE INDEX span_parents ON span (low_parent, high_parent) WHERE low_parent IS NOT NULL;
CREATE INDEX span_far_parents ON span (low_parent, high_parent) WHERE high_parent - low_parent >= 8192;
CREATE INDEX span_join ON span (joined, first + shift) WHERE joined IS NOT NULL;

CREATE TABLE task (
    id INTEGER PRIMARY KEY, parent INTEGER, body TEXT NOT NULL, key BLOB, more BLOB, lane TEXT, added INTEGER
);

CREATE TABLE event (
    task INTEGER NOT NULL, n INTEGER NOT NULL, seq INTEGER NOT NULL, status INTEGER NOT NULL, value TEXT,
    took INTEGER, PRIMARY KEY (task, n)
) WITHOUT ROWID;
CREATE INDEX event_failed ON event (task) WHERE status IN (2, 5);

CREATE TABLE commits (
    seq INTEGER PRIMARY KEY, process INTEGER NOT NULL, n INTEGER NOT NULL, at INTEGER NOT NULL, events INTEGER NOT NULL,
    ranges TEXT NOT NULL
);
CREATE TABLE sweep (
    run INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, mask BLOB, seq INTEGER NOT NULL
);
CREATE INDEX sweep_run ON sweep (run, first);
CREATE INDEX sweep_seq ON sweep (seq);

CREATE TABLE segment (
    id INTEGER PRIMARY KEY, span INTEGER NOT NULL, run INTEGER NOT NULL, round INTEGER NOT NULL, kind TEXT NOT NULL,
    queue TEXT NOT NULL, lane TEXT, first INTEGER NOT NULL, last INTEGER NOT NULL, mask BLOB, rank INTEGER NOT NULL,
    due INTEGER, state INTEGER NOT NULL, attempt INTEGER NOT NULL DEFAULT 0, deaths INTEGER NOT NULL DEFAULT 0,
    owner INTEGER, token BLOB, awaits INTEGER, line TEXT
);
CREATE INDEX ready ON segment (kind, queue, rank) WHERE state = 0 AND due IS NULL AND NOT deaths & 1;
CREATE INDEX ready_run ON segment (run, kind, queue, rank) WHERE state = 0 AND due IS NULL AND NOT deaths & 1;
CREATE INDEX due ON segment (kind, queue, due) WHERE state = 0 AND due IS NOT NULL AND NOT deaths & 1;
CREATE INDEX due_at ON segment (due) WHERE state = 0 AND due IS NOT NULL AND NOT deaths & 1;
CREATE INDEX awaiting ON segment (awaits) WHERE awaits IS NOT NULL;
CREATE INDEX line ON segment (line, state, kind, queue, rank) WHERE line IS NOT NULL;
CREATE INDEX head ON segment (kind, queue) WHERE state = 0 AND line IS NOT NULL;
CREATE INDEX limited ON segment (run, kind, queue, line, rank) WHERE state = 6;
CREATE INDEX running ON segment (kind, lane) WHERE state = 3 AND line IS NOT NULL;
CREATE INDEX suspect ON segment (rank) WHERE state = 0 AND deaths & 1;
CREATE INDEX gated ON segment (run, round) WHERE state = 1;
CREATE INDEX held ON segment (owner, run) WHERE state = 3;
CREATE INDEX fence ON segment (token) WHERE token IS NOT NULL;
CREATE INDEX garbage ON segment (first) WHERE state = 5;
CREATE INDEX segment_run ON segment (run, round);
CREATE INDEX segment_first ON segment (first);

CREATE TABLE counter (
    run INTEGER NOT NULL, kind TEXT NOT NULL, queue TEXT NOT NULL, what INTEGER NOT NULL, slot INTEGER NOT NULL,
    value INTEGER NOT NULL, PRIMARY KEY (run, kind, queue, what, slot)
) WITHOUT ROWID;
CREATE TABLE total (
    kind TEXT NOT NULL, queue TEXT NOT NULL, what INTEGER NOT NULL, value INTEGER NOT NULL,
    PRIMARY KEY (kind, queue, what)
) WITHOUT ROWID;

CREATE TABLE key (digest BLOB PRIMARY KEY, task INTEGER NOT NULL, expires INTEGER) WITHOUT ROWID;
CREATE INDEX key_expires ON key (expires) WHERE expires IS NOT NULL;
CREATE TABLE once_0 (digest BLOB PRIMARY KEY, task INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE once_1 (digest BLOB PRIMARY KEY, task INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE once_2 (digest BLOB PRIMARY KEY, task INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE once_sizes (first INTEGER NOT NULL, second INTEGER NOT NULL, at BLOB NOT NULL);
INSERT INTO once_sizes VALUES (0, 0, x'');
CREATE TABLE label (digest BLOB NOT NULL, task INTEGER NOT NULL, PRIMARY KEY (digest, task)) WITHOUT ROWID;

CREATE TABLE joins (
    id INTEGER PRIMARY KEY, run INTEGER NOT NULL, rule INTEGER NOT NULL, brings INTEGER NOT NULL,
    needs INTEGER NOT NULL, parts INTEGER NOT NULL, filled INTEGER NOT NULL, instance INTEGER NOT NULL,
    fired INTEGER NOT NULL, size INTEGER, arrived INTEGER NOT NULL, failed INTEGER NOT NULL, skipped INTEGER NOT NULL,
    cancelled INTEGER NOT NULL
);
CREATE INDEX joins_run ON joins (run);
CREATE TABLE join_part (
    id INTEGER NOT NULL, number INTEGER NOT NULL, size INTEGER NOT NULL, arrived BLOB NOT NULL, failed BLOB NOT NULL,
    skipped BLOB NOT NULL, cancelled BLOB NOT NULL, PRIMARY KEY (id, number)
) WITHOUT ROWID;
CREATE TABLE waiter (
    task INTEGER NOT NULL, id INTEGER NOT NULL, slot INTEGER NOT NULL, PRIMARY KEY (task, id, slot)
) WITHOUT ROWID;
CREATE INDEX waiter_join ON waiter (id, slot);
CREATE TABLE behind (task INTEGER PRIMARY KEY, last INTEGER NOT NULL);

CREATE TABLE mark (
    run INTEGER NOT NULL, scope INTEGER NOT NULL, task INTEGER NOT NULL, status INTEGER NOT NULL, reason TEXT NOT NULL,
    value BLOB, who TEXT NOT NULL
);
CREATE INDEX mark_run ON mark (run, task);

CREATE TABLE context (
    run INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, task INTEGER NOT NULL, first_set INTEGER NOT NULL,
    last_set INTEGER NOT NULL, PRIMARY KEY (run, name)
) WITHOUT ROWID;

CREATE TABLE value (
    space TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, version INTEGER NOT NULL, expires INTEGER,
    PRIMARY KEY (space, name)
);
CREATE INDEX value_expires ON value (expires) WHERE expires IS NOT NULL;

CREATE TABLE topic (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, last INTEGER NOT NULL, at INTEGER NOT NULL
);
CREATE TABLE publication (
    topic INTEGER NOT NULL, number INTEGER NOT NULL, value TEXT NOT NULL, key TEXT, at INTEGER NOT NULL,
    expires INTEGER, task INTEGER, PRIMARY KEY (topic, number)
) WITHOUT ROWID;
CREATE INDEX publication_expires ON publication (expires) WHERE expires IS NOT NULL;

CREATE TABLE note (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, process INTEGER NOT NULL, n INTEGER NOT NULL, at INTEGER NOT NULL,
    run INTEGER NOT NULL,
    task INTEGER, attempt INTEGER NOT NULL, level INTEGER NOT NULL, logger TEXT NOT NULL, text TEXT NOT NULL
);
CREATE UNIQUE INDEX note_once ON note (process, n);
CREATE INDEX note_run ON note (run);
CREATE INDEX note_task ON note (task) WHERE task IS NOT NULL;

CREATE TABLE refusal (
    process INTEGER NOT NULL, n INTEGER NOT NULL, token BLOB NOT NULL, tasks INTEGER NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (process, n, token)
) WITHOUT ROWID;
"""


def prepare(db: apsw.Connection) -> None:
    """Create the tables in an empty file, or check that this file is one of ours and not newer than we are.

    Runs inside a write transaction, so that two processes that create the same file at once do it once.
    """
    version = db.pragma("user_version")
    application = db.pragma("application_id")
    if application == APPLICATION_ID:
        if version > VERSION:
            raise SchemaTooNew(
                f"{db.filename} was written by a newer Ramify (its schema is {version}, this one knows {VERSION}). "
                "Install that version or newer"
            )
        if version < VERSION:
            raise StoreRefused(
                f"{db.filename} was written by a Ramify from before the first release (its schema is {version}, this "
                f"one knows {VERSION}) and cannot be upgraded. Start with a new file"
            )
        return
    if application or version or db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
        raise StoreRefused(f"{db.filename} is a SQLite database of another program. Give Ramify a file of its own")
    db.execute(TABLES)
    db.pragma("application_id", APPLICATION_ID)
    db.pragma("user_version", VERSION)


def store_id(db: Db) -> str:
    """The id that was chosen when the tables were created."""
    return str(db.execute("SELECT id FROM store").fetchall()[0][0])


def give_new_id(db: Db) -> None:
    """Make a copy a store of its own."""
    db.execute("UPDATE store SET id = lower(hex(randomblob(8)))")
