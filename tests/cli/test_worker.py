"""`ramify worker` as a service: how it ends by itself, and what it does at signals."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ramify.model.mark import Settled
from ramify.store.open import open_store
from tests.crash.clients import wait_until
from tests.crash.test_disk_full import _why_not_mount
from tests.kernel.shop import rewrite

RAMIFY = [sys.executable, "-m", "ramify"]
#: What no test should ever need.
LONG = 240.0

PROGRAM = """
import pathlib, threading
from ramify import Engine, Spawns

engine = Engine("walk.db")


@engine.task
def grow(depth: int) -> Spawns[int]:
    for _ in range(3 if depth else 0):
        yield grow.of(depth - 1)
    return depth


@engine.task
def wait_for(name: str) -> None:
    pathlib.Path(name + ".began").touch()
    while not pathlib.Path(name).exists():
        threading.Event().wait(0.01)
"""


@pytest.fixture
def program(folder: Path) -> Path:
    """A folder with a program in it, and no store yet."""
    (folder / "walk.py").write_text(PROGRAM)
    return folder


def start(line: str) -> None:
    """Register a run, on which nobody works yet."""
    text = f"from walk import *; engine.start({line}, name='tree', order='any')"
    subprocess.run([sys.executable, "-c", text], check=True, timeout=LONG)


@pytest.mark.parametrize("options", [[], ["--processes", "2"]], ids=["here", "processes"])
def test_a_burst_ends_when_nothing_is_ready_and_says_what_is_left(program: Path, options: list[str]) -> None:
    start("[grow.of(3), grow.of(0).delay(3_600)]")
    command = [*RAMIFY, "worker", "walk.py:engine", "--burst", *options]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LONG)
    assert found.stderr.splitlines()[-1].startswith("nothing is ready; left: 1 task due later, the first in 59 min")
    store = open_store("walk.db")
    try:
        assert sum(len(row.tasks) for row in store.reads.segments().rows) == 1
        assert all(process.reaped for process in store.reads.processes())
    finally:
        store.close()


def test_a_burst_says_that_what_is_left_is_paused(program: Path) -> None:
    start("[grow.of(0), grow.of(0)]")
    text = "from walk import *; engine.enqueue(grow.of(0))"
    subprocess.run([sys.executable, "-c", text], check=True, timeout=LONG)
    subprocess.run([*RAMIFY, "pause", "jobs/default"], check=True, timeout=LONG, capture_output=True)
    command = [*RAMIFY, "worker", "walk.py:engine", "--burst"]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LONG)
    assert found.stderr.splitlines()[-1] == "nothing is ready; left: 1 task of runs or queues that are paused"


def test_a_burst_runs_what_a_dead_worker_held(program: Path) -> None:
    start("wait_for.of('go')")
    command = [*RAMIFY, "worker", "walk.py:engine"]
    dead = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    wait_until(Path("go.began").exists, "a worker that runs the task")
    dead.kill()
    dead.wait()
    Path("go").touch()
    found = subprocess.run([*command, "--burst"], capture_output=True, text=True, check=True, timeout=LONG)
    assert found.stderr.splitlines()[-1].endswith("left: nothing")


def test_a_burst_without_anything_to_do_ends_at_once(program: Path) -> None:
    command = [*RAMIFY, "worker", "walk.py:engine", "--burst", "--processes", "1"]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LONG)
    assert found.stderr.splitlines()[-1] == "nothing is ready; left: nothing"


class Serving:
    """A worker that is being served, and what it says, line by line."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.said: list[str] = []

    def hears(self, *patterns: str) -> None:
        """Wait until all of these were said, in any order."""
        assert self.process.stderr is not None
        missing = list(patterns)
        while missing:
            line = self.process.stderr.readline()
            assert line, f"it ended without saying {missing}: {self.said}"
            self.said.append(line.rstrip())
            missing = [pattern for pattern in missing if not re.search(pattern, line)]

    def stop(self) -> int:
        self.process.terminate()
        self.process.communicate(timeout=LONG)
        return self.process.returncode


@pytest.fixture
def serve(program: Path) -> Iterator[Callable[..., Serving]]:
    """Workers on the program; none is left at the end."""
    made: list[Serving] = []

    def begin(*options: str) -> Serving:
        made.append(Serving([*RAMIFY, "worker", "walk.py:engine", *options]))
        made[-1].hears("^working on")
        return made[-1]

    yield begin
    for each in made:
        each.process.kill()
        each.process.communicate()


def has_come() -> None:
    """Wait until a worker is in."""
    store, seen = open_store("walk.db"), 0
    try:
        while not store.reads.processes():
            seen = store.wait(0.1, seen)
    finally:
        store.close()


def began(program: Path, name: str, file: str = "walk.db") -> None:
    """Wait until a task that waits for this name has begun."""
    store, seen = open_store(file), 0
    try:
        while not (program / f"{name}.began").exists():
            seen = store.wait(0.1, seen)
    finally:
        store.close()


@pytest.mark.parametrize("options", [[], ["--processes", "1"]], ids=["here", "processes"])
def test_a_worker_tells_what_it_holds_and_where_its_threads_are(
    program: Path, serve: Callable[..., Serving], options: list[str]
) -> None:
    start("[wait_for.of('go')]")
    worker = serve(*options)
    began(program, "go")
    worker.process.send_signal(signal.SIGUSR1)
    worker.hears(r"^worker \d+: .*holds 1 wait_for; runs task \d+", r'File ".*walk.py", line \d+ in wait_for')
    (program / "go").touch()
    assert worker.stop() == 0


def test_a_running_job_that_goes_on_after_its_cancel_is_ended_with_its_process_when_others_in_it_are_done(
    program: Path, serve: Callable[..., Serving]
) -> None:
    text = (
        "from walk import *; "
        "stuck, beside = engine.enqueue_many([wait_for.of('never'), wait_for.of('beside')]); print(stuck.id, beside.id)"
    )
    enqueued = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=LONG)
    stuck, beside = enqueued.stdout.split()
    worker = serve("--processes", "1", "--threads", "2", "--grace", "0.2")
    began(program, "never")
    began(program, "beside")
    text = f"from walk import *; print(engine.job({stuck}).cancel('too dear'), engine.job({stuck}).state.value)"
    cancelled = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=LONG)
    assert cancelled.stdout.split() == [str(Settled.REQUESTED), "running"]
    # Longer than it takes to hear of the cancel, and to be given up: the process lets the other job finish.
    text = f"from walk import *; print(engine.job({stuck}).wait(3))"
    waited = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=LONG)
    assert waited.stdout.split() == ["False"]
    (program / "beside").touch()
    worker.hears("it ended itself to be rid of a task that ran out of time, or continued after it was cancelled")
    text = (
        f"from walk import *; "
        f"both = [engine.job({stuck}), engine.job({beside})]; "
        "print([(job.wait(60), job.state.value, str(job.error)) for job in both])"
    )
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=LONG)
    assert (
        ended.stdout.strip()
        == f"[(True, 'cancelled', 'wait_for {stuck}: Cancelled: too dear'), (True, 'done', 'None')]"
    )
    assert worker.stop() == 0


#: A small disk in a namespace of the worker's own, with the store on it.
ON_A_SMALL_DISK = """
mount -t tmpfs -o size=4m none small &&
"$0" -c "from walk import *; engine.run(grow.of(3), name='before'); engine.start(fill.of(), name='filling')" || exit
"$0" "$@" &
worker=$!
trap 'kill -TERM $worker' TERM
wait $worker
wait $worker
echo "ended with $?" >&2
rm small/filler
"$0" -m ramify worker walk.py:engine --burst &&
exec "$0" -c "from walk import *; print([engine.find(name).counts.done for name in ('before', 'filling')])" >&2
"""
FILLING = f"""{PROGRAM.replace("walk.db", "small/walk.db")}

@engine.task
def fill() -> str:
    if pathlib.Path("filled").exists():
        return "x"
    pathlib.Path("filled").touch()
    try:
        with open("small/filler", "wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
    except OSError:
        return "x" * 1_000_000
"""


@pytest.mark.parametrize("options", [[], ["--processes", "2"]], ids=["here", "processes"])
def test_a_worker_that_is_stopped_while_the_disk_is_full_ends_in_time_and_says_what_the_next_one_repeats(
    program: Path, options: list[str]
) -> None:
    small, grace = program / "small", 6.0
    small.mkdir()
    why_not = _why_not_mount(small)
    if why_not is not None:
        pytest.skip(why_not)
    (program / "walk.py").write_text(FILLING)
    command = [*RAMIFY, "worker", "walk.py:engine", "--grace", f"{grace:g}", *options]
    worker = Serving(["unshare", "-m", "sh", "-c", ON_A_SMALL_DISK, *command])
    try:
        worker.hears("^working on", "the disk is full")
        before, began = len(worker.said), time.monotonic()
        worker.process.terminate()
        worker.hears("^ended with 3$")
        assert time.monotonic() - began < grace
        said = worker.said[before:]
        _, rest = worker.process.communicate(timeout=LONG)
    finally:
        worker.process.kill()
    assert re.search("^ramify: .*the disk is full.* Not saved .*: 1 finished and 0 unfinished attempts", said[-2])
    assert not [line for line in said if "done" in line or "Traceback" in line]
    # The next start does what was not saved, and everything saved before is there.
    assert rest.splitlines()[-1] == "[40, 1]"


@pytest.mark.parametrize("options", [[], ["--processes", "2"]], ids=["here", "processes"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_worker_that_finished_what_it_ran_ends_with_zero_after_sigterm(
    number: int, code: int, program: Path, serve: Callable[..., Serving], options: list[str]
) -> None:
    start("[wait_for.of('go')]")
    worker = serve(*options)
    began(program, "go")
    worker.process.send_signal(number)
    worker.hears("^stopping")
    (program / "go").touch()
    _, rest = worker.process.communicate(timeout=LONG)
    assert rest.splitlines()[-2:] == ["done: everything is saved, and the same command continues", "stopped"]
    assert worker.process.returncode == code


@pytest.mark.parametrize("options", [[], ["--processes", "2"]], ids=["here", "processes"])
def test_a_worker_says_that_what_did_not_finish_within_the_grace_period_runs_again(
    program: Path, serve: Callable[..., Serving], options: list[str]
) -> None:
    start("[wait_for.of('go')]")
    worker = serve("--grace", "0", *options)
    began(program, "go")
    worker.process.terminate()
    _, rest = worker.process.communicate(timeout=LONG)
    assert rest.splitlines()[-2:] == [
        "done, though not everything is saved: what is missing runs again with the same command",
        "stopped",
    ]
    assert worker.process.returncode == 130


@pytest.mark.parametrize("options", [[], ["--processes", "1"]], ids=["here", "processes"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_worker_that_is_told_twice_to_stop_ends_with_the_code_of_the_signal(
    number: int, code: int, program: Path, serve: Callable[..., Serving], options: list[str]
) -> None:
    start("[wait_for.of('go')]")
    worker = serve(*options)
    began(program, "go")
    worker.process.send_signal(number)
    # The first one must have been heard before the second is sent, or both are one.
    worker.hears("^stopping")
    worker.process.send_signal(number)
    worker.process.communicate(timeout=LONG)
    assert worker.process.returncode == code
    unit = (Path(__file__).parents[2] / "docs" / "guides" / "service.md").read_text(encoding="utf-8")
    assert re.search(rf"^SuccessExitStatus=.*\b{code}\b", unit, re.MULTILINE)


def test_a_worker_is_steered_by_signals(program: Path, serve: Callable[..., Serving]) -> None:
    start("[wait_for.of('go')]")
    worker = serve("--processes", "1")
    began(program, "go")
    worker.process.send_signal(signal.SIGTTIN)
    worker.hears("^one more worker process: 2$")
    worker.process.send_signal(signal.SIGTTOU)
    worker.hears("^one worker process less: 1$")
    (program / "go").touch()
    rewrite(program / "walk.py", PROGRAM.replace('".began"', '".begun"'))
    worker.process.send_signal(signal.SIGHUP)
    worker.hears("^reloaded$")
    text = "from walk import *; engine.start([wait_for.of('go')], name='again').wait()"
    subprocess.run([sys.executable, "-c", text], check=True, timeout=LONG)
    assert (program / "go.begun").exists()
    assert worker.stop() == 0


@pytest.mark.parametrize("options", [[], ["--processes", "1"]], ids=["here", "processes"])
def test_a_worker_that_has_nothing_to_do_ends_when_its_store_is_deleted(
    program: Path, serve: Callable[..., Serving], options: list[str]
) -> None:
    worker = serve(*options)
    has_come()
    for end in ("", "-wal", "-shm"):
        (program / f"walk.db{end}").unlink()
    worker.hears(r"walk\.db or its -wal was moved, replaced or deleted")
    worker.process.communicate(timeout=LONG)
    assert worker.process.returncode == 3
    assert not (program / "walk.db").exists()


def shm_removed(store: Path) -> None:
    store.with_name("walk.db-shm").unlink()


def overwritten(store: Path) -> None:
    shutil.copyfile(store.with_name("old.db"), store)


@pytest.mark.parametrize("options", [[], ["--processes", "1"]], ids=["here", "processes"])
@pytest.mark.parametrize(
    ("event", "said"),
    [(shm_removed, r"walk\.db-shm was moved, replaced or deleted"), (overwritten, r"walk\.db was overwritten")],
)
def test_a_worker_ends_when_a_file_of_its_store_is_not_what_it_was(
    program: Path, serve: Callable[..., Serving], options: list[str], event: Callable[[Path], None], said: str
) -> None:
    open_store("walk.db").close()
    subprocess.run([*RAMIFY, "-s", "walk.db", "backup", "old.db"], check=True, timeout=LONG, capture_output=True)
    worker = serve(*options)
    has_come()
    event(program / "walk.db")
    worker.hears(said)
    worker.process.communicate(timeout=LONG)
    assert worker.process.returncode == 3


@pytest.mark.parametrize("options", [[], ["--processes", "2"]], ids=["here", "processes"])
def test_a_worker_waits_for_a_folder_that_was_moved_away(
    program: Path, serve: Callable[..., Serving], options: list[str]
) -> None:
    data, away = program / "data", program / "away"
    data.mkdir()
    (program / "walk.py").write_text(PROGRAM.replace("walk.db", "data/walk.db"))
    start("[wait_for.of('go')]")
    worker = serve(*options)
    began(program, "go", "data/walk.db")
    data.rename(away)
    (program / "go").touch()
    worker.hears("the store does not answer .*its folder was moved away")
    away.rename(data)
    worker.hears("the store answers again")
    text = "from walk import *; engine.start([grow.of(1)], name='again').wait()"
    subprocess.run([sys.executable, "-c", text], check=True, timeout=LONG)
    assert worker.stop() == 0


def test_a_worker_without_processes_says_that_it_has_none_to_replace(serve: Callable[..., Serving]) -> None:
    worker = serve()
    worker.process.send_signal(signal.SIGHUP)
    worker.hears("^there are no worker processes to replace")
    assert worker.stop() == 0


def test_a_worker_serves_its_queues_in_order(program: Path) -> None:
    (program / "walk.py").write_text(
        f"{PROGRAM}\n@engine.task\ndef note(name: str) -> None:\n    open('noted', 'a').write(name)\n"
    )
    start("[note.of('l').queue('low') for _ in range(9)] + [note.of('h').queue('high') for _ in range(9)]")
    command = [*RAMIFY, "worker", "walk.py:engine", "--burst", "--threads", "1", "--queue", "high,low"]
    subprocess.run(command, check=True, timeout=LONG)
    assert (program / "noted").read_text() == "h" * 9 + "l" * 9


@pytest.mark.parametrize("options", [[], ["--processes", "1"]], ids=["here", "processes"])
def test_a_worker_warns_of_a_queue_that_nobody_named(program: Path, options: list[str]) -> None:
    (program / "walk.py").write_text(
        f"{PROGRAM}\nengine.queue('reports')\n@engine.task(queue='mail')\ndef note(name: str) -> None: ...\n"
    )
    start("[grow.of(0).queue('loads')]")
    text = "from walk import *; engine.enqueue(grow.of(0).queue('calls'))"
    subprocess.run([sys.executable, "-c", text], check=True, timeout=LONG)
    command = [*RAMIFY, "worker", "walk.py:engine", "--burst", *options, "--queue"]
    known = subprocess.run(
        [*command, "mail,reports,loads,calls,default"], capture_output=True, text=True, check=True, timeout=LONG
    )
    assert "queue '" not in known.stderr
    found = subprocess.run([*command, "maill:2,mail:1"], capture_output=True, text=True, check=True, timeout=LONG)
    assert [line for line in found.stderr.splitlines() if line.startswith("queue ")] == [
        "queue 'maill': no task of this engine and no job of this store is in it. Did you mean 'mail'?"
    ]


@pytest.mark.parametrize(
    "typed", ["high:3,low", "high:3,high:1", "high,high", "high:0,low:1", "", "high,,low", ":3", "high:x"]
)
def test_queues_that_make_no_sense_are_refused(program: Path, typed: str) -> None:
    found = subprocess.run(
        [*RAMIFY, "worker", "walk.py:engine", "--queue", typed], capture_output=True, text=True, timeout=LONG
    )
    assert found.returncode == 2
    assert "queue" in found.stderr


@pytest.mark.parametrize("typed", ["nan", "inf", "-1"])
def test_a_time_to_finish_that_never_ends_or_is_none_is_refused(program: Path, typed: str) -> None:
    found = subprocess.run(
        [*RAMIFY, "worker", "walk.py:engine", "--burst", "--grace", typed], capture_output=True, text=True, timeout=LONG
    )
    assert found.returncode == 2
    assert "--grace" in found.stderr


def test_a_worker_reloads_when_a_file_changes(program: Path, serve: Callable[..., Serving]) -> None:
    start("[wait_for.of('go')]")
    worker = serve("--reload")
    began(program, "go")
    (program / "go").touch()
    (program / "walk.py").write_text(f"{PROGRAM}\n")
    worker.hears("walk.py changed$", "^reloaded$")
    assert worker.stop() == 0
