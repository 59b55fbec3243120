"""`kill -9` at random moments of real processes: the next one goes on, and nothing is lost or recorded twice.

After each kill of the only process the files are copied and looked at as they are; when a run has ended, everything is
compared with the tree that was drawn for it and with what the witness heard.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ramify.store.sqlite import SqliteStore
from ramify.testing import oracle
from ramify.testing.paging import every
from tests.crash import judge
from tests.crash.client import APPEND_RUN, APPENDED
from tests.crash.clients import LIMIT, STORE, WITNESS, Client, Clients
from tests.crash.tree import MOST, draw_seed, grow
from tests.crash.witness import Line, Said, Witness

LATE = 0.120
#: Kills within this many seconds hit the opening of the store, its recovery and the burial of the predecessor.
EARLY = 0.050


class Chase:
    """One store whose clients are killed until their work is done."""

    def __init__(
        self, folder: Path, clients: Clients, chance: random.Random, work: str = "tree", most: int = MOST
    ) -> None:
        folder.mkdir()
        self.folder, self.work = folder, work
        self._clients, self.chance = clients, chance
        self.seed = draw_seed(chance, most=chance.randint(60, most))
        self.kills = 0
        self._witness = Witness(folder / WITNESS)
        print(f"{folder.name}: tree seed {self.seed}")

    def begin(self, client: Client | None = None) -> Client:
        """Set another client to work."""
        client = client or self._clients.next()
        chance, durability = self.chance.randrange(2**31), self.chance.choice(("power", "process"))
        client.begin(self.work, self.folder, self.seed, f"luck={chance}", f"durability={durability}")
        return client

    def begin_together(self) -> list[Client]:
        """Set two clients to work, none before the other is loaded as well."""
        pair = [self._clients.next(), self._clients.next()]
        for client in pair:
            client.load()
        return [self.begin(client) for client in pair]

    def is_killed(self, client: Client, latest: float) -> bool:
        """Kill a client within `latest` seconds or a little more; False when the work was done by then."""
        # On a busy machine nobody would ever finish if the time did not grow.
        if client.ends_within(self.chance.uniform(0, latest * (1 + self.kills / 20))):
            return False
        client.kill()
        self.kills += 1
        return not any(line.said is Said.FINISHED for line in self.lines())

    def lines(self) -> list[Line]:
        """What was said so far."""
        return self._witness.lines()

    def look(self) -> list[str]:
        """What is wrong in a copy of the files as the last kill left them."""
        copy = self.folder / "copy"
        copy.mkdir()
        for name in (STORE, f"{STORE}-wal"):
            if (self.folder / name).exists():
                shutil.copyfile(self.folder / name, copy / name)
                (copy / name).chmod(0o600)
        store = SqliteStore(copy / STORE)
        complaints = judge.in_between(store, grow(self.seed), self.lines())
        store.close()
        shutil.rmtree(copy)
        return complaints

    def verdict(self) -> list[str]:
        """What is wrong when the work is done."""
        store = SqliteStore(self.folder / STORE)
        complaints = judge.at_the_end(store, grow(self.seed), self.lines(), self.kills)
        store.close()
        return complaints


Hunt = Callable[[Chase], None]


def alone(chase: Chase) -> None:
    """One process at a time, killed whenever."""
    while chase.is_killed(chase.begin(), LATE):
        assert chase.look() == []


def at_the_start(chase: Chase) -> None:
    """One process at a time, mostly killed before it is well under way."""
    turn = 0
    while chase.is_killed(chase.begin(), LATE if turn % 4 == 3 else EARLY):
        turn += 1
        assert chase.look() == []


def in_pairs(chase: Chase) -> None:
    """Two processes at a time, one of them killed and replaced while the other goes on."""
    pair = chase.begin_together()
    turn = 0
    while chase.is_killed(pair[turn], LATE):
        pair[turn] = chase.begin()
        turn = 1 - turn
    assert pair[1 - turn].ends_within(LIMIT)


def hunt_until(kills: int, most: int, hunt: Hunt, folder: Path, clients: Clients, chance: random.Random) -> int:
    """Chase one store after the other, with trees of at most so many nodes, until that many kills have happened."""
    done = 0
    number = 0
    while done < kills:
        chase = Chase(folder / f"store-{number}", clients, chance, most=most)
        hunt(chase)
        assert chase.verdict() == []
        done += chase.kills
        number += 1
    return done


HUNTS = pytest.mark.parametrize("hunt", [alone, at_the_start, in_pairs], ids=lambda hunt: hunt.__name__)


@HUNTS
def test_killed_processes_lose_nothing_and_record_nothing_twice(
    hunt: Hunt, tmp_path: Path, clients: Clients, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    record_property("kills", hunt_until(6, 70, hunt, tmp_path, clients, seed))


@pytest.mark.full
@pytest.mark.timeout(600)
@HUNTS
def test_many_killed_processes_lose_nothing_and_record_nothing_twice(
    hunt: Hunt, tmp_path: Path, clients: Clients, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    record_property("kills", hunt_until(100, MOST, hunt, tmp_path, clients, seed))


def test_a_killed_producer_appends_each_task_once(
    tmp_path: Path, clients: Clients, seed: random.Random, record_property: Callable[[str, object], None]
) -> None:
    chase = Chase(tmp_path / "store", clients, seed, "append")
    while chase.is_killed(chase.begin(), LATE):
        pass
    lines = chase.lines()
    assert sum(line.said is Said.APPEND_ACK for line in lines) >= APPENDED
    store = SqliteStore(chase.folder / STORE)
    run = store.reads.find_run(APPEND_RUN)
    assert run is not None
    rows = every(lambda after: store.reads.tasks(run.id, after=after))
    assert [int(row.body) for row in rows] == list(range(APPENDED))
    assert oracle.check(store) == []
    store.close()
    assert chase.kills
    record_property("kills", chase.kills)
