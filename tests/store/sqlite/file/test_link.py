"""The link to a database file: transactions, snapshots, settings, and threads and processes that take turns."""

import fcntl
import itertools
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from types import FrameType
from typing import Literal

import apsw
import pytest

from ramify.errors import StoreRefused, StoreUnavailable
from ramify.store.sqlite.file.db import Db
from ramify.store.sqlite.file.link import Link
from ramify.store.sqlite.file.wal import FEWEST_PAGES, WAL_LIMIT
from tests.store.sqlite.real import Child, in_forked_child, one_table, output_of

#: A process that writes `count` rows as `who`, one transaction each, and prints what went wrong.
WRITER = """
import sys, time
from ramify.store.sqlite.file.link import Link
from tests.store.sqlite.real import one_table
path, who, count, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
link = Link(path, durability="process", on_first_open=one_table)
print("ready", flush=True)
input()
for _ in range(count):
    with link.write() as db:
        db.execute("INSERT INTO t (who) VALUES (?)", (who,))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            db.execute("SELECT count(*) FROM t").fetchall()
link.close()
print("done", flush=True)
"""

#: A process that stays inside a write transaction until it hears a line, then commits.
HOLDER = """
import sys
from ramify.store.sqlite.file.link import Link
from tests.store.sqlite.real import one_table
link = Link(sys.argv[1], on_first_open=one_table)
with link.write() as db:
    db.execute("INSERT INTO t (who) VALUES ('holder')")
    print("writing", flush=True)
    input()
link.close()
print("done", flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.fixture
def link(path: Path) -> Iterator[Link]:
    with closing(Link(path, on_first_open=one_table, busy_timeout=10.0)) as opened:
        yield opened


def put(link: Link, *rows: int) -> None:
    with link.write() as db:
        db.executemany("INSERT INTO t (x) VALUES (?)", [(row,) for row in rows])


def rows_in(link: Link) -> list[int]:
    with link.read() as db:
        return [x for (x,) in db.execute("SELECT x FROM t ORDER BY x").fetchall()]


def setting(db: Db, name: str) -> object:
    return db.execute(f"PRAGMA {name}").fetchall()[0][0]


def test_a_block_that_ends_is_committed(link: Link) -> None:
    put(link, 1, 2)
    assert rows_in(link) == [1, 2]


def test_a_block_that_returns_is_committed(link: Link) -> None:
    def insert() -> int:
        with link.write() as db:
            db.execute("INSERT INTO t (x) VALUES (7)")
            return 7

    assert insert() == 7
    assert rows_in(link) == [7]


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), StoreRefused("no")])
def test_a_block_that_raises_is_rolled_back_and_its_exception_passes_unchanged(
    link: Link, error: BaseException
) -> None:
    with pytest.raises(type(error)) as caught, link.write() as db:
        db.execute("INSERT INTO t (x) VALUES (1)")
        raise error
    assert caught.value is error
    assert rows_in(link) == []
    put(link, 2)
    assert rows_in(link) == [2]


def test_a_reader_sees_one_snapshot_while_others_commit(link: Link, path: Path) -> None:
    put(link, 1)
    with closing(Link(path, on_first_open=one_table)) as other, link.read() as db:
        count = "SELECT count(*) FROM t"
        assert db.execute(count).fetchall() == [(1,)]
        put(other, 2)
        put(link, 3)
        assert db.execute(count).fetchall() == [(1,)]
    assert rows_in(link) == [1, 2, 3]


def test_a_reader_cannot_write(link: Link) -> None:
    with pytest.raises(StoreRefused, match="this is a read"), link.read() as db:
        db.execute("INSERT INTO t (x) VALUES (1)")
    assert rows_in(link) == []


def test_a_reader_cannot_see_what_is_not_committed(link: Link) -> None:
    with link.write() as db:
        db.execute("INSERT INTO t (x) VALUES (1)")
        assert rows_in(link) == []
    assert rows_in(link) == [1]


@pytest.mark.parametrize(("durability", "level"), [("power", 2), ("process", 1)])
def test_the_settings_are_the_promised_ones(path: Path, durability: Literal["power", "process"], level: int) -> None:
    wanted = {
        "journal_mode": "wal",
        "synchronous": level,
        "auto_vacuum": 2,
        "page_size": 4096,
        "foreign_keys": 0,
        "trusted_schema": 0,
        "cell_size_check": 1,
        "temp_store": 2,
        "cache_size": -65536,
        "wal_autocheckpoint": FEWEST_PAGES,
        "journal_size_limit": WAL_LIMIT,
    }
    with closing(Link(path, durability=durability, on_first_open=one_table)) as link, link.write() as db:
        assert {name: setting(db, name) for name in wanted} == wanted
        assert link._writer.db is not None
        assert link._writer.db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1) == 1
        with link.read() as reader:
            assert setting(reader, "query_only") == 1
            assert setting(reader, "trusted_schema") == 0


def test_all_files_are_for_their_owner_only_whatever_the_umask(path: Path) -> None:
    former = os.umask(0)
    try:
        with closing(Link(path, on_first_open=one_table)) as link:
            put(link, 1)
            modes = {name: stat.S_IMODE((path.parent / name).stat().st_mode) for name in os.listdir(path.parent)}
            turn = stat.S_IMODE((path.parent / "a.db-live" / "turn").stat().st_mode)
    finally:
        os.umask(former)
    assert modes == {"a.db": 0o600, "a.db-wal": 0o600, "a.db-shm": 0o600, "a.db-live": 0o700}
    assert turn == 0o600


def test_the_log_gets_the_mode_of_a_file_that_is_shared_on_purpose(path: Path) -> None:
    path.touch(0o600)
    path.chmod(0o660)
    with closing(Link(path, on_first_open=one_table)) as link:
        put(link, 1)
        assert stat.S_IMODE(Path(f"{path}-wal").stat().st_mode) == 0o660


def test_a_file_of_another_program_is_refused_and_left_as_it_was(path: Path) -> None:
    db = apsw.Connection(str(path))
    db.execute("CREATE TABLE theirs (x)")
    db.close()
    before = path.read_bytes()

    def refuse(db: apsw.Connection) -> None:
        raise StoreRefused("not ours")

    with pytest.raises(StoreRefused, match="not ours"):
        Link(path, on_first_open=refuse)
    assert path.read_bytes() == before
    assert not Path(f"{path}-wal").exists()


def test_the_last_close_leaves_one_file_and_everything_in_it(link: Link, path: Path) -> None:
    put(link, 1)
    link.changed()
    link.close()
    assert sorted(os.listdir(path.parent)) == ["a.db", "a.db-live"]
    with closing(Link(path, on_first_open=one_table)) as again:
        assert rows_in(again) == [1]


def test_a_closed_link_says_so_and_may_be_closed_again(link: Link) -> None:
    link.close()
    link.close()
    for use in (lambda: put(link, 1), lambda: rows_in(link), link.changed):
        with pytest.raises(StoreRefused, match="closed"):
            use()


def test_closing_inside_a_block_takes_effect_at_its_end(link: Link, path: Path) -> None:
    with link.read() as db:
        link.close()
        assert db.execute("SELECT count(*) FROM t").fetchall() == [(0,)]
    assert path.read_bytes()


def test_a_block_inside_a_block_of_the_same_kind_is_a_bug_and_not_a_deadlock(link: Link) -> None:
    with link.write(), pytest.raises(RuntimeError, match="inside"), link.write():
        pass
    with link.read(), pytest.raises(RuntimeError, match="inside"), link.read():
        pass


def test_threads_take_turns(link: Link) -> None:
    def work(first: int) -> None:
        for row in range(first, first + 25):
            put(link, row)
            assert row in rows_in(link)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(0, 400, 100)))
    assert len(rows_in(link)) == 100


def test_a_thread_that_waits_too_long_for_another_hears_of_it(path: Path) -> None:
    with closing(Link(path, on_first_open=one_table, busy_timeout=0.05)) as link, link.write():
        with ThreadPoolExecutor(1) as pool, pytest.raises(StoreUnavailable, match="another thread"):
            pool.submit(put, link, 1).result()
        assert rows_in(link) == []


def test_a_statement_left_half_read_does_not_keep_its_snapshot(link: Link, path: Path) -> None:
    put(link, *range(100))
    with link.read() as db:
        kept = db.execute("SELECT x FROM t")
        next(kept)
    put(link, 1000)
    other = apsw.Connection(str(path))
    other.execute("SELECT count(*) FROM t").fetchall()
    assert other.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE) == (0, 0)
    other.close()
    assert len(rows_in(link)) == 101


def test_changed_tells_of_every_commit_and_of_nothing_else(link: Link, path: Path) -> None:
    with closing(Link(path, on_first_open=one_table)) as other:
        seen = [link.changed()]
        assert link.changed() == seen[-1]
        rows_in(link)
        rows_in(other)
        assert link.changed() == seen[-1]
        for write in (lambda: put(link, 1), lambda: put(other, 2), lambda: put(link, 3)):
            write()  # type: ignore[no-untyped-call]
            seen.append(link.changed())
        assert len(set(seen)) == len(seen)


def test_changed_answers_while_readers_and_writers_are_busy(link: Link) -> None:
    with link.write(), link.read():
        assert link.changed() == link.changed()


def test_writing_is_told_to_whoever_asked(link: Link) -> None:
    told: list[bool] = []
    link.on_writing = told.append
    put(link, 1)
    with pytest.raises(ZeroDivisionError), link.write():
        assert told == [True, False, True]
        _ = 1 / 0
    assert told == [True, False, True, False]
    rows_in(link)
    assert told == [True, False, True, False]


def test_two_processes_write_200_transactions_each_and_see_no_error(path: Path) -> None:
    with Child(WRITER, path, "a", 200, 0) as a, Child(WRITER, path, "b", 200, 0) as b:
        assert a.hear() == b.hear() == "ready"
        a.say()
        b.say()
        assert a.hear() == b.hear() == "done"
        assert (a.end(), b.end()) == (0, 0)
    with closing(Link(path, on_first_open=one_table)) as link, link.read() as db:
        found = db.execute("SELECT who, count(*) FROM t GROUP BY who ORDER BY who").fetchall()
    assert found == [("a", 200), ("b", 200)]


def test_two_processes_that_write_without_a_pause_take_turns(path: Path) -> None:
    with Child(WRITER, path, "a", 80, 0.01) as a, Child(WRITER, path, "b", 80, 0.01) as b:
        assert a.hear() == b.hear() == "ready"
        a.say()
        b.say()
        assert a.hear() == b.hear() == "done"
    with closing(Link(path, on_first_open=one_table)) as link, link.read() as db:
        order = "".join(str(who) for (who,) in db.execute("SELECT who FROM t ORDER BY x").fetchall())
    # From when both have begun until one is done.
    shared = order[max(order.index("a"), order.index("b")) : min(order.rindex("a"), order.rindex("b"))]
    longest = max(len(list(group)) for _, group in itertools.groupby(shared))
    assert longest <= 12, order


def test_processes_that_create_the_same_file_at_once_all_succeed(tmp_path: Path) -> None:
    program = """
    from ramify.store.sqlite.file.link import Link
    from tests.store.sqlite.real import one_table
    while True:
        link = Link(input(), durability="process", on_first_open=one_table)
        with link.write() as db:
            db.execute("INSERT INTO t (who) VALUES ('me')")
        link.close()
        print("done", flush=True)
    """
    with ExitStack() as stack:
        children = [stack.enter_context(Child(program)) for _ in range(4)]
        for number in range(60):
            for child in children:
                child.say(str(tmp_path / f"{number}.db"))
            for child in children:
                assert child.hear() == "done"
    with closing(Link(tmp_path / "59.db", on_first_open=one_table)) as link, link.read() as db:
        assert db.execute("SELECT count(*) FROM t").fetchall() == [(4,)]
        assert setting(db, "auto_vacuum") == 2


def test_a_write_lock_that_does_not_come_is_unavailable_and_names_its_holder(path: Path) -> None:
    with Child(HOLDER, path) as holder:
        assert holder.hear() == "writing"
        with closing(Link(path, on_first_open=one_table, busy_timeout=0.1)) as link:
            with pytest.raises(
                StoreUnavailable, match=r"waited 0\.1 s.*another process is writing.*try again"
            ) as caught:
                put(link, 1)
            assert "locked" not in str(caught.value)
            link.holder = lambda: "process 2a (pid 42) has been writing for 7 s"
            with pytest.raises(StoreUnavailable, match="pid 42"):
                put(link, 1)
            assert rows_in(link) == []
            holder.say()
            assert holder.hear() == "done"
            put(link, 100)
            assert rows_in(link) == [1, 100]


def test_an_interrupt_ends_the_waiting_for_the_write_lock(path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with Child(HOLDER, path) as holder, closing(Link(path, on_first_open=one_table)) as link:
            assert holder.hear() == "writing"
            timer = threading.Timer(0.1, signal.pthread_kill, (threading.get_ident(), signal.SIGUSR1))
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                put(link, 1)
            timer.join()
            holder.say()
            assert holder.hear() == "done"
            put(link, 100)
            assert rows_in(link) == [1, 100]
    finally:
        signal.signal(signal.SIGUSR1, former)


def test_a_process_that_was_killed_while_writing_leaves_nothing_and_no_lock(path: Path) -> None:
    with Child(HOLDER, path) as holder:
        assert holder.hear() == "writing"
        with closing(Link(path, on_first_open=one_table)) as link:
            holder.kill()
            put(link, 100)
            assert rows_in(link) == [100]


def test_a_process_that_is_stopped_while_writing_blocks_writers_and_loses_nothing(path: Path) -> None:
    with Child(HOLDER, path) as holder, closing(Link(path, on_first_open=one_table, busy_timeout=0.1)) as link:
        assert holder.hear() == "writing"
        os.kill(holder.pid, signal.SIGSTOP)
        with pytest.raises(StoreUnavailable):
            put(link, 1)
        os.kill(holder.pid, signal.SIGCONT)
        holder.say()
        assert holder.hear() == "done"
        put(link, 100)
        assert rows_in(link) == [1, 100]


def test_a_process_that_is_stopped_with_the_turn_does_not_stop_the_others(link: Link, path: Path) -> None:
    program = """
    import fcntl, os, sys
    turn = os.open(sys.argv[1], os.O_RDWR)
    fcntl.flock(turn, fcntl.LOCK_EX)
    print("taken", flush=True)
    input()
    """
    put(link, 1)
    with Child(program, path.parent / "a.db-live" / "turn") as greedy:
        assert greedy.hear() == "taken"
        put(link, 2)
    assert rows_in(link) == [1, 2]


def test_a_forked_child_that_outlives_its_killed_parent_does_not_keep_the_turn(tmp_path: Path) -> None:
    program = """
    import os, signal, sys
    from ramify.store.sqlite.file.write_queue import WriteQueue
    turn = WriteQueue(sys.argv[1])
    with turn.held():
        pid = os.fork()
        if pid == 0:
            print("child", flush=True)
            signal.pause()
        print(pid, flush=True)
        signal.pause()
    """
    with Child(program, tmp_path / "turn") as parent:
        said = {parent.hear(), parent.hear()} - {"child"}
        parent.kill()
        try:
            turn = os.open(tmp_path / "turn", os.O_RDWR)
            fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(turn)
        finally:
            os.kill(int(said.pop()), signal.SIGKILL)


def test_a_forked_child_is_refused_every_use_and_does_the_parent_no_harm(link: Link, path: Path) -> None:
    put(link, 1)
    rows_in(link)
    for use in (lambda: put(link, 9), lambda: str(rows_in(link)), lambda: str(link.changed())):
        answer = in_forked_child(use)  # type: ignore[arg-type]
        assert answer.startswith("StoreRefused")
        assert "forked" in answer

    def close() -> str:
        link.close()
        return "closed"

    assert in_forked_child(close) == "closed"
    put(link, 2)
    program = """
    import apsw, sys
    db = apsw.Connection(sys.argv[1])
    print(db.execute("SELECT count(*) FROM t").get)
    db.close()
    """
    assert output_of(program, path) == "2"
    put(link, 3)
    assert output_of(program, path) == "3"


def test_a_forked_child_that_ends_like_a_program_does_the_parent_no_harm(path: Path) -> None:
    program = """
    import os, sys
    from ramify.store.sqlite.file.link import Link
    from tests.store.sqlite.real import one_table
    link = Link(sys.argv[1], on_first_open=one_table)
    with link.write() as db:
        db.execute("INSERT INTO t (x) VALUES (1)")
    if os.fork() == 0:
        sys.exit(0)  # with all the clean-up of an interpreter
    os.wait()
    with link.write() as db:
        db.execute("INSERT INTO t (x) VALUES (2)")
    print("written", flush=True)
    input()
    """
    with Child(program, path) as parent:
        assert parent.hear() == "written"
        with closing(Link(path, on_first_open=one_table)) as link:
            assert rows_in(link) == [1, 2]
        parent.kill()
    with closing(Link(path, on_first_open=one_table)) as link:
        assert rows_in(link) == [1, 2]


def test_a_forked_child_that_ends_inside_its_parents_transaction_leaves_it_whole(path: Path) -> None:
    program = """
    import os, sys
    from ramify.store.sqlite.file.link import Link
    from tests.store.sqlite.real import one_table
    link = Link(sys.argv[1], on_first_open=one_table)
    with link.write() as db:
        db.execute("PRAGMA cache_size=5")  # so that pages reach the log before the commit
        db.executemany("INSERT INTO t VALUES (?, ?)", ((x, "x" * 1000) for x in range(3000)))
        if os.fork() == 0:
            sys.exit(0)
        os.wait()
        db.executemany("INSERT INTO t VALUES (?, ?)", ((x, "x" * 1000) for x in range(3000, 4000)))
    with link.read() as db:
        print(db.execute("SELECT count(*), sum(x) FROM t").fetchall(), flush=True)
        print(db.execute("PRAGMA integrity_check").fetchall(), flush=True)
    """
    with Child(program, path) as parent:
        assert parent.hear() == "[(4000, 7998000)]"
        assert parent.hear() == "[('ok',)]"


def test_a_fork_inside_a_transaction_leaves_it_to_the_parent(link: Link) -> None:
    def leave_the_block() -> str:
        block.__exit__(None, None, None)
        return "committed"

    block = link.write()
    db = block.__enter__()
    db.execute("INSERT INTO t (x) VALUES (1)")
    assert in_forked_child(leave_the_block).startswith("StoreRefused")
    block.__exit__(None, None, None)
    assert rows_in(link) == [1]


def test_a_fork_while_another_thread_writes_does_not_deadlock_the_child(link: Link) -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with link.write() as db:
            db.execute("INSERT INTO t (x) VALUES (1)")
            inside.set()
            leave.wait()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(hold)
        inside.wait()
        answer = in_forked_child(lambda: str(put(link, 2)))  # type: ignore[func-returns-value]
        leave.set()
        writing.result()
    assert answer.startswith("StoreRefused")
    assert rows_in(link) == [1]


def log_after_another_write(link: Link, size: int = 200_000) -> int:
    with link.write() as db:
        db.execute("INSERT INTO t (who) VALUES (?)", ("x" * size,))
    return os.stat(f"{link.path}-wal").st_size


def test_the_log_stays_bounded_without_readers(path: Path) -> None:
    limit = 1 << 20
    with closing(Link(path, durability="process", on_first_open=one_table, wal_limit=limit)) as link:
        sizes = [log_after_another_write(link) for _ in range(40)]
    assert max(sizes) <= limit
    assert max(sizes) > limit // 2


def test_a_reader_that_stays_lets_the_log_grow_and_its_end_empties_it(path: Path) -> None:
    limit = 1 << 20

    with closing(Link(path, durability="process", on_first_open=one_table, wal_limit=limit)) as link:
        with link.read() as db:
            db.execute("SELECT count(*) FROM t").fetchall()
            begun = time.monotonic()
            assert max(log_after_another_write(link) for _ in range(20)) > 2 * limit
            assert time.monotonic() - begun < 10, "writers were held up for the readers' sake"
        while log_after_another_write(link, 1_000) > limit:
            assert time.monotonic() - begun < 30, "the log was not emptied"


class Striking:
    """A Ctrl-C at the `at`-th place where Python looks for one: as a function begins, or after a call into C."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_return") and Path(frame.f_code.co_filename).name in PLACES:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt


PLACES = ("link.py", "connection.py", "write_queue.py", "contextlib.py")


def test_ctrl_c_at_any_place_leaves_the_connection_and_the_queue_to_others(path: Path) -> None:
    with closing(Link(path, busy_timeout=0.2, on_first_open=one_table)) as link, closing(Link(path)) as other:
        for at in itertools.count(1):
            striking = Striking(at)
            sys.setprofile(striking)
            try:
                with link.write() as db:
                    db.execute("INSERT INTO t (who) VALUES ('me')")
            except KeyboardInterrupt:
                pass
            finally:
                sys.setprofile(None)
            with other._write_queue.held():
                assert not other._write_queue.contended, f"after {at}"
            with ThreadPoolExecutor(1) as beside:
                assert beside.submit(rows_of, link).result() == rows_of(other), f"after {at}"
            if striking.left > 0:
                break
    assert at > 40


def rows_of(link: Link) -> list[object]:
    with link.write() as db:
        return list(db.execute("SELECT x FROM t").fetchall())
