"""A guest: one session for all that a program changes outside of tasks, ended when it is not used any more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any, cast

import pytest

from ramify import Engine, StoreUnavailable, Values
from ramify.coordination import guest as module
from ramify.coordination.guest import Guest
from ramify.kernel.outgoing.sender import Sender
from ramify.model.process import Stamp
from ramify.model.value import Swap
from ramify.store.contract import Store
from ramify.store.open import open_store
from ramify.testing import oracle
from ramify.testing.clock import FakeClock
from tests.kernel.shop import LONG, wait_until
from tests.shapes.losing import Losing, Way


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = open_store("memory:" if request.param == "memory" else tmp_path / "test.db", durability="process")
    yield made
    assert oracle.check(made) == []
    made.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long."""
    monkeypatch.setattr(module, "GUEST_STAYS", 0.05)
    monkeypatch.setattr(module, "GUEST_PATIENCE", 0.2)


def sessions(store: Store) -> list[bool]:
    """Whether each session that guests had is over, in order."""
    found = store.reads.processes()
    assert {each.kinds for each in found} <= {()}, "nobody expects work of them"
    return [each.reaped for each in sorted(found, key=lambda each: each.entered)]


def put(guest: Guest, store: Store, value: bytes = b"1", seen: int | None = None) -> bool:
    swap = Swap("quota", "acme", seen, store.reserve(1), value)
    return guest.send(lambda stamp: store.swap(stamp, [swap]))


def test_all_that_is_sent_in_a_row_has_one_session(store: Store) -> None:
    guest = Guest(store)
    assert sessions(store) == []
    for _ in range(3):
        assert put(guest, store)
    assert sessions(store) == [False]
    guest.close()
    guest.close()
    assert sessions(store) == [True]
    assert put(guest, store)
    assert sessions(store) == [True, False]
    guest.close()


def test_a_session_that_is_not_used_any_more_ends(store: Store, quick: None) -> None:
    guest = Guest(store)
    assert put(guest, store)
    wait_until(lambda: sessions(store) == [True])
    assert not [thread for thread in threading.enumerate() if thread.name == "ramify-guest" and guest._sender]


def test_a_session_says_that_it_lives_while_it_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clock = FakeClock(0)
    store = open_store(tmp_path / "test.db", clock=clock)
    guest = Guest(store)
    assert put(guest, store)
    guest.keep()  # so that it does not end, whoever is slow
    clock.advance(7)
    wait_until(lambda: (age := store.reads.processes()[0].beat_age) is not None and age < 7)
    guest.close()
    store.close()


def test_who_was_declared_dead_enters_anew(store: Store) -> None:
    guest = Guest(store)
    assert put(guest, store)
    (session,) = store.reads.processes()
    store.leave(session.id)
    assert put(guest, store, b"2")
    found = store.reads.value("quota", "acme")
    assert found is not None
    assert (found.value, sessions(store)) == (b"2", [True, False])
    guest.close()


def test_a_change_whose_answer_was_lost_is_made_once(store: Store) -> None:
    ways: dict[str, Iterator[Way]] = {"swap": chain(["not answered", "never sent"], repeat("answered"))}
    losing = cast(Store, Losing(store, ways))
    guest = Guest(losing)
    assert put(guest, losing, seen=0), "what was there by the second time was its own"
    assert cast(Any, losing).lost == ["swap", "swap"]
    guest.close()


def test_a_store_that_is_away_for_long_is_told_of(store: Store, quick: None) -> None:
    ways: dict[str, Iterator[Way]] = {"swap": repeat("never sent")}
    losing = cast(Store, Losing(store, ways))
    guest = Guest(losing)
    with pytest.raises(StoreUnavailable, match="swap: never sent"):
        put(guest, losing)
    guest.close()


def test_who_was_declared_dead_after_a_lost_answer_does_not_guess(store: Store) -> None:
    class Buried(Losing):
        """Its answer gets lost, and then somebody ends its session."""

        def swap(self, stamp: Any, swaps: Any) -> bool:
            if not self.lost:
                self.lost.append("swap")
                store.swap(stamp, swaps)
                store.leave(stamp.process)
                raise StoreUnavailable("not answered")
            return store.swap(stamp, swaps)

    losing = cast(Store, Buried(store, {}))
    guest = Guest(losing)
    with pytest.raises(StoreUnavailable, match=r"what was sent may be there or not. Read it, and try again"):
        put(guest, losing)
    assert put(guest, losing, b"2")
    guest.close()


def test_an_engine_that_is_closed_or_ends_with_its_program_leaves_no_session(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "test.db")
    engine.values("quota", int).set("acme", 1)
    engine.close()
    line = f"from ramify import Engine; Engine({str(tmp_path / 'test.db')!r}).values('quota', int).set('acme', 2)"
    subprocess.run([sys.executable, "-c", line], check=True, timeout=LONG)
    store = open_store(tmp_path / "test.db")
    assert sessions(store) == [True, True]
    assert engine.health().healthy
    engine.close()
    store.close()


def test_a_forked_child_ends_without_its_parents_session_whatever_that_is_doing(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "test.db")
    quotas: Values[int] = engine.values("quota", int)
    quotas.set("acme", 1)
    is_sending, goes_on = threading.Event(), threading.Event()

    def send() -> None:
        def verb(stamp: Stamp) -> bool:
            is_sending.set()
            return goes_on.wait(LONG)

        assert engine._runtime.guest.send(verb)

    sender = threading.Thread(target=send)
    sender.start()
    assert is_sending.wait(LONG)
    child = os.fork()
    if child == 0:
        signal.alarm(int(LONG))
        engine._runtime._let_go()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    goes_on.set()
    sender.join(LONG)
    assert sessions(engine._runtime.store) == [False]
    quotas.set("acme", 2)
    assert sessions(engine._runtime.store) == [False]
    engine.close()


def test_threads_that_send_at_once_take_turns(store: Store) -> None:
    guest, senders = Guest(store), set[Sender | None]()

    def send() -> None:
        assert put(guest, store)
        senders.add(guest._sender)

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert len(senders) == 1
    guest.close()
