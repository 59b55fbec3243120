"""A crew and real children of it: those that cannot go on, that do not go, that end although nobody asked them to."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from ramify.engine.processes import crew as crews
from ramify.engine.processes import exit_status
from ramify.engine.processes.address import load_engine
from ramify.engine.processes.crew import Crew
from ramify.engine.processes.member import Orders, Service
from ramify.errors import RamifyError, StoreBroken, StoreUnavailable
from ramify.kernel.core import pressure
from ramify.kernel.faults import disarm
from ramify.kernel.signals import Replaced, Signal, Signals, Stopping
from ramify.model.event import Status
from ramify.store.contract import Store
from ramify.store.open import open_store
from tests.crash.engine.scene import is_alive
from tests.kernel.shop import rewrite

#: What no test should ever need.
LONG = 30.0

MODULE = """
import pathlib, threading
from ramify import Engine
from ramify.kernel.faults import arm

engine = Engine("crew.db")

@engine.task
def work(folder: str) -> int:
    folder = pathlib.Path(folder)
    (folder / "began").touch()
    while not (folder / "go").exists():
        threading.Event().wait(0.01)
    return 1
"""
SICK = f"""{MODULE}
def fall_ill():
    raise RuntimeError("planted")

arm("entered", fall_ill)
"""
DYING = f"""{MODULE}
import os

arm("before-claim", lambda: os._exit(9))
"""
CLINGING = f"""{MODULE}
threading.Thread(target=threading.Event().wait).start()
"""
SLOW_TO_START = f"""{MODULE}
while not (pathlib.Path(__file__).parent / "start").exists():
    threading.Event().wait(0.01)
"""
STARTING = """
import os, signal, stat, subprocess, sys
from ramify import Engine

engine = Engine("crew.db")

@engine.task
def read() -> list[str]:
    return [subprocess.run(["cat"], capture_output=True, text=True).stdout, sys.stdin.read()]

@engine.task
def start() -> list[bool]:
    line = int(sys.argv[2])
    child = os.fork()
    if not child:
        os.fstat(line)
        sys.exit(0)
    forked = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    started = subprocess.run(["test", "-e", f"/proc/self/fd/{line}"], close_fds=False).returncode == 0
    return [stat.S_ISSOCK(os.fstat(line).st_mode), forked, started]

if __name__ == "__main__":
    with engine.working(processes=1):
        run = engine.start(read.of())
        run.wait()
        child = os.fork()
        if not child:
            signal.pause()
        worker = next(each.pid for each in engine._runtime.store.reads.processes() if not each.reaped)
        print(worker, child, flush=True)
        signal.pause()
"""


GREEDY = """
import os, resource, sys
from ramify import Engine

engine = Engine("crew.db")
from ramify import Backoff

kept = []

@engine.task(retries=1)
def greedy() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    while True:
        kept.append(open(os.devnull))

@engine.task(retries=0)
def modest(n: int) -> int:
    return n

@engine.task(retries=0)
def reading() -> int:
    with open(os.devnull) as file:
        return len(file.read())

if __name__ == "__main__":
    run = engine.run([greedy.of(), *(modest.of(n) for n in range(50))], order="any", processes=int(sys.argv[1]))
    print(run.state, run.counts.done, run.counts.failed)
    print(*(f"{each.kind} {each.failure.type} {each.failure.text}" for each in run.errors()))
"""


ODD = """
from ramify import Engine

engine = Engine("crew.db")

class Odd(Exception):
    def __getattribute__(self, name):
        raise ValueError(f"no {name} today")

@engine.task(retries=1)
def plain() -> None:
    raise Odd

@engine.task(retries=1)
async def coroutine() -> None:
    raise Odd
"""


class Watched:
    """A crew that is waited for beside the test, and what it says."""

    def __init__(self, folder: Path, text: str, *, size: int = 1, **given: Any) -> None:
        (folder / "staff.py").write_text(text)
        self.store: Store = open_store(folder / "crew.db")
        self.replaced: list[str] = []
        self.stops: list[Stopping] = []
        signals = Signals()
        signals.listen(self._hear)
        self.said: list[str] = []
        kept = {name: given.pop(name) for name in ("hung_after", "clock") if name in given}
        self.folder, self.address = folder, f"{folder / 'staff.py'}:engine"
        orders = Orders(address=self.address, **given)
        self.crew = Crew(orders, size, self.store, signals, url=str(folder / "crew.db"), say=self.said.append, **kept)
        self.trouble: BaseException | None = None
        self._thread = threading.Thread(target=self._wait, daemon=True)

    def begin(self) -> None:
        self.crew.start()
        self._thread.start()

    def ends_within(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def result_of(self, kind: str) -> Any:
        """What a task of the module returned when the crew had worked on it."""
        engine = load_engine(self.address)
        engine._runtime.use(open_store(self.folder / "crew.db"))
        try:
            run = engine.start(engine._runtime.table()[kind].of())
            assert run.wait(timeout=LONG / 2)
            return next(iter(run.results()))
        finally:
            engine.close()

    def alive(self) -> list[int]:
        return [process.id for process in self.store.reads.processes() if not process.reaped]

    def is_at_work(self) -> bool:
        return bool(self.alive())

    def close(self) -> None:
        self.crew.kill()
        self._thread.join(LONG)
        self.store.close()

    def _hear(self, signal: Signal) -> None:
        if isinstance(signal, Replaced):
            self.replaced.append(signal.why)
        elif isinstance(signal, Stopping):
            self.stops.append(signal)

    def _wait(self) -> None:
        try:
            self.crew.wait()
        except RamifyError as trouble:
            self.trouble = trouble


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    """Crews in a folder of their own; nothing is left of them at the end."""
    made: list[Watched] = []

    def begin(text: str, **given: Any) -> Watched:
        made.append(Watched(tmp_path, text, **given))
        made[-1].begin()
        return made[-1]

    yield begin
    for each in made:
        each.close()


def wait_until(true: Callable[[], object], what: str) -> None:
    end, never = time.monotonic() + LONG, threading.Event()
    while not true():
        assert time.monotonic() < end, f"{what}: never"
        never.wait(0.01)


def test_a_stop_while_children_are_started_starts_no_more_of_them(tmp_path: Path) -> None:
    watched = Watched(tmp_path, MODULE, size=1_000)
    watched.crew.stop()
    watched.crew.start()
    assert watched.crew.pids == []
    watched.store.close()


def test_children_that_cannot_go_on_end_the_crew_with_their_words(
    watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that one of them still waits to be replaced when the other has its last trouble.
    monkeypatch.setattr(crews, "SHORT_LIFE", LONG)
    monkeypatch.setattr(crews, "FIRST_PAUSE", 0.3)
    watched = watch(SICK, size=2)
    assert watched.ends_within(LONG)
    assert "planted" in str(watched.trouble)
    assert set(watched.replaced) == {"RuntimeError: planted"}


def test_children_that_die_as_soon_as_they_have_come_in_are_replaced_ever_more_slowly_however_long_that_took(
    watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crews, "FIRST_PAUSE", 0.001)
    watched: list[Watched] = []

    def clock() -> float:
        # It takes a child a long time to come in, and none to die.
        return 1_000.0 * len(watched[0].store.reads.processes()) if watched else 0.0

    watched.append(watch(DYING, hung_after=1e9, clock=clock))
    wait_until(lambda: watched[0].crew._pauses > 2, "a pause before the next one")


def test_a_child_that_finds_no_store_any_more_says_so_and_makes_none(tmp_path: Path) -> None:
    watched = Watched(tmp_path, MODULE)
    watched.store.close()
    (tmp_path / "crew.db").unlink()
    watched.begin()
    assert watched.ends_within(LONG)
    assert isinstance(watched.trouble, StoreBroken)
    assert not (tmp_path / "crew.db").exists()


def test_a_child_that_has_left_but_does_not_go_is_killed(
    watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crews, "TO_BE_GONE", 0.5)
    watched = watch(CLINGING, grace=0.1)
    wait_until(watched.is_at_work, "a child at work")
    watched.crew.stop()
    assert watched.ends_within(LONG)
    assert not any(row.deaths.count for row in watched.store.reads.segments().rows)
    assert watched.stops[-1] == Stopping("done", 0), "it had saved everything, only its process did not end"


def test_nobody_reads_the_url_of_the_store_in_a_list_of_processes(watch: Callable[..., Watched]) -> None:
    watched = watch(MODULE)
    wait_until(watched.is_at_work, "a child at work")
    (pid,) = watched.crew.pids
    for name in ("cmdline", "environ"):
        assert b"crew.db" not in Path(f"/proc/{pid}/{name}").read_bytes()


def test_a_child_that_was_drained_leaves_and_is_not_replaced(watch: Callable[..., Watched]) -> None:
    watched = watch(MODULE, size=2, beat_every=0.05)
    wait_until(lambda: len(watched.alive()) == 2, "two children at work")
    first, second = watched.alive()
    assert watched.store.drain(first)
    wait_until(lambda: watched.alive() == [second], "one of them has left")
    wait_until(lambda: len(watched.crew.pids) == 1, "and is gone")
    assert not watched.ends_within(0.2)
    assert len(watched.crew.pids) == 1
    assert watched.store.drain(second)
    assert watched.ends_within(LONG)
    assert (watched.replaced, watched.trouble) == ([], None)


def test_a_child_that_hears_of_a_stop_twice_still_finishes_what_runs(
    watch: Callable[..., Watched], tmp_path: Path
) -> None:
    watched = watch(MODULE, grace=LONG)
    engine = load_engine(f"{tmp_path / 'staff.py'}:engine")
    engine._runtime.use(open_store(tmp_path / "crew.db"))
    run = engine.start(engine._runtime.table()["work"].of(str(tmp_path)))
    wait_until((tmp_path / "began").exists, "the task to begin")
    (child,) = watched.crew.pids
    # As a service manager does it: to the crew, and to its children as well.
    os.kill(child, signal.SIGTERM)
    threading.Event().wait(0.2)
    watched.crew.stop()
    assert not watched.ends_within(0.5)
    (tmp_path / "go").touch()
    assert watched.ends_within(LONG)
    assert run.counts.done == 1
    engine.close()


def test_a_child_that_ends_although_nobody_asked_for_it_is_replaced(watch: Callable[..., Watched]) -> None:
    watched = watch(MODULE)
    wait_until(watched.is_at_work, "a child at work")
    (first,) = watched.crew.pids
    os.kill(first, signal.SIGTERM)
    wait_until(lambda: watched.crew.pids not in ([], [first]), "another child")
    assert watched.replaced == ["it ended with code 0"]


def test_a_task_that_exits_as_a_child_does_which_could_not_start_costs_its_child_alone(
    watch: Callable[..., Watched],
) -> None:
    watched = watch(f"{MODULE}\n@engine.task\ndef leave() -> None:\n    import os\n    os._exit(3)\n")
    wait_until(watched.is_at_work, "a child at work")
    engine = load_engine(watched.address)
    engine._runtime.use(open_store(watched.folder / "crew.db"))
    engine.enqueue(engine._runtime.table()["leave"].of())
    engine.close()
    wait_until(lambda: watched.replaced, "another child")
    assert watched.replaced[0].startswith("it ended with code 3")
    wait_until(watched.is_at_work, "the other child at work")


def test_children_of_a_crew_that_was_asleep_itself_are_not_taken_for_hung(watch: Callable[..., Watched]) -> None:
    slept = [0.0]
    # They say nothing on their own for longer than the test, as after a pause of the whole machine.
    watched = watch(MODULE, beat_every=LONG, clock=lambda: time.monotonic() + slept[0])
    wait_until(watched.is_at_work, "a child at work")
    wait_until(lambda: all(member.process for member in watched.crew._members), "its first words")
    slept[0] = 10 * crews.HUNG_AFTER
    threading.Event().wait(2.5)
    assert watched.replaced == []


def test_a_child_that_cannot_be_replaced_at_once_is_replaced_later(
    watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crews, "LONGEST_PAUSE", 0.1)
    start, refused = subprocess.Popen, list[Any]()

    def refuse(*args: Any, **kwargs: Any) -> Any:
        if len(refused) < 2:
            refused.append(args)
            raise BlockingIOError("no process to spare")
        return start(*args, **kwargs)

    watched = watch(MODULE)
    wait_until(watched.is_at_work, "a child at work")
    (first,) = watched.crew.pids
    monkeypatch.setattr(subprocess, "Popen", refuse)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: watched.crew.pids not in ([], [first]), "another child")
    assert len(refused) == 2


def test_a_task_in_a_worker_process_has_an_empty_standard_input(watch: Callable[..., Watched]) -> None:
    assert watch(STARTING).result_of("read") == ["", ""]


def test_what_a_task_starts_does_not_have_the_line_to_the_crew(watch: Callable[..., Watched]) -> None:
    here, forked, started = watch(STARTING).result_of("start")
    assert here, "this is not the line, so the rest shows nothing"
    assert not forked
    assert not started


def test_workers_stop_when_their_program_is_killed_though_a_forked_child_of_it_lives(tmp_path: Path) -> None:
    (tmp_path / "staff.py").write_text(STARTING)
    program = subprocess.Popen([sys.executable, "staff.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    with program.stdout as said:
        worker, child = map(int, said.readline().split())
    try:
        program.kill()
        program.wait()
        wait_until(lambda: not is_alive(worker), "the end of the worker")
        assert is_alive(child), "the fork is gone, so this shows nothing"
    finally:
        for pid in (worker, child):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


HOLDING = """
import ctypes, pathlib, threading
from ramify import Engine, current

engine = Engine("crew.db")
folder = pathlib.Path(__file__).parent

def hold() -> str:
    # As a call that never comes back and does not let go of the interpreter either.
    ctypes.PyDLL(None).sleep(60)
    return "late"

@engine.task(retries=0, timeout=0.3)
def plain() -> str:
    return hold()

@engine.task(retries=0, timeout=0.3)
async def coroutine() -> str:
    return hold()

@engine.task
def beside() -> int:
    (folder / "began").touch()
    while not (folder / "go").exists():
        threading.Event().wait(0.01)
    return current().attempt
"""


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_a_child_that_a_late_task_lets_do_nothing_is_killed_and_the_task_timed_out(
    kind: str, watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exit_status, "OVERDUE_AFTER", 0.2)
    watched = watch(HOLDING, beat_every=0.1)
    engine = load_engine(watched.address)
    engine._runtime.use(open_store(watched.folder / "crew.db"))
    beside = engine.start(engine._runtime.table()["beside"].of())
    wait_until((watched.folder / "began").exists, "the task beside it to begin")
    run = engine.start(engine._runtime.table()[kind].of())
    assert run.wait(timeout=LONG)
    (watched.folder / "go").touch()
    assert beside.wait(timeout=LONG)
    (error,) = run.errors()
    (task,) = (row.id for row in watched.store.reads.tasks(run.id).rows)
    assert (error.status, error.failure.type, error.failure.text) == (
        Status.FAILED,
        "TimeoutError",
        "no result after 0.3 seconds",
    )
    assert watched.replaced == [f"task {task} ran out of time and lets nothing else run"]
    assert list(beside.results()) == [1]
    engine.close()


def test_a_child_that_was_killed_for_lack_of_memory_is_replaced_by_one_with_half_its_threads(
    watch: Callable[..., Watched], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = tmp_path / "memory.events"
    count.write_text("oom_kill 0\n")
    monkeypatch.setattr(pressure, "_kill_counts", lambda: (count,))
    # It says how it is once, and then nothing that would come between the count and its end.
    watched = watch(MODULE, threads=6, beat_every=LONG)

    def threads() -> list[int | None]:
        return [member.threads for member in watched.crew._members]

    wait_until(lambda: threads() == [6], "its first words")
    count.write_text("oom_kill 1\n")
    os.kill(watched.crew.pids[0], signal.SIGKILL)
    wait_until(lambda: threads() == [3], "another with half as many")


SERVING = f"""{MODULE}
from ramify import Backoff

kept = []

@engine.task
def quick() -> int:
    return 2

@engine.task
def hoard() -> int:
    kept.append(b"x" * 300_000_000)
    return 3

@engine.task
def whose(name: str) -> int:
    import os
    return os.getpid()

@engine.task(retries=1, backoff=Backoff(first=0.01))
def shaky(name: str) -> None:
    from ramify import current
    if current().attempt == 1:
        raise OSError("not yet")
"""


class Bench:
    """An engine of the same module beside a crew, to start runs with."""

    def __init__(self, watched: Watched) -> None:
        self.engine = load_engine(watched.address)
        # The module may have armed points, which are for the children.
        disarm()
        self.engine._runtime.use(open_store(watched.folder / "crew.db"))

    def start(self, *calls: tuple[str, ...]) -> Any:
        table = self.engine._runtime.table()
        return self.engine.start([table[kind].of(*args) for kind, *args in calls])


@pytest.fixture
def bench() -> Iterator[Callable[[Watched], Bench]]:
    made: list[Bench] = []

    def begin(watched: Watched) -> Bench:
        made.append(Bench(watched))
        return made[-1]

    yield begin
    for each in made:
        each.engine.close()


def test_a_child_that_has_done_so_many_tasks_is_replaced(
    watch: Callable[..., Watched], bench: Callable[[Watched], Bench]
) -> None:
    watched = watch(SERVING, threads=1, service=Service(recycle_tasks=3))
    for _ in range(2):
        run = bench(watched).start(*[("quick",)] * 3)
        assert run.wait(timeout=LONG)
        assert run.counts.done == 3
    wait_until(lambda: len(watched.replaced) == 2, "the second to be replaced")
    assert watched.replaced == ["it had done 3 tasks"] * 2


def test_a_child_takes_no_more_tasks_than_it_may_do_before_it_is_replaced(
    watch: Callable[..., Watched], bench: Callable[[Watched], Bench]
) -> None:
    watched = watch(SERVING, service=Service(recycle_tasks=20))
    run = bench(watched).start(*[("whose", str(n)) for n in range(100)])
    assert run.wait(timeout=LONG)
    wait_until(lambda: len(watched.replaced) == 5, "the fifth to be replaced")
    assert watched.replaced == ["it had done 20 tasks"] * 5
    assert sorted(Counter(run.results()).values()) == [20] * 5


def test_a_task_that_is_tried_again_in_its_process_counts_once(
    watch: Callable[..., Watched], bench: Callable[[Watched], Bench]
) -> None:
    watched = watch(SERVING, threads=1, service=Service(recycle_tasks=2))
    run = bench(watched).start(*[("shaky", str(n)) for n in range(4)])
    assert run.wait(timeout=LONG)
    assert run.counts.done == 4
    wait_until(lambda: len(watched.replaced) == 2, "the second to be replaced")
    assert watched.replaced == ["it had done 2 tasks"] * 2


def test_a_child_that_uses_too_much_memory_is_replaced(
    watch: Callable[..., Watched], bench: Callable[[Watched], Bench]
) -> None:
    watched = watch(SERVING, threads=1, service=Service(recycle_mb=250))
    assert bench(watched).start(("quick",)).wait(timeout=LONG)
    assert watched.replaced == []
    assert bench(watched).start(("hoard",)).wait(timeout=LONG)
    wait_until(lambda: watched.replaced, "the child to be replaced")
    (why,) = watched.replaced
    assert why.startswith("it used ")
    assert why.endswith(" MB")


def test_a_child_that_is_to_be_replaced_finishes_what_it_runs_however_long_that_takes(
    watch: Callable[..., Watched], bench: Callable[[Watched], Bench], tmp_path: Path
) -> None:
    watched = watch(SERVING, threads=2, grace=0.0, service=Service(recycle_mb=1))
    run = bench(watched).start(("work", str(tmp_path)))
    wait_until((tmp_path / "began").exists, "the long task to begin")
    assert bench(watched).start(("quick",)).wait(timeout=LONG)
    (member,) = watched.crew._members
    wait_until(lambda: member.recycled_for, "its last words")
    assert not watched.ends_within(0.3)
    assert watched.replaced == []
    (tmp_path / "go").touch()
    assert run.wait(timeout=LONG)
    wait_until(lambda: watched.replaced, "the child to be replaced")
    assert run.counts.done == 1


@pytest.mark.parametrize("processes", [0, 1])
def test_a_task_that_uses_up_all_file_descriptors_fails_by_its_policy_and_no_other_does(
    processes: int, tmp_path: Path
) -> None:
    (tmp_path / "staff.py").write_text(GREEDY)
    command = [sys.executable, "staff.py", str(processes)]
    program = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LONG)
    assert program.stdout.splitlines() == [
        "failed 50 1",
        f"greedy OSError [Errno {errno.EMFILE}] Too many open files: '/dev/null'",
    ], program.stderr
    with closing(open_store(tmp_path / "crew.db")) as store:
        events = [event.status for event in store.reads.events(1, 1 << 62) if event.status is not Status.DONE]
    assert events == [Status.RETRYING, Status.FAILED]


def test_a_child_whose_file_descriptors_are_used_up_is_replaced_and_says_why(
    watch: Callable[..., Watched], bench: Callable[[Watched], Bench]
) -> None:
    watched = watch(GREEDY, threads=1)
    assert bench(watched).start(("greedy",)).wait(timeout=LONG)
    wait_until(lambda: len(watched.replaced) == 2, "the second to be replaced")
    assert watched.replaced == ["a task used up its file descriptors"] * 2
    run = bench(watched).start(("reading",))
    assert run.wait(timeout=LONG)
    assert run.counts.done == 1


def test_an_error_that_refuses_to_be_looked_at_fails_its_task_in_a_child_too(
    watch: Callable[..., Watched], bench: Callable[[Watched], Bench]
) -> None:
    watched = watch(ODD)
    run = bench(watched).start(("plain",), ("coroutine",))
    assert run.wait(timeout=LONG)
    assert (run.counts.failed, run.counts.retries) == (2, 2)
    assert watched.replaced == []


def at_work(watched: Watched, many: int) -> Callable[[], bool]:
    """Whether so many children are there, and all of them have come in."""
    return lambda: [bool(member.process) for member in watched.crew.members] == [True] * many


def move_away(watched: Watched) -> None:
    """Take the store away under all who have it open."""
    for name in ("crew.db", "crew.db-wal"):
        (watched.folder / name).rename(watched.folder / f"moved-{name}")


@pytest.mark.parametrize("when", ["at work", "stopping"])
def test_a_child_that_finds_the_store_damaged_ends_the_crew_with_its_words_and_nothing_else(
    when: str, watch: Callable[..., Watched], bench: Callable[[Watched], Bench], tmp_path: Path, capfd: Any
) -> None:
    watched = watch(MODULE, grace=LONG)
    bench(watched).start(("work", str(tmp_path)))
    wait_until((tmp_path / "began").exists, "the task to begin")
    if when == "stopping":
        watched.crew.stop()
    move_away(watched)
    (tmp_path / "go").touch()
    assert watched.ends_within(LONG)
    assert isinstance(watched.trouble, StoreBroken)
    assert "moved, replaced or deleted" in str(watched.trouble)
    assert [signal for signal in watched.stops if signal.phase == "done"] == []
    assert "Traceback" not in capfd.readouterr().err


UNSAVED = f"""{MODULE}
from ramify.errors import StoreUnavailable

def fill_up():
    raise StoreUnavailable("planted: the disk is full")

def drain():
    arm("before-commit", fill_up)
    (pathlib.Path(__file__).parent / "full").touch()

arm("draining", drain)
"""
#: What a child says that could not save the one task it had finished.
NOT_SAVED = (
    "a worker process could not save what it did: planted: the disk is full. Not saved when this process stopped: "
    "1 finished and 0 unfinished attempts, which run again with the next start"
)


def test_a_stop_that_could_not_save_is_an_error_and_not_done(
    watch: Callable[..., Watched], bench: Callable[[Watched], Bench], tmp_path: Path, capfd: Any
) -> None:
    watched = watch(UNSAVED)
    bench(watched).start(("work", str(tmp_path)))
    wait_until((tmp_path / "began").exists, "the task to begin")
    watched.crew.stop()
    wait_until((tmp_path / "full").exists, "the disk to be full")
    (tmp_path / "go").touch()
    assert watched.ends_within(LONG)
    assert isinstance(watched.trouble, StoreUnavailable)
    assert str(watched.trouble) == NOT_SAVED
    assert [signal for signal in watched.stops if signal.phase == "done"] == []
    assert "Traceback" not in capfd.readouterr().err


def test_a_child_that_leaves_others_behind_and_could_not_save_says_so_and_they_go_on(
    watch: Callable[..., Watched], bench: Callable[[Watched], Bench], tmp_path: Path
) -> None:
    watched = watch(UNSAVED)
    bench(watched).start(("work", str(tmp_path)))
    wait_until((tmp_path / "began").exists, "the task to begin")
    (leaver,) = watched.crew.members
    watched.crew.add()
    wait_until(at_work(watched, 2), "another child at work")
    # As a child is removed, but this one, which has something to save.
    watched.crew._dismiss([leaver])
    wait_until((tmp_path / "full").exists, "the disk to be full")
    (tmp_path / "go").touch()
    wait_until(lambda: f"{NOT_SAVED}; it is done again" in watched.said, "word of it")
    assert not watched.ends_within(0.1)


@pytest.mark.parametrize("how", ["killed", "out of time"])
def test_a_stop_that_leaves_tasks_unfinished_does_not_say_that_everything_is_saved(
    how: str, watch: Callable[..., Watched], bench: Callable[[Watched], Bench], tmp_path: Path
) -> None:
    watched = watch(MODULE, grace=LONG if how == "killed" else 0.0)
    run = bench(watched).start(("work", str(tmp_path)))
    wait_until((tmp_path / "began").exists, "the task to begin")
    (child,) = watched.crew.pids
    watched.crew.stop()
    if how == "killed":
        os.kill(child, signal.SIGKILL)
    assert watched.ends_within(LONG)
    assert (watched.stops[-1], watched.trouble) == (Stopping("done", 1), None)
    assert run.counts.done == 0


def test_children_of_a_burst_stay_while_one_of_them_may_make_work_for_the_others(
    bench: Callable[[Watched], Bench], tmp_path: Path
) -> None:
    watched = Watched(tmp_path, SERVING, size=2, threads=1, service=Service(burst=True))
    run = bench(watched).start(("work", str(tmp_path)))
    watched.begin()
    try:
        wait_until((tmp_path / "began").exists, "the task to begin")
        wait_until(lambda: any(member.is_idle for member in watched.crew._members), "one without work")
        assert not watched.ends_within(3 * crews.QUIET)
        assert len(watched.crew.pids) == 2
        (tmp_path / "go").touch()
        assert watched.ends_within(LONG)
        assert (run.counts.done, watched.replaced, watched.trouble) == (1, [], None)
    finally:
        watched.close()


def test_a_reload_replaces_the_children_one_by_one_and_never_leaves_fewer_at_work(
    watch: Callable[..., Watched],
) -> None:
    watched = watch(MODULE, size=2)
    wait_until(at_work(watched, 2), "two children at work")
    before, fewest = watched.crew.pids, [2]

    def are_others() -> bool:
        fewest.append(sum(member.process is not None for member in watched.crew.members))
        return watched.said[-1:] == ["reloaded"]

    watched.crew.reload()
    wait_until(are_others, "the reload")
    assert min(fewest) == 2
    wait_until(at_work(watched, 2), "two other children at work")
    assert not set(before).intersection(watched.crew.pids)
    assert watched.replaced == []


def test_a_reload_of_what_cannot_start_leaves_the_children_as_they_are(watch: Callable[..., Watched]) -> None:
    watched = watch(MODULE)
    wait_until(at_work(watched, 1), "a child at work")
    before = watched.crew.pids
    (watched.folder / "staff.py").write_text("raise RuntimeError('planted')")
    watched.crew.reload()
    wait_until(lambda: any("planted" in text for text in watched.said), "word of what is wrong")
    assert watched.crew.pids == before
    (watched.folder / "staff.py").write_text(MODULE)
    wait_until(lambda: not watched.crew._reloads, "the end of the first reload")
    watched.crew.reload()
    wait_until(lambda: watched.said[-1:] == ["reloaded"], "the reload")
    assert watched.crew.pids != before
    assert (watched.replaced, watched.trouble) == ([], None)


def test_children_are_added_and_removed_but_the_last_one_stays(watch: Callable[..., Watched]) -> None:
    watched = watch(MODULE)
    wait_until(at_work(watched, 1), "a child at work")
    first = watched.crew.pids
    watched.crew.add()
    wait_until(at_work(watched, 2), "another one")
    watched.crew.remove()
    wait_until(at_work(watched, 1), "the end of one")
    watched.crew.remove()
    assert watched.crew.pids == first
    assert watched.said[-1] == "the last worker process stays; SIGTERM stops it"
    assert watched.replaced == []


def test_a_child_less_while_others_are_replaced_is_not_the_one_on_trial(watch: Callable[..., Watched]) -> None:
    watched = watch(SLOW_TO_START, size=2)
    (watched.folder / "start").touch()
    wait_until(at_work(watched, 2), "two children at work")
    before = watched.crew.pids
    (watched.folder / "start").unlink()
    watched.crew.reload()
    wait_until(lambda: watched.said, "word of it")
    assert watched.said == ["reloading 2 worker processes, one by one"]
    wait_until(lambda: any(member.is_trial for member in watched.crew.members), "one on trial")
    watched.crew.add()
    watched.crew.remove()
    watched.crew.remove()
    assert watched.said[-3:] == [
        "one more worker process: 3",
        "one worker process less: 2",
        "one worker process less: 1",
    ]
    watched.crew.remove()
    assert watched.said[-1] == "the last worker process stays; SIGTERM stops it"
    (watched.folder / "start").touch()
    wait_until(lambda: watched.said[-1] == "reloaded", "the reload")
    wait_until(at_work(watched, 1), "the end of the others")
    assert not set(before).intersection(watched.crew.pids)
    assert (watched.replaced, watched.trouble) == ([], None)


@pytest.mark.parametrize("when", ["before", "during"])
def test_a_child_that_was_asked_to_go_is_not_replaced_while_it_finishes_what_it_runs(
    when: str, watch: Callable[..., Watched], bench: Callable[[Watched], Bench], tmp_path: Path
) -> None:
    # The first one does not know the task, so that the other one runs it.
    (tmp_path / "start").touch()
    watched = watch(SLOW_TO_START.replace("def work", "def rest"), grace=LONG)
    wait_until(at_work(watched, 1), "a child at work")
    rewrite(watched.folder / "staff.py", SLOW_TO_START)
    watched.crew.add()
    run = bench(watched).start(("work", str(tmp_path)))
    wait_until((tmp_path / "began").exists, "the other one to begin a task")
    if when == "before":
        watched.crew.remove()
    (tmp_path / "start").unlink()
    watched.crew.reload()
    wait_until(lambda: any(member.is_trial for member in watched.crew.members), "one on trial")
    if when == "during":
        watched.crew.remove()
    (tmp_path / "start").touch()
    wait_until(lambda: watched.said[-1] == "reloaded", "the reload")
    assert ("reloading 1 worker process, one by one" in watched.said) is (when == "before")
    assert len(watched.crew.pids) == 2, "it has ended, so this shows nothing"
    (tmp_path / "go").touch()
    wait_until(at_work(watched, 1), "the end of the one that was asked to go")
    assert run.wait(timeout=LONG)
    assert (watched.replaced, run.counts.done) == ([], 1)


def test_a_child_that_cannot_start_while_others_work_is_tried_again(watch: Callable[..., Watched]) -> None:
    watched = watch(MODULE, size=2)
    wait_until(at_work(watched, 2), "two children at work")
    (watched.folder / "staff.py").write_text("raise RuntimeError('planted')")
    os.kill(watched.crew.pids[0], signal.SIGKILL)
    wait_until(lambda: any("planted" in text for text in watched.said), "word of what is wrong")
    (watched.folder / "staff.py").write_text(MODULE)
    wait_until(at_work(watched, 2), "two children at work again")
    assert watched.trouble is None
    assert watched.replaced == ["it was killed (SIGKILL)"], "one that never came in was not replaced"


MANY = 400_000_000
COMPUTING = f"""{MODULE}
@engine.task
def compute() -> int:
    (pathlib.Path(__file__).parent / "began").touch()
    # Holds the interpreter from its beginning to its end.
    return sum(range({MANY}))
"""


@pytest.mark.full
@pytest.mark.alone
def test_a_child_that_computes_without_letting_go_of_the_interpreter_is_not_taken_for_hung(
    watch: Callable[..., Watched], bench: Callable[[Watched], Bench], tmp_path: Path
) -> None:
    watched = watch(COMPUTING, beat_every=0.05)
    run = bench(watched).start(("compute",))
    wait_until((tmp_path / "began").exists, "the task to begin")
    # Only now: a start may be slow.
    watched.crew._hung_after = watched.crew._hang_detector._hung_after = 2.0
    (member,) = watched.crew.members
    assert run.wait(timeout=5 * LONG)
    assert list(run.results()) == [MANY * (MANY - 1) // 2]
    assert member.ran > 0, "it was never silent, so this shows nothing"
    assert watched.replaced == []
