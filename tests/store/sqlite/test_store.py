"""What only the SQLite store does: files, other connections, waiting."""

import itertools
import os
import resource
import stat
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from ramify.errors import StoreUnavailable
from ramify.model.addition import Addition
from ramify.model.claim import Want
from ramify.model.commit import Part
from ramify.model.join import NewJoins
from ramify.model.process import Away, NewProcess, Process, Stamp, new_process_id
from ramify.model.run import NewRun, Order, RunState
from ramify.model.task import NewTasks
from ramify.store import commit_wait
from ramify.store.sqlite import SqliteStore
from ramify.store.sqlite.file.write_sensor import WriteSensor
from ramify.testing.clock import FakeClock
from tests.store.sqlite.real import wait_until


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "walk.db", busy_timeout=0.2)
    yield opened
    opened.close()


def started(store: SqliteStore, count: int = 1) -> int:
    run = store.reserve(1)
    store.start(NewRun(run), [NewTasks(store.reserve(count), "walk", [b"[]"] * count)])
    return run


def test_every_file_of_a_store_is_its_owners_alone(store: SqliteStore, tmp_path: Path) -> None:
    process = new_process_id()
    store.enter(NewProcess(process))
    started(store)
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert {"walk.db", "walk.db-wal", "walk.db-shm", "walk.db-live"} <= found.keys()
    assert {mode & 0o077 for mode in found.values()} == {0}


def test_a_store_that_is_opened_again_has_everything(store: SqliteStore, tmp_path: Path) -> None:
    run = started(store, 3)
    before = store.reads.tasks(run)
    store.close()
    again = SqliteStore(tmp_path / "walk.db")
    assert again.reads.tasks(run) == before
    again.close()


def test_others_see_since_when_and_why_a_process_cannot_write_until_it_can(store: SqliteStore, tmp_path: Path) -> None:
    process = new_process_id()
    store.enter(NewProcess(process))
    other = SqliteStore(tmp_path / "walk.db")

    def away() -> Away | None:
        (found,) = other.reads.processes()
        return found.away

    assert away() is None
    writer = apsw.Connection(str(tmp_path / "walk.db"))
    writer.execute("BEGIN IMMEDIATE")
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            store.reserve(1)
    told = away()
    assert told is not None
    assert (
        told.why == "waited 0.2 s for its turn to write, but another process is writing; nothing was changed, try again"
    )
    writer.execute("ROLLBACK")
    writer.close()
    store.reserve(1)
    assert away() is None
    other.close()


def test_for_how_long_a_process_writes_or_cannot_is_counted_by_the_clock_of_the_store(tmp_path: Path) -> None:
    clock = FakeClock()
    store = SqliteStore(tmp_path / "walk.db", busy_timeout=0.01, clock=clock)
    other = SqliteStore(tmp_path / "walk.db", clock=clock)
    store.enter(NewProcess(new_process_id()))

    def seen() -> Process:
        (found,) = other.reads.processes()
        return found

    with store._link.write():
        clock.advance(6)
        assert (seen().beat_age, seen().writing) == (6.0, 6.0)
    assert seen().writing is None
    writer = apsw.Connection(str(tmp_path / "walk.db"))
    writer.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable):
        store.reserve(1)
    clock.advance(9)
    away = seen().away
    assert away is not None
    assert away.seconds == 9.0
    writer.close()
    other.close()
    store.close()


def test_a_process_that_finds_nothing_to_claim_is_not_away(store: SqliteStore, tmp_path: Path) -> None:
    process = new_process_id()
    store.enter(NewProcess(process))
    # Only who found nothing the last time looks first.
    store.claim(Stamp(process, 1), Want(frozenset({"walk"}), 1))
    writer = apsw.Connection(str(tmp_path / "walk.db"))
    writer.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable):
        store.reserve(1)
    (found,) = store.reads.processes()
    assert found.away is not None
    store.claim(Stamp(process, 1), Want(frozenset({"walk"}), 1))
    (found,) = store.reads.processes()
    assert found.away is None
    writer.close()


def test_waiting_ends_when_another_client_commits(store: SqliteStore, tmp_path: Path) -> None:
    other = SqliteStore(tmp_path / "walk.db")
    waiting = threading.Thread(target=store.wait, args=(60, store.wait(0, 0)))
    waiting.start()
    began = time.monotonic()
    started(other)
    waiting.join(30)
    assert not waiting.is_alive()
    assert time.monotonic() - began < 30
    other.close()


def test_a_store_that_nobody_holds_any_more_is_let_go_of_at_once(tmp_path: Path) -> None:
    """Its locks say that a process lives."""
    store = SqliteStore(tmp_path / "walk.db")
    store.wait(0.001, store.wait(0, 0))
    started(store)
    link = weakref.ref(store._link)
    del store
    assert link() is None


def test_waiting_ends_when_another_thread_commits_without_asking_the_file_system(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("EAGER_SECONDS", "ALERT_SECONDS", "QUIET_SECONDS"):
        monkeypatch.setattr(commit_wait, name, 600.0)
    monkeypatch.setattr(store._commit_wait, "_make", lambda: WriteSensor(str(tmp_path / "nothing here")))
    seen, heard = store.wait(0, 0), []
    waiting = threading.Thread(target=lambda: heard.append(store.wait(600, seen)), daemon=True)
    waiting.start()
    wait_until(lambda: store._commit_wait._sensor is not None)
    started(store)
    waiting.join(30)
    assert heard[0] != seen


def test_who_finds_nothing_to_do_does_not_even_wait_for_a_writer(store: SqliteStore, tmp_path: Path) -> None:
    """Neither an empty claim nor an advance that moves nothing takes the write lock, or a byte of the log."""
    run = started(store)
    mine, his = new_process_id(), new_process_id()
    store.enter(NewProcess(mine))
    other = SqliteStore(tmp_path / "walk.db")
    other.enter(NewProcess(his))
    assert other.claim(Stamp(his, 1), Want(frozenset({"walk"}), 1)).claims
    # The first time each of them goes on as if there were something to do.
    assert store.claim(Stamp(mine, 1), Want(frozenset({"walk"}), 1)).claims == ()
    assert not store.advance([(run, 0)])[0].moved
    log = tmp_path / "walk.db-wal"
    before = log.stat()
    with other._link.write():
        assert store.claim(Stamp(mine, 1), Want(frozenset({"walk"}), 1)).claims == ()
        assert not store.advance([(run, 0)])[0].moved
    after = log.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    other.close()


def test_a_claim_costs_no_more_for_kinds_of_which_nothing_waits(store: SqliteStore) -> None:
    started(store, 4)
    process = new_process_id()
    store.enter(NewProcess(process))

    def statements(n: int, *kinds: str) -> int:
        with store._link.write() as db:
            connection: apsw.Connection = db  # type: ignore[assignment]
        seen: list[str] = []
        connection.set_exec_trace(lambda _, sql, values: not seen.append(sql))  # type: ignore[func-returns-value]
        try:
            assert store.claim(Stamp(process, n), Want(frozenset(kinds), 1)).claims
        finally:
            connection.set_exec_trace(None)
        return len(seen)

    statements(1, "walk")
    assert statements(2, "walk") == statements(3, "walk", *(f"kind {number}" for number in range(50)))


def test_old_jobs_cost_no_statement_for_each_gap_between_them(tmp_path: Path) -> None:
    clock = FakeClock()
    store = SqliteStore(tmp_path / "gaps.db", clock=clock)
    process, numbers = new_process_id(), itertools.count(1)
    store.enter(NewProcess(process))

    def statements(jobs: int) -> int:
        first = store.reserve(2 * jobs + 1)
        store.start(NewRun(first, order=Order.ANY, endless=True))
        for n in range(jobs):
            tasks = NewTasks(first + 2 * n + 1, "walk" if n % 2 else "copy", [b"[]"])
            store.append([Addition(first, [tasks])])
        claims = store.claim(Stamp(process, next(numbers)), Want(frozenset({"walk", "copy"}), 100)).claims
        store.commit(Stamp(process, next(numbers)), [Part(claim.token, claim.tasks) for claim in claims])
        clock.advance(3 * 86_400)
        with store._link.write() as db:
            connection: apsw.Connection = db  # type: ignore[assignment]
        seen: list[str] = []
        connection.set_exec_trace(lambda _, sql, values: not seen.append(sql))  # type: ignore[func-returns-value]
        try:
            assert store.forget(first, range(2**62)).tasks == jobs
        finally:
            connection.set_exec_trace(None)
        return len(seen)

    assert statements(4) == statements(40)
    store.close()


def test_a_page_of_runs_reads_no_more_than_it_shows_and_keeps_its_connection(store: SqliteStore) -> None:
    for _ in range(20):
        started(store)
    store.reads.runs(limit=3)
    opens = store._link._reader.opens
    assert [len(store.reads.runs(state=state, limit=3).rows) for state in (None, RunState.OPEN, RunState.DONE)] == [
        3,
        3,
        0,
    ]
    assert store._link._reader.opens == opens


def test_whoever_waits_too_long_to_write_is_told_who_is_in_the_way(store: SqliteStore, tmp_path: Path) -> None:
    other = SqliteStore(tmp_path / "walk.db")
    process = new_process_id()
    other.enter(NewProcess(process, pid=4711))
    with other._link.write(), pytest.raises(StoreUnavailable, match=r"\(pid 4711\) has been writing for"):
        store.reserve(1)
    assert store.reserve(1) > 0
    other.close()


def test_a_page_of_joins_reads_no_more_rows_than_it_needs(store: SqliteStore) -> None:
    """A continuation looks at its own join when it asks how many members broke, and a run may have a million."""
    run, first, read = store.reserve(1), store.reserve(200), list[object]()
    ids = range(first, first + 200)
    tasks = [NewTasks(task, "walk", [b"[]"], waits=True) for task in ids]
    store.start(NewRun(run), tasks, [NewJoins(ids, [1] * len(ids))])

    def count(cursor: apsw.Cursor, row: tuple[object, ...]) -> tuple[object, ...]:
        read.append(row)
        return row

    with store.reads._link.read() as db:
        assert isinstance(db, apsw.Connection)
        db.row_trace = count
    assert [join.id for join in store.reads.joins(run, after=ids[50], limit=1).rows] == [ids[51]]
    assert len(read) < 10


def test_the_file_stays_small(store: SqliteStore, tmp_path: Path) -> None:
    """The bar of the benchmark is 200 bytes a task over millions; a few thousand must not be far from it."""
    process = new_process_id()
    store.enter(NewProcess(process))
    started(store, 20_000)
    n = 0
    while claims := store.claim(Stamp(process, n := n + 1), Want(frozenset({"walk"}), 8192)).claims:
        store.commit(Stamp(process, n := n + 1), [Part(claim.token, claim.tasks) for claim in claims])
    store.close()
    assert (tmp_path / "walk.db").stat().st_size / 20_000 < 60


def test_vacuum_removes_lock_files_that_nobody_holds(store: SqliteStore, tmp_path: Path) -> None:
    process = new_process_id()
    store.enter(NewProcess(process))
    left_behind = tmp_path / "walk.db-live" / f"{12345:016x}.lock"
    left_behind.touch()
    store.vacuum()
    assert not left_behind.exists()
    assert not store.beat(process).reaped
    assert any(tmp_path.glob(f"walk.db-live/{process:016x}.lock"))


@pytest.fixture
def no_descriptors() -> Iterator[Callable[[], None]]:
    """Lets this process open nothing more until the end of the test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Below any descriptor in use: what is open stays open.
    yield lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_session_works_and_waits_when_nothing_more_can_be_opened(
    store: SqliteStore, no_descriptors: Callable[[], None]
) -> None:
    process = new_process_id()
    store.enter(NewProcess(process))
    store.claim(Stamp(process, 1), Want(frozenset({"walk"}), 1))
    no_descriptors()
    with pytest.raises(OSError, match="Too many open files"):
        os.dup(0)
    seen = store.wait(0, 0)
    assert store.wait(0.01, seen) == seen
    started(store)
    assert store.wait(0.01, seen) != seen
    assert not store.beat(process).reaped
    store.leave(process)


def test_a_wait_that_cannot_listen_says_that_the_store_is_unavailable(
    store: SqliteStore, no_descriptors: Callable[[], None]
) -> None:
    seen = store.wait(0, 0)
    no_descriptors()
    with pytest.raises(StoreUnavailable, match="nothing can listen for changes of the store"):
        store.wait(0.01, seen)
