"""What `durability` costs and buys: with "power" no verb returns before its log is synced; with "process" none is.

Seen from inside, by the steps SQLite takes, and from outside, by the system calls of a real process.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ramify.model.addition import Addition
from ramify.model.claim import Want
from ramify.model.commit import Part
from ramify.model.death import NOBODYS_FAULT
from ramify.model.event import Status
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import NewRun
from ramify.model.task import NewTasks
from ramify.store.open import Durability
from ramify.store.sqlite import SqliteStore
from tests.crash.client import APPENDED
from tests.crash.clients import LIMIT, STORE, WITNESS, Clients
from tests.crash.disk import Change, Disk, Step
from tests.crash.witness import Said, Witness

ANY = Want(frozenset({"work"}), 1)
LOG_SYNCED = re.compile(r"f(data)?sync\(\d+<[^>]*-wal>")
STORE_SYNCED = re.compile(rf"f(data)?sync\(\d+<[^>]*{STORE}>")


def every_verb(store: SqliteStore) -> Iterator[tuple[str, Callable[[], object]]]:
    """Each verb that writes, in an order in which each has something to write."""
    process, other, third = new_process_id(), new_process_id(), new_process_id()
    run = 1
    first = 0
    token = b""

    def reserve() -> None:
        nonlocal first
        first = store.reserve(100)

    def claim(n: int) -> None:
        nonlocal token
        token = store.claim(Stamp(process, n), ANY).claims[0].token

    def task() -> int:
        return next(row.first for row in store.reads.segments().rows if row.owner is not None)

    yield "enter", lambda: store.enter(NewProcess(process))
    yield "reserve", reserve
    run = first
    yield "start", lambda: store.start(NewRun(run, "r"), [NewTasks(first + 1, "work", [b"1", b"2", b"3"])])
    yield "append", lambda: store.append([Addition(run, [NewTasks(first + 10, "work", [b"4"])])])
    yield "claim", lambda: claim(1)
    yield "stage", lambda: store.stage(Stamp(process, 2), token, [NewTasks(first + 20, "work", [b"5"])])
    yield "release", lambda: store.release(Stamp(process, 3), [token])
    claim(4)
    ended = task()
    yield "commit", lambda: store.commit(Stamp(process, 5), [Part(token, [ended], Status.FAILED)])
    yield "reopen", lambda: store.reopen(Stamp(process, 6), run, [ended])
    yield "pause", lambda: store.pause(run)
    yield "resume", lambda: store.resume(run)
    yield "settle", lambda: store.settle(run, first + 10, Status.SKIPPED)
    yield "drain", lambda: store.drain(process)
    store.enter(NewProcess(third))
    yield "bury", lambda: store.bury(third, NOBODYS_FAULT)
    store.enter(NewProcess(other))
    yield "leave", lambda: store.leave(other)
    yield "cancel", lambda: store.cancel(run)


def steps_of_verbs(folder: Path, durability: Durability) -> Iterator[tuple[str, list[Step]]]:
    """What each verb changed on the disk before it returned."""
    with Disk(folder) as disk:
        store = SqliteStore(folder / STORE, durability=durability)
        for name, verb in every_verb(store):
            before = len(disk.steps)
            verb()
            yield name, disk.steps[before:]
        store.close()


def test_with_power_no_verb_returns_before_its_log_is_synced(tmp_path: Path) -> None:
    for name, steps in steps_of_verbs(tmp_path, "power"):
        changes = [step.change for step in steps if step.is_log]
        assert Change.WRITE in changes, name
        assert changes[-1] is Change.SYNC, name


def test_with_process_no_verb_waits_for_the_disk(tmp_path: Path) -> None:
    for name, steps in steps_of_verbs(tmp_path, "process"):
        changes = [step.change for step in steps]
        assert Change.WRITE in changes, name
        assert Change.SYNC not in changes, name


def _why_no_strace() -> str | None:
    """Why system calls cannot be watched here."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, text=True)
    return f"strace does not work here: {tried.stderr.strip()}" if tried.returncode else None


@pytest.mark.parametrize("durability", ["power", "process"])
def test_the_system_calls_of_a_real_process_keep_the_promise(
    durability: Durability, tmp_path: Path, clients: Clients
) -> None:
    why_not = _why_no_strace()
    if why_not is not None:
        pytest.skip(why_not)
    trace = tmp_path / "trace"
    client = clients.add(("strace", "-f", "-y", "-e", "trace=fsync,fdatasync,write", "-o", str(trace)))
    client.begin("append", tmp_path, 0, f"durability={durability}")
    assert client.ends_within(LIMIT)
    lines = Witness(tmp_path / WITNESS).lines()
    assert sum(line.said is Said.APPEND_ACK for line in lines) == APPENDED
    synced = unsynced = copied = 0
    log_since_begin = store_since_ack = False
    for call in trace.read_text().splitlines():
        if LOG_SYNCED.search(call):
            log_since_begin = True
        elif STORE_SYNCED.search(call):
            store_since_ack = True
        elif WITNESS in call and Said.APPEND_BEGIN in call:
            log_since_begin = False
            # Before the first one, the store was made.
            store_since_ack = store_since_ack and synced + unsynced > 0
        elif WITNESS in call and Said.APPEND_ACK in call:
            copied += store_since_ack
            synced += log_since_begin
            unsynced += not log_since_begin
            store_since_ack = False
    # Without a promise about power, the log is synced only where it is copied into the store, now and then: before the
    # copy, and once more when the log begins anew.
    assert copied < APPENDED // 50
    if durability == "power":
        assert (synced, unsynced) == (APPENDED, 0)
    else:
        assert copied <= synced <= 2 * copied
