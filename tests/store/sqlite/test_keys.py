"""Keys of a run that is forgotten go range by range."""

from contextlib import closing

import apsw

from ramify.model.key import HASH, Hold, digest, digests, scope
from ramify.store.sqlite import once
from ramify.store.sqlite.keys import forget_run
from ramify.store.sqlite.schema import TABLES


def test_the_keys_of_a_forgotten_run_go_range_by_range_and_those_of_its_neighbours_stay() -> None:
    with closing(apsw.Connection(":memory:")) as db:
        db.execute(TABLES)
        for run in (6, 7, 8):
            once.add(db, sorted(digests(Hold.ONCE, run, "walk", (b"%d" % i for i in range(100)))), range(1, 101))
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


def left(db: apsw.Connection) -> dict[int, int]:
    """How many keys and labels there are of each run."""
    tables = (*once.TABLES, "label")
    found = [name[:-HASH] for table in tables for (name,) in db.execute(f"SELECT digest FROM {table}")]
    return {run: found.count(scope(Hold.ONCE, run)) for run in (6, 7, 8) if scope(Hold.ONCE, run) in found}
