"""Locks whose holders die, are declared dead, run out of time or are unlocked: others get them, and they are told."""

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

from ramify import Engine, LockLost
from ramify.coordination import guest as guests
from ramify.coordination.unlocking import unlock
from ramify.errors import StaleStamp, StoreUnavailable
from ramify.model.lock import FENCES, FREE_FOR
from ramify.store.contract import Store
from ramify.store.open import open_store
from ramify.testing.using import using
from tests.coordination.conftest import DEAD_AFTER, Programs
from tests.coordination.test_lock import state, waiters
from tests.kernel.shop import LONG, wait_until
from tests.shapes.losing import Losing, Way

PROGRAM = """
import sys
from ramify import Engine
engine = Engine(sys.argv[1], durability="process")
with engine.lock("report") as held:
    print(held.fence, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock until its input ends."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "test.db")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


def fence_of(holder: subprocess.Popen[str]) -> int:
    assert holder.stdout is not None
    return int(holder.stdout.readline())


def session(engine: Engine) -> int:
    return engine._runtime.guest.enter()


def test_a_lock_is_free_at_once_when_its_process_is_killed(holder: subprocess.Popen[str], programs: Programs) -> None:
    fence, engine = fence_of(holder), programs()
    assert engine.lock("report").try_acquire() is None
    holder.kill()
    holder.wait(LONG)
    with engine.lock("report", wait=LONG) as held:
        assert held.fence > fence


def test_who_waits_notices_that_the_holder_was_killed(holder: subprocess.Popen[str], programs: Programs) -> None:
    fence, engine = fence_of(holder), programs()
    got: list[int] = []

    def wait() -> None:
        with engine.lock("report", wait=LONG) as held:
            got.append(held.fence)

    thread = threading.Thread(target=wait)
    thread.start()
    session(engine)
    wait_until(lambda: engine._runtime.locks._ledger is not None and waiters(engine) == 1)
    holder.kill()
    thread.join(5)
    assert got
    assert got[0] > fence


def test_a_frozen_process_loses_its_lock_after_a_while_and_is_told(programs: Programs) -> None:
    frozen, other = programs(), programs()
    held = frozen.lock("report").try_acquire()
    assert held is not None
    guest = frozen._runtime.guest
    sender = guest._sender
    assert sender is not None
    # As if its process stood still: it gives no sign of life.
    guest._over.set()
    guest._sender = None
    session(other)
    with other.lock("report", wait=20 * DEAD_AFTER) as after:
        assert after.fence > held.fence
        guest._sender = sender
        with pytest.raises(LockLost, match=r"lost under fence \d+: its process was silent for too long"):
            held.check()
        with pytest.raises(LockLost, match="silent for too long"):
            held.release()
        after.check()


def test_a_lock_expires_and_its_late_holder_is_told(tmp_path: Path) -> None:
    engine = Engine("unused.db")
    with using(engine, tmp_path / "test.db") as bench:
        held = engine.lock("report", ttl=60).try_acquire()
        assert held is not None
        bench.advance(59)
        held.check()
        assert engine.lock("report", holders=2, wait=0).try_acquire() is None
        bench.advance(2)
        with pytest.raises(LockLost, match="its ttl of 60 s was up"):
            held.check()
        with engine.lock("report", holders=2) as after, pytest.raises(LockLost, match="its ttl of 60 s was up"):
            assert after.fence > held.fence
            held.release()


def test_a_lock_that_was_unlocked_tells_its_holder_who_and_why(programs: Programs) -> None:
    one, other = programs(), programs()
    store = other._runtime.store
    with pytest.raises(LockLost, match="ann unlocked it: stuck"), one.lock("report") as held:
        assert [each.fence for each in unlock(store, "report", "ann", "stuck")] == [held.fence]
        with pytest.raises(LockLost, match="ann unlocked it: stuck"):
            held.check()
        with other.lock("report", wait=LONG) as after:
            assert after.fence > held.fence
    assert unlock(store, "report", "ann", "") == ()


def test_an_error_of_the_block_is_raised_with_a_note_that_the_lock_was_lost(programs: Programs) -> None:
    engine = programs()
    with pytest.raises(ZeroDivisionError) as caught, engine.lock("report"):
        unlock(engine._runtime.store, "report", "ann", "stuck")
        raise ZeroDivisionError
    assert "lost under fence" in caught.value.__notes__[0]


def test_an_engine_that_is_closed_has_lost_its_locks(programs: Programs) -> None:
    one, other = programs(), programs()
    held = one.lock("report").try_acquire()
    assert held is not None
    one.close()
    with other.lock("report", wait=LONG):
        pass
    with pytest.raises(LockLost, match="its engine was closed"):
        held.release()


def test_a_session_lives_as_long_as_a_lock_is_held(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guests, "GUEST_STAYS", 0.0)
    engine = programs()
    with engine.lock("report") as held:
        before = session(engine)
        beats = 0

        def beat() -> bool:
            nonlocal beats
            beats += 1
            held.check()
            return beats > 30

        wait_until(beat)
        assert session(engine) == before
    wait_until(lambda: engine._runtime.guest._sender is None)


def test_a_fence_rises_though_the_lock_was_forgotten(tmp_path: Path) -> None:
    engine = Engine("unused.db")
    with using(engine, tmp_path / "test.db") as bench:
        fences: list[int] = []
        for _ in range(3):
            with engine.lock("report") as held:
                fences.append(held.fence)
            bench.advance(FREE_FOR / 1_000_000 + 1)
            assert engine._runtime.store.vacuum().values == 1
        assert fences == sorted(set(fences))


def test_a_forked_child_holds_nothing_of_its_parent(programs: Programs) -> None:
    engine = programs()
    with engine.lock("report") as held:
        child = os.fork()
        if child == 0:
            signal.alarm(5)
            code = 1
            try:
                with pytest.raises(LockLost, match="forked from holds it"):
                    held.check()
                held.release()
                code = 7
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        held.check()


# bad lines


@pytest.mark.parametrize("way", ["never sent", "not answered"])
def test_each_verb_that_gets_lost_is_made_up_for(way: Way, tmp_path: Path) -> None:
    inner = open_store(tmp_path / "test.db", durability="process")
    ways: dict[str, Iterator[Way]] = {
        verb: chain(*repeat([way, "answered"], 50)) for verb in ("reserve", "enter", "leave", "swap")
    }
    engine = Engine("unused.db")
    engine._runtime.use(cast(Store, Losing(inner, ways)))
    fences = []
    for _ in range(3):
        with engine.lock("report") as held:
            fences.append(held.fence)
    assert fences == [fences[0], fences[0] + 1, fences[0] + 2]
    assert state(engine).is_free
    engine.close()


def test_who_stood_still_before_the_first_grant_of_a_name_brings_no_old_fences(tmp_path: Path) -> None:
    other, late = Engine("unused.db"), Engine("unused.db")
    with using(other, tmp_path / "test.db") as bench:
        fences: list[int] = []

        class Slow(Losing):
            """Others hold the lock, and it is forgotten, after this client has reserved its fences."""

            def reserve(self, count: int) -> int:
                first = inner.reserve(count)
                if count == FENCES and not fences:
                    with other.lock("report") as held:
                        fences.append(held.fence)
                    bench.advance(FREE_FOR / 1_000_000 + 1)
                return first

        inner = open_store(tmp_path / "test.db", durability="process", clock=bench.clock)
        late._runtime.use(cast(Store, Slow(inner, {})))
        with late.lock("report") as held:
            assert [held.fence > fence for fence in fences] == [True]
        late.close()


def test_what_was_asked_for_and_given_up_is_not_granted_when_it_arrives_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guests, "GUEST_PATIENCE", 0.05)
    inner = open_store(tmp_path / "test.db", durability="process")
    under_way: list[tuple[Any, Any]] = []

    class Late(Losing):
        """Swaps get stuck on their way, while it is told so."""

        is_stuck = False

        def swap(self, stamp: Any, swaps: Any) -> bool:
            if self.is_stuck and swaps[0].version:
                under_way.append((stamp, swaps))
                raise StoreUnavailable("stuck")
            return inner.swap(stamp, swaps)

    engine, store = Engine("unused.db"), Late(inner, {})
    engine._runtime.use(cast(Store, store))
    with engine.lock("report"):
        pass
    store.is_stuck = True
    with pytest.raises(StoreUnavailable, match="stuck"):
        engine.lock("report").__enter__()
    with pytest.raises(StaleStamp):
        inner.swap(*under_way[-1])
    assert state(engine).is_free
    engine.close()


def test_what_could_not_be_taken_back_is_taken_back_when_the_store_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guests, "GUEST_PATIENCE", 0.05)
    inner = open_store(tmp_path / "test.db", durability="process")
    engine = Engine("unused.db")
    losing = Losing(inner, {})
    engine._runtime.use(cast(Store, losing))
    with engine.lock("report"):
        pass
    ways: Any = {"swap": chain(["not answered"], repeat("never sent", 6))}
    losing._ways = ways
    with pytest.raises(StoreUnavailable):
        engine.lock("report").__enter__()
    losing._ways = {}
    wait_until(lambda: state(engine).is_free)
    engine.close()


def test_ctrl_c_leaves_neither_a_waiter_nor_a_grant(programs: Programs) -> None:
    one, other = programs(), programs()
    with one.lock("report"):

        def strike() -> None:
            wait_until(lambda: waiters(one) == 1)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=strike)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            other.lock("report", wait=LONG).__enter__()
        thread.join(LONG)
        assert waiters(one) == 0
    assert state(one).is_free
