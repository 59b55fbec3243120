"""The program under test: an engine as a user would write it, run as a real process to be killed, frozen or starved.

    python -m tests.crash.engine.program

It says `ready` when it is loaded and waits for a line on its input, a list in JSON: WORK, FILE, WITNESS, SEED and
options, as the client of the store level does. WORK is one of the functions in `WORKS`. Options that several take:
`durability`, `busy` (seconds a verb waits for its turn to write), `dead_after`, `beat_every`, `threads`, `processes`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from ramify import Backoff, Defer, Fatal, Run, Spawns, Stream, current
from ramify.engine.engine import OrderName
from ramify.engine.processes.member import Service
from ramify.engine.processes.steering import steered, steering
from ramify.engine.processes.supervise import attend, crew_of
from ramify.errors import StoreError
from ramify.kernel import faults
from ramify.kernel.attempts import attempt
from ramify.kernel.kernel import Kernel
from ramify.kernel.settings import Settings
from ramify.kernel.signals import Signal, StoreAway
from ramify.model.call import Call
from ramify.model.event import Status
from ramify.model.run import RunState
from ramify.store.sqlite import SqliteStore
from tests.crash.disk import leave_free
from tests.crash.engine.programs import Options, options_of, serve
from tests.crash.engine.told import ToldEngine, freeze
from tests.crash.tree import Node, Tree, Way, grow, is_keyed
from tests.crash.witness import Said
from tests.crash.worker import RUN_NAME

if "pytest" not in sys.modules:
    # Children streamed at a time: few, so that small trees have long streams. Not where other tests run.
    vars(attempt)["PIECE"] = 4

SOON = Backoff(first=0.002, jitter=False)
LONG = 60.0

engine = ToldEngine("store.db")


# a tree that is drawn from a seed


@engine.task(retries=9, backoff=SOON, max_crashes=None)
def node(name: str, outer: None = None) -> Spawns[int]:
    """A node of the tree: its setbacks, its failure, its children."""
    yield from _grown(name)
    return 1


@engine.task(retries=9, backoff=SOON, max_crashes=None, once="name")
def keyed(name: str, outer: None = None) -> Spawns[int]:
    """A node that several parents offer and one task gets."""
    yield from _grown(name)
    return 1


@engine.task(retries=9, backoff=SOON, max_crashes=None)
def gather(name: str, outer: None = None, parts: Stream[int] = Stream()) -> Spawns[int]:
    """What waits for the children of a node, and then goes on like one."""
    yield from _grown(name)
    return 1 + len(list(parts))


@engine.task(retries=9, backoff=SOON, max_crashes=None, timeout=LONG, concurrency=1)
def gate(name: str, outer: None = None) -> Spawns[int]:
    """A node that is leased alone. The first of them pauses the run until its process has heard of it."""
    _begin(name)
    if name.endswith(".0"):
        engine._runtime.store.pause(current().run_id)
        with _beats:
            heard = _reached["after-beat"] + 2
            _beats.wait_for(lambda: _reached["after-beat"] >= heard, LONG)
        engine._runtime.store.resume(current().run_id)
    yield from ()
    return 1


def _call(name: str) -> Call[int]:
    if is_keyed(name):
        return keyed.of(name, None)
    if name.endswith("+"):
        return gather.of(name, None).always()
    return gate.of(name, None) if name.startswith("gates.") else node.of(name, None)


def _begin(name: str) -> None:
    engine.witness.say(Said.START, os.getpid(), tasks=(current().task,))
    # At each try; what stays is that of the one which is done.
    current().context.set(name, current().task)


def _set_back(self: Node) -> None:
    """What the node does at this try; its earlier tries are in the log, or this one would not have begun."""
    task = current().task
    match self.events[len(engine._runtime.store.reads.events(task, task))]:
        case Status.RETRYING:
            raise RuntimeError("not this time")
        case Status.DEFERRED:
            raise Defer(0.002)
        case Status.FAILED:
            raise Fatal("never")
        case _:
            pass


def _grown(name: str) -> Spawns[None]:
    _begin(name)
    self = _tree().nodes[name]
    current().log.info("at %s", name)
    _set_back(self)
    calls = [_call(child) for child in self.children]
    if self.gather is not None:
        current().spawn(*calls, then=_call(self.gather))
    elif self.way is Way.STAGE:
        yield from calls
    else:
        current().spawn(*calls)


def _tree() -> Tree:
    seed = current().params
    if seed not in _trees:
        _trees[seed] = scenario() if seed is None else grow(seed)
    return _trees[seed]


_trees: dict[int | None, Tree] = {}
_orders: tuple[OrderName, ...] = ("rounds", "any", "depth-first")


def start_tree(seed: int | None) -> Run[int]:
    """The run of a tree; None stands for the scenario of the crash points."""
    tree = scenario() if seed is None else grow(seed)
    order = _orders[0 if seed is None else seed % len(_orders)]
    roots = [_call(name) for name in tree.roots]
    return engine.start(roots, name=RUN_NAME, order=order, params=seed)


def work_on_tree(seed: int, options: Options) -> None:
    """Run a tree as a user would, with threads here or in worker processes."""
    order: OrderName = _orders[seed % len(_orders)]
    roots = [_call(name) for name in grow(seed).roots]
    threads, processes = int(options.get("threads", "2")), int(options.get("processes", "0"))
    engine.run(roots, name=RUN_NAME, order=order, params=seed, threads=threads, processes=processes)
    engine.witness.say(Said.FINISHED, os.getpid())


def serve_tree(seed: int, options: Options) -> None:
    """Work on a tree as `ramify worker --processes 2 --burst --recycle-tasks 40` does, for as long as some is ready."""
    runtime, run = engine._runtime, start_tree(seed)
    crew = crew_of(runtime, 2, Settings(threads=2), Service(burst=True, recycle_tasks=40))
    with steered(steering(crew, runtime.store, lambda text: None)):
        attend(runtime, crew)
    if run.ended:
        engine.witness.say(Said.FINISHED, os.getpid())


def work_patiently(seed: int, options: Options) -> None:
    """Run a tree with a kernel whose settings are given, saying when the store is away."""
    run = start_tree(seed)
    _kernel(options, run.id).run()
    engine.witness.say(Said.FINISHED, os.getpid())


def work_on_a_small_disk(seed: int, options: Options) -> None:
    """The same on a file system of its own, made larger by somebody else some time after it was full."""

    def enlarge(signal: Signal) -> None:
        if isinstance(signal, StoreAway) and "the disk is full" in signal.why:
            engine.witness.say(Said.FULL, os.getpid())
            threading.Timer(0.1, leave_free, (options["mounted"], 128)).start()

    run = start_tree(seed)
    leave_free(options["mounted"], 32)
    kernel = _kernel(options, run.id)
    kernel.signals.listen(enlarge)
    kernel.run()
    engine.witness.say(Said.FINISHED, os.getpid())


def _kernel(options: Options, *runs: int) -> Kernel:
    settings = Settings(
        runs=frozenset(runs) or None,
        until_ended=bool(runs),
        threads=int(options.get("threads", "2")),
        beat_every=float(options.get("beat_every", "0.05")),
        dead_after=float(options.get("dead_after", "60")),
        claim_at_most=int(options.get("claim_at_most", "10000")),
    )
    kernel = engine._runtime.kernel(settings)
    kernel.signals.listen(engine.hear)
    return kernel


# the crash points

_reached: Counter[str] = Counter()
_beats = threading.Condition()


class Injected(StoreError):
    """What an armed point raises: an error that nothing below the loop may take for an outcome of a task."""


def scenario() -> Tree:
    """A tree that takes the kernel past every crash point: setbacks, a join, a stream, a pause in mid-claim."""
    gates = tuple(f"gates.{i}" for i in range(6))
    parts = tuple(f"join.{i}" for i in range(3))
    pieces = tuple(f"stream.{i}" for i in range(10))
    again = (Status.RETRYING, Status.DONE)
    nodes = [
        Node("join", Way.JOIN, parts, again),
        Node("join+", events=(Status.DEFERRED, Status.DONE)),
        Node("stream", Way.STAGE, pieces),
        Node("gates", Way.PLAIN, gates),
        *(Node(name) for name in (*parts, *pieces, *gates)),
    ]
    return Tree(("join", "stream", "gates"), nodes)


def work_on_points(seed: int, options: Options) -> None:
    """The scenario, with one point armed: `point`, `action` (kill, raise, freeze), `at` (which time it is reached)."""
    point, action, at = options.get("point"), options.get("action"), int(options.get("at", "1"))

    def reached(name: str) -> None:
        with _beats:
            _reached[name] += 1
            count = _reached[name]
            _beats.notify_all()
        if name == point and count == at:
            _act(name, action)

    engine.warm_up()
    _arm(reached)
    try:
        _finish_scenario(options)
    except Injected:
        engine.witness.say(Said.BROKE, os.getpid())
        _finish_scenario(options)
    print(json.dumps(_reached), flush=True)
    engine.witness.say(Said.FINISHED, os.getpid())


def finish_points(file: Path, witness: Path) -> None:
    """Finish the scenario in the calling process, which is another one than was killed."""

    def reached(name: str) -> None:
        with _beats:
            _reached[name] += 1
            _beats.notify_all()

    open_at(str(file), str(witness), {})
    _arm(reached)
    try:
        _finish_scenario({})
    finally:
        faults.disarm()
        engine.close()


def _arm(reached: Callable[[str], None]) -> None:
    for name in faults.POINTS:
        faults.arm(name, lambda name=name: reached(name))  # type: ignore[misc]


def _finish_scenario(options: Options) -> None:
    run = start_tree(None)
    if run.state is RunState.PAUSED:
        run.resume()
    if not run.ended:
        _kernel(options, run.id).run()


def _act(name: str, action: str | None) -> None:
    match action:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "freeze":
            freeze()
        case "raise":
            raise Injected(name)
        case _:
            raise AssertionError(f"no such action: {action}")


# one task that a process holds until something happens


@engine.task(max_crashes=None)
def held(stop: str) -> Spawns[str]:
    """Freeze its own process the first time it runs in one that should: before the effect, after it, or in a stream."""
    task = (current().task,)
    engine.witness.say(Said.START, os.getpid(), tasks=task)
    _freeze_at(stop, "before-effect")
    engine.witness.say(Said.EFFECT, os.getpid(), tasks=task)
    _freeze_at(stop, "after-effect")
    for number in range(10):
        yield leaf.of(number)
        if number == 6:
            _freeze_at(stop, "in-stream")
    return f"by {os.getpid()}"


@engine.task(max_crashes=None)
def leaf(number: int) -> int:
    """Nothing much."""
    engine.witness.say(Said.START, os.getpid(), tasks=(current().task,))
    return number


_is_freezing = threading.Event()


def _freeze_at(stop: str, here: str) -> None:
    if stop == here and _is_freezing.is_set():
        _is_freezing.clear()
        freeze()


def freeze_often(seed: int, options: Options) -> None:
    """Work on one run after the other, each named by a line of input with where to freeze; say when each is over."""
    engine.warm_up()
    while line := sys.stdin.readline().split():
        run, stop = int(line[0]), line[1]
        _is_freezing.set()
        faults.disarm()
        if stop in faults.POINTS:
            faults.arm(stop, lambda stop=stop: _freeze_at(stop, stop))  # type: ignore[misc]
        _kernel(options, run).run()
        print("over", flush=True)


# one task that kills its process among many that do not


@engine.task(queue="victims")
def victim(number: int, end: str) -> int:
    """One of them kills: while it runs, or just after it returned."""
    if end:
        engine.witness.say(Said.START, os.getpid(), tasks=(current().task,))
        threading.Timer(0.005, ENDS["crash"]).start() if end == "after" else ENDS[end]()
    else:
        # So long that commits are far apart: who is recorded as done before it kills is done.
        threading.Event().wait(0.002)
    return number


ENDS: dict[str, Callable[[], None]] = {
    "crash": lambda: signal.pthread_kill(threading.get_ident(), signal.SIGSEGV),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exit": lambda: os._exit(9),
}


def work_beside_a_killer(seed: int, options: Options) -> None:
    """As many tasks as `tasks` says, of which number `seed` kills whoever runs it."""
    calls = [victim.of(number, options["end"] if number == seed else "") for number in range(int(options["tasks"]))]
    engine.run(calls, name=RUN_NAME, threads=8, processes=int(options["processes"]))
    engine.witness.say(Said.FINISHED, os.getpid())


# tasks that wait for a word


@engine.task(max_crashes=None)
def waiting(folder: str, number: int) -> int:
    """Wait until a file called `go` is there, then be done."""
    engine.witness.say(Said.START, os.getpid(), tasks=(current().task,))
    pause = threading.Event()
    while not (Path(folder) / "go").exists() and not current().cancelled:
        pause.wait(0.01)
    engine.witness.say(Said.EFFECT, os.getpid(), tasks=(current().task,), seq=current().cancelled)
    return number


@engine.task(max_crashes=None)
def forking(folder: str) -> int:
    """Fork a child that stays when its parent is killed, write down its number, and wait."""
    child = os.fork()
    if not child:
        signal.pause()
        os._exit(0)
    task = (current().task,)
    engine.witness.say(Said.START, os.getpid(), tasks=task, seq=child)
    pause = threading.Event()
    while not (Path(folder) / "go").exists():
        pause.wait(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return child


def wait_for_a_word(seed: int, options: Options) -> None:
    """`seed` tasks that wait, run as a user would."""
    folder = str(Path(os.fspath(engine._runtime.url)).parent)
    threads, processes = int(options.get("threads", "2")), int(options.get("processes", "0"))
    roots = [waiting.of(folder, number) for number in range(seed)]
    engine.run(roots, name=RUN_NAME, threads=threads, processes=processes)
    engine.witness.say(Said.FINISHED, os.getpid())


def fork_and_wait(seed: int, options: Options) -> None:
    """One task that forks."""
    engine.run(forking.of(str(Path(os.fspath(engine._runtime.url)).parent)), name=RUN_NAME, threads=1)
    engine.witness.say(Said.FINISHED, os.getpid())


@engine.task(retries=1, backoff=Backoff(first=1.5, jitter=False))
def second_try() -> int:
    """Fail at first. The witness hears when it began, by the store's clock."""
    engine.witness.say(Said.START, os.getpid(), tasks=(current().task,), seq=engine._runtime.store.now())
    if current().attempt == 1:
        raise ConnectionError("not yet")
    return current().attempt


def try_twice(seed: int, options: Options) -> None:
    """One task that succeeds the second time."""
    engine.run(second_try.of(), name=RUN_NAME, threads=1)
    engine.witness.say(Said.FINISHED, os.getpid())


def work_on_run(seed: int, options: Options) -> None:
    """Work on the run with this number, whatever it is, until it has ended."""
    _kernel(options, seed).run()
    engine.witness.say(Said.FINISHED, os.getpid())


WORKS: Mapping[str, Callable[[int, Options], None]] = {
    "tree": work_on_tree,
    "service": serve_tree,
    "patient": work_patiently,
    "disk": work_on_a_small_disk,
    "points": work_on_points,
    "freeze": freeze_often,
    "killer": work_beside_a_killer,
    "waiting": wait_for_a_word,
    "forking": fork_and_wait,
    "again": try_twice,
    "run": work_on_run,
}


def open_at(file: str, witness: str | None, options: Options) -> None:
    """Put the engine on a store."""
    durability: Literal["power", "process"] = "process" if options.get("durability") == "process" else "power"
    engine.close()
    engine._runtime.url, engine._runtime.durability = file, durability
    engine.witness_file = None if witness is None else Path(witness)
    engine._runtime.say = engine.note_stop
    if "busy" in options:
        engine._runtime.use(SqliteStore(file, durability=durability, busy_timeout=float(options["busy"])))


def main(work: str, file: str, witness: str, seed: int, *given: str) -> None:
    """Do the work."""
    options = options_of(given)
    open_at(file, witness, options)
    WORKS[work](seed, options)
    engine.close()


if __name__ == "__main__":
    serve("tests.crash.engine.program")
