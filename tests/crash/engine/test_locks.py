"""Locks under `kill -9` and SIGSTOP: programs fight for one, and one at a time of them is killed or frozen.

No fence is granted twice, whoever was killed when. An outside system that compares fences refuses whoever was frozen
with the lock and thaws when others have had it. Nobody waits for the dead.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ramify.inspect.locks import locks
from ramify.testing import oracle
from tests.crash.clients import LIMIT, STORE, WITNESS, Client, Clients, wait_until
from tests.crash.engine.lock_program import DEAD_AFTER, NAME, OVER, engine_at, grants_in, outside_of

PROGRAM = "tests.crash.engine.lock_program"
TOGETHER = 4
Record = Callable[[str, object], None]


def fight(folder: Path, clients: Clients, chance: random.Random, grants: int, late: float) -> dict[str, int]:
    """Let four programs fight for a lock, of which one at a time is killed or frozen; what happened, counted."""
    witness = folder / WITNESS
    witness.touch()

    def begin() -> Client:
        client = clients.next()
        client.begin("fight", folder, chance.randrange(2**31))
        return client

    working, kills, freezes = [begin() for _ in range(TOGETHER)], 0, 0
    while grants_in(witness) < grants:
        at = chance.randrange(TOGETHER)
        assert not working[at].ends_within(chance.uniform(0.02, late))
        if chance.random() < 0.5:
            working[at].kill()
            working[at] = begin()
            kills += 1
            continue
        if chance.random() < 0.7:
            at = _holder(witness, working)
        freeze(working[at], outside_of(witness))
        before = grants_in(witness)
        # Others go on without it, if it was in their way after it was declared dead.
        wait_until(lambda: grants_in(witness) > before + 3, "grants to others")  # noqa: B023
        working[at].thaw()
        freezes += 1
    (folder / OVER).touch()
    for client in working:
        assert client.ends_within(LIMIT)
    return {"kills": kills, "freezes": freezes, **verdict(folder, grants)}


def _holder(witness: Path, working: list[Client]) -> int:
    """Wait until one of them holds the lock for some time; which it is."""

    def slow() -> list[str]:
        return [line.split()[1] for line in witness.read_text().splitlines() if line.startswith("slow")]

    before = len(slow())
    wait_until(lambda: len(slow()) > before, "somebody who is slow")
    pids = [client.pid for client in working]
    return pids.index(int(slow()[-1])) if int(slow()[-1]) in pids else 0


def freeze(client: Client, outside: Path) -> None:
    """Freeze a program at a moment at which it keeps neither the store nor the outside system from others."""
    pause = threading.Event()
    client.stop_between_writes()
    while _locks(client.pid, outside):
        client.thaw()
        pause.wait(0.005)
        client.stop_between_writes()


def _locks(pid: int, file: Path) -> bool:
    """Whether a process has locked a file, and does not only wait for that."""
    inode = f":{file.stat().st_ino}" if file.exists() else "none"
    held = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
    return any(lock[1] == "FLOCK" and lock[4] == str(pid) and lock[5].endswith(inode) for lock in held)


def verdict(folder: Path, grants: int) -> dict[str, int]:
    """Judge what the programs said, and the store that they left."""
    said = [line.split() for line in (folder / WITNESS).read_text().splitlines()]
    fences = {
        what: [int(fence) for word, fence in said if word == what] for what in ("grant", "done", "refused", "lost")
    }
    granted, done = fences["grant"], fences["done"]
    assert len(granted) >= grants
    assert len(set(granted)) == len(granted), "a fence was granted twice"
    assert done == sorted(set(done)), "an older fence did its work after a newer one"
    assert set(fences["refused"]) <= set(fences["lost"]) | set(granted)
    engine = engine_at(folder / STORE)
    store = engine._runtime.store
    with engine.lock(NAME) as held:
        assert held.fence > max(granted), "a fence went back"
    assert not list(locks(store))
    assert oracle.check(store) == []
    engine.close()
    return {what: len(found) for what, found in fences.items()}


def test_a_killed_waiter_is_passed_over_and_a_killed_holder_replaced(tmp_path: Path, clients: Clients) -> None:
    engine = engine_at(tmp_path / STORE)
    store = engine._runtime.store
    (tmp_path / WITNESS).touch()
    waiting = list[Client]()
    with engine.lock(NAME) as held:
        for at in range(3):
            client = clients.next()
            client.begin("hold", tmp_path)
            waiting.append(client)
            wait_until(lambda: [len(row.state.waiters) for row in locks(store)] == [at + 1], "the next in line")  # noqa: B023
        waiting[0].kill()
    fence = int(waiting[1].hear())
    assert fence > held.fence
    waiting[1].kill()
    assert int(waiting[2].hear()) > fence
    waiting[2].kill()
    with engine.lock(NAME, wait=20 * DEAD_AFTER):
        pass
    engine.close()


def test_programs_that_are_killed_and_frozen_never_get_one_fence_twice(
    tmp_path: Path, clients: Clients, seed: random.Random, record_property: Record
) -> None:
    for what, count in fight(tmp_path, clients, seed, 300, 0.3).items():
        record_property(what, count)


@pytest.mark.full
@pytest.mark.timeout(1_200)
def test_ten_thousand_grants_are_fought_over_by_programs_that_are_killed_and_frozen(
    tmp_path: Path, clients: Clients, seed: random.Random, record_property: Record
) -> None:
    found = fight(tmp_path, clients, seed, 10_000, 1.0)
    for what, count in found.items():
        record_property(what, count)
    assert found["kills"] > 10
    assert found["freezes"] > 10
    assert found["refused"] > 5, "hardly anybody came late, so nothing was proved about it"
