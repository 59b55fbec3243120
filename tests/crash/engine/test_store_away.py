"""The store goes away and comes back: nobody is declared dead for it, nothing is lost, all goes on by itself.

Away means that another connection keeps the lock for writing, so that every verb that writes fails; that all workers
are stopped at once, as on a suspended machine; or that the disk is full.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from ramify.store.sqlite import SqliteStore
from ramify.testing import oracle
from tests.crash import judge
from tests.crash.clients import LIMIT, STORE, WITNESS, Clients, wait_until
from tests.crash.engine import program
from tests.crash.engine.scene import Scene, let_pass
from tests.crash.test_disk_full import MOUNT, _why_not_mount
from tests.crash.tree import draw_seed, grow
from tests.crash.witness import Said, Witness
from tests.crash.worker import RUN_NAME

WORKERS = 4
TASKS = 40
DEAD_AFTER = 1.0
SHORT = (f"dead_after={DEAD_AFTER}", "beat_every=0.05", "busy=0.1", "threads=1", "claim_at_most=4")


class Crowd:
    """Four workers, each of which holds a task that waits for a word and others that it has not begun."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        program.open_at(str(scene.folder / STORE), str(scene.folder / WITNESS), {})
        calls = [program.waiting.of(str(scene.folder), number) for number in range(TASKS)]
        run = program.engine.start(calls, name=RUN_NAME, order="any")
        program.engine.close()
        self.clients = [scene.play("run", run.id, *SHORT, started=1) for _ in range(WORKERS)]

    def finish(self) -> None:
        """Let all end, and judge: nobody was buried, nothing was refused, and everything was done once."""
        for client in self.clients:
            assert client.ends_within(LIMIT)
        assert not self.scene.said(Said.BURIED)
        assert not self.scene.said(Said.REFUSED)
        assert len(self.scene.said(Said.START)) == TASKS
        self.scene.check_done(TASKS)
        assert oracle.check(self.scene.store) == []


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """Keep the lock for writing from a connection that is not Ramify's."""
    db = apsw.Connection(str(file))
    db.set_busy_timeout(10_000)
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        db.execute("ROLLBACK")
        db.close()


def test_nobody_is_buried_while_the_store_is_away_and_all_go_on_when_it_is_back(scene: Scene) -> None:
    crowd = Crowd(scene)
    with writing(scene.folder / STORE):
        scene.go()
        wait_until(lambda: len(scene.said(Said.AWAY)) == WORKERS, "all to notice")
        let_pass(3 * DEAD_AFTER)
    crowd.finish()
    assert len(scene.said(Said.BACK)) == len(scene.said(Said.AWAY))


def test_nobody_is_buried_when_all_wake_up_together(scene: Scene) -> None:
    crowd = Crowd(scene)
    # None is inside a transaction when it is stopped: the lock for writing is ours until all are.
    with writing(scene.folder / STORE):
        for client in crowd.clients:
            client.stop()
        let_pass(3 * DEAD_AFTER)
    first, *others = crowd.clients
    first.thaw()
    # It beats and looks at the others, who have been silent for long; but so has it.
    let_pass(0.4 * DEAD_AFTER)
    for client in others:
        client.thaw()
    scene.go()
    crowd.finish()


def test_a_full_disk_is_waited_out(tmp_path: Path, clients: Clients, seed: random.Random) -> None:
    why_not = _why_not_mount(tmp_path)
    if why_not is not None:
        pytest.skip(why_not)
    mounted, out = tmp_path / "mounted", tmp_path / "out"
    mounted.mkdir()
    out.mkdir()
    number = draw_seed(seed, fewest=150)
    client = clients.add(("unshare", "-m", "sh", "-c", MOUNT, str(mounted), str(out)))
    client.begin("disk", mounted, number, f"mounted={mounted}", witness=tmp_path / WITNESS)
    assert client.ends_within(LIMIT)
    lines = Witness(tmp_path / WITNESS).lines()
    assert any(line.said is Said.FULL for line in lines)
    store = SqliteStore(out / STORE)
    assert judge.at_the_end(store, grow(number), lines) == []
    store.close()
