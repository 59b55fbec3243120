"""Plays one turn: `python -m bench.frontier_player TURN`, in the folder where its store is to be.

The clock is around the one call that a user would write, `engine.run(...)`: opening the store, starting processes and
leaving are inside. A run that does not end with every task done, once, is an error and not a figure.
"""

from __future__ import annotations

import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar, assert_never

import msgspec

from bench import bare, deque, pool
from bench.coordination_play import lane_crowd_of
from bench.dag_play import play_fan_in, play_nodes
from bench.frontier_idle import watch
from bench.frontier_small import start_all
from bench.frontier_tasks import (
    FORK,
    add_up,
    calls,
    chains,
    crowd,
    engine,
    fork,
    marks,
    mixed,
    nap,
    naps,
    node,
    scatter,
    wide,
)
from bench.frontier_turn import (
    Bare,
    Chain,
    Compute,
    Deque,
    Drain,
    Enqueue,
    Expand,
    FanIn,
    Forks,
    Gates,
    Grow,
    LaneCrowd,
    Lanes,
    Nap,
    Nodes,
    Ping,
    Pool,
    Report,
    Retain,
    Schedules,
    Small,
    Steps,
    Turned,
    Turns,
    Waiting,
    Widen,
)
from bench.jobs_cron_play import play_schedules
from bench.jobs_play import play_drain, play_enqueue, play_retain, play_waiting
from bench.pipeline_gate import play_gates
from bench.pipeline_play import play_expand, play_steps
from bench.tree import Tree, Work
from ramify.engine.runs.run import Run
from ramify.model.call import Call
from ramify.model.run import RunState

R = TypeVar("R")


def play(turn: Turns) -> Report:
    """Play it here."""
    match turn:
        case Deque():
            return _without_engine(deque.run, Tree(turn.depth))
        case Pool():
            return _without_engine(pool.run, Tree(turn.depth))
        case Grow():
            work = Tree(turn.depth)
            return _run(node.of(*work.root), work.count, threads=turn.threads, processes=turn.processes)[1]
        case Compute():
            return _run(crowd.of(turn.count), turn.count + 1, processes=turn.processes)[1]
        case Chain():
            return _run(chains.of(turn.width, turn.length), turn.width * turn.length + 1)[1]
        case Widen():
            return _run(wide.of(turn.count), turn.count + 1)[1]
        case Nap():
            return _nap(turn)
        case Turned():
            return _run(calls.of(turn.count, turn.defers), turn.count + 1)[1]
        case Lanes():
            return _run(scatter.of(turn.count, turn.own, turn.limited), turn.count + 1)[1]
        case LaneCrowd():
            return _run(lane_crowd_of(turn), turn.count + 1)[1]
        case Forks():
            # Every task that forks has a continuation.
            forks = (FORK**turn.depth - 1) // (FORK - 1)
            run, report = _run(fork.of(turn.depth), 2 * forks + FORK**turn.depth)
            if FORK**turn.depth not in run.results(add_up):
                raise AssertionError("the continuations did not add up")
            return report
        case Nodes():
            return msgspec.structs.replace(play_nodes(turn), peak_mb=peak_mb())
        case FanIn():
            return msgspec.structs.replace(play_fan_in(turn), peak_mb=peak_mb())
        case Small():
            return _small(turn)
        case Expand():
            return msgspec.structs.replace(play_expand(turn), peak_mb=peak_mb())
        case Steps():
            return msgspec.structs.replace(play_steps(turn), peak_mb=peak_mb())
        case Gates():
            return msgspec.structs.replace(play_gates(turn), peak_mb=peak_mb())
        case Bare():
            return Report(turn.count, bare.run(Path("bare.db"), turn.count, turn.warm), peak_mb())
        case Ping():
            return _ping(turn)
        case Enqueue():
            return msgspec.structs.replace(play_enqueue(turn), peak_mb=peak_mb())
        case Retain():
            return msgspec.structs.replace(play_retain(turn), peak_mb=peak_mb())
        case Schedules():
            return msgspec.structs.replace(play_schedules(turn), peak_mb=peak_mb())
        case Drain():
            return msgspec.structs.replace(play_drain(turn), peak_mb=peak_mb())
        case Waiting():
            return msgspec.structs.replace(play_waiting(turn), peak_mb=peak_mb())
        case _:
            assert_never(turn)


def _without_engine(run: Callable[[Work], float], work: Work) -> Report:
    return Report(work.count, work.count / run(work), peak_mb())


def _run(root: Call[R], count: int, threads: int | None = None, processes: int = 0) -> tuple[Run[R], Report]:
    began = time.monotonic()
    run = engine.run(root, threads=threads, processes=processes)
    seconds = time.monotonic() - began
    counts = run.counts
    if run.state is not RunState.DONE or counts.added != count or counts.done != count:
        raise AssertionError(f"the run is {run.state} with {counts}; {count} tasks were to be done")
    return run, Report(count, seconds, peak_mb(), began=began, marks=marks)


def _nap(turn: Nap) -> Report:
    root = mixed.of(turn.count) if turn.ms is None else naps.of(turn.count, turn.ms)
    run, report = _run(root, turn.count + 1, threads=turn.threads, processes=turn.processes)
    results = list(run.results(nap))
    if len(results) != turn.count:
        raise AssertionError(f"{len(results)} results of {turn.count} naps")
    working = max(ended for _, _, ended in results) - min(began for _, began, _ in results)
    shared = Counter(process for process, _, _ in results)
    return msgspec.structs.replace(report, working=working, shared=sorted(shared.values()))


def _small(turn: Small) -> Report:
    starting, seconds = start_all(turn)
    return Report(turn.runs * turn.steps, seconds, peak_mb(), starting=starting)


def _ping(turn: Ping) -> Report:
    began = time.monotonic()
    same, other, idle_cpu = watch(turn)
    seconds = time.monotonic() - began
    return Report(2 * turn.samples, seconds, peak_mb(), same=same, other=other, idle_cpu=idle_cpu)


def peak_mb() -> float:
    """The most memory this process has had.

    Not `ru_maxrss` where it can be helped: on Linux that begins with what the parent had when it started this process.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024**2 if sys.platform == "darwin" else peak / 1024


def main(argv: Sequence[str]) -> None:
    """Play the turn and print its report as the last line."""
    print(msgspec.json.encode(play(msgspec.json.decode(argv[0], type=Turns))).decode(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
